//! What is written into an object.

use std::{collections::BTreeMap, net::IpAddr};

use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels::{self, Given},
};
use floe_core::ipam::{
    args::IpInfo,
    ledger::{Ledger, Record},
    state::State,
};
use ipnet::IpNet;
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::Holding;

/// The value of the label, which means nothing.
const OUTSIDE: &str = "true";

/// What is told of the network of a pod.
#[derive(Clone, Copy, Debug)]
pub struct Network<'a> {
    /// What the pod is told to set up.
    pub info: &'a IpInfo,
    /// Whether it has to wait until the cloud has brought the address to its node.
    pub assigning: bool,
}

impl<'a> From<&'a IpInfo> for Network<'a> {
    fn from(info: &'a IpInfo) -> Self {
        Self {
            info,
            assigning: false,
        }
    }
}

/// What a node needs to set an address up, as the configuration says; `None` for an
/// address that it does not have.
pub fn network(ledger: &Ledger, ip: IpAddr) -> Option<IpInfo> {
    let topology = ledger.topology();
    let entry = topology.entry(topology.entry_of(ip)?);
    Some(IpInfo {
        ip: IpNet::new(ip, entry.prefix_len()).ok()?,
        vlan: entry.vlan(),
        gateway: entry.gateway(),
    })
}

/// A new object.
pub(super) fn object(
    ip: IpAddr,
    holding: &Holding,
    network: Option<Network<'_>>,
    outside: bool,
    now: Timestamp,
) -> FloatingIP {
    let mut object = FloatingIP::new(ip, spec(holding, seconds(now)));
    let annotations = object.metadata.annotations.get_or_insert_default();
    for (name, value) in notes(holding) {
        annotations.extend(value.map(|value| (name.to_owned(), value)));
    }
    let given = given(network, &holding.place.uid);
    annotations.extend(given.map(|it| (labels::NETWORK.to_owned(), it.value())));
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
/// outside of the configuration stays until the address is inside again. What the pod
/// was given stays as long as the address is the same pod's.
pub(super) fn patch(
    seen: &Record,
    holding: &Holding,
    network: Option<Network<'_>>,
    version: &str,
    outside: bool,
    now: Timestamp,
) -> Value {
    let mut annotations = json!({ labels::ADDRESS: seen.ip.to_canonical().to_string() });
    for (name, value) in notes(holding) {
        annotations[name] = json!(value);
    }
    let same_pod = !holding.place.uid.is_empty() && holding.place.uid == seen.uid;
    if network.is_some() || !same_pod {
        let given = given(network, &holding.place.uid);
        annotations[labels::NETWORK] = json!(given.map(|it| it.value()));
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

/// The changes that make the labels of a record true, and tell the network of its pod
/// if nobody did.
pub(super) fn mark(
    seen: &Record,
    version: &str,
    outside: bool,
    network: Option<Network<'_>>,
) -> Value {
    let labels = json!({
        labels::OUTSIDE_CONFIGURATION: outside.then_some(OUTSIDE),
        labels::NODE: labels::node_label(&seen.node),
    });
    let mut annotations = json!({
        labels::ADDRESS: seen.ip.to_canonical().to_string(),
        labels::STATE: State::of(seen).text(),
        labels::NODE: (!seen.node.is_empty()).then_some(&seen.node),
    });
    if let Some(given) = given(network, &seen.uid) {
        annotations[labels::NETWORK] = json!(given.value());
    }
    json!({ "metadata": {
        "resourceVersion": version, "labels": labels, "annotations": annotations,
    } })
}

/// Whether the labels of an object are true, and the network is told that was not.
pub(super) fn is_marked(
    seen: &Record,
    object: &FloatingIP,
    outside: bool,
    network: Option<Network<'_>>,
) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    let note = |name| {
        annotations
            .and_then(|all| all.get(name))
            .map(String::as_str)
    };
    object.is_outside_configuration() == outside
        && note(labels::ADDRESS) == Some(seen.ip.to_canonical().to_string().as_str())
        && note(labels::STATE) == Some(State::of(seen).text())
        && object.node_label() == labels::node_label(&seen.node).as_deref()
        && tells(object, network, &seen.uid)
}

/// Whether an object says what was to be written.
pub(super) fn says(object: &FloatingIP, holding: &Holding, network: Option<Network<'_>>) -> bool {
    let place = object.spec.place();
    tells(object, network, &holding.place.uid)
        && object.spec.holder() == holding.key
        && place.attribute == holding.place
        && object.spec.release_policy() == holding.policy
}

/// What is to be written about the network of a pod.
fn given(network: Option<Network<'_>>, uid: &str) -> Option<Given> {
    network.map(|network| Given {
        info: *network.info,
        uid: uid.to_owned(),
        assigning: network.assigning,
    })
}

/// Whether an object has the network that was to be written, if one was.
fn tells(object: &FloatingIP, network: Option<Network<'_>>, uid: &str) -> bool {
    let annotations = object.metadata.annotations.as_ref();
    let value = annotations.and_then(|all| all.get(labels::NETWORK));
    network.is_none() || value.and_then(|value| Given::parse(value)) == given(network, uid)
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
