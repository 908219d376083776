//! Whether a pod can hold an address at all.

use std::net::IpAddr;

use crate::vip::claim::{self, FamilyMissing};

/// How far a pod is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not all of its containers have started.
    Pending,
    /// It runs.
    Running,
    /// It has ended well.
    Succeeded,
    /// It has ended badly.
    Failed,
    /// Its node does not tell.
    Unknown,
}

/// What is known about a pod.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "four facts from four places, each true or not"
)]
pub struct Facts<'a> {
    /// How far it is.
    pub phase: Phase,
    /// Whether it is ready, see [`Readiness::is_ready`].
    pub is_ready: bool,
    /// Whether it has a time of deletion.
    pub is_terminating: bool,
    /// Whether its node's condition `Ready` is true.
    pub is_node_ready: bool,
    /// Whether the agent of its node lives.
    pub is_agent_live: bool,
    /// Its addresses.
    pub addresses: &'a [IpAddr],
}

/// What the conditions of a pod say about its readiness.
#[derive(Clone, Copy, Debug, Default)]
pub struct Readiness<'a> {
    /// The status of `Ready`.
    pub ready: &'a str,
    /// The reason of `Ready`.
    pub reason: &'a str,
    /// The status of `ContainersReady`.
    pub containers: &'a str,
}

/// Whether a pod can hold an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// It can.
    Fit,
    /// It cannot.
    Unfit(Unfit),
}

/// Why a pod cannot hold an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// It has ended, and never runs again.
    #[error("the pod has ended")]
    Finished,
    /// It is being deleted.
    #[error("the pod is being deleted")]
    Terminating,
    /// It has not started, or its node does not tell.
    #[error("the pod does not run")]
    NotRunning,
    /// It has no address.
    #[error("the pod has no address")]
    NoAddress,
    /// It has no address of a family that is needed.
    #[error(transparent)]
    FamilyMissing(#[from] FamilyMissing),
    /// It is not ready.
    #[error("the pod is not ready")]
    NotReady,
    /// Its node is not ready.
    #[error("the node of the pod is not ready")]
    NodeNotReady,
    /// No agent lives on its node.
    #[error("no agent of floe lives on the node of the pod")]
    AgentNotLive,
}

impl Phase {
    /// The phase that has this name in Kubernetes; names that nobody knows mean that
    /// nobody knows.
    pub fn parse(name: &str) -> Self {
        match name {
            "Pending" => Self::Pending,
            "Running" => Self::Running,
            "Succeeded" => Self::Succeeded,
            "Failed" => Self::Failed,
            _ => Self::Unknown,
        }
    }

    /// Whether the pod has ended for good.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

impl Readiness<'_> {
    /// Whether the pod's kubelet finds it ready.
    ///
    /// Kubernetes marks all pods of a node whose kubelet it does not hear, as when the API
    /// server was away for a minute: then it turns `Ready` to false and leaves all else as
    /// it was. Whether a kubelet is heard is the node's matter, not the pod's. A kubelet
    /// that finds a pod unready gives a reason.
    pub fn is_ready(self) -> bool {
        match self.ready {
            "True" => true,
            "False" => self.reason.is_empty() && self.containers == "True",
            _ => false,
        }
    }
}

impl Fitness {
    /// Whether the pod can hold the address.
    pub fn is_fit(self) -> bool {
        self == Self::Fit
    }
}

impl Unfit {
    /// The stable reason for events, conditions and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Finished => "PodFinished",
            Self::Terminating => "PodDeleted",
            Self::NotRunning => "PodNotRunning",
            Self::NoAddress => "PodWithoutAddress",
            Self::FamilyMissing(missing) => missing.reason(),
            Self::NotReady => "PodNotReady",
            Self::NodeNotReady => "NodeNotReady",
            Self::AgentNotLive => "AgentNotLive",
        }
    }
}

/// Whether a pod can hold these floating addresses, which stay together. Of several
/// reasons against it the one is told that is hardest to undo.
pub fn fitness(pod: Facts<'_>, floating: &[IpAddr]) -> Fitness {
    match check(pod, floating) {
        Ok(()) => Fitness::Fit,
        Err(unfit) => Fitness::Unfit(unfit),
    }
}

fn check(pod: Facts<'_>, floating: &[IpAddr]) -> Result<(), Unfit> {
    let demand = |holds: bool, unfit| if holds { Ok(()) } else { Err(unfit) };
    demand(!pod.phase.is_over(), Unfit::Finished)?;
    demand(!pod.is_terminating, Unfit::Terminating)?;
    demand(pod.phase == Phase::Running, Unfit::NotRunning)?;
    demand(!pod.addresses.is_empty(), Unfit::NoAddress)?;
    claim::pairs(floating, pod.addresses)?;
    demand(pod.is_ready, Unfit::NotReady)?;
    demand(pod.is_node_ready, Unfit::NodeNotReady)?;
    demand(pod.is_agent_live, Unfit::AgentNotLive)
}

#[cfg(test)]
mod tests;
