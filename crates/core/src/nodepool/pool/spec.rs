//! What a pool asks for, and the nodes it may use.

use std::{net::IpAddr, time::Duration};

use crate::nodepool::cloud::Capabilities;

/// A server, by the text of a node's `spec.providerID`.
pub type Server = String;

/// What a pool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Who it is, for the marks on what it buys.
    pub cluster: String,
    /// Its own uid.
    pub pool: String,
    /// What its cloud can do.
    pub capabilities: Capabilities,
    /// Changes of these two begin anew: they are other addresses.
    pub provider: String,
    /// Where addresses are bought.
    pub region: String,
    /// Addresses that it has, in the order of the specification.
    pub ips: Vec<IpAddr>,
    /// How many it shall have; 0 for just those.
    pub desired: usize,
    /// The least time between two assignments.
    pub cool_off: Duration,
    /// How long a node that no longer fits may keep its address.
    pub grace: Grace,
    /// The pool is being deleted, and shall give back what it has bought.
    pub reclaims: bool,
}

/// How long a node that no longer fits keeps its address, for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// Its last fitting pod is not ready.
    pub pod_not_ready: Duration,
    /// The node itself is not ready, or silent.
    pub node_not_ready: Duration,
    /// The node's object is gone.
    pub node_gone: Duration,
}

/// A node that the pool's rule selects by its labels, and its fitness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The name of the node.
    pub name: String,
    /// None when it fits; or else why it does not.
    pub unfit: Option<Unfit>,
}

/// Why a node does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// Its last fitting pod is there and not ready.
    PodNotReady,
    /// No fitting pod is there, or those that are there are going.
    NoPod,
    /// The node is not ready, or two witnesses say that it is dead.
    NodeNotReady,
    /// A taint that is not tolerated, as after a cordon.
    Tainted,
    /// It is being deleted.
    Deleted,
    /// Its labels are no longer those of the rule.
    Unlabelled,
}

impl Unfit {
    /// The stable reason of a move away from such a node.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PodNotReady => "PodNotReady",
            Self::NoPod => "NoPod",
            Self::NodeNotReady => "NodeNotReady",
            Self::Tainted => "Tainted",
            Self::Deleted => "Deleted",
            Self::Unlabelled => "Unlabelled",
        }
    }
}

impl Grace {
    /// How long a node may keep its address. Who cordons, drains, deletes or relabels wants
    /// the address to move, and at once.
    pub fn of(&self, cause: Unfit) -> Duration {
        match cause {
            Unfit::PodNotReady => self.pod_not_ready,
            Unfit::NodeNotReady => self.node_not_ready,
            Unfit::NoPod | Unfit::Tainted | Unfit::Deleted | Unfit::Unlabelled => Duration::ZERO,
        }
    }
}
