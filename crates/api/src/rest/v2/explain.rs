//! Why an address is where it is, and why a pod has none yet.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::{Ip, SharedExplanation, VipRefusal};

/// What to explain: exactly one of both.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExplainQuery {
    /// An address.
    #[param(example = "10.0.70.2")]
    pub ip: Option<String>,
    /// A pod, as `namespace/name`.
    #[param(example = "default/web-0")]
    pub pod: Option<String>,
}

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// In a few sentences for people, the most important one first.
    pub summary: Vec<String>,
    /// What was asked about an address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip: Option<IpExplanation>,
    /// What was asked about a pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodExplanation>,
}

/// Everything about an address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpExplanation {
    /// The address.
    pub address: Ip,
    /// Why its holder has it: one stable word.
    pub reason: String,
    /// What would release it, in words; none when nothing would, or it is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub released_by: Option<String>,
    /// If it is shared by several pods: which of them has it, and what would move it.
    /// Left out for callers who may not see its `VirtualIP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared: Option<SharedExplanation>,
    /// Each `VirtualIP` that asks for it and does not get it. Left out for callers who
    /// may not list them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused_to: Vec<VipRefusal>,
}

/// Everything about a pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodExplanation {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its node, once it is bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether it asks for addresses.
    pub wants_address: bool,
    /// The addresses that it has (`Bound`), and those that wait for it (`Kept`).
    pub addresses: Vec<Ip>,
    /// Why it has none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refusal: Option<Refusal>,
    /// Why the rolling update of its Deployment hands no address over to it, for example a
    /// disruption budget that protects the old pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Refusal>,
    /// Nodes that could run it now, a few of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fitting_nodes: Vec<String>,
    /// Why other nodes cannot, and how many of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unfit_nodes: Vec<Refusal>,
}

/// One refusal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// One stable word.
    pub reason: String,
    /// The same for people.
    pub message: String,
    /// How many nodes it is about; none if about the pod as such. Their texts may
    /// differ in an address; one of them is told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
}
