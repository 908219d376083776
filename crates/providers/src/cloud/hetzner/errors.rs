//! What Hetzner's error codes mean.

use std::time::Duration;

use floe_core::nodepool::cloud::{Class, Refusal};

use super::wire::{Action, Refused};
use crate::http::Response;

/// How long to wait when there are no calls left. A project regains one each second, so
/// that ten of them are there for the next round; the header that Hetzner sends says when
/// *all* are back, which can be an hour.
const REGAINED: Duration = Duration::from_secs(10);

/// A refusal, with the code that tells more than its class.
pub struct Coded {
    pub code: String,
    pub refusal: Refusal,
}

/// Reads an answer that is no success, to a request that changes something or not.
pub fn read(answer: &Response, changes: bool) -> Coded {
    let Ok(refused) = serde_json::from_slice::<Refused>(&answer.body) else {
        // Not from the API: somebody on the way to it, who knows nothing of addresses.
        let mut refusal = answer.refusal("no answer of the API");
        if refusal.class == Class::AddressUnknown {
            refusal.class = Class::Invalid;
        }
        return Coded {
            code: String::new(),
            refusal,
        };
    };
    let by_status = answer.refusal(&refused.error.message);
    let class = match class_of(&refused.error.code) {
        Some(Class::Unclear) if !changes => Class::Unavailable,
        Some(class) => class,
        None => by_status.class,
    };
    let wait = match class {
        Class::RateLimited => by_status.retry_after.or(Some(REGAINED)),
        Class::ServerTaken
        | Class::HeldElsewhere
        | Class::AddressUnknown
        | Class::ServerUnknown
        | Class::ZoneUnknown
        | Class::Quota
        | Class::Busy
        | Class::Unauthorized
        | Class::Invalid
        | Class::Unavailable
        | Class::Unclear
        | Class::NotStored
        | Class::NotPermitted => by_status.retry_after,
    };
    let words = words(&refused.error.code, &refused.error.message);
    Coded {
        refusal: Refusal {
            answered: by_status.answered,
            ..Refusal::new(class, words).after(wait)
        },
        code: refused.error.code,
    }
}

/// Why an order has failed that was taken.
pub fn failed(action: &Action) -> Refusal {
    let fault = action.error.clone().unwrap_or_default();
    // Whatever it was, it is over.
    let class = match class_of(&fault.code) {
        Some(Class::Unclear) | None => Class::Unavailable,
        Some(class) => class,
    };
    Refusal::new(class, words(&fault.code, &fault.message))
}

/// In the words of the cloud.
pub fn words(code: &str, message: &str) -> String {
    match (code.is_empty(), message.is_empty()) {
        (true, true) => "no reason given".to_owned(),
        (true, false) => message.to_owned(),
        (false, true) => code.to_owned(),
        (false, false) => format!("{message} ({code})"),
    }
}

/// The class of a code; what is not here has that of its status.
fn class_of(code: &str) -> Option<Class> {
    Some(match code {
        "unauthorized" | "token_readonly" | "forbidden" => Class::Unauthorized,
        "not_found" => Class::AddressUnknown,
        "locked" | "conflict" => Class::Busy,
        "rate_limit_exceeded" => Class::RateLimited,
        "resource_limit_exceeded" => Class::Quota,
        // Both are answers of the API, which has looked before it did anything.
        "maintenance" | "resource_unavailable" | "unavailable" => Class::Unavailable,
        "floating_ip_assigned" | "must_be_unassigned" => Class::HeldElsewhere,
        "invalid_input"
        | "json_error"
        | "method_not_allowed"
        | "deprecated_api_endpoint"
        | "unsupported_error"
        | "uniqueness_error"
        | "protected" => Class::Invalid,
        // A part behind the API has failed, before or after it did something.
        "service_error" | "server_error" | "timeout" | "bad_gateway" => Class::Unclear,
        _ => return None,
    })
}
