//! What the controller writes into the status of a `VirtualIP`.

use std::net::IpAddr;

use floe_api::floe::virtualip::{ACCEPTED, CandidateStatus, Holding, Summary, VirtualIP};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

/// What the status shall say.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// The addresses that are granted.
    pub addresses: Vec<IpAddr>,
    /// The pods that could have them.
    pub candidates: Vec<CandidateStatus>,
    /// Whether all that is asked for is granted; none if it stays as it is.
    pub accepted: Option<Accepted>,
    /// Who is to have the addresses next, if that is to be said now.
    pub successor: Option<Holding>,
}

/// Whether all that is asked for is granted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Whether it is.
    pub all: bool,
    /// Why or why not, in one word.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
}

impl Accepted {
    /// Whether an object says so already.
    pub fn is_told(&self, vip: &VirtualIP) -> bool {
        vip.condition(ACCEPTED).is_some_and(|it| {
            it.status == word(self.all) && it.reason == self.reason && it.message == self.message
        })
    }
}

/// The changes of the status; none if it says all that already.
pub fn patch(vip: &VirtualIP, wanted: &Wanted, now: Timestamp) -> Option<Value> {
    let status = vip.status.clone().unwrap_or_default();
    let mut patch = json!({});
    if status.addresses != wanted.addresses {
        patch["addresses"] = list(&wanted.addresses);
    }
    if status.candidates != wanted.candidates {
        patch["candidates"] = list(&wanted.candidates);
    }
    let summary = Summary::of(&wanted.addresses, &wanted.candidates);
    if status.summary != summary {
        patch["summary"] = json!(summary);
    }
    if let Some(successor) = &wanted.successor {
        patch["successor"] = json!(successor);
    }
    if let Some(accepted) = &wanted.accepted
        && !accepted.is_told(vip)
    {
        let old = vip.condition(ACCEPTED);
        let same = old.filter(|it| it.status == word(accepted.all));
        let condition = Condition {
            type_: ACCEPTED.to_owned(),
            status: word(accepted.all).to_owned(),
            reason: accepted.reason.to_owned(),
            message: accepted.message.clone(),
            observed_generation: vip.metadata.generation,
            last_transition_time: same.map_or(Time(now), |condition| {
                condition.last_transition_time.clone()
            }),
        };
        // A merge replaces the whole list; the version in the patch sees to it that
        // nobody's condition is lost.
        let others = status.conditions.into_iter();
        let others = others.filter(|it| it.type_ != ACCEPTED);
        patch["conditions"] = json!([condition].into_iter().chain(others).collect::<Vec<_>>());
    }
    // Readers of the raw object find the count from the beginning.
    if vip.status.is_none() && patch != json!({}) {
        patch["moves"] = json!(0);
    }
    (patch != json!({})).then_some(patch)
}

/// The changes after which nobody can take the addresses any more.
pub fn withdrawal(vip: &VirtualIP) -> Option<Value> {
    let status = vip.status.as_ref()?;
    let is_done =
        status.addresses.is_empty() && status.candidates.is_empty() && status.successor.is_none();
    let nothing = json!({
        "addresses": null, "candidates": null, "summary": null, "successor": null,
    });
    (!is_done).then_some(nothing)
}

/// An empty list is left out, as everybody does who writes the whole.
fn list<T: serde::Serialize>(items: &[T]) -> Value {
    if items.is_empty() {
        Value::Null
    } else {
        json!(items)
    }
}

fn word(holds: bool) -> &'static str {
    if holds { "True" } else { "False" }
}
