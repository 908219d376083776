//! What updates of Deployments need to know.

use std::{collections::BTreeMap, sync::Arc};

use floe_core::{
    ipam::{names, owner::replica_set_of},
    rollout::strategy::{self, Handling, InvalidRollout, Strategy},
};

use jiff::Timestamp;

use super::{
    Cluster, Phase, Pod, Sort,
    builtin::Scaled,
    lock,
    slim::{Nothing, ScaledSpec, Slim},
};

/// How a workload is updated, as it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Updates {
    /// The annotation.
    asked: Option<String>,
    /// Whether they are stopped for now.
    pub paused: bool,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// For how long a pod has to be ready until it counts.
    pub min_ready_seconds: u32,
    /// The uid of the workload.
    pub uid: String,
    /// Which state of it this is.
    pub version: String,
}

impl Updates {
    pub(super) fn of<K>(object: &Slim<K, ScaledSpec, Nothing>) -> Self {
        let annotations = object.metadata.annotations.as_ref();
        Self {
            asked: annotations.and_then(|all| all.get(names::ROLLOUT).cloned()),
            paused: object.spec.paused,
            strategy: object.spec.strategy.strategy(),
            min_ready_seconds: object.spec.min_ready_seconds,
            uid: object.metadata.uid.clone().unwrap_or_default(),
            version: object.metadata.resource_version.clone().unwrap_or_default(),
        }
    }

    /// What is to be done about new pods that wait for an address.
    pub fn handling(&self) -> Result<Handling, InvalidRollout> {
        Handling::of(self.asked.as_deref(), self.strategy)
    }

    /// How many pods may have addresses, if so many are wanted.
    pub(super) fn owned(&self, replicas: Option<u32>) -> Option<u32> {
        match self.handling() {
            // Compat: who does not say how many are wanted wants one.
            Ok(handling @ Handling::Surge) => Some(strategy::owned(
                replicas.unwrap_or(1),
                handling,
                self.strategy,
            )),
            Ok(Handling::Handover | Handling::Wait { .. }) | Err(_) => replicas,
        }
    }

    /// Whether anything is different that decisions look at.
    pub(super) fn differ_from(&self, other: &Self) -> bool {
        let Self { uid, version, .. } = other;
        let same = Self {
            uid: uid.clone(),
            version: version.clone(),
            ..self.clone()
        };
        same != *other
    }
}

/// A Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployment {
    /// The wanted pods.
    pub replicas: u32,
    /// The revision that its controller has made last; zero if none yet.
    pub revision: u64,
    /// How it is updated.
    pub updates: Updates,
}

impl Deployment {
    pub(super) fn new(found: &Scaled) -> Self {
        Self {
            replicas: found.replicas.unwrap_or(1),
            revision: found.revision,
            updates: found.updates.clone(),
        }
    }
}

impl Cluster {
    /// A Deployment, if the cache has it.
    pub fn deployment(&self, namespace: &str, name: &str) -> Option<Deployment> {
        let found = self.0.builtin.get(Sort::Deployment, namespace, name);
        found.map(|found| Deployment::new(&found))
    }

    /// The `ReplicaSets` of a Deployment by name, with their revisions.
    pub fn replica_sets(&self, namespace: &str, deployment: &str) -> BTreeMap<String, u64> {
        let is_its = |set: &Scaled| {
            let mut owners = set.owners.iter().filter(|owner| owner.controller);
            owners.any(|owner| {
                owner.kind == "Deployment"
                    && owner.api_version.starts_with("apps/")
                    && owner.name == deployment
            })
        };
        let builtin = &self.0.builtin;
        builtin.look(Sort::ReplicaSet, namespace, |sets| {
            let its = sets.filter(|(_, set)| is_its(set));
            its.map(|(name, set)| (name.to_owned(), set.revision))
                .collect()
        })
    }

    /// The pods of a namespace that want an address and whose owners fit.
    pub fn pods_within(&self, namespace: &str, fits: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let pods = lock(&self.0.pods);
        let all = pods.within(namespace).map(|(_, pod)| pod);
        all.filter(|pod| fits(pod)).cloned().collect()
    }

    /// The newest revision of a Deployment, if one of its pods has an address and is not
    /// available, see [`floe_core::rollout::precedence`]. Whoever is bound has one.
    pub fn unproven(&self, namespace: &str, name: &str) -> Option<u64> {
        let sets = self.replica_sets(namespace, name);
        let (newest, revision) = sets.iter().max_by_key(|(_, revision)| **revision)?;
        let seconds = self.deployment(namespace, name);
        let seconds = seconds.map_or(0, |it| it.updates.min_ready_seconds);
        let now = Timestamp::now();
        let is_fresh = |pod: &Pod| {
            let is_new = replica_set_of(&pod.owners) == Some(newest.as_str());
            let runs = pod.node.is_some() && !pod.terminating && pod.phase != Phase::Finished;
            is_new && runs && !pod.is_available(seconds, now)
        };
        let pods = lock(&self.0.pods);
        let mut within = pods.within(namespace);
        within.any(|(_, pod)| is_fresh(pod)).then_some(*revision)
    }

    /// The Deployment that a pod belongs to, if it belongs to one and the cache knows.
    pub fn deployment_of_pod(&self, pod: &Pod) -> Option<String> {
        self.deployment_of(&pod.namespace, replica_set_of(&pod.owners)?)
    }
}
