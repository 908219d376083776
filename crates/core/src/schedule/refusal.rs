//! Why a pod gets no address, or not on this node: one stable reason each.

use std::net::IpAddr;

use thiserror::Error;

use crate::ipam::{key::HolderKey, workload::Unsupported};

/// Why a pod gets no address anywhere, for now or at all.
///
/// Compat: texts that galaxy-ipam has too are its own, because people search for
/// them.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The pod of the same name that holds the address is not gone yet.
    #[error("waiting for delete event of {key} before reuse this ip ({ip})")]
    OldPodNotGone {
        /// The key of both pods.
        key: HolderKey,
        /// The address.
        ip: IpAddr,
    },
    /// All addresses of the workload are in use.
    #[error(
        "deployment {app} has allocated {used} ips with replicas of {replicas}, wait for releasing"
    )]
    WorkloadLimit {
        /// The workload.
        app: String,
        /// How many it uses.
        used: usize,
        /// How many replicas it has.
        replicas: u32,
    },
    /// All addresses of the pool are in use.
    #[error("reached pool {pool} size limit of {size}")]
    PoolLimit {
        /// The pool.
        pool: String,
        /// Its size.
        size: usize,
    },
    /// All addresses of the pool that the namespace may use are in use.
    #[error("reached pool {pool} size limit of {size} for namespace {namespace}")]
    NamespacePoolLimit {
        /// The pool.
        pool: String,
        /// The namespace.
        namespace: String,
        /// Its size there.
        size: usize,
    },
    /// A pod of another revision waits for the same addresses and goes first, see
    /// [`precedence`](crate::rollout::precedence), or an address is being handed over to it.
    #[error("wait for releasing: {pod} waits for the same addresses and goes first")]
    YieldsToNewer {
        /// That pod.
        pod: String,
    },
    /// The workload cannot have the release policy that the pod asks for.
    #[error(transparent)]
    UnsupportedPolicy(#[from] Unsupported),
    /// The node that was chosen has no addresses left for all that is wanted.
    #[error("no enough available ips left")]
    NoAddressLeft,
    /// A list of ranges that the pod asks for has no configured address in it.
    #[error(
        "no enough available ips left: list {list} of request_ip_range has no address of the \
         configuration in it"
    )]
    RangeNotConfigured {
        /// The number of the list in the annotation, from 1.
        list: usize,
    },
    /// No node is what the pod asks for, whatever its addresses.
    #[error("no node is what the pod asks for by nodeSelector, node affinity and tolerations")]
    NoNodeFits,
    /// The node that was chosen will not do, for another reason.
    #[error(transparent)]
    OnNode(NodeRefusal),
}

impl Refusal {
    /// The stable name of the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OldPodNotGone { .. } => "OldPodNotGone",
            Self::WorkloadLimit { .. } => "WorkloadLimitReached",
            Self::PoolLimit { .. } => "PoolLimitReached",
            Self::NamespacePoolLimit { .. } => "NamespacePoolLimitReached",
            Self::YieldsToNewer { .. } => "YieldsToNewerRevision",
            Self::UnsupportedPolicy(unsupported) => unsupported.reason(),
            Self::NoAddressLeft => "NoAddressLeft",
            Self::RangeNotConfigured { .. } => "RangeNotConfigured",
            Self::NoNodeFits => "NoNodeFits",
            Self::OnNode(refusal) => refusal.reason(),
        }
    }
}

impl From<NodeRefusal> for Refusal {
    fn from(refusal: NodeRefusal) -> Self {
        match refusal {
            NodeRefusal::NoAddressLeft => Self::NoAddressLeft,
            NodeRefusal::RangeNotConfigured { list } => Self::RangeNotConfigured { list },
            NodeRefusal::NoSuchNode
            | NodeRefusal::UnknownNode
            | NodeRefusal::NotConfigured { .. }
            | NodeRefusal::KeptElsewhere { .. }
            | NodeRefusal::SpareElsewhere { .. } => Self::OnNode(refusal),
        }
    }
}

/// Why a pod cannot run on one node.
///
/// Compat: every text begins with galaxy-ipam's word for the case, its spelling
/// included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NodeRefusal {
    /// No node has this name.
    #[error("FloatingIPPlugin:UnknowNode: there is no such node")]
    NoSuchNode,
    /// The node has no internal address.
    #[error("FloatingIPPlugin:UnknowNode: the node has no InternalIP")]
    UnknownNode,
    /// The address of the node is in no configured node subnet.
    #[error("FloatingIPPlugin:NoFIPConfigNode: {address} is in no configured node subnet")]
    NotConfigured {
        /// The address of the node.
        address: IpAddr,
    },
    /// No free address is left for nodes of this subnet.
    #[error("FloatingIPPlugin:NoFIPLeft: no free address for what the pod asks for")]
    NoAddressLeft,
    /// A list of ranges that the pod asks for has no configured address in it, so nothing
    /// that other pods release can help.
    #[error(
        "FloatingIPPlugin:NoFIPLeft: list {list} of request_ip_range has no address of the \
         configuration in it"
    )]
    RangeNotConfigured {
        /// The number of the list in the annotation, from 1.
        list: usize,
    },
    /// The pod has an address, which nodes of this subnet cannot carry.
    #[error("FloatingIPPlugin:NoFIPLeft: this pod's kept IP lives elsewhere: {ip}")]
    KeptElsewhere {
        /// That address.
        ip: IpAddr,
    },
    /// The group has a spare address for the pod, on nodes of another subnet.
    #[error("FloatingIPPlugin:NoFIPLeft: the spare IP for this pod lives elsewhere: {ip}")]
    SpareElsewhere {
        /// That address.
        ip: IpAddr,
    },
}

impl NodeRefusal {
    /// The stable name of the reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchNode => "NoSuchNode",
            Self::UnknownNode => "UnknownNode",
            Self::NotConfigured { .. } => "NodeNotConfigured",
            Self::NoAddressLeft => "NoAddressLeft",
            Self::RangeNotConfigured { .. } => "RangeNotConfigured",
            Self::KeptElsewhere { .. } => "KeptAddressElsewhere",
            Self::SpareElsewhere { .. } => "SpareAddressElsewhere",
        }
    }

    /// Whether other pods would have to go for the pod to fit; nothing else that
    /// preemption does can help.
    pub fn is_curable_by_preemption(&self) -> bool {
        matches!(self, Self::NoAddressLeft)
    }
}
