//! `FloatingIPPool`: addresses of a cloud that are kept on nodes that fit.

use std::{collections::BTreeMap, time::Duration};

use floe_core::nodepool::{
    cloud::Capabilities,
    pool::{Grace, Spec, View},
};
use k8s_openapi::{
    NamespaceResourceScope,
    apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta},
};
use serde::{Deserialize, Serialize};

use super::{DnsRecordSet, Match, address, memory::Memory};
use crate::resource::resource;

mod definition;

pub use self::definition::definition;

/// Holds a pool until the addresses are given back that floe has bought for it. Only pools
/// with [`ReclaimPolicy::Delete`] have it.
pub const FINALIZER: &str = "floe.dev/release-addresses";

/// How long others may remember a pool's name in DNS, if nobody says it. Compat: FLIPOP's.
pub const DEFAULT_TTL: u32 = 60;

/// Addresses of a cloud that are kept on nodes that fit.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct FloatingIPPool {
    /// Name and namespace.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What is asked for.
    #[serde(default)]
    pub spec: FloatingIPPoolSpec,
    /// What is.
    #[serde(default)]
    pub status: Option<FloatingIPPoolStatus>,
}

/// What is asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FloatingIPPoolSpec {
    /// The cloud.
    pub provider: String,
    /// Where addresses are bought.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Addresses that are there; what is bought is added at the end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ips: Vec<String>,
    /// How many there shall be; 0 for just those.
    #[serde(rename = "desiredIPs", skip_serializing_if = "is_none")]
    pub desired_ips: u32,
    /// Which nodes are meant.
    #[serde(rename = "match")]
    pub rule: Match,
    /// The name in DNS that says them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dns_record_set: Option<DnsRecordSet>,
    /// The least time between two assignments.
    #[serde(skip_serializing_if = "is_nothing")]
    pub assignment_cool_off_seconds: f64,
    /// How long a node that no longer fits may keep its address, whatever the cause.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<f64>,
    /// The same for single causes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_periods: Option<GracePeriods>,
    /// What becomes of addresses that floe has bought when the pool is deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reclaim_policy: Option<ReclaimPolicy>,
}

/// How long a node that no longer fits may keep its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GracePeriods {
    /// Its last pod is not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod_not_ready_seconds: Option<f64>,
    /// It is not ready itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_not_ready_seconds: Option<f64>,
    /// Its object is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_gone_seconds: Option<f64>,
}

/// What becomes of bought addresses when their pool is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReclaimPolicy {
    /// They stay bought, and where they are.
    Retain,
    /// Those that floe can prove to have bought for this pool are given back.
    Delete,
}

/// What is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FloatingIPPoolStatus {
    /// Why the specification cannot be followed, or why nothing can be bought.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// How each address is.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub ips: BTreeMap<String, IpStatus>,
    /// Fitting nodes whose last assignment failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub node_errors: Vec<String>,
    /// Fitting nodes that wait for an address, in the order in which they are served.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assignable_nodes: Vec<String>,
    /// The generation that all of this is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What `kubectl get` shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub summary: Option<Summary>,
    /// [`super::ACCEPTED`], [`super::READY`] and [`super::PUBLISHED`].
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// What outlives the controller.
    #[serde(flatten)]
    pub memory: Memory,
}

/// How an address is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpStatus {
    /// `active`, `in-progress`, `error`, `no-match`, `unassigned` or `disabled`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub state: String,
    /// The server that has it, or shall have it.
    #[serde(rename = "providerID", skip_serializing_if = "String::is_empty")]
    pub provider_id: String,
    /// The node of that server, while it fits.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node_name: String,
    /// What went wrong last.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The same in one CamelCase word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// What `kubectl get` shows and a column cannot count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Summary {
    /// Addresses that are in use or could be.
    pub addresses: i64,
    /// Those on nodes that fit.
    pub active: i64,
    /// Nodes that wait for one.
    pub waiting: i64,
}

/// What a pool's machine needs and its object does not say.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances<'a> {
    /// The uid of the cluster.
    pub cluster: &'a str,
    /// What the cloud can do.
    pub capabilities: Capabilities,
}

impl FloatingIPPool {
    /// The condition of a type, if it was told.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.status.iter().flat_map(|status| &status.conditions);
        conditions.find(|condition| condition.type_ == kind)
    }

    /// Whether somebody wants it deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Whether the addresses that floe has bought are to be given back in the end.
    pub fn gives_back(&self) -> bool {
        self.spec.reclaim_policy == Some(ReclaimPolicy::Delete)
    }

    /// Whether it waits for that.
    pub fn is_held(&self) -> bool {
        let finalizers = self.metadata.finalizers.iter().flatten();
        finalizers.into_iter().any(|it| it == FINALIZER)
    }

    /// As the machine has it. Addresses that cannot be read are left out, see
    /// [`FloatingIPPoolSpec::unreadable`].
    pub fn to_core(&self, circumstances: Circumstances<'_>) -> Spec {
        let spec = &self.spec;
        let mut ips = Vec::new();
        for ip in spec.ips.iter().filter_map(|text| address::parse(text)) {
            if !ips.contains(&ip) {
                ips.push(ip);
            }
        }
        Spec {
            cluster: circumstances.cluster.to_owned(),
            pool: self.metadata.uid.clone().unwrap_or_default(),
            capabilities: circumstances.capabilities,
            provider: spec.provider.clone(),
            region: spec.region.clone(),
            ips,
            desired: usize::try_from(spec.desired_ips).unwrap_or(usize::MAX),
            cool_off: seconds(spec.assignment_cool_off_seconds),
            grace: spec.grace(),
            reclaims: self.is_deleting() && self.gives_back() && self.is_held(),
        }
    }

    /// What the last process has left.
    pub fn memory(&self) -> floe_core::nodepool::pool::Memory {
        let status = self.status.as_ref();
        status.map(|it| it.memory.to_core()).unwrap_or_default()
    }
}

impl FloatingIPPoolSpec {
    /// The first address that cannot be read: the schema takes a few that are none.
    pub fn unreadable(&self) -> Option<&str> {
        let mut ips = self.ips.iter();
        ips.find(|text| address::parse(text).is_none())
            .map(String::as_str)
    }

    fn grace(&self) -> Grace {
        let each = self.grace_periods.unwrap_or_default();
        let of = |own: Option<f64>| seconds(own.or(self.grace_period_seconds).unwrap_or(0.0));
        Grace {
            pod_not_ready: of(each.pod_not_ready_seconds),
            node_not_ready: of(each.node_not_ready_seconds),
            node_gone: of(each.node_gone_seconds),
        }
    }
}

impl FloatingIPPoolStatus {
    /// What the machine shows, in the members that FLIPOP has, and the summary.
    pub fn show(&mut self, view: &View) {
        let text = |it: Option<&String>| it.cloned().unwrap_or_default();
        let message = view.error.as_ref();
        self.error = message.map_or_else(String::new, |it| it.message.clone());
        let ips = view.ips.iter().map(|(ip, it)| {
            let trouble = it.error.as_ref();
            let status = IpStatus {
                state: it.state.word().to_owned(),
                provider_id: text(it.server.as_ref()),
                node_name: text(it.node.as_ref()),
                error: trouble.map_or_else(String::new, |it| it.message.clone()),
                reason: trouble.map_or_else(String::new, |it| it.reason.to_owned()),
            };
            (ip.to_string(), status)
        });
        self.ips = ips.collect();
        self.node_errors.clone_from(&view.node_errors);
        self.assignable_nodes.clone_from(&view.assignable_nodes);
        let count = |state: &str| self.ips.values().filter(|it| it.state == state).count();
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        self.summary = Some(Summary {
            addresses: number(self.ips.len() - count("disabled")),
            active: number(count("active")),
            waiting: number(self.assignable_nodes.len()),
        });
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_none(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde wants it so")]
fn is_nothing(number: &f64) -> bool {
    *number == 0.0
}

/// What cannot be a time is none.
fn seconds(number: f64) -> Duration {
    Duration::try_from_secs_f64(number).unwrap_or_default()
}

resource!(
    FloatingIPPool,
    "floatingippools",
    NamespaceResourceScope,
    spec,
    status
);

#[cfg(test)]
mod tests;
