//! All pods, with what shared addresses need of them, and which workloads ask for such
//! addresses.
//!
//! Any pod can be selected by a `VirtualIP` that is made later, so all are kept, and kept
//! small: labels, owner and annotations are stored once for all pods that have the same.
//!
//! Whoever looks after shared addresses is told which namespaces have changed, not how:
//! it looks at a whole namespace at a time.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    net::IpAddr,
    sync::{Arc, Mutex},
};

use floe_core::vip::elect::Readiness;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use tokio::sync::Notify;

use super::{
    Cluster, Phase, Sort, lock,
    slim::{self, CALICO_SHARED, FLOE_SHARED, PodObject},
    table::Table,
};
use crate::store::Seen;

/// A pod, as far as shared addresses are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// Its phase.
    pub phase: Phase,
    /// Since when it is ready, in seconds since 1970; none if it is not.
    pub ready_since: Option<i64>,
    /// Whether its deletion was asked for.
    pub terminating: bool,
    /// The addresses that its status shows.
    pub addresses: Vec<IpAddr>,
    /// What it may have in common with others.
    pub shape: Arc<Shape>,
}

/// What pods of one workload have in common.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// Kind and name of the controller, if it is a built-in workload.
    pub controller: Option<(Sort, String)>,
    /// What the annotations ask for.
    pub asks: Option<Asks>,
}

/// The annotations that ask for shared addresses, as they are.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Asks {
    /// By the name that Calico gave it.
    pub calico: Option<String>,
    /// By floe's own name.
    pub floe: Option<String>,
}

/// A workload whose own annotations ask for shared addresses.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Herd {
    /// Its kind.
    pub sort: Sort,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// What they ask for.
    pub asks: Asks,
}

/// The cache. It has one writer, the watch of pods.
#[derive(Debug, Default)]
pub struct Crowd {
    pods: Mutex<Table<Arc<Member>>>,
    shapes: Mutex<Shapes>,
    stirred: Mutex<BTreeSet<String>>,
    bell: Notify,
}

impl Asks {
    /// What the annotations of an object ask for; none if it has none of them.
    pub fn of(metadata: &ObjectMeta) -> Option<Self> {
        let annotations = metadata.annotations.as_ref()?;
        let asks = Self {
            calico: annotations.get(CALICO_SHARED).cloned(),
            floe: annotations.get(FLOE_SHARED).cloned(),
        };
        (asks != Self::default()).then_some(asks)
    }
}

impl Cluster {
    /// All pods of a namespace, by name.
    pub fn members(&self, namespace: &str) -> Vec<Arc<Member>> {
        let mut members: Vec<_> = {
            let pods = lock(&self.0.crowd.pods);
            pods.within(namespace).map(|(_, pod)| pod.clone()).collect()
        };
        members.sort_by(|one, other| one.name.cmp(&other.name));
        members
    }

    /// A pod of any sort.
    pub fn member(&self, namespace: &str, name: &str) -> Option<Arc<Member>> {
        lock(&self.0.crowd.pods).get(namespace, name).cloned()
    }

    /// Workloads of a namespace whose own annotations ask for shared addresses, in
    /// order. A `ReplicaSet` of a Deployment is none: what its annotations say is a copy,
    /// which stays when the Deployment asks no more.
    pub fn herds(&self, namespace: &str) -> Vec<Herd> {
        let mut herds = Vec::new();
        for sort in Sort::ALL {
            for (name, asks, uid) in self.0.builtin.asking(sort, namespace) {
                if sort == Sort::ReplicaSet && self.deployment_of(namespace, &name).is_some() {
                    continue;
                }
                herds.push(Herd {
                    sort,
                    name,
                    uid,
                    asks,
                });
            }
        }
        herds.sort();
        herds
    }

    /// The Deployment that controls a `ReplicaSet`, if one does and the cache knows.
    pub fn deployment_of(&self, namespace: &str, replica_set: &str) -> Option<String> {
        let set = self
            .0
            .builtin
            .get(Sort::ReplicaSet, namespace, replica_set)?;
        let mut owners = set.owners.into_iter();
        let owner = owners.find(|owner| owner.controller)?;
        let is_ours = owner.api_version.starts_with("apps/") && owner.kind == "Deployment";
        is_ours.then_some(owner.name)
    }

    /// Whether it is known of all pods and workloads what they ask for. Without this
    /// nobody can say that something is asked for no more.
    pub fn knows_claims(&self) -> bool {
        let builtin = &self.0.builtin;
        builtin.has_daemon_sets() && builtin.is_complete() && lock(&self.0.crowd.pods).is_complete()
    }

    /// Whether a pod or a workload of a namespace asks for shared addresses.
    pub fn is_asking(&self, namespace: &str) -> bool {
        let by_pod = {
            let pods = lock(&self.0.crowd.pods);
            let mut within = pods.within(namespace);
            within.any(|(_, pod)| pod.shape.asks.is_some())
        };
        by_pod || !self.herds(namespace).is_empty()
    }

    /// The namespaces in which a pod or a workload asks for shared addresses.
    pub fn asking_namespaces(&self) -> BTreeSet<String> {
        let mut all: BTreeSet<String> = self.0.builtin.asking_namespaces().into_iter().collect();
        let pods = lock(&self.0.crowd.pods);
        for namespace in pods.namespaces() {
            let mut within = pods.within(namespace);
            if within.any(|(_, pod)| pod.shape.asks.is_some()) {
                all.insert(namespace.to_owned());
            }
        }
        all
    }

    /// Waits until something has changed, and takes the namespaces that it was in. Only
    /// one may listen. Nothing is lost when this is dropped.
    pub async fn stirred(&self) -> BTreeSet<String> {
        let crowd = &self.0.crowd;
        loop {
            let stirred = mem::take(&mut *lock(&crowd.stirred));
            if !stirred.is_empty() {
                return stirred;
            }
            crowd.bell.notified().await;
        }
    }

    /// Notes namespaces in which something has changed.
    pub(super) fn stir(&self, namespaces: impl IntoIterator<Item = String>) {
        let crowd = &self.0.crowd;
        let grew = {
            let mut stirred = lock(&crowd.stirred);
            let before = stirred.len();
            stirred.extend(namespaces);
            stirred.len() > before
        };
        if grew {
            crowd.bell.notify_one();
        }
    }
}

/// Enters an event of the watch of pods.
pub(super) fn enter(cluster: &Cluster, event: &Event<Seen<PodObject>>) {
    let crowd = &cluster.0.crowd;
    let stirred: Vec<String> = {
        let pods = &mut *lock(&crowd.pods);
        match event {
            Event::Init => {
                pods.begin();
                Vec::new()
            }
            Event::InitApply(Seen::Whole(object)) | Event::Apply(Seen::Whole(object)) => {
                let now = member(object, &mut lock(&crowd.shapes));
                let before = pods.get(&now.namespace, &now.name);
                let differs = before.is_none_or(|old| **old != now);
                let namespace = differs.then(|| now.namespace.clone());
                let (name, now) = (now.name.clone(), Arc::new(now));
                pods.put(&now.namespace.clone(), &name, now);
                namespace.into_iter().collect()
            }
            // Still there, whatever it looks like now.
            Event::InitApply(Seen::Part { metadata, .. })
            | Event::Apply(Seen::Part { metadata, .. }) => {
                let (namespace, name) = named(metadata);
                pods.keep(namespace, name);
                Vec::new()
            }
            Event::InitDone => {
                let gone = pods.end().into_iter();
                gone.map(|(namespace, ..)| namespace).collect()
            }
            Event::Delete(object) => {
                let (namespace, name) = named(kube::Resource::meta(object));
                let known = pods.remove(namespace, name);
                known.map(|_| namespace.to_owned()).into_iter().collect()
            }
        }
    };
    cluster.stir(stirred);
}

fn named(metadata: &ObjectMeta) -> (&str, &str) {
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
    )
}

fn member(object: &PodObject, shapes: &mut Shapes) -> Member {
    let PodObject {
        metadata,
        spec,
        status,
        ..
    } = object;
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let shown = status.pod_ips.iter().map(|it| &it.ip);
    let shown = shown.chain([&status.pod_ip]).flatten();
    let mut addresses = Vec::new();
    for address in shown.filter_map(|text| text.parse().ok()) {
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let condition = |sort: &str| status.conditions.iter().find(|it| it.sort == sort);
    let (ready, containers) = (condition("Ready"), condition("ContainersReady"));
    let readiness = Readiness {
        ready: ready.map_or("", |it| &it.status),
        reason: ready.map_or("", |it| &it.reason),
        containers: containers.map_or("", |it| &it.status),
    };
    let is_marked = ready.is_some_and(|it| it.status == "False");
    let ready = if is_marked { containers } else { ready };
    let ready = ready.filter(|_| readiness.is_ready());
    let created = metadata.creation_timestamp.as_ref();
    let controller = slim::owners(metadata)
        .into_iter()
        .find(|owner| owner.controller && owner.api_version.starts_with("apps/"));
    Member {
        namespace: text(&metadata.namespace),
        name: text(&metadata.name),
        uid: text(&metadata.uid),
        node: spec.node_name.clone().filter(|name| !name.is_empty()),
        phase: Phase::of(status.phase.as_deref()),
        ready_since: ready.map(|it| {
            let since = it.since.as_ref().or(created);
            since.map_or(0, |since| since.0.as_second())
        }),
        terminating: metadata.deletion_timestamp.is_some(),
        addresses,
        shape: shapes.share(Shape {
            labels: metadata.labels.clone().unwrap_or_default(),
            controller: controller.and_then(|owner| {
                let mut sorts = Sort::ALL.into_iter();
                let sort = sorts.find(|sort| sort.kind() == owner.kind)?;
                Some((sort, owner.name))
            }),
            asks: Asks::of(metadata),
        }),
    }
}

/// Shapes that pods have, each once.
#[derive(Debug, Default)]
struct Shapes {
    known: BTreeSet<Arc<Shape>>,
    /// At how many those that nobody has any more are dropped.
    limit: usize,
}

impl Shapes {
    fn share(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(known) = self.known.get(&shape) {
            return known.clone();
        }
        if self.known.len() >= self.limit {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.limit = (self.known.len() * 2).max(256);
        }
        let shape = Arc::new(shape);
        self.known.insert(shape.clone());
        shape
    }
}

#[cfg(test)]
mod tests;
