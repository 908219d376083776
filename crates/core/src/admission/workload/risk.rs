//! What works, but maybe not as its author thinks; and what only floe may write.

use crate::{
    admission::rollout,
    ipam::{
        args::{Args, shortened},
        names,
        policy::ReleasePolicy,
        workload::Unsupported,
    },
    wording::counted,
};

/// What works, but maybe not as its author thinks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Risk {
    /// The policy is none of those that there are, and counts as none.
    #[error("{text:?} is neither immutable nor never, so the address goes with the pod")]
    UnknownPolicy {
        /// The text, shortened.
        text: String,
    },
    /// A pool keeps its addresses, whatever the policy is.
    #[error("a pod of a pool keeps its address as with never, so {policy} has no effect")]
    PolicyOverruled {
        /// The policy that is written.
        policy: ReleasePolicy,
    },
    /// Annotations ask for something about an address, and nothing asks for one.
    #[error(
        "no regular container requests {resource}, so this has no effect",
        resource = names::RESOURCE
    )]
    NotWanted,
    /// Its pods cannot have the policy, and would wait for ever.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// Not every replica can have an address of the ranges.
    #[error(
        "list {list} has {} for {}",
        counted(.addresses, "address", "addresses"),
        counted(.replicas, "replica", "replicas")
    )]
    RangeTooSmall {
        /// The number of the list, from 1.
        list: usize,
        /// How many addresses it has.
        addresses: u128,
        /// The wanted pods.
        replicas: u32,
    },
    /// The ranges have no address that pods may get.
    #[error("list {list} has no address of the configuration in it")]
    RangeNotConfigured {
        /// The number of the list, from 1.
        list: usize,
    },
    /// Spares outside of the ranges count as well.
    #[error(
        "spares count against the limit of replicas × lists also when they are in none of these \
         ranges: when you change ranges, release the old addresses"
    )]
    RangesWithPolicy,
    /// Ranges say which addresses are wanted, and families do not count then.
    #[error("request_ip_range is there, so families are not looked at")]
    FamiliesIgnored,
    /// The pod has no network of its own that an address could be on.
    #[error("a pod with hostNetwork has no interface for the address")]
    HostNetwork,
    /// Who names the node does not ask the scheduler, nor floe.
    #[error("a pod with nodeName is not scheduled, so it gets no address")]
    NodeNamed,
    /// An update waits or interrupts.
    #[error(transparent)]
    Rollout(rollout::Risk),
}

impl Risk {
    /// The stable reason for warnings.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::UnknownPolicy { .. } => "UnknownReleasePolicy",
            Self::PolicyOverruled { .. } => "PolicyOverruledByPool",
            Self::NotWanted => "AddressNotWanted",
            Self::Unsupported(unsupported) => unsupported.reason(),
            Self::RangeTooSmall { .. } => "RangeTooSmall",
            Self::RangeNotConfigured { .. } => "RangeNotConfigured",
            Self::RangesWithPolicy => "RangesWithPolicy",
            Self::FamiliesIgnored => "FamiliesIgnored",
            Self::HostNetwork => "HostNetwork",
            Self::NodeNamed => "NodeNamed",
            Self::Rollout(risk) => risk.reason(),
        }
    }
}

/// Why somebody may not write what he writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("common.ipinfos is what a pod was given, which only floe writes: leave it as it is")]
pub struct IpInfosForbidden;

impl IpInfosForbidden {
    /// The stable reason.
    pub fn reason(self) -> &'static str {
        "IpInfosForbidden"
    }
}

/// What the annotations of a pod ask for, as far as they can be read.
pub(super) struct Wishes<'a> {
    pub args: Args,
    pub has_families: bool,
    pub policy: Option<&'a str>,
    pub pool: Option<&'a str>,
}

impl Wishes<'_> {
    /// What is odd about the policy.
    pub fn odd_policy(&self) -> Option<Risk> {
        let written = self.policy.filter(|text| !text.is_empty())?;
        match ReleasePolicy::from_annotations(Some(written), None) {
            ReleasePolicy::OnDelete => Some(Risk::UnknownPolicy {
                text: shortened(written),
            }),
            policy @ ReleasePolicy::Immutable if self.pool.is_some() => {
                Some(Risk::PolicyOverruled { policy })
            }
            ReleasePolicy::Immutable | ReleasePolicy::Never => None,
        }
    }
}
