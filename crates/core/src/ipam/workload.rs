//! What is known about a workload, and which release policies it can have.

use super::{
    key::pod_index,
    owner::{App, AppKind},
    policy::ReleasePolicy,
};

/// A workload with the facts that decide how long its addresses stay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// Which one it is.
    pub app: App,
    /// Whether its kind can be scaled. Looked at only for kinds that are not
    /// built in: of the others it is known.
    pub scale: Scale,
    /// What was found under its name.
    pub state: State,
}

/// Whether objects of a kind have a number of replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The served version has a scale subresource with a path to the replicas.
    Yes,
    /// It has none.
    No,
    /// Nobody could tell, for example because a right is missing.
    Unreadable {
        /// What went wrong.
        why: String,
    },
}

/// What was found under the name of a workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It exists.
    Exists {
        /// The wanted replicas; `None` when the field is absent.
        replicas: Option<u32>,
        /// The number of the first pod. Only `StatefulSets` can have it other than
        /// zero.
        first_ordinal: u32,
    },
    /// The API server has no such object.
    Gone,
    /// Nobody could tell.
    Unreadable {
        /// What went wrong.
        why: String,
    },
}

/// Why a pod cannot have the policy that it asks for.
///
/// Compat: the text is galaxy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("release policy {policy} is not supported for pod {pod}: {why}")]
pub struct Unsupported {
    /// The policy.
    pub policy: ReleasePolicy,
    /// The name of the pod.
    pub pod: String,
    /// Why not.
    pub why: WhyUnsupported,
}

/// What a workload lacks for a policy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WhyUnsupported {
    /// The next pod in this place will have another name.
    #[error("pod name doesn't match '.*-[0-9]*$', assume its parent is not a stateful workload")]
    PodNameWithoutIndex,
    /// Nothing tells when the pod is no longer wanted.
    #[error("parent workload has no replicas")]
    NoReplicas,
    /// Nobody could tell whether there are replicas.
    #[error("cannot tell whether the parent workload has replicas: {why}")]
    ScaleUnreadable {
        /// What went wrong.
        why: String,
    },
}

impl Unsupported {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self.why {
            WhyUnsupported::PodNameWithoutIndex => "PodNameWithoutIndex",
            WhyUnsupported::NoReplicas => "WorkloadHasNoReplicas",
            WhyUnsupported::ScaleUnreadable { .. } => "WorkloadUnreadable",
        }
    }
}

impl Workload {
    /// Whether a pod of this workload can have the policy.
    ///
    /// Pods of Deployments share spares and pods of `StatefulSets` come back under
    /// their names, so both can keep addresses. Others need a number at the end
    /// of the pod's name, and for [`ReleasePolicy::Immutable`] replicas to compare
    /// it with.
    pub fn supports(&self, policy: ReleasePolicy, pod: &str) -> Result<(), Unsupported> {
        let why = match policy {
            ReleasePolicy::OnDelete => return Ok(()),
            _ if !self.app.kind.shares_spares() && !self.names_its_pods(pod) => {
                WhyUnsupported::PodNameWithoutIndex
            }
            ReleasePolicy::Never => return Ok(()),
            ReleasePolicy::Immutable => match (self.scale(), self.unreadable()) {
                (Scale::No, _) => WhyUnsupported::NoReplicas,
                (Scale::Unreadable { why }, _) | (Scale::Yes, Some(why)) => {
                    WhyUnsupported::ScaleUnreadable { why: why.clone() }
                }
                (Scale::Yes, None) => return Ok(()),
            },
        };
        Err(Unsupported {
            policy,
            pod: pod.into(),
            why,
        })
    }

    /// Whether it has replicas, by its kind.
    pub fn scale(&self) -> &Scale {
        match self.app.kind {
            AppKind::Deployment | AppKind::ReplicaSet | AppKind::StatefulSet => &Scale::Yes,
            AppKind::ReplicaSetOf(_) | AppKind::Custom(_) => &self.scale,
            AppKind::Job | AppKind::DaemonSet | AppKind::Bare => &Scale::No,
        }
    }

    /// Why the replicas of a custom workload cannot be read, most likely because a
    /// right is missing. Nothing would ever tell when its addresses are free, so
    /// that is said before a pod gets one. Built-in workloads are floe's own affair.
    fn unreadable(&self) -> Option<&String> {
        match (&self.app.kind, &self.state) {
            (AppKind::ReplicaSetOf(_) | AppKind::Custom(_), State::Unreadable { why }) => Some(why),
            _ => None,
        }
    }

    /// Whether the pod that follows this one will have the same name.
    pub fn names_its_pods(&self, pod: &str) -> bool {
        self.app.kind == AppKind::StatefulSet || pod_index(pod).is_some()
    }
}

impl State {
    /// The replicas that are wanted, zero when it is gone, `None` when nobody can
    /// tell.
    ///
    /// A missing field means one replica, which is what every built-in workload
    /// makes of it. galaxy takes it for none in custom workloads and releases
    /// addresses that are still wanted.
    pub fn replicas(&self) -> Option<u32> {
        match self {
            Self::Exists { replicas, .. } => Some(replicas.unwrap_or(1)),
            Self::Gone => Some(0),
            Self::Unreadable { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests;
