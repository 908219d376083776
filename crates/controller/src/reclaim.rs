//! Addresses whose pods are gone: what becomes of them, and when.
//!
//! Work comes in items that name what to look at: a pod name, or a workload. An
//! item that was asked for many times is worked on once, by what is true then. So
//! events may come late, twice or in any order, and one that never comes is made
//! up for by a check of all records that asks for the same items.
//!
//! - [`settle`]: the work on an item.
//! - [`sight`]: the direct look for a pod.
//! - [`check`]: the check of all records.
//! - [`silence`]: pods on nodes that do not answer.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use floe_core::ipam::{owner::App, slot::Departure, suspect::Suspicion};
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::Client;
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, warn};

use self::settle::Settler;
use crate::{
    cloud::Cloud,
    cluster::{Change, Cluster, Phase, Pod, Workloads},
    duty::Duty,
    leader::Standing,
    metrics::Metrics,
    queue::{Merge, Queue},
    records::Records,
    report::Reporter,
    store::{News, Store},
    turns::Turns,
    waiting::Waiting,
};

mod check;
mod settle;
pub mod sight;
mod silence;

/// How many items are worked on at a time; most of them may wait for the cloud. A
/// bind has to find room there as well, see [`Pace`](floe_providers::Pace).
const PARALLEL: usize = 48;

/// How many of them ask the API server.
const ASKING: usize = 16;

/// The longest time between two checks of all records: three of them fit into the
/// minute within which everything is found whose events were lost.
const LONGEST_PACE: Duration = Duration::from_secs(20);

/// The shortest one, whatever galaxy's file says.
const SHORTEST_PACE: Duration = Duration::from_secs(1);

/// Keeps records true to the pods.
pub struct Reclaimer {
    /// The way to the API server, to look for pods.
    pub client: Client,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// What pods belong to.
    pub workloads: Workloads,
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// The cloud around the cluster.
    pub cloud: Cloud,
    /// One at a time for each pod name.
    pub turns: Turns,
    /// Who waits.
    pub waiting: Waiting,
    /// Where it is told.
    pub reporter: Reporter,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
    /// The time between two of galaxy's full checks. floe checks three times as
    /// often at least.
    pub interval: Duration,
}

impl Reclaimer {
    /// Acts on changes, and looks for whatever was missed, until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        duty.each_term(stop, || self.act(), || ()).await;
    }

    async fn act(&self) {
        let mut changes = self.cluster.changes();
        let mut news = self.store.news();
        let settler = Settler::new(self);
        let mut queue = Queue::new(PARALLEL);
        let mut work = FuturesUnordered::new();
        let pace = (self.interval / 3).clamp(SHORTEST_PACE, LONGEST_PACE);
        let mut next_check = Instant::now();
        self.warn_of_silent_nodes(None);
        loop {
            let now = Instant::now();
            if next_check <= now {
                queue.add(Item::Check, Evidence::default(), now);
                next_check = now + pace;
            }
            while let Some((item, evidence)) = queue.next(now) {
                let settler = &settler;
                work.push(async move {
                    let result = settler.settle(&item, &evidence).await;
                    (item, evidence, result)
                });
            }
            let wake = queue
                .next_due()
                .map_or(next_check, |due| due.min(next_check));
            tokio::select! {
                change = changes.recv() => self.note_change(change, &mut queue),
                told = news.recv() => self.note_news(&told, &mut queue),
                Some((item, evidence, result)) = work.next() => {
                    let failed = match result {
                        Ok(more) => {
                            for item in more {
                                queue.add(item, Evidence::default(), Instant::now());
                            }
                            None
                        }
                        Err(failure) => {
                            tell_failure(&item, &failure);
                            self.metrics.reclaimed("failed", failure.reason());
                            Some(evidence)
                        }
                    };
                    queue.done(item, failed, Instant::now());
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn note_change(&self, change: Result<Change, RecvError>, queue: &mut Queue<Item, Evidence>) {
        let now = Instant::now();
        match change {
            Ok(Change::Pod { now: pod, before }) => {
                if let Some(before) = before.filter(|before| before.uid != pod.uid) {
                    queue.add(Item::of_pod(&before), Evidence::gone(before), now);
                }
                if pod.phase == Phase::Finished {
                    queue.add(Item::of_pod(&pod), Evidence::finished(pod), now);
                }
            }
            Ok(Change::PodGone(pod)) => {
                self.part_with(&pod);
                queue.add(Item::of_pod(&pod), Evidence::gone(pod), now);
            }
            // A list alone is no proof.
            Ok(Change::PodMissing(pod)) => {
                self.part_with(&pod);
                queue.add(Item::of_pod(&pod), Evidence::default(), now);
            }
            Ok(Change::Workload(app)) => queue.add(Item::App(app), Evidence::default(), now),
            Ok(Change::NodeReadiness(node)) => self.warn_of_silent_nodes(Some(&node)),
            Ok(Change::Relisted) | Err(RecvError::Lagged(_)) => {
                queue.add(Item::Check, Evidence::default(), now);
            }
            // When a node goes its pods follow, and each of them is told. Nobody
            // closes before the caches are gone, and they live as long as this.
            Ok(Change::Node(_) | Change::NodeLooks(_)) | Err(RecvError::Closed) => {}
        }
    }

    fn part_with(&self, pod: &Pod) {
        self.waiting.leave(&pod.uid);
        self.reporter.forget(&pod.uid);
    }

    fn note_news(&self, news: &Result<News, RecvError>, queue: &mut Queue<Item, Evidence>) {
        let now = Instant::now();
        match news {
            // A record for a pod that is gone already: a bind was too late.
            Ok(News::Changed(ip)) => {
                let record = self.store.read(|books| books.ledger().record(*ip).cloned());
                let suspicion = record.and_then(|record| {
                    let suspicion = self.suspicion(&record);
                    suspicion.filter(|_| !record.is_idle())
                });
                if let Some(suspicion) = suspicion {
                    queue.add(suspicion.into(), Evidence::default(), now);
                }
            }
            Ok(News::Configured | News::Relisted) | Err(RecvError::Lagged(_)) => {
                queue.add(Item::Check, Evidence::default(), now);
            }
            Ok(News::Freed(_) | News::Pool(_)) | Err(RecvError::Closed) => {}
        }
    }
}

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// All records.
    Check,
    /// The records of the pods that have or had a name.
    Pod { namespace: String, pod: String },
    /// What waits for a workload.
    App(App),
}

impl Item {
    fn of_pod(pod: &Pod) -> Self {
        Self::Pod {
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
        }
    }
}

impl From<Suspicion> for Item {
    fn from(suspicion: Suspicion) -> Self {
        match suspicion {
            Suspicion::Pod { namespace, pod } => Self::Pod { namespace, pod },
            Suspicion::App(app) => Self::App(app),
        }
    }
}

/// Pods that are known to run no more, by their uids. A uid never comes back, so
/// they need no further look.
#[derive(Clone, Debug, Default)]
struct Evidence(BTreeMap<String, (Arc<Pod>, Departure)>);

impl Evidence {
    fn gone(pod: Arc<Pod>) -> Self {
        Self(BTreeMap::from([(
            pod.uid.clone(),
            (pod, Departure::Deleted),
        )]))
    }

    fn finished(pod: Arc<Pod>) -> Self {
        Self(BTreeMap::from([(
            pod.uid.clone(),
            (pod, Departure::Finished),
        )]))
    }

    /// What is known of the pod of a record. One without uid can be of any pod.
    fn about(&self, uid: &str) -> Option<&(Arc<Pod>, Departure)> {
        (!uid.is_empty()).then(|| self.0.get(uid)).flatten()
    }
}

impl Merge for Evidence {
    fn merge(&mut self, other: Self) -> bool {
        let before = self.0.len();
        self.0.extend(other.0);
        self.0.len() > before
    }
}

fn tell_failure(item: &Item, failure: &settle::Failure) {
    let (reason, error) = (failure.reason(), failure);
    if failure.is_conflict() {
        debug!(reason, ?item, %error, "will look again");
    } else {
        warn!(reason, ?item, %error, "address is not reclaimed yet, trying again");
    }
}

#[cfg(test)]
pub mod scene;
#[cfg(test)]
mod tests;
