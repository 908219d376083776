//! Writes that the API server accepted and did not keep.
//!
//! A CRD that is older than the program lacks fields, and the API server prunes what its schema
//! does not know, without an error. A writer that compares the object with what it wants then
//! sees a difference for ever. [`Unkept`] remembers which fields were pruned, so that a write
//! of nothing else is not repeated before a long pause is over.

use std::{collections::BTreeSet, time::Duration};

use serde_json::Value;
use tokio::time::Instant;

/// The first pause; each further one is twice as long.
const FIRST: Duration = Duration::from_mins(10);

/// The longest pause.
const LONGEST: Duration = Duration::from_hours(2);

/// What the API server did not keep of the last write of one object.
#[derive(Clone, Debug, Default)]
pub struct Unkept {
    fields: BTreeSet<String>,
    failures: u32,
    until: Option<Instant>,
}

impl Unkept {
    /// Takes in the answer to a merge patch: `got` is the patched value as the API server returned
    /// it. Returns whether fields are missing in it that were not known to be missing.
    pub fn answered(&mut self, patch: &Value, got: &Value, now: Instant) -> bool {
        let mut wanted = got.clone();
        merge(&mut wanted, patch);
        let fields = changed(got, &wanted);
        if fields.is_empty() {
            *self = Self::default();
            return false;
        }
        let is_new = !fields.is_subset(&self.fields);
        let pause = FIRST.saturating_mul(2_u32.saturating_pow(self.failures));
        self.until = Some(now + pause.min(LONGEST));
        self.failures = self.failures.saturating_add(1);
        self.fields.extend(fields);
        is_new
    }

    /// Until when a merge patch of what is shown must wait, because it would change nothing but
    /// fields that the API server does not keep; none if it may be sent now.
    pub fn held(&self, shown: &Value, patch: &Value, now: Instant) -> Option<Instant> {
        let until = self.until.filter(|it| now < *it)?;
        let mut wanted = shown.clone();
        merge(&mut wanted, patch);
        let fields = changed(shown, &wanted);
        fields.is_subset(&self.fields).then_some(until)
    }

    /// The fields that were not kept, as paths. `*` stands for an element of a list, and for a
    /// key that is an address.
    pub fn fields(&self) -> &BTreeSet<String> {
        &self.fields
    }

    /// Forgets everything: the CRD has changed, and the next write may be kept.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The paths of what differs. A value that says nothing (null, false, zero, an empty text, list or
/// object) is the same as none, since serializers may leave it out.
fn changed(old: &Value, new: &Value) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    compare(old, new, "", &mut paths);
    paths
}

fn compare(old: &Value, new: &Value, path: &str, paths: &mut BTreeSet<String>) {
    let below = |name: &str| match path {
        "" => name.to_owned(),
        path => format!("{path}.{name}"),
    };
    match (old, new) {
        (old, new) if old == new || is_empty(old) && is_empty(new) => {}
        (Value::Object(old), Value::Object(new)) => {
            let names: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for name in names {
                let of = |it: &serde_json::Map<String, Value>| it.get(name).cloned();
                let (old, new) = (of(old).unwrap_or_default(), of(new).unwrap_or_default());
                let is_address = name.parse::<std::net::IpAddr>().is_ok();
                let shown = if is_address { "*" } else { name };
                compare(&old, &new, &below(shown), paths);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (old, new) in old.iter().zip(new) {
                compare(old, new, &below("*"), paths);
            }
        }
        _ => {
            paths.insert(path.to_owned());
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(it) => !it,
        Value::Number(it) => it.as_f64() == Some(0.0),
        Value::String(it) => it.is_empty(),
        Value::Array(it) => it.is_empty(),
        Value::Object(it) => it.values().all(is_empty),
    }
}

/// Applies a JSON merge patch (RFC 7396).
pub fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(serde_json::Map::new());
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(members) = target.as_object_mut() {
                members.remove(name);
            }
        } else {
            merge(&mut target[name], value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_pruned_is_not_written_again_before_the_pause_is_over() {
        let now = Instant::now();
        let mut unkept = Unkept::default();
        let patch = json!({ "error": "e", "conditions": [{ "type": "Ready", "at": 1 }] });
        assert_eq!(unkept.held(&Value::Null, &patch, now), None);
        let got = json!({ "error": "e" });
        assert!(unkept.answered(&patch, &got, now));
        assert_eq!(unkept.fields().iter().collect::<Vec<_>>(), ["conditions"]);
        // The same field with another value would be pruned as well.
        let patch = json!({ "conditions": [{ "type": "Ready", "at": 2 }] });
        assert_eq!(unkept.held(&got, &patch, now), Some(now + FIRST));
        assert_eq!(unkept.held(&got, &patch, now + FIRST), None);
        // Something else is written at once, and that is no news of what is pruned.
        let both = json!({ "error": "f", "conditions": [{ "type": "Ready", "at": 3 }] });
        assert_eq!(unkept.held(&got, &both, now), None);
        assert!(!unkept.answered(&both, &json!({ "error": "f" }), now));
        assert_eq!(unkept.held(&got, &patch, now), Some(now + FIRST * 2));
    }

    #[test]
    fn a_write_that_is_kept_ends_the_pause() {
        let now = Instant::now();
        let mut unkept = Unkept::default();
        let patch = json!({ "summary": { "active": 1, "waiting": 0 } });
        assert!(unkept.answered(&patch, &json!({}), now));
        assert!(unkept.held(&json!({}), &patch, now).is_some());
        // What serializers leave out is not missing.
        let got = json!({ "summary": { "active": 1 } });
        assert!(!unkept.answered(&patch, &got, now));
        assert!(unkept.fields().is_empty());
        assert_eq!(unkept.held(&json!({}), &patch, now), None);
    }

    #[test]
    fn a_pruned_field_of_an_element_does_not_hold_up_the_others() {
        let now = Instant::now();
        let mut unkept = Unkept::default();
        let of = |state: &str| {
            json!({ "list": [{ "state": state, "new": 1 }],
            "ips": { "192.0.2.1": { "state": state, "reason": "R" } } })
        };
        let got = |state: &str| {
            json!({ "list": [{ "state": state }],
            "ips": { "192.0.2.1": { "state": state } } })
        };
        assert!(unkept.answered(&of("a"), &got("a"), now));
        let fields: Vec<_> = unkept.fields().iter().cloned().collect();
        assert_eq!(fields, ["ips.*.reason", "list.*.new"]);
        assert!(unkept.held(&got("a"), &of("a"), now).is_some());
        assert_eq!(unkept.held(&got("a"), &of("b"), now), None);
    }

    #[test]
    fn pauses_grow_up_to_a_limit() {
        let now = Instant::now();
        let mut unkept = Unkept::default();
        let patch = json!({ "new": 1 });
        for minutes in [10, 20, 40, 80, 120, 120] {
            unkept.answered(&patch, &json!({}), now);
            let until = unkept.held(&json!({}), &patch, now);
            assert_eq!(until, Some(now + Duration::from_mins(minutes)));
        }
        unkept.forget();
        assert_eq!(unkept.held(&json!({}), &patch, now), None);
    }
}
