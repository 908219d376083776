//! What AWS says when it refuses.

use floe_core::nodepool::cloud::{Class, Refusal};
use serde::Deserialize;

use crate::http::Response;

/// A refusal with the code that AWS has for it; empty if there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Coded {
    /// AWS's own word.
    pub code: String,
    /// What it means.
    pub refusal: Refusal,
}

impl Coded {
    /// The same of a call that only asks: nothing can have been done.
    pub(crate) fn of_a_question(mut self) -> Self {
        if self.refusal.class == Class::Unclear {
            self.refusal.class = Class::Unavailable;
        }
        self
    }
}

impl From<Refusal> for Coded {
    fn from(refusal: Refusal) -> Self {
        Self {
            code: String::new(),
            refusal,
        }
    }
}

impl From<Coded> for Refusal {
    fn from(coded: Coded) -> Self {
        coded.refusal
    }
}

/// The forms that errors have: EC2 puts them into a list, the others have one, and Route 53
/// also lists what is wrong with a batch.
#[derive(Debug, Default, Deserialize)]
struct Answer {
    #[serde(rename = "Error")]
    one: Option<Said>,
    #[serde(rename = "Errors")]
    list: Option<List>,
    #[serde(rename = "Messages")]
    batch: Option<Messages>,
}

#[derive(Debug, Deserialize)]
struct List {
    #[serde(rename = "Error", default)]
    all: Vec<Said>,
}

#[derive(Debug, Deserialize)]
struct Messages {
    #[serde(rename = "Message", default)]
    all: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Said {
    #[serde(rename = "Code", default)]
    code: String,
    #[serde(rename = "Message", default)]
    message: String,
}

/// The refusal of an answer whose status is not a good one.
pub(super) fn read(answer: &Response) -> Coded {
    let Said { code, message } = said(&answer.body);
    // These show the request as it should have been signed, with the session's token.
    let message = if code.contains("Signature") {
        "the secret key is wrong, or the clock"
    } else {
        &message
    };
    let words = match (code.as_str(), message) {
        ("", _) => message.to_owned(),
        (_, "") => code.clone(),
        (_, _) => format!("{code}: {message}"),
    };
    let mut refusal = answer.refusal(&words);
    if let Some(class) = class(&code, message) {
        refusal.class = class;
    }
    Coded { code, refusal }
}

fn said(body: &[u8]) -> Said {
    let text = String::from_utf8_lossy(body);
    let answer: Answer = quick_xml::de::from_str(&text).unwrap_or_default();
    if let Some(batch) = answer.batch {
        return Said {
            code: "InvalidChangeBatch".to_owned(),
            message: batch.all.join("; "),
        };
    }
    let listed = answer.list.and_then(|list| list.all.into_iter().next());
    answer.one.or(listed).unwrap_or_default()
}

/// The kind of a refusal, where the code tells more than the status: nearly all of them come
/// with 400.
fn class(code: &str, message: &str) -> Option<Class> {
    let class = match code {
        "AddressLimitExceeded" | "InsufficientAddressCapacity" => Class::Quota,
        "InvalidAllocationID.NotFound"
        | "InvalidAddress.NotFound"
        | "InvalidAddressID.NotFound" => Class::AddressUnknown,
        "InvalidInstanceID.NotFound"
        | "InvalidInstanceID.Malformed"
        | "InvalidNetworkInterfaceID.NotFound" => Class::ServerUnknown,
        "Resource.AlreadyAssociated" => Class::HeldElsewhere,
        // The instance is starting or stopping; the address is just being moved.
        "InvalidInstanceID"
        | "IncorrectInstanceState"
        | "IncorrectState"
        | "InvalidIPAddress.InUse"
        | "InvalidAssociationID.NotFound"
        | "PriorRequestNotComplete" => Class::Busy,
        "RequestLimitExceeded"
        | "Throttling"
        | "ThrottlingException"
        | "ThrottledException"
        | "RequestThrottled"
        | "RequestThrottledException"
        | "EC2ThrottledException"
        | "TooManyRequestsException"
        | "BandwidthLimitExceeded"
        | "SlowDown" => Class::RateLimited,
        "AccessDenied"
        | "AccessDeniedException"
        | "AuthFailure"
        | "Blocked"
        | "ExpiredToken"
        | "ExpiredTokenException"
        | "IncompleteSignature"
        | "InvalidClientTokenId"
        | "InvalidIdentityToken"
        | "InvalidSignatureException"
        | "MissingAuthenticationToken"
        | "OptInRequired"
        | "PendingVerification"
        | "RequestExpired"
        | "SignatureDoesNotMatch"
        | "UnauthorizedOperation"
        | "UnrecognizedClientException" => Class::Unauthorized,
        "NoSuchHostedZone" => Class::ZoneUnknown,
        "InvalidChangeBatch" if overtaken(message) => Class::Busy,
        _ => return None,
    };
    Some(class)
}

/// A batch rests on what was there when it was made; somebody else was faster.
fn overtaken(message: &str) -> bool {
    [
        "already exists",
        "was not found",
        "do not match the current values",
    ]
    .iter()
    .any(|words| message.contains(words))
}
