//! What becomes of an address when its pod is gone.
//!
//! | policy | Deployment and the like | numbered, with replicas | numbered, without | others |
//! | --- | --- | --- | --- | --- |
//! | on delete | free | free | free | free |
//! | immutable | spare up to the replicas | kept if wanted | free | free |
//! | never, or an IP pool | spare | kept | kept | free |
//!
//! *Free*: the record is deleted. *Kept*: it stays under the pod's key. *Spare*:
//! it goes to the group's key. The last two clear node and uid. A pod without a
//! number never comes back under its name, so nothing can be kept for it.
//!
//! It makes no difference how the pod went: deleted, finished, or found missing
//! later. Where nobody can tell what a workload wants, nothing is released.

use std::{fmt, net::IpAddr, num::NonZeroU32};

use jiff::Timestamp;

use super::{
    key::pod_index,
    owner::AppKind,
    policy::ReleasePolicy,
    workload::{Scale, State, Workload},
};

/// How a pod was found to hold its address no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Departure {
    /// Its deletion was seen.
    Deleted,
    /// Its phase is Failed or Succeeded.
    Finished,
    /// A check found no such pod.
    Missing,
    /// A check found another pod of that name.
    Replaced,
}

/// What a look for the pod of a record has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sighting<'a> {
    /// There is a pod of that name.
    Found {
        /// Its uid.
        uid: &'a str,
        /// Whether its phase is Failed or Succeeded.
        finished: bool,
    },
    /// The API server has no such pod.
    NotFound,
    /// Nobody could tell.
    Unreadable,
}

impl Departure {
    /// What a sighting means for a record with this uid; `None` when the pod may
    /// be running, which it also may when nobody can tell.
    ///
    /// Compat: a record without uid belongs to whatever pod has the name.
    pub fn seen(stored_uid: &str, sighting: Sighting<'_>) -> Option<Self> {
        match sighting {
            Sighting::Unreadable => None,
            Sighting::NotFound => Some(Self::Missing),
            Sighting::Found { uid, .. } if !stored_uid.is_empty() && uid != stored_uid => {
                Some(Self::Replaced)
            }
            Sighting::Found { finished, .. } => finished.then_some(Self::Finished),
        }
    }

    /// The word for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Deleted => "deleted",
            Self::Finished => "finished",
            Self::Missing => "missing",
            Self::Replaced => "replaced",
        }
    }
}

/// An address whose pod is gone.
#[derive(Clone, Copy, Debug)]
pub struct Slot<'a> {
    /// How the pod went.
    pub departure: Departure,
    /// The policy in the record.
    pub policy: ReleasePolicy,
    /// Whether the record's key is in an IP pool, which overrules the policy.
    pub pooled: bool,
    /// The workload of the pod.
    pub workload: &'a Workload,
    /// The name of the pod.
    pub pod: &'a str,
    /// How the workload's group stands. Looked at only for groups with spares.
    pub group: Group,
}

/// How many addresses of one family a group has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Group {
    /// Records under the group key, held and spare, including the one in question.
    pub records: usize,
    /// How many addresses of this family each pod asks for.
    pub per_pod: NonZeroU32,
}

/// What becomes of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Delete the record.
    Free,
    /// Leave it under the pod's key, without node and uid.
    Keep,
    /// Move it to the group's key, without node and uid.
    Spare,
}

/// Why an address has its fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The policy keeps nothing.
    PolicyOnDelete,
    /// The policy is immutable and the workload does not exist.
    WorkloadGone,
    /// The policy is immutable and the pod's number is not wanted any more.
    ScaledDown,
    /// The policy is immutable and the group has more addresses than it needs.
    GroupScaledDown,
    /// The policy is immutable and workloads of this kind have no replicas.
    NoReplicas,
    /// No pod will ever have this name again.
    PodNameWithoutIndex,
    /// The policy is immutable and the workload wants the address.
    StillWanted,
    /// The policy is never, or there is a pool.
    PolicyNever,
    /// The policy is immutable and nobody can tell what the workload wants.
    WorkloadUnreadable,
    /// The address is in no entry of the configuration, so nobody can get it again.
    OutsideConfiguration,
}

/// A decision about one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// How the pod went.
    pub departure: Departure,
    /// What becomes of the address.
    pub fate: Fate,
    /// Why.
    pub cause: Cause,
}

/// Decides what becomes of an address whose pod is gone.
pub fn judge(slot: &Slot<'_>) -> Verdict {
    let (fate, cause) = decide(slot);
    Verdict {
        departure: slot.departure,
        fate,
        cause,
    }
}

/// An address that waits under a group's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spare {
    /// The address.
    pub ip: IpAddr,
    /// The policy in its record.
    pub policy: ReleasePolicy,
    /// When it became a spare.
    pub updated: Timestamp,
}

/// The spares of one family that nobody will need again, and why: those of an
/// immutable workload that is gone, or that has shrunk while they waited. The
/// longest waiting ones go first, because the others are reused first.
///
/// `group.records` counts held addresses and spares together. Spares of an IP
/// pool or with another policy than immutable are never among the result.
pub fn surplus(
    workload: &Workload,
    pooled: bool,
    group: Group,
    spares: &[Spare],
) -> Vec<(IpAddr, Cause)> {
    if pooled || !workload.app.kind.shares_spares() {
        return Vec::new();
    }
    let Some((excess, cause)) = excess(workload, group) else {
        return Vec::new();
    };
    let mut idle: Vec<&Spare> = spares
        .iter()
        .filter(|spare| spare.policy == ReleasePolicy::Immutable)
        .collect();
    idle.sort_by_key(|spare| (spare.updated, spare.ip));
    idle.iter()
        .take(excess)
        .map(|spare| (spare.ip, cause))
        .collect()
}

fn decide(slot: &Slot<'_>) -> (Fate, Cause) {
    let workload = slot.workload;
    let shares = workload.app.kind.shares_spares();
    let kept = if shares { Fate::Spare } else { Fate::Keep };
    let policy = if slot.pooled {
        ReleasePolicy::Never
    } else {
        slot.policy
    };
    match policy {
        ReleasePolicy::OnDelete => (Fate::Free, Cause::PolicyOnDelete),
        _ if !shares && !workload.names_its_pods(slot.pod) => {
            (Fate::Free, Cause::PodNameWithoutIndex)
        }
        ReleasePolicy::Never => (kept, Cause::PolicyNever),
        ReleasePolicy::Immutable => {
            let refused = if shares {
                excess(workload, slot.group).map(|(_, cause)| cause)
            } else {
                unwanted(workload, slot.pod)
            };
            match refused {
                Some(cause) => (Fate::Free, cause),
                None if is_unreadable(workload) => (kept, Cause::WorkloadUnreadable),
                None => (kept, Cause::StillWanted),
            }
        }
    }
}

/// How many addresses a group has above what its workload wants, and why it
/// wants no more; `None` when there are none, or when nobody can tell.
fn excess(workload: &Workload, group: Group) -> Option<(usize, Cause)> {
    let (wanted, cause) = match (workload.scale(), &workload.state) {
        (_, State::Gone) => (0, Cause::WorkloadGone),
        (Scale::No, _) => (0, Cause::NoReplicas),
        (Scale::Unreadable { .. }, _) | (_, State::Unreadable { .. }) => return None,
        (Scale::Yes, State::Exists { .. }) => (
            wanted_addresses(workload, group.per_pod),
            Cause::GroupScaledDown,
        ),
    };
    // Where nothing is wanted, even what was not counted is too much.
    let excess = match wanted {
        0 => usize::MAX,
        wanted => group.records.saturating_sub(wanted),
    };
    (excess > 0).then_some((excess, cause))
}

fn wanted_addresses(workload: &Workload, per_pod: NonZeroU32) -> usize {
    let wanted = u64::from(workload.state.replicas().unwrap_or(0)) * u64::from(per_pod.get());
    usize::try_from(wanted).unwrap_or(usize::MAX)
}

/// Why no pod of this name is wanted; `None` when one is, or nobody can tell.
fn unwanted(workload: &Workload, pod: &str) -> Option<Cause> {
    let (replicas, first) = match (workload.scale(), &workload.state) {
        (Scale::No, _) => return Some(Cause::NoReplicas),
        (_, State::Gone) => return Some(Cause::WorkloadGone),
        (Scale::Unreadable { .. }, _) | (_, State::Unreadable { .. }) => return None,
        (Scale::Yes, State::Exists { first_ordinal, .. }) => {
            (workload.state.replicas()?, *first_ordinal)
        }
    };
    let first = if workload.app.kind == AppKind::StatefulSet {
        u64::from(first)
    } else {
        0
    };
    let Some(index) = pod_index(pod) else {
        return Some(Cause::PodNameWithoutIndex);
    };
    let wanted = first..first + u64::from(replicas);
    (!wanted.contains(&index)).then_some(Cause::ScaledDown)
}

fn is_unreadable(workload: &Workload) -> bool {
    matches!(workload.scale(), Scale::Unreadable { .. })
        || matches!(workload.state, State::Unreadable { .. })
}

impl Cause {
    /// The stable reason for logs, events and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::PolicyOnDelete => "ReleasePolicyOnDelete",
            Self::WorkloadGone => "WorkloadGone",
            Self::ScaledDown => "WorkloadScaledDown",
            Self::GroupScaledDown => "GroupScaledDown",
            Self::NoReplicas => "WorkloadHasNoReplicas",
            Self::PodNameWithoutIndex => "PodNameWithoutIndex",
            Self::StillWanted => "StillWanted",
            Self::PolicyNever => "ReleasePolicyNever",
            Self::WorkloadUnreadable => "WorkloadUnreadable",
            Self::OutsideConfiguration => "OutsideConfiguration",
        }
    }

    /// The word that galaxy logs when it releases an address for this reason.
    pub fn galaxy_text(self) -> Option<&'static str> {
        match self {
            Self::PolicyOnDelete => Some("deletedAndIPMutablePod"),
            Self::WorkloadGone => Some("deletedAndParentAppNotExistPod"),
            Self::ScaledDown => Some("deletedAndScaledDownAppPod"),
            Self::GroupScaledDown => Some("deletedAndScaledDownDpPod"),
            Self::NoReplicas
            | Self::PodNameWithoutIndex
            | Self::StillWanted
            | Self::PolicyNever
            | Self::WorkloadUnreadable
            | Self::OutsideConfiguration => None,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fate = match self.fate {
            Fate::Free => "address freed",
            Fate::Keep => "address kept for the next pod of that name",
            Fate::Spare => "address kept as a spare",
        };
        let (pod, reason) = (self.departure.text(), self.cause.reason());
        write!(out, "pod {pod}, {fate}: {reason}")
    }
}

#[cfg(test)]
mod tests;
