//! What is written into the status of pools and record sets.

use floe_core::{
    nodepool::pool::{State, View},
    wording::counted,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Map, Value};

use super::{check::Fault, names::Standing};

/// Something that holds or does not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What it is about.
    pub kind: &'static str,
    /// True, False or Unknown.
    pub status: &'static str,
    /// Why, in one CamelCase word.
    pub reason: &'static str,
    /// The same for people.
    pub message: String,
}

impl Verdict {
    /// It holds.
    pub fn good(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(kind, "True", reason, message)
    }

    /// It does not.
    pub fn bad(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(kind, "False", reason, message)
    }

    /// Nobody knows yet.
    pub fn open(kind: &'static str, reason: &'static str, message: impl Into<String>) -> Self {
        Self::new(kind, "Unknown", reason, message)
    }

    fn new(
        kind: &'static str,
        status: &'static str,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Self {
        Self {
            kind,
            status,
            reason,
            message: message.into(),
        }
    }

    /// Whether the specification can be followed.
    pub fn accepted(fault: Option<&Fault>) -> Self {
        let kind = floe_api::flipop::ACCEPTED;
        match fault {
            None => Self::good(kind, "Valid", "the specification can be followed"),
            Some(fault) => Self::bad(kind, fault.reason, fault.message.clone()),
        }
    }

    /// Whether everything in a pool is as it shall be.
    pub fn ready(view: &View, heard: bool) -> Self {
        let kind = floe_api::flipop::READY;
        if let Some(trouble) = &view.error {
            return Self::bad(kind, trouble.reason, trouble.message.clone());
        }
        if !heard {
            return Self::open(kind, "Starting", "the provider has not been heard yet");
        }
        let mut troubles = view
            .ips
            .iter()
            .filter_map(|(ip, it)| Some((ip, it.error.as_ref()?)));
        if let Some((ip, trouble)) = troubles.next() {
            let message = format!("{ip}: {}", trouble.message);
            return Self::bad(kind, trouble.reason, message);
        }
        let count = |state: State| view.ips.values().filter(|it| it.state == state).count();
        if count(State::InProgress) > 0 {
            return Self::bad(kind, "Moving", "an address is on its way");
        }
        if view.unfulfilled > 0 {
            let message = counted(
                view.unfulfilled,
                "more address is wanted",
                "more addresses are wanted",
            );
            return Self::bad(kind, "AddressesMissing", message);
        }
        let (active, waiting) = (count(State::Active), view.assignable_nodes.len());
        match (active, waiting) {
            (0, 0) => Self::bad(kind, "NoFittingNode", "no node fits"),
            (0, _) => Self::bad(kind, "NodesWaiting", "no node has an address yet"),
            // More nodes than addresses is what many pools want.
            (active, _) => {
                let message = counted(active, "address is in use", "addresses are in use");
                Self::good(kind, "Served", message)
            }
        }
    }

    /// Whether DNS says what it shall.
    pub fn published(standing: &Standing) -> Self {
        let kind = floe_api::flipop::PUBLISHED;
        match standing {
            Standing::Current(count) => Self::good(
                kind,
                "Published",
                counted(count, "address is published", "addresses are published"),
            ),
            Standing::Failed(refusal) => {
                Self::bad(kind, refusal.class.reason(), refusal.message.clone())
            }
            Standing::Waiting => Self::open(kind, "Publishing", "the name is being written"),
            Standing::Kept => Self::bad(
                kind,
                "NameKept",
                "no node that fits has an address: the name keeps what it says",
            ),
            Standing::Leaving => Self::open(kind, "Removing", "the name goes with the pool"),
            Standing::Nothing => Self::open(
                kind,
                "NoAddress",
                "there is no address, and the name keeps what it says",
            ),
        }
    }
}

/// The conditions of an object from now on: these, and those of others as they were.
/// `ours` are the types that only floe writes.
pub fn conditions(
    old: &[Condition],
    ours: &[&str],
    verdicts: &[Verdict],
    generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let made = verdicts.iter().map(|verdict| {
        let before = old.iter().find(|it| it.type_ == verdict.kind);
        let same = before.filter(|it| it.status == verdict.status);
        Condition {
            type_: verdict.kind.to_owned(),
            status: verdict.status.to_owned(),
            reason: verdict.reason.to_owned(),
            message: verdict.message.clone(),
            observed_generation: generation,
            last_transition_time: same
                .map_or(Time(whole(now)), |it| it.last_transition_time.clone()),
        }
    });
    let others = old.iter().filter(|it| !ours.contains(&it.type_.as_str()));
    made.chain(others.cloned()).collect()
}

/// A merge patch that makes the one of the other; none when they are the same.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        return Some(new.clone());
    };
    let mut patch = Map::new();
    for name in before.keys().filter(|name| !after.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in after {
        let missing = Value::Null;
        let old = before.get(name).unwrap_or(&missing);
        if let Some(change) = difference(old, value) {
            patch.insert(name.clone(), change);
        }
    }
    Some(Value::Object(patch))
}

/// Times are written in whole seconds, so that what was written is what is read.
pub fn whole(at: Timestamp) -> Timestamp {
    Timestamp::from_second(at.as_second()).unwrap_or(at)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_says_what_is_new_other_and_gone() {
        let old = json!({ "a": 1, "b": { "c": 1, "d": 2 }, "e": [1], "f": 1 });
        let new = json!({ "b": { "c": 1, "d": 3 }, "e": [2], "f": 1, "g": { "h": 1 } });
        let patch = json!({ "a": null, "b": { "d": 3 }, "e": [2], "g": { "h": 1 } });
        assert_eq!(difference(&old, &new), Some(patch));
        assert_eq!(difference(&new, &new), None);
        assert_eq!(difference(&Value::Null, &new), Some(new.clone()));
    }

    #[test]
    fn one_address_is_not_several() {
        let wanting = |unfulfilled| View {
            unfulfilled,
            ..View::default()
        };
        let ready = |unfulfilled| Verdict::ready(&wanting(unfulfilled), true).message;
        assert_eq!(ready(1), "1 more address is wanted");
        assert_eq!(ready(2), "2 more addresses are wanted");
        let published = |count| Verdict::published(&Standing::Current(count)).message;
        assert_eq!(published(1), "1 address is published");
        assert_eq!(published(2), "2 addresses are published");
    }

    #[test]
    fn a_condition_keeps_its_time_as_long_as_its_status_is_the_same() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let verdict = |status| Verdict::new("Ready", status, "Why", "why");
        let ours = ["Ready"];
        let first = conditions(&[], &ours, &[verdict("True")], Some(1), at(5));
        let mut foreign = first[0].clone();
        foreign.type_ = "Foreign".into();
        let both = [foreign.clone(), first[0].clone()];
        let second = conditions(&both, &ours, &[verdict("True")], Some(2), at(9));
        assert_eq!(second[0].last_transition_time.0, at(5));
        assert_eq!(second[0].observed_generation, Some(2));
        assert_eq!(second[1], foreign);
        let third = conditions(&second, &ours, &[verdict("False")], Some(2), at(9));
        assert_eq!(third[0].last_transition_time.0, at(9));
        assert_eq!(conditions(&third, &ours, &[], None, at(9)), [foreign]);
    }
}
