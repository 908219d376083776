//! What is written into an object.

use std::{collections::BTreeMap, net::IpAddr};

use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels,
};
use floe_core::ipam::{ledger::Record, state::State};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Holding;

/// The value of the label, which means nothing.
const OUTSIDE: &str = "true";

/// A new object.
pub(super) fn object(ip: IpAddr, holding: &Holding, outside: bool, now: Timestamp) -> FloatingIP {
    let mut object = FloatingIP::new(ip, spec(holding, seconds(now)));
    let annotations = object.metadata.annotations.get_or_insert_default();
    for (name, value) in notes(holding) {
        annotations.extend(value.map(|value| (name.to_owned(), value)));
    }
    let mark = outside.then(|| OUTSIDE.to_owned());
    let node = labels::node_label(&holding.place.node_name);
    let marks = [(labels::OUTSIDE_CONFIGURATION, mark), (labels::NODE, node)];
    let marks: BTreeMap<String, String> = marks
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect();
    object.metadata.labels = (!marks.is_empty()).then_some(marks);
    object
}

/// Makes a new object a reservation.
pub(super) fn reserve(object: &mut FloatingIP) {
    let (labels, state) = (&mut object.metadata.labels, "Reserved".to_owned());
    let labels = labels.get_or_insert_default();
    labels.insert(labels::RESERVED.to_owned(), "true".to_owned());
    let annotations = object.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::STATE.to_owned(), state);
}

/// The changes that give an address to another holder. The mark of an address
/// outside of the configuration stays until the address is inside again.
pub(super) fn patch(
    seen: &Record,
    holding: &Holding,
    version: &str,
    outside: bool,
    now: Timestamp,
) -> Value {
    let mut annotations = json!({ labels::ADDRESS: seen.ip.to_canonical().to_string() });
    for (name, value) in notes(holding) {
        annotations[name] = json!(value);
    }
    let mut patch = json!({
        "metadata": {
            "resourceVersion": version, "annotations": annotations,
            "labels": { labels::NODE: labels::node_label(&holding.place.node_name) },
        },
        "spec": spec(holding, next(seen, now)),
    });
    if !outside {
        patch["metadata"]["labels"][labels::OUTSIDE_CONFIGURATION] = Value::Null;
    }
    patch
}

/// The changes that make the labels of a record true.
pub(super) fn mark(version: &str, outside: bool, node: &str) -> Value {
    let labels = json!({
        labels::OUTSIDE_CONFIGURATION: outside.then_some(OUTSIDE),
        labels::NODE: labels::node_label(node),
    });
    json!({ "metadata": { "resourceVersion": version, "labels": labels } })
}

/// Whether the labels of an object are true.
pub(super) fn is_marked(object: &FloatingIP, outside: bool, node: &str) -> bool {
    object.is_outside_configuration() == outside
        && object.node_label() == labels::node_label(node).as_deref()
}

/// Whether an object says what was to be written.
pub(super) fn says(object: &FloatingIP, holding: &Holding) -> bool {
    let place = object.spec.place();
    object.spec.holder() == holding.key
        && place.attribute == holding.place
        && object.spec.release_policy() == holding.policy
}

fn spec(holding: &Holding, updated: Timestamp) -> FloatingIPSpec {
    FloatingIPSpec::of(&holding.key, &holding.place, holding.policy, updated)
}

/// The annotations that repeat for people what name and spec say.
fn notes(holding: &Holding) -> [(&'static str, Option<String>); 3] {
    let node = &holding.place.node_name;
    [
        (labels::NODE, (!node.is_empty()).then(|| node.clone())),
        (labels::STATE, Some(state(holding).to_string())),
        (labels::WORKLOAD, holding.note.clone()),
    ]
}

fn state(holding: &Holding) -> State {
    State::of_holding(&holding.key, holding.place.is_empty())
}

/// The time of the next change. It differs from the last one, so that each change
/// makes another version of the object: the server makes none of a patch that
/// changes nothing, and two writers would both believe to be the last one.
fn next(seen: &Record, now: Timestamp) -> Timestamp {
    let now = seconds(now);
    if now == seen.updated {
        now + SignedDuration::from_secs(1)
    } else {
        now
    }
}

/// Compat: galaxy stores whole seconds.
fn seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}
