//! `VirtualIP`: an address that several pods share, and which of them has it now.

use std::net::IpAddr;

use floe_core::vip::{Candidate, Mode, VipId};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, ObjectMeta, Time},
};
use serde::{Deserialize, Serialize};

use crate::resource::resource;

mod definition;
mod facts;

pub use self::definition::definition;

/// The condition that says whether the addresses are granted; the controller writes it.
pub const ACCEPTED: &str = "Accepted";
/// The condition that says whether a pod has the addresses; the holder's agent writes it.
pub const SERVING: &str = "Serving";
/// The condition that says whether the addresses are announced outside of the cluster;
/// the holder's agent writes it.
pub const REACHABLE: &str = "Reachable";
/// The label of objects that stand for annotations.
pub const CLAIMED_BY: &str = "floe.dev/claimed-by";
/// The annotation with which somebody asks for a move to a pod.
pub const MOVE_TO: &str = "floe.dev/move-to";
/// The label of objects that keep an address of a `FloatingIPPool`: the name of the pool.
pub const POOL: &str = "floe.dev/pool";

/// An address, or several that stay together, shared by the pods of a namespace.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct VirtualIP {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: VirtualIPSpec,
    /// What is.
    #[serde(default)]
    pub status: Option<VirtualIPStatus>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualIPSpec {
    /// These addresses.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Or one address out of these ranges.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ranges: Vec<String>,
    /// The pods that share them. Objects that stand for annotations have none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Or the node that has them itself: the first of these. The others may be named next.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// When they move.
    pub failover: Failover,
    /// How they are served.
    pub announcement: Announcement,
}

/// When the addresses move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Failover {
    /// How long a holder may be unready before they move.
    pub unready_grace_seconds: u32,
    /// The least time between two moves for unreadiness or failback.
    pub min_seconds_between_moves: u32,
    /// Whether they move back to a pod that is preferred.
    pub failback: bool,
    /// Pods that come first, in this order.
    pub preferred_pods: Vec<String>,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            unready_grace_seconds: 0,
            min_seconds_between_moves: 3,
            failback: false,
            preferred_pods: Vec::new(),
        }
    }
}

/// How the addresses are served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Announcement {
    /// How traffic reaches the pod.
    pub mode: ModeChoice,
    /// The interface of the nodes to announce on, instead of the one whose subnet has
    /// the address.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub interface: String,
    /// Whether what the holder sends leaves with the address.
    pub egress: bool,
}

/// How traffic reaches the pod, as a person chooses it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ModeChoice {
    /// As the pod's network demands.
    #[default]
    Auto,
    /// The node rewrites destinations.
    Nat,
    /// The pod has the address itself.
    Direct,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VirtualIPStatus {
    /// The addresses that are granted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<IpAddr>,
    /// Who has them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holding>,
    /// Who is to have them next, while they are handed over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub successor: Option<Holding>,
    /// The same for `kubectl get`.
    pub summary: Summary,
    /// The pods that could have them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<CandidateStatus>,
    /// How often they have moved.
    pub moves: i64,
    /// The last move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_move: Option<Move>,
    /// [`ACCEPTED`], [`SERVING`] and [`REACHABLE`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What `kubectl get` shows and a column cannot make of lists. Whoever writes one of
/// the lists writes its part of the summary with it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// The granted addresses with a comma between them; while none is granted, the addresses
    /// or ranges that the object asks for.
    pub addresses: String,
    /// How many candidates there are.
    pub candidates: i64,
}

/// A pod that has the addresses, or is to have them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holding {
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// An address of the node.
    pub node_address: IpAddr,
    /// The pod's own addresses.
    pub addresses: Vec<IpAddr>,
    /// `nat` or `direct`; or `node` for the node itself.
    pub mode: String,
    /// The term of the node's lease in which it took them. A holder of another term
    /// does not serve.
    #[serde(default)]
    pub term: i64,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// Of a successor: whether its node is prepared.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ready: bool,
    /// Of a successor: why the addresses are to move.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// A pod that could have the addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CandidateStatus {
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// An address of the node.
    pub node_address: IpAddr,
    /// The pod's own addresses.
    pub addresses: Vec<IpAddr>,
    /// `nat` or `direct`; `node` for the node itself, and `standby` for one that may be
    /// named next.
    pub mode: String,
    /// Since when it is ready.
    pub ready_since: Time,
}

/// A move of the addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Move {
    /// When.
    pub at: Time,
    /// Why, in one CamelCase word.
    pub reason: String,
    /// The pod that had them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// The pod that got them.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub to: String,
}

impl Summary {
    /// The summary of these lists, for an object with this specification.
    pub fn of(spec: &VirtualIPSpec, addresses: &[IpAddr], candidates: &[CandidateStatus]) -> Self {
        let electable = candidates.iter().filter(|it| !it.is_standby());
        let granted: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
        let shown = if granted.is_empty() {
            let asked = spec.addresses.iter().chain(&spec.ranges);
            asked.cloned().collect()
        } else {
            granted
        };
        Self {
            addresses: shown.join(","),
            candidates: i64::try_from(electable.count()).unwrap_or(i64::MAX),
        }
    }
}

impl From<CandidateStatus> for Candidate {
    fn from(status: CandidateStatus) -> Self {
        Self {
            mode: Mode::parse(&status.mode).unwrap_or_default(),
            pod: status.pod,
            uid: status.uid,
            node: status.node,
            node_address: status.node_address,
            addresses: status.addresses,
            ready_since: status.ready_since.0.as_second(),
        }
    }
}

impl CandidateStatus {
    /// Whether it is a node that may be named, but is not.
    pub fn is_standby(&self) -> bool {
        self.mode == Mode::Standby.word()
    }
}

impl VirtualIP {
    /// Which object it is.
    pub fn id(&self) -> VipId {
        VipId {
            namespace: self.metadata.namespace.clone().unwrap_or_default(),
            name: self.metadata.name.clone().unwrap_or_default(),
        }
    }

    /// The condition of a type, if it was told.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == kind)
    }
}

resource!(
    VirtualIP,
    "virtualips",
    NamespaceResourceScope,
    spec,
    status
);

#[cfg(test)]
mod tests;
