//! Deployments, `ReplicaSets`, `StatefulSets` and `DaemonSets`, and how their events are
//! entered.

use std::sync::Mutex;

use floe_core::ipam::{
    owner::{App, AppKind, OwnerRef},
    workload::State,
};
use kube::runtime::watcher::Event;
use tracing::warn;

use super::{
    Asks, Change, Cluster,
    deployments::Updates,
    lock,
    slim::{self, Nothing, REVISION, ScaledSpec, Slim},
    table::Table,
};
use crate::store::Seen;

/// The caches of workloads that Kubernetes brings along.
#[derive(Debug, Default)]
pub struct Builtin {
    deployments: Mutex<Table<Scaled>>,
    replica_sets: Mutex<Table<Scaled>>,
    stateful_sets: Mutex<Table<Scaled>>,
    daemon_sets: Mutex<Table<Scaled>>,
}

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sort {
    /// Deployments.
    Deployment,
    /// `ReplicaSets`, with or without a Deployment.
    ReplicaSet,
    /// `StatefulSets`.
    StatefulSet,
    /// `DaemonSets`, which matter only for what their annotations ask for.
    DaemonSet,
}

impl Sort {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Deployment,
        Self::ReplicaSet,
        Self::StatefulSet,
        Self::DaemonSet,
    ];

    /// The kind, as an object names it.
    pub fn kind(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
        }
    }
}

/// A workload that Kubernetes brings along.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scaled {
    /// Who controls it.
    pub owners: Vec<OwnerRef>,
    /// Which revision of its Deployment it is; zero for anything else.
    pub revision: u64,
    /// The wanted pods.
    pub replicas: Option<u32>,
    /// The number of the first pod.
    pub first_ordinal: u32,
    /// The shared addresses that its annotations ask for, if they ask, and its uid.
    pub asks: Option<(Asks, String)>,
    /// How it is updated; means something for Deployments only.
    pub updates: Updates,
}

impl Builtin {
    /// A workload, if the cache has it.
    pub fn get(&self, sort: Sort, namespace: &str, name: &str) -> Option<Scaled> {
        lock(self.table(sort)).get(namespace, name).cloned()
    }

    /// Workloads of a namespace whose annotations ask for shared addresses.
    pub fn asking(&self, sort: Sort, namespace: &str) -> Vec<(String, Asks, String)> {
        let table = lock(self.table(sort));
        let all = table.within(namespace);
        let asking = all.filter_map(|(name, object)| {
            let (asks, uid) = object.asks.clone()?;
            Some((name.to_owned(), asks, uid))
        });
        asking.collect()
    }

    /// The namespaces with such workloads.
    pub fn asking_namespaces(&self) -> Vec<String> {
        let mut names = Vec::new();
        for sort in Sort::ALL {
            let table = lock(self.table(sort));
            let asking = table.iter().filter(|(_, _, object)| object.asks.is_some());
            names.extend(asking.map(|(namespace, ..)| namespace.to_owned()));
        }
        names
    }

    /// Whether the first list of `DaemonSets` is in. Nothing else waits for it: the
    /// right to read them came later than the others.
    pub fn has_daemon_sets(&self) -> bool {
        lock(&self.daemon_sets).is_complete()
    }

    /// Whether all of the first lists are in that decide about pods' own addresses.
    pub fn is_complete(&self) -> bool {
        let all = [Sort::Deployment, Sort::ReplicaSet, Sort::StatefulSet];
        all.into_iter()
            .all(|sort| lock(self.table(sort)).is_complete())
    }

    /// Looks at the workloads of a namespace, with their names.
    pub fn look<R>(
        &self,
        sort: Sort,
        namespace: &str,
        look: impl FnOnce(&mut dyn Iterator<Item = (&str, &Scaled)>) -> R,
    ) -> R {
        look(&mut lock(self.table(sort)).within(namespace))
    }

    fn table(&self, sort: Sort) -> &Mutex<Table<Scaled>> {
        match sort {
            Sort::Deployment => &self.deployments,
            Sort::ReplicaSet => &self.replica_sets,
            Sort::StatefulSet => &self.stateful_sets,
            Sort::DaemonSet => &self.daemon_sets,
        }
    }
}

impl<K> From<Slim<K, ScaledSpec, Nothing>> for Scaled {
    fn from(object: Slim<K, ScaledSpec, Nothing>) -> Self {
        let annotations = object.metadata.annotations.as_ref();
        let revision = annotations.and_then(|all| all.get(REVISION)?.parse().ok());
        Self {
            owners: slim::owners(&object.metadata),
            revision: revision.unwrap_or(0),
            replicas: object.spec.replicas,
            first_ordinal: object.spec.ordinals.start,
            asks: Asks::of(&object.metadata)
                .map(|asks| (asks, object.metadata.uid.clone().unwrap_or_default())),
            updates: Updates::of(&object),
        }
    }
}

impl Scaled {
    /// What it says about addresses. A Deployment that has some for the pods beside its
    /// replicas (`floe.dev/rollout: surge`) counts as if it had so many replicas.
    pub fn state(&self) -> State {
        State::Exists {
            replicas: self.updates.owned(self.replicas),
            first_ordinal: self.first_ordinal,
        }
    }

    fn is_controlled(&self) -> bool {
        self.owners.iter().any(|owner| owner.controller)
    }
}

/// Enters an event of a watch, and tells what it changes.
pub fn enter<K: kube::Resource>(
    cluster: &Cluster,
    sort: Sort,
    event: Event<Seen<Slim<K, ScaledSpec, Nothing>>>,
) {
    let mut stirred = Vec::new();
    let changes = {
        let table = &mut *lock(cluster.0.builtin.table(sort));
        match event {
            Event::Init => {
                table.begin();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let (change, stirs) = apply(table, sort, object);
                stirred.extend(stirs);
                change.into_iter().collect()
            }
            Event::InitDone => {
                let gone = table.end();
                let asking = gone.iter().filter(|(_, _, old)| old.asks.is_some());
                stirred.extend(asking.map(|(namespace, ..)| namespace.clone()));
                let gone = gone.into_iter();
                let gone = gone.filter_map(|(namespace, name, old)| {
                    app(sort, &namespace, &name, &old).map(Change::Workload)
                });
                // Of DaemonSets nobody needs to know more than what they ask for.
                let relisted = (sort != Sort::DaemonSet).then_some(Change::Relisted);
                gone.chain(relisted).collect()
            }
            Event::Delete(object) => {
                let (namespace, name) = named(&object);
                let known = table.remove(&namespace, &name);
                stirred.extend(
                    known
                        .iter()
                        .filter_map(|old| old.asks.as_ref().map(|_| namespace.clone())),
                );
                let app = known.and_then(|old| app(sort, &namespace, &name, &old));
                app.map(Change::Workload).into_iter().collect()
            }
        }
    };
    cluster.tell(changes);
    cluster.stir(stirred);
}

/// What it changes, and the namespace whose claims of shared addresses it changes.
fn apply<K: kube::Resource>(
    table: &mut Table<Scaled>,
    sort: Sort,
    object: Seen<Slim<K, ScaledSpec, Nothing>>,
) -> (Option<Change>, Option<String>) {
    let (namespace, name) = named(&object);
    let now = match object {
        Seen::Whole(object) => Scaled::from(object),
        Seen::Part { error, .. } => {
            warn!(
                reason = "WorkloadUnreadable",
                sort = ?sort, namespace, name, error,
                "a workload cannot be read",
            );
            // What the cache does not have is read directly, and then the same
            // problem has a reason that people see.
            table.remove(&namespace, &name);
            return (None, Some(namespace));
        }
    };
    let first = !table.is_complete();
    let before = table.put(&namespace, &name, now.clone());
    let asked = before.as_ref().and_then(|old| old.asks.as_ref());
    let stirs = (asked != now.asks.as_ref()).then(|| namespace.clone());
    if first || before.is_some_and(|old| !matters(sort, &old, &now)) {
        return (None, stirs);
    }
    let change = app(sort, &namespace, &name, &now).map(Change::Workload);
    (change, stirs)
}

/// Whether a difference can matter to anybody. The size of a `ReplicaSet` counts
/// only if nobody controls it: otherwise its controller says what is wanted.
fn matters(sort: Sort, old: &Scaled, now: &Scaled) -> bool {
    let inner = sort == Sort::ReplicaSet && now.is_controlled();
    old.owners != now.owners
        || old.revision != now.revision
        || old.first_ordinal != now.first_ordinal
        || (sort == Sort::Deployment && old.updates.differ_from(&now.updates))
        || (!inner && old.replicas != now.replicas)
}

/// What a change of an object is a change of.
fn app(sort: Sort, namespace: &str, name: &str, object: &Scaled) -> Option<App> {
    let kind = match sort {
        Sort::Deployment => AppKind::Deployment,
        Sort::StatefulSet => AppKind::StatefulSet,
        // Nothing depends on how many there are.
        Sort::DaemonSet => return None,
        Sort::ReplicaSet => {
            let owner = OwnerRef {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: name.into(),
                controller: true,
            };
            return App::of_pod(namespace, &[owner], Some(&object.owners)).ok();
        }
    };
    Some(App {
        kind,
        namespace: namespace.into(),
        name: name.into(),
    })
}

fn named(object: &impl kube::Resource) -> (String, String) {
    let meta = object.meta();
    (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    )
}
