//! What the controller writes into the status of a `VirtualIP`, and into its entry.

use std::net::IpAddr;

use floe_api::floe::{
    register::Entry,
    virtualip::{ACCEPTED, CandidateStatus, Summary, VirtualIP},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};

/// What entry and status shall say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Wanted {
    /// The addresses that are granted.
    pub addresses: Vec<IpAddr>,
    /// The pods that could have them.
    pub candidates: Vec<CandidateStatus>,
    /// Whether all that is asked for is granted; none if it stays as it is.
    pub accepted: Option<Accepted>,
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

/// What the entry in the register is to be; none if it is that already.
pub fn entry(vip: &VirtualIP, wanted: &Wanted, is_new: bool) -> Option<Entry> {
    let entry = Entry {
        addresses: wanted.addresses.clone(),
        ..Entry::of(vip)
    };
    if is_new {
        // Of nothing nobody has to keep a record.
        return (!wanted.addresses.is_empty()).then_some(Entry {
            holder: None,
            successor: None,
            ..entry
        });
    }
    (entry != Entry::of(vip)).then_some(entry)
}

/// What the status is behind of.
pub struct Behind<'a> {
    /// What the register says.
    pub entry: Option<&'a Entry>,
    /// Whether that has to be shown now, also when there is nothing else to write.
    pub is_due: bool,
}

/// The changes of the status, as the API server has it; none if it says all that already.
pub fn patch(
    shown: &VirtualIP,
    wanted: &Wanted,
    behind: &Behind<'_>,
    now: Timestamp,
) -> Option<Value> {
    let status = shown.status.clone().unwrap_or_default();
    let decided = behind.entry.and_then(|it| it.shown_on(shown, now));
    let mut decided = decided.unwrap_or_else(|| json!({}));
    let mut patch = json!({});
    if status.candidates != wanted.candidates {
        patch["candidates"] = list(&wanted.candidates);
    }
    let summary = Summary::of(&shown.spec, &wanted.addresses, &wanted.candidates);
    if status.summary != summary {
        patch["summary"] = json!(summary);
    }
    if let Some(accepted) = &wanted.accepted
        && !accepted.is_told(shown)
    {
        let old = shown.condition(ACCEPTED);
        let same = old.filter(|it| it.status == word(accepted.all));
        let condition = Condition {
            type_: ACCEPTED.to_owned(),
            status: word(accepted.all).to_owned(),
            reason: accepted.reason.to_owned(),
            message: accepted.message.clone(),
            observed_generation: shown.metadata.generation,
            last_transition_time: same.map_or(Time(now), |condition| {
                condition.last_transition_time.clone()
            }),
        };
        // A merge replaces the whole list; the version in the patch sees to it that
        // nobody's condition is lost.
        let all = decided["conditions"].as_array().cloned();
        let all = all.unwrap_or_else(|| status.conditions.iter().map(|it| json!(it)).collect());
        let others = all.into_iter().filter(|it| it["type"] != ACCEPTED);
        let conditions: Vec<Value> = [json!(condition)].into_iter().chain(others).collect();
        patch["conditions"] = json!(conditions);
    }
    // Readers of the raw object find the count from the beginning.
    if shown.status.is_none() && patch != json!({}) {
        patch["moves"] = json!(behind.entry.map_or(0, |it| it.moves));
    }
    // What is shown already may be newer than what is known here: then an older holder would
    // be shown again. Whoever has shown it knows better, and the watch tells.
    let is_newer = behind.entry.is_some_and(|it| it.moves >= status.moves);
    if !is_newer || !behind.is_due && patch == json!({}) {
        return (patch != json!({})).then_some(patch);
    }
    let members = decided.as_object_mut().map(std::mem::take);
    for (name, member) in members.unwrap_or_default() {
        if patch.get(&name).is_none() {
            patch[name] = member;
        }
    }
    (patch != json!({})).then_some(patch)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(moves: i64) -> VirtualIP {
        let holder = json!({
            "pod": "new", "uid": "u", "node": "n2", "nodeAddress": "10.0.1.2",
            "addresses": ["10.244.0.5"], "mode": "nat", "term": 7,
        });
        let object = json!({
            "metadata": { "name": "web", "namespace": "shop" }, "spec": {},
            "status": { "holder": holder, "moves": moves, "addresses": ["10.0.70.20"] },
        });
        serde_json::from_value(object).unwrap()
    }

    #[test]
    fn an_older_holder_is_never_shown_again_however_due_it_is() {
        let entry = Entry {
            addresses: vec![IpAddr::from([10, 0, 70, 20])],
            moves: 3,
            ..Entry::default()
        };
        let wanted = Wanted {
            addresses: entry.addresses.clone(),
            ..Wanted::default()
        };
        let behind = Behind {
            entry: Some(&entry),
            is_due: true,
        };
        let patched = |moves| patch(&shown(moves), &wanted, &behind, Timestamp::UNIX_EPOCH);
        let newer = patched(4).unwrap();
        assert!(newer.get("holder").is_none(), "{newer}");
        assert!(newer.get("moves").is_none(), "{newer}");
        let same = patched(3).unwrap();
        assert_eq!(same["holder"], Value::Null);
        assert!(same.get("holder").is_some(), "{same}");
    }
}
