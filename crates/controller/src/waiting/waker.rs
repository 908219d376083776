//! Looks for whom there is room, and wakes them.

use std::{net::IpAddr, sync::Arc, time::Duration};

use floe_core::{
    ipam::key::{HolderKey, KeyParts},
    schedule::{
        filter::Offer,
        wake::{self, Candidate},
    },
};
use floe_shell::{logs, stop::Stop};
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as PodObject;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::{Semaphore, broadcast, broadcast::error::RecvError, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval_at, timeout},
};
use tracing::{debug, info, warn};

use super::{Room, WOKEN, Waiting, line::Called, rooms::Rooms};
use crate::{
    claims::Claims,
    clock,
    cluster::{Change, Cluster, Phase, Pod},
    desk,
    duty::Duty,
    gates::Calls,
    leader::Standing,
    metrics::Metrics,
    store::{News, Store},
};

/// How often promises are looked at.
const LAPSES: Duration = Duration::from_secs(1);

/// How often everybody is looked at, for what no event told.
const REGULARLY: Duration = Duration::from_secs(10);

/// So many pods are woken at once.
const PATCHES: usize = 16;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Wakes the pods for which there is room.
pub struct Waker {
    /// The way to the API server, for the annotation.
    pub client: Client,
    /// What pods ask for.
    pub claims: Claims,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Who waits.
    pub waiting: Waiting,
    /// Where pods are called that have no scheduler to try them.
    pub calls: Calls,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Waker {
    /// Wakes pods until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        // The next leader has its own line.
        let forget = || self.waiting.clear();
        duty.each_term(stop, || self.act(), forget).await;
    }

    async fn act(&self) {
        let mut work = Work {
            waker: self,
            news: self.store.news(),
            changes: self.cluster.changes(),
            patches: JoinSet::new(),
            permits: Arc::new(Semaphore::new(PATCHES)),
        };
        work.greet();
        work.go_on().await;
    }
}

/// One time of leading. What is under way ends with it.
struct Work<'a> {
    waker: &'a Waker,
    news: broadcast::Receiver<News>,
    changes: broadcast::Receiver<Change>,
    patches: JoinSet<()>,
    permits: Arc<Semaphore>,
}

impl Work<'_> {
    /// A leader before may have refused pods and told nobody: each one that is not
    /// bound is woken once.
    fn greet(&mut self) {
        let pods = self.waker.cluster.pods();
        let unbound: Vec<&Arc<Pod>> = pods.iter().filter(|pod| is_unbound(pod)).collect();
        if !unbound.is_empty() {
            info!(pods = unbound.len(), "waking all pods that are not bound");
        }
        for pod in unbound {
            self.wake(&pod.namespace, &pod.name, &pod.uid);
        }
    }

    async fn go_on(&mut self) {
        let mut lapses = every(LAPSES);
        let mut regularly = every(REGULARLY);
        loop {
            let mut is_regular = false;
            let mut rooms = Rooms::default();
            tokio::select! {
                told = self.waker.waiting.news() => rooms = told,
                news = self.news.recv() => self.note_news(news, &mut rooms),
                change = self.changes.recv() => self.note_change(change, &mut rooms),
                Some(_) = self.patches.join_next() => {}
                _ = lapses.tick() => self.lapse(&mut rooms),
                _ = regularly.tick() => is_regular = true,
            }
            if is_regular {
                self.forget_bound();
            } else {
                // What comes at once is looked at together.
                self.drain(&mut rooms);
            }
            if is_regular || !rooms.is_empty() {
                self.round(rooms, is_regular).await;
            }
        }
    }

    fn drain(&mut self, rooms: &mut Rooms) {
        use broadcast::error::TryRecvError::{Closed, Empty, Lagged};
        loop {
            match self.news.try_recv() {
                Ok(news) => self.note_news(Ok(news), rooms),
                Err(Lagged(missed)) => self.note_news(Err(RecvError::Lagged(missed)), rooms),
                Err(Empty | Closed) => break,
            }
        }
        loop {
            match self.changes.try_recv() {
                Ok(change) => self.note_change(Ok(change), rooms),
                Err(Lagged(missed)) => self.note_change(Err(RecvError::Lagged(missed)), rooms),
                Err(Empty | Closed) => break,
            }
        }
        rooms.join(&self.waker.waiting.take_rooms());
    }

    fn note_news(&self, news: Result<News, RecvError>, rooms: &mut Rooms) {
        let room = match news {
            Ok(News::Freed(ip)) => Some(Room::Address(ip)),
            Ok(News::Changed(ip)) => self.group_of(ip).map(Room::InGroup),
            Ok(News::Pool(name)) => Some(Room::InGroup(HolderKey::lookup(&KeyParts {
                pool: Some(&name),
                ..KeyParts::default()
            }))),
            Ok(News::Configured | News::Relisted) | Err(RecvError::Lagged(_)) => {
                Some(Room::Anywhere)
            }
            Err(RecvError::Closed) => None,
        };
        if let Some(room) = room {
            rooms.add(room);
        }
    }

    fn note_change(&mut self, change: Result<Change, RecvError>, rooms: &mut Rooms) {
        match change {
            Ok(Change::Pod { now, .. }) if !is_unbound(&now) => {
                self.waker.waiting.leave(&now.uid);
            }
            // Floe itself has changed it, and nothing is left to ask for.
            Ok(Change::Pod {
                now,
                before: Some(before),
            }) if before.gate.is_some() && now.gate.is_none() => {
                self.waker.waiting.leave(&now.uid);
            }
            Ok(Change::Pod { now, before }) => {
                // The scheduler may have seen the change before this process did, and
                // may have been refused what was asked for until then.
                if before.is_some_and(|before| !before.asks_like(&now)) {
                    self.wake(&now.namespace, &now.name, &now.uid);
                }
            }
            Ok(Change::PodGone(pod) | Change::PodMissing(pod)) => {
                self.waker.waiting.leave(&pod.uid);
                self.withdraw(&pod.uid, rooms);
            }
            Ok(Change::Workload(_)) => {
                self.revise();
                rooms.add(Room::Anywhere);
            }
            Ok(Change::Node(_)) => rooms.add(Room::Anywhere),
            Ok(Change::Relisted) | Err(RecvError::Lagged(_)) => {
                self.forget_bound();
                self.revise();
                rooms.add(Room::Anywhere);
            }
            // Only pods that no scheduler tries are concerned: it knows itself what
            // its nodes look like.
            Ok(Change::NodeLooks(_)) => {
                let is_gated = |pod: &Arc<Pod>| pod.gate.is_some();
                if self.waker.cluster.pods().iter().any(is_gated) {
                    rooms.add(Room::Anywhere);
                }
            }
            // A node that is not ready is not offered; the scheduler itself knows
            // whom to try when it is.
            Ok(Change::NodeReadiness(_)) | Err(RecvError::Closed) => {}
        }
    }

    /// The group of a record that has changed: it may have become a spare, or its
    /// last pod may be gone.
    fn group_of(&self, ip: IpAddr) -> Option<HolderKey> {
        self.waker
            .store
            .read(|books| books.ledger().record(ip)?.key.group_key())
    }

    /// What was promised to a pod that is gone is there for others. The promise of
    /// a bind, which lasts longer, is for the binder to take back.
    fn withdraw(&self, uid: &str, rooms: &mut Rooms) {
        let latest = clock::now().saturating_add(desk::PROMISE);
        let group = self.waker.store.change(|books| {
            let promise = books.ledger().promise_to(uid)?;
            let is_of_filter = latest.is_ok_and(|latest| promise.until <= latest);
            let group = is_of_filter.then(|| promise.group.clone())?;
            books.promise(uid, None);
            Some(group)
        });
        if let Some(group) = group {
            rooms.add(Room::InGroup(group));
        }
    }

    fn lapse(&self, rooms: &mut Rooms) {
        let now = clock::now();
        if self.waker.store.change(|books| books.lapse(now)) {
            rooms.add(Room::Anywhere);
        }
    }

    /// Going back to an older version makes it the newest one.
    fn revise(&self) {
        self.waker.waiting.revise(|claimant| {
            let pod = self
                .waker
                .cluster
                .pod(&claimant.namespace, &claimant.name)?;
            (pod.uid == claimant.uid).then(|| self.waker.claims.revision(&pod))
        });
    }

    /// Those leave whose end was missed.
    fn forget_bound(&self) {
        let pods = self.waker.cluster.pods();
        let mut unbound: Vec<&str> = pods
            .iter()
            .filter(|pod| is_unbound(pod))
            .map(|pod| pod.uid.as_str())
            .collect();
        unbound.sort_unstable();
        self.waker
            .waiting
            .keep(|uid| unbound.binary_search(&uid).is_ok());
    }

    /// Wakes those for whom there is room.
    async fn round(&mut self, rooms: Rooms, is_regular: bool) {
        let mut line = self.waker.waiting.called(&rooms, is_regular);
        // Some may have to be read, and must not hold up all others.
        let refreshed = stream::iter(&mut line);
        refreshed
            .for_each_concurrent(PATCHES, |called| self.refresh(called))
            .await;
        if !line.iter().any(|called| called.wake) {
            return;
        }
        let nodes = self.waker.cluster.all_nodes();
        let offers: Vec<Offer<'_>> = nodes
            .iter()
            .map(|(node, address)| Offer {
                node,
                address: *address,
            })
            .collect();
        let candidates: Vec<Candidate<'_>> = line
            .iter()
            .map(|called| Candidate {
                claimant: &called.claimant,
                reserves: called.reserves,
            })
            .collect();
        let served = self
            .waker
            .store
            .change(|books| books.try_out(|ledger| wake::round(ledger, &candidates, &offers)));
        let woken: Vec<&Called> = served
            .into_iter()
            .map(|place| &line[place])
            .filter(|called| called.wake)
            .collect();
        let uids: Vec<&str> = woken.iter().map(|it| it.claimant.uid.as_str()).collect();
        self.waker.waiting.woken(&uids, &Arc::new(rooms));
        for called in woken {
            let pod = &called.claimant;
            self.wake(&pod.namespace, &pod.name, &pod.uid);
        }
    }

    /// Limits and annotations may be others than when the pod was refused. If they
    /// cannot be told, those of then must do: it is only about waking.
    async fn refresh(&self, called: &mut Called) {
        let known = &called.claimant;
        let pod = self.waker.cluster.pod(&known.namespace, &known.name);
        if let Some(pod) = pod.filter(|pod| pod.uid == known.uid)
            && let Ok(claim) = self.waker.claims.alone(pod).await
        {
            called.claimant = claim.claimant;
        }
        // The line has the order.
        called.claimant.yields_to = None;
    }

    /// Wakes a pod, without waiting for it. One at a gate is called: no scheduler would
    /// try it, whatever changes.
    fn wake(&mut self, namespace: &str, name: &str, uid: &str) {
        let known = self.waker.cluster.pod(namespace, name);
        if known.is_some_and(|pod| pod.uid == uid && pod.gate.is_some()) {
            self.waker.calls.call(namespace, name);
            self.waker.metrics.woken();
            return;
        }
        let pods: Api<PodObject> = Api::namespaced(self.waker.client.clone(), namespace);
        let (name, uid) = (name.to_owned(), uid.to_owned());
        let namespace = namespace.to_owned();
        let (permits, metrics) = (Arc::clone(&self.permits), self.waker.metrics.clone());
        let waiting = self.waker.waiting.clone();
        self.patches.spawn(async move {
            // Nobody closes it.
            let _permit = permits.acquire().await;
            let patch = json!({ "metadata": {
                // Another uid than the pod has is a conflict.
                "uid": uid,
                "annotations": { WOKEN: Timestamp::now().to_string() },
            } });
            let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
            let patched = pods.patch_metadata(&name, &params, &patch);
            let error = match timeout(PATIENCE, patched).await {
                Ok(Ok(_)) => {
                    metrics.woken();
                    debug!(namespace, pod = name, uid, "pod is woken");
                    return;
                }
                // It is gone.
                Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
                    waiting.leave(&uid);
                    return;
                }
                Ok(Err(error)) => logs::with_causes(&error),
                Err(_) => format!("no answer within {PATIENCE:?}"),
            };
            waiting.not_woken(&uid);
            warn!(
                reason = "WakeFailed",
                namespace,
                pod = name,
                uid,
                error,
                "pod that waits for an address is not woken",
            );
        });
    }
}

/// Whether the scheduler may still be asked about it.
fn is_unbound(pod: &Pod) -> bool {
    pod.node.is_none() && !pod.terminating && pod.phase == Phase::Pending
}

fn every(period: Duration) -> tokio::time::Interval {
    let mut interval = interval_at(Instant::now() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
