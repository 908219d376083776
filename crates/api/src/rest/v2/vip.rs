//! Addresses that several pods share.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One `VirtualIP`: addresses that stay together, and the pod that has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Vip {
    /// Its namespace, which is also that of its pods.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// What it is doing.
    pub state: VipState,
    /// The addresses that are granted.
    pub addresses: Vec<String>,
    /// `annotation` if it stands for annotations; none if somebody has made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claimed_by: Option<String>,
    /// The pod that has the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<VipPod>,
    /// The pod that is to have them next, while they are handed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub successor: Option<VipPod>,
    /// The pods that could have them, the holder included.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub candidates: Vec<VipPod>,
    /// How often they have moved.
    pub moves: i64,
    /// The last move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_move: Option<VipMove>,
    /// `Accepted`, `Serving` and `Reachable`, as far as they were told.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<VipCondition>,
}

/// What a `VirtualIP` is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum VipState {
    /// A pod has its addresses.
    Held,
    /// No pod has them.
    Vacant,
    /// No pod has them, and not all that it asks for is granted.
    Refused,
    /// It is being deleted.
    Deleting,
}

/// A pod that has shared addresses, or could.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipPod {
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// Its node.
    pub node: String,
    /// How traffic reaches it: `nat` or `direct`.
    pub mode: String,
    /// Since when it has the addresses; of a candidate, since when it is ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Why it is to have them next: one stable word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// A move of shared addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipMove {
    /// When.
    pub at: String,
    /// Why: one stable word.
    pub reason: String,
    /// The pod that had them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The pod that got them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// Something that holds for a `VirtualIP`, or does not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipCondition {
    /// What: `Accepted`, `Serving` or `Reachable`.
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why: one stable word.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// Since when.
    pub since: String,
}

/// One page of `VirtualIPs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipList {
    /// Those of this page, by namespace and name.
    pub items: Vec<Vip>,
    /// How many all pages have.
    pub total: u64,
    /// The number of this page, from 0 on.
    pub page: u32,
    /// How many a page has.
    pub size: u32,
}

/// Which `VirtualIPs`, and which page of them. What is given must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VipQuery {
    /// A text that name, an address, holder or its node have in them.
    pub q: Option<String>,
    /// An address, a range `a~b` or a network `a/n` that one of their addresses is in.
    pub ip: Option<String>,
    /// What they are doing; several with a comma between them.
    #[param(example = "Vacant,Refused")]
    pub state: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The pod that has the addresses.
    pub pod: Option<String>,
    /// The node of that pod.
    pub node: Option<String>,
    /// The number of the page, from 0 on.
    #[param(default = 0, minimum = 0)]
    pub page: Option<u32>,
    /// How many a page has.
    #[param(default = 50, minimum = 1, maximum = 1000)]
    pub size: Option<u32>,
}

/// Who has a shared address, and what would move it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SharedExplanation {
    /// Why a pod has it, or nobody: one stable word.
    pub reason: String,
    /// The `VirtualIP` that it belongs to; none if that is gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vip: Option<Vip>,
    /// What would move it to another pod, in words.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub moved_by: Vec<String>,
}

/// A `VirtualIP` that asks for an address and does not get it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VipRefusal {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// One stable word.
    pub reason: String,
    /// The same for people.
    pub message: String,
}
