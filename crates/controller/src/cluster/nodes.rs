//! A node, and how events of nodes are entered.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use floe_core::{nodepool::matching::Taint, schedule::caller::Host};
use ipnet::IpNet;
use jiff::Timestamp;
use kube::{ResourceExt as _, runtime::watcher::Event};
use tracing::warn;

use super::{
    Change, Cluster,
    slim::{NodeObject, NodeSpec, Offered},
    table::Table,
};
use crate::store::Seen;

/// A node, with what decisions need of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its first internal address that can be read.
    pub address: Option<IpAddr>,
    /// Whether its kubelet reports that it is ready.
    pub ready: bool,
    /// Since when it is ready, or not.
    pub since: Option<Timestamp>,
    /// The addresses from which its scheduler may call, if it is a control-plane node.
    pub callers: Arc<[IpAddr]>,
    /// What pods look at.
    pub looks: Arc<Looks>,
}

/// What pods look at when they choose a node by themselves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Looks {
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its taints.
    pub taints: Vec<Taint>,
    /// How much it has of the resource of floating IPs.
    pub capacity: Offered,
    /// What of it is for pods.
    pub allocatable: Offered,
}

impl From<&NodeObject> for Node {
    fn from(object: &NodeObject) -> Self {
        let status = &object.status;
        let looks = Looks {
            labels: object.metadata.labels.clone().unwrap_or_default(),
            taints: taints(&object.spec),
            capacity: status.capacity.clone(),
            allocatable: status.allocatable.clone(),
        };
        let addresses = status.addresses.iter();
        let mut internal = addresses.filter(|it| it.sort == "InternalIP");
        let ready = status.conditions.iter().find(|it| it.sort == "Ready");
        Self {
            address: internal.find_map(|it| it.address.parse().ok()),
            ready: ready.is_some_and(|it| it.status == "True"),
            since: ready.and_then(|it| it.since.as_ref()).map(|it| it.0),
            callers: callers(object, &looks.labels),
            looks: Arc::new(looks),
        }
    }
}

/// The taints of a node. A cordoned one counts as tainted from the moment when it is cordoned;
/// Kubernetes adds the taint a little later.
fn taints(spec: &NodeSpec) -> Vec<Taint> {
    const CORDONED: &str = "node.kubernetes.io/unschedulable";
    let taints = spec.taints.iter().map(|taint| Taint {
        key: taint.key.clone(),
        value: taint.value.clone(),
        effect: taint.effect.clone(),
    });
    let mut taints: Vec<Taint> = taints.collect();
    if spec.unschedulable && !taints.iter().any(|taint| taint.key == CORDONED) {
        taints.push(Taint {
            key: CORDONED.to_owned(),
            value: String::new(),
            effect: "NoSchedule".to_owned(),
        });
    }
    taints
}

fn callers(object: &NodeObject, labels: &BTreeMap<String, String>) -> Arc<[IpAddr]> {
    let addresses = object.status.addresses.iter();
    let addresses = addresses.filter(|it| ["InternalIP", "ExternalIP"].contains(&&*it.sort));
    let addresses: Vec<IpAddr> = addresses.filter_map(|it| it.address.parse().ok()).collect();
    let pod_nets = object.spec.pod_cidrs.iter();
    let pod_nets: Vec<IpNet> = pod_nets.filter_map(|it| it.parse().ok()).collect();
    let host = Host {
        labels,
        annotations: &object.metadata.annotations.clone().unwrap_or_default(),
        addresses: &addresses,
        pod_nets: &pod_nets,
    };
    host.control_plane_addresses().into()
}

/// Enters an event of the watch, and tells what it changes.
pub fn enter(cluster: &Cluster, event: Event<Seen<NodeObject>>) {
    let changes = {
        let mut nodes = cluster.0.nodes.write();
        let nodes = nodes.as_mut().unwrap_or_else(|error| error.get_mut());
        // Copies the table if somebody looks at it right now.
        let nodes = Arc::make_mut(nodes);
        match event {
            Event::Init => {
                nodes.begin();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => apply(nodes, &object),
            Event::InitDone => {
                let gone = nodes.end().into_iter();
                let gone = gone.map(|(_, name, _)| Change::Node(name));
                gone.chain([Change::Relisted]).collect()
            }
            Event::Delete(object) => {
                let name = object.name_any();
                let known = nodes.remove("", &name);
                known.map(|_| Change::Node(name)).into_iter().collect()
            }
        }
    };
    cluster.tell(changes);
}

fn apply(nodes: &mut Table<Node>, object: &Seen<NodeObject>) -> Vec<Change> {
    let name = object.name_any();
    let now = match object {
        Seen::Whole(object) => Node::from(object),
        Seen::Part { error, .. } => {
            warn!(
                reason = "NodeUnreadable",
                node = name,
                error,
                "a node cannot be read"
            );
            nodes.keep("", &name);
            return Vec::new();
        }
    };
    let first = !nodes.is_complete();
    let before = nodes.put("", &name, now.clone());
    if first {
        return Vec::new();
    }
    let mut changes = Vec::new();
    if before.as_ref().is_none_or(|old| old.address != now.address) {
        changes.push(Change::Node(name.clone()));
    }
    if before.as_ref().is_some_and(|old| old.looks != now.looks) {
        changes.push(Change::NodeLooks(name.clone()));
    }
    if before.is_some_and(|old| old.ready != now.ready) {
        changes.push(Change::NodeReadiness(name));
    }
    changes
}
