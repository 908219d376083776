//! Watches of the custom kinds that somebody asked for.

use std::{
    collections::{BTreeMap, BTreeSet},
    pin::pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use floe_core::ipam::owner::{App, AppKind};
use floe_shell::{backoff, logs};
use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::{
    Api, Client,
    api::DynamicObject,
    runtime::watcher::{self, Config, Event, watcher},
};
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep},
};
use tracing::{debug, info, warn};

use super::{kinds::Kind, replicas::Found};
use crate::cluster::{Change, Cluster, ask::Failure, lock, table::Table};

/// The pause after a watch was refused for lack of a right. Answers do not wait
/// for it: they are read directly until the watch works.
const REFUSED: Duration = Duration::from_secs(30);

/// The time after which a failure is a new one.
const FORGIVEN: Duration = Duration::from_mins(1);

/// The kinds that are watched.
#[derive(Debug, Default)]
pub struct Watches {
    kinds: Mutex<Kinds>,
    /// Told when there are new ones.
    wanted: Notify,
}

#[derive(Debug, Default)]
struct Kinds {
    /// By plural and group.
    watched: BTreeMap<String, Arc<Watched>>,
    /// Those of them whose watch was not started yet.
    new: Vec<Arc<Watched>>,
}

#[derive(Debug)]
struct Watched {
    kind: Kind,
    state: Mutex<State>,
    /// Told when another version or path of the kind has taken its place.
    replaced: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The forms in which workloads of this kind are spoken of.
    spoken: BTreeSet<AppKind>,
    objects: Table<Found>,
    /// Whether the objects are current.
    works: bool,
}

impl Watches {
    /// Asks for a watch of a kind; `spoken` is how its workloads are spoken of.
    pub fn want(&self, kind: &Kind, spoken: &AppKind) {
        let kinds = &mut *lock(&self.kinds);
        let name = kind.served.to_string();
        let watched = match kinds.watched.get(&name) {
            Some(watched) if watched.kind == *kind => watched.clone(),
            old => {
                let watched = Arc::new(Watched {
                    kind: kind.clone(),
                    state: Mutex::default(),
                    replaced: Notify::new(),
                });
                if let Some(old) = old {
                    let spoken = &lock(&old.state).spoken;
                    lock(&watched.state).spoken.clone_from(spoken);
                    old.replaced.notify_one();
                }
                kinds.watched.insert(name, watched.clone());
                kinds.new.push(watched.clone());
                self.wanted.notify_one();
                watched
            }
        };
        let mut state = lock(&watched.state);
        if !state.spoken.contains(spoken) {
            state.spoken.insert(spoken.clone());
        }
    }

    /// The replicas of an object, if a watch that works has it.
    pub fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Found> {
        let watched = {
            let kinds = lock(&self.kinds);
            kinds.watched.get(&kind.served.to_string())?.clone()
        };
        let state = lock(&watched.state);
        if !state.works || watched.kind != *kind {
            return None;
        }
        let namespace = if kind.served.namespaced {
            namespace
        } else {
            ""
        };
        state.objects.get(namespace, name).cloned()
    }

    /// Runs the watches that are asked for, forever.
    pub async fn run(&self, client: &Client, cluster: &Cluster, rewinds: &watch::Receiver<u64>) {
        let mut running = FuturesUnordered::new();
        loop {
            for watched in std::mem::take(&mut lock(&self.kinds).new) {
                running.push(self.follow(watched, client, cluster, rewinds.clone()));
            }
            tokio::select! {
                () = self.wanted.notified() => {}
                Some(()) = running.next() => {}
            }
        }
    }

    /// Follows a kind until something else takes its place, or it is not served
    /// any more; then whoever asks next finds out how it is served.
    async fn follow(
        &self,
        watched: Arc<Watched>,
        client: &Client,
        cluster: &Cluster,
        rewinds: watch::Receiver<u64>,
    ) {
        tokio::select! {
            () = watched.replaced.notified() => {}
            () = watched.follow(client, cluster, rewinds) => {
                let kinds = &mut *lock(&self.kinds);
                let name = watched.kind.served.to_string();
                if kinds.watched.get(&name).is_some_and(|it| Arc::ptr_eq(it, &watched)) {
                    kinds.watched.remove(&name);
                }
            }
        }
    }
}

impl Watched {
    async fn follow(&self, client: &Client, cluster: &Cluster, mut rewinds: watch::Receiver<u64>) {
        let served = &self.kind.served;
        let what = served.to_string();
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &served.resource());
        let mut failures = 0;
        loop {
            let begin = Instant::now();
            let error = tokio::select! {
                error = self.watch(&api, cluster) => error,
                // The watch would stay silent: it begins anew.
                Ok(()) = rewinds.changed() => continue,
            };
            lock(&self.state).works = false;
            let failure = self.failure(&error);
            if failure == Failure::NotFound {
                info!(what, "a custom workload is not served any more");
                return;
            }
            if begin.elapsed() > FORGIVEN {
                failures = 0;
            }
            if failures == 0 {
                warn!(reason = "WatchFailed", what, error = %failure, "watch fails");
            } else {
                debug!(what, error = %failure, failures, "watch still fails");
            }
            let pause = match failure {
                Failure::Forbidden(_) => REFUSED,
                Failure::NotFound | Failure::Failed(_) | Failure::Silent(_) => backoff(failures),
            };
            failures += 1;
            sleep(pause).await;
        }
    }

    /// Lists and watches until the first failure, which it returns. Whoever starts
    /// again begins with a list, and so knows when it works again.
    async fn watch(&self, api: &Api<DynamicObject>, cluster: &Cluster) -> watcher::Error {
        let mut events = pin!(watcher(api.clone(), Config::default()));
        loop {
            match events.next().await {
                Some(Ok(event)) => cluster.tell(self.enter(event)),
                // Too old to go on from: a new list follows.
                Some(Err(watcher::Error::WatchError(status))) if status.code == 410 => {}
                Some(Err(error)) => return error,
                None => return watcher::Error::NoResourceVersion,
            }
        }
    }

    fn enter(&self, event: Event<DynamicObject>) -> Vec<Change> {
        let state = &mut *lock(&self.state);
        match event {
            Event::Init => {
                state.objects.begin();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let first = !state.objects.is_complete();
                let (namespace, name) = named(&object);
                let found = self.kind.replicas_of(&object);
                let before = state.objects.put(namespace, name, found.clone());
                if first || before == Some(found) {
                    return Vec::new();
                }
                self.changes(state, namespace, name)
            }
            Event::InitDone => {
                let gone = state.objects.end();
                state.works = true;
                let mut changes = Vec::new();
                for (namespace, name, _) in gone {
                    changes.extend(self.changes(state, &namespace, &name));
                }
                changes.push(Change::Relisted);
                changes
            }
            Event::Delete(object) => {
                let (namespace, name) = named(&object);
                state.objects.remove(namespace, name);
                self.changes(state, namespace, name)
            }
        }
    }

    fn changes(&self, state: &State, namespace: &str, name: &str) -> Vec<Change> {
        if !self.kind.served.namespaced {
            // Its pods may be in any namespace.
            return vec![Change::Relisted];
        }
        let spoken = state.spoken.iter();
        spoken
            .map(|kind| {
                Change::Workload(App {
                    kind: kind.clone(),
                    namespace: namespace.into(),
                    name: name.into(),
                })
            })
            .collect()
    }

    fn failure(&self, error: &watcher::Error) -> Failure {
        let right = self.kind.served.right();
        match error {
            watcher::Error::InitialListFailed(error)
            | watcher::Error::WatchStartFailed(error)
            | watcher::Error::WatchFailed(error) => Failure::of(error, right),
            watcher::Error::WatchError(status) => {
                Failure::of(&kube::Error::Api(status.clone()), right)
            }
            watcher::Error::NoResourceVersion => Failure::Failed(logs::with_causes(error)),
        }
    }
}

fn named(object: &DynamicObject) -> (&str, &str) {
    let meta = &object.metadata;
    (
        meta.namespace.as_deref().unwrap_or_default(),
        meta.name.as_deref().unwrap_or_default(),
    )
}
