//! What the holder's agent tells on a `VirtualIP`: whether it is served, and whether it is
//! announced. Texts name neither pod nor node, so that a move alone changes nothing.

use floe_api::floe::virtualip::{REACHABLE, SERVING, VirtualIP};
use floe_core::vip::elect::Health;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

use super::plan::Finding;

/// One condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// Its type.
    pub kind: &'static str,
    /// Whether it holds.
    pub holds: bool,
    /// Why, in one word.
    pub reason: String,
    /// The same for people.
    pub message: String,
}

/// What is to be told of an address that this node serves.
pub fn wanted(finding: &Finding, health: Option<Health>) -> [Told; 2] {
    let serving = match (&finding.trouble, health) {
        (Some(trouble), _) => (false, trouble.reason(), trouble.to_string()),
        (None, Some(Health::Fit)) => match &finding.no_egress {
            None => {
                let message = "traffic goes to the holder";
                (true, "HolderReady", message.to_owned())
            }
            Some(why) => (true, why.reason(), why.to_string()),
        },
        (None, _) => {
            let message = "the holder is not ready, and nobody else can have the addresses";
            (true, "HolderNotReady", message.to_owned())
        }
    };
    let reachable = match &finding.unreachable {
        None => (
            true,
            "Announced",
            "neighbours are told and answered".to_owned(),
        ),
        Some(why) => (false, why.reason(), why.to_string()),
    };
    [(SERVING, serving), (REACHABLE, reachable)].map(|(kind, (holds, reason, message))| Told {
        kind,
        holds,
        reason: reason.to_owned(),
        message,
    })
}

/// The list of conditions with these in it; none if the object tells them already.
pub fn changed(object: &VirtualIP, told: &[Told], now: Timestamp) -> Option<Value> {
    let news: Vec<&Told> = told.iter().filter(|it| !it.is_in(object)).collect();
    if news.is_empty() {
        return None;
    }
    let mut conditions = object.status.clone().unwrap_or_default().conditions;
    for it in news {
        let word = it.word();
        let old = object.condition(it.kind).filter(|old| old.status == word);
        let since = old.map_or(Time(now), |old| old.last_transition_time.clone());
        conditions.retain(|old| old.type_ != it.kind);
        conditions.push(Condition {
            type_: it.kind.to_owned(),
            status: word.to_owned(),
            reason: it.reason.clone(),
            message: it.message.clone(),
            last_transition_time: since,
            observed_generation: object.metadata.generation,
        });
    }
    Some(json!(conditions))
}

impl Told {
    fn word(&self) -> &'static str {
        if self.holds { "True" } else { "False" }
    }

    fn is_in(&self, object: &VirtualIP) -> bool {
        object.condition(self.kind).is_some_and(|it| {
            it.status == self.word() && it.reason == self.reason && it.message == self.message
        })
    }
}
