//! One address, and lists of them.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

/// One address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = Ip)]
pub struct Ip {
    /// The address.
    pub ip: String,
    /// What it is to its holder.
    pub state: State,
    /// The holder key as stored; none for a free address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What the key says; none for a key of another form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub holder: Option<Holder>,
    /// When it is released: `on-delete`, `immutable` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    /// The node that it is bound for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The uid of the pod that runs with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// How the pod of that name is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_phase: Option<Phase>,
    /// When it last changed hands.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Whether somebody may release it: no pod runs with it, and it is not reserved.
    pub releasable: bool,
    /// The network of pods that it is in; none outside of the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet: Option<String>,
    /// The gateway of that network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
    /// The VLAN of that network; none if untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Whose nodes can have pods with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub node_subnets: Vec<String>,
}

/// What an address is to its holder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum State {
    /// Nobody has it.
    Free,
    /// A pod is bound with it.
    Bound,
    /// It waits for a pod of the same name.
    Kept,
    /// It waits for any pod of its workload or pool.
    Spare,
    /// An administrator has reserved it.
    Reserved,
    /// It is shared by several pods: a `VirtualIP` has it.
    Shared,
    /// Its record has a key that neither floe nor galaxy would give it.
    Foreign,
    /// It has no record, and no pod can get it: no range of the configuration has it. Only
    /// explanations have this state; lists do not contain such addresses.
    NotForPods,
}

/// How a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
pub enum Phase {
    /// It waits for a node or for its containers.
    Pending,
    /// It runs.
    Running,
    /// It is over.
    Finished,
    /// There is no such pod.
    Gone,
}

/// Who holds an address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Holder {
    /// The pool.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pool: String,
    /// The kind of the workload, as galaxy spells it: `deployment`, `statefulset`,
    /// or the kind in lower case.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app_type: String,
    /// The namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// The workload.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub app: String,
    /// The pod; none for a spare.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
}

/// One page of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IpList {
    /// The addresses of this page.
    pub items: Vec<Ip>,
    /// How many addresses all pages have.
    pub total: u64,
    /// The number of this page, from 0 on.
    pub page: u32,
    /// How many a page has.
    pub size: u32,
}

/// Which addresses, in which order, and which page of them. What is given must all
/// hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct IpQuery {
    /// A text that address, key or node have in them.
    pub q: Option<String>,
    /// An address, a range `a~b` or a network `a/n` that they are in.
    pub ip: Option<String>,
    /// What they are to their holders; several with a comma between them.
    #[param(example = "Bound,Kept")]
    pub state: Option<String>,
    /// The pool.
    pub pool: Option<String>,
    /// The kind of the workload.
    pub app_type: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The workload.
    pub app: Option<String>,
    /// The pod.
    pub pod: Option<String>,
    /// The node that they are bound for.
    pub node: Option<String>,
    /// `on-delete`, `immutable` or `never`.
    pub policy: Option<String>,
    /// A network of pods, as the list of subnets has it.
    pub subnet: Option<String>,
    /// A network of nodes whose pods can have them.
    pub node_subnet: Option<String>,
    /// Whether they are outside of the configuration.
    pub outside: Option<bool>,
    /// `ip`, `pod`, `namespace`, `app`, `node`, `policy` or `since`; a `-` before it
    /// turns the order round.
    #[param(default = "ip")]
    pub sort: Option<String>,
    /// The number of the page, from 0 on.
    #[param(default = 0, minimum = 0)]
    pub page: Option<u32>,
    /// How many a page has.
    #[param(default = 50, minimum = 1, maximum = 1000)]
    pub size: Option<u32>,
}
