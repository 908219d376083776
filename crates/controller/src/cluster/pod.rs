//! A pod, with what decisions need of it.

use std::{net::IpAddr, sync::Arc};

use floe_core::{
    ipam::{
        args::{Args, ArgsError, IpInfo},
        names,
        owner::OwnerRef,
    },
    schedule::gate::{
        self,
        needs::Needs,
        patch::{Gated, has_gate},
    },
};
use jiff::{SignedDuration, Timestamp};

use super::slim::{self, Condition, PodObject};

/// A pod, with what decisions need of it. Everything else of the object is
/// dropped when it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Which state of it this is.
    pub version: String,
    /// When it was made.
    pub created: Timestamp,
    /// Whether its deletion was asked for.
    pub terminating: bool,
    /// Its owners.
    pub owners: Vec<OwnerRef>,
    /// Whether a regular container requests the resource.
    pub wants_address: bool,
    /// Annotation with the release policy.
    pub release_policy: Option<String>,
    /// Annotation with the name of the IP pool.
    pub pool: Option<String>,
    /// Annotation with wished ranges and the result.
    pub args: Option<String>,
    /// Annotation with wished families.
    pub families: Option<String>,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// Its phase.
    pub phase: Phase,
    /// Its phase in the words of Kubernetes; empty if it has none yet.
    pub phase_text: &'static str,
    /// The addresses that its status shows.
    pub addresses: Vec<IpAddr>,
    /// Since when it is ready; `None` if it is not.
    pub ready_since: Option<Timestamp>,
    /// The scheduling gate at which it waits for its addresses, as long as it does.
    pub gate: Option<Arc<Gate>>,
    /// Which nodes it accepts, as long as it is not bound.
    pub needs: Option<Arc<Needs>>,
    /// Whether the scheduler says that no node will do for now.
    pub unschedulable: bool,
    /// What its condition says about its addresses, if it has one.
    pub assigned: Option<Assigned>,
}

/// What has to be known of a pod to let it through its gate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// What is changed then.
    pub gated: Gated,
    /// Which nodes the pod accepts.
    pub needs: Arc<Needs>,
}

/// What the condition of a pod says about its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assigned {
    /// Whether it has them.
    pub holds: bool,
    /// Why, in one word.
    pub reason: String,
    /// Why, in more words.
    pub message: String,
}

/// How far a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not running yet, or nobody knows.
    Pending,
    /// Its containers run.
    Running,
    /// All its containers have ended, and none will start again.
    Finished,
}

impl Phase {
    /// From the words of Kubernetes.
    pub fn of(text: Option<&str>) -> Self {
        match text {
            Some("Running") => Self::Running,
            Some("Succeeded" | "Failed") => Self::Finished,
            _ => Self::Pending,
        }
    }
}

impl From<PodObject> for Pod {
    fn from(object: PodObject) -> Self {
        let PodObject {
            mut metadata,
            spec,
            status,
            ..
        } = object;
        let owners = slim::owners(&metadata);
        let mut annotations = metadata.annotations.take().unwrap_or_default();
        let shown = status.pod_ips.into_iter().map(|it| it.ip);
        let mut addresses = Vec::new();
        for text in shown.chain([status.pod_ip]).flatten() {
            if let Ok(address) = text.parse::<IpAddr>()
                && !addresses.contains(&address)
            {
                addresses.push(address);
            }
        }
        let node = spec.node_name.filter(|name| !name.is_empty());
        let wants_address = spec
            .containers
            .iter()
            .any(|it| it.resources.requests.want_address());
        let gated = has_gate(&spec.scheduling_gates);
        let needs = (wants_address && node.is_none() || gated).then(|| {
            let affinity = spec.affinity.as_ref();
            Arc::new(Needs::new(spec.node_selector, affinity, &spec.tolerations))
        });
        let ready = status.conditions.iter().find(|it| it.sort == "Ready");
        let ready = ready.filter(|it| it.status == "True");
        // Without a time of its own it is as old as can be.
        let ready_since = ready.map(|it| it.since.as_ref().map_or(Timestamp::MIN, |it| it.0));
        Self {
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            created: metadata
                .creation_timestamp
                .map_or(Timestamp::UNIX_EPOCH, |it| it.0),
            terminating: metadata.deletion_timestamp.is_some(),
            owners,
            wants_address,
            release_policy: annotations.remove(names::RELEASE_POLICY),
            pool: annotations.remove(names::POOL),
            args: annotations.remove(names::ARGS),
            families: annotations.remove(names::FAMILIES),
            node,
            phase_text: match status.phase.as_deref() {
                Some("Pending") => "Pending",
                Some("Running") => "Running",
                Some("Succeeded") => "Succeeded",
                Some("Failed") => "Failed",
                Some("Unknown") => "Unknown",
                _ => "",
            },
            phase: Phase::of(status.phase.as_deref()),
            addresses,
            gate: needs.clone().filter(|_| gated).map(|needs| {
                let gated = Gated {
                    gates: spec.scheduling_gates,
                    affinity: spec.affinity,
                };
                Arc::new(Gate { gated, needs })
            }),
            needs,
            unschedulable: condition(&status.conditions, "PodScheduled")
                .is_some_and(|it| it.status == "False" && it.reason == "Unschedulable"),
            assigned: condition(&status.conditions, gate::ASSIGNED).map(|it| Assigned {
                holds: it.status == "True",
                reason: it.reason.clone(),
                message: it.message.clone(),
            }),
            ready_since,
        }
    }
}

impl Pod {
    /// The addresses that its annotation claims.
    pub fn claimed(&self) -> Result<Vec<IpInfo>, ArgsError> {
        Args::parse(self.args.as_deref())?.claimed()
    }

    /// Whether it asks for the same addresses as another state of it.
    pub fn asks_like(&self, other: &Self) -> bool {
        self.args == other.args
            && self.families == other.families
            && self.pool == other.pool
            && self.release_policy == other.release_policy
    }

    /// Whether it serves, and has for so many seconds. Compat: as the controllers of
    /// Kubernetes count.
    pub fn is_available(&self, seconds: u32, now: Timestamp) -> bool {
        let long_enough = |since: Timestamp| {
            let enough = since.saturating_add(SignedDuration::from_secs(i64::from(seconds)));
            seconds == 0 || enough.is_ok_and(|enough| enough <= now)
        };
        !self.terminating && self.ready_since.is_some_and(long_enough)
    }

    /// Whether two states differ in anything but their version.
    pub fn differs_from(&self, other: &Self) -> bool {
        let Self { version, .. } = other;
        let same = Self {
            version: version.clone(),
            ..self.clone()
        };
        same != *other
    }
}

fn condition<'a>(all: &'a [Condition], sort: &str) -> Option<&'a Condition> {
    all.iter().find(|it| it.sort == sort)
}

#[cfg(test)]
mod tests;
