//! Scheduling without an extender: pods that want addresses wait at a gate until they
//! have them.
//!
//! Work comes in pod names. A pod is looked at as it is then: one at the gate is given its
//! addresses and let through, of one that a scheduler has bound the records are told
//! where it runs, and one that came to its node without having been at the gate is told so. So events may come late, twice or in any order, and what a process that
//! ended has left half done is found by the first look of the next leader.
//!
//! - [`calls`]: pods that may go on, because somebody made room.
//! - [`condition`]: what a waiting pod says about itself.
//! - [`unplaced`]: pods that were let through, and that no scheduler finds a node for.
//! - [`nodes`]: what schedulers have to see on nodes.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use floe_core::schedule::gate::missed;
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use self::unplaced::Unplaced;
pub use self::{calls::Calls, nodes::NodeKeeper};
use crate::{
    binder::{BindError, Binder},
    cluster::{Assigned, Change, Phase, Pod},
    config::{Scheduling, SchedulingSettings},
    duty::Duty,
    evict::Evictor,
    leader::Standing,
    queue::Queue,
};

mod calls;
mod condition;
mod nodes;
mod unplaced;

/// Namespace and name of a pod.
type Name = (String, String);

/// How many pods are worked on at a time.
const PARALLEL: usize = 16;

/// The time between two looks at all pods, for what no event told.
const PACE: Duration = Duration::from_secs(30);

/// Lets pods through their gates.
pub struct Gatekeeper {
    /// Gives addresses. It has all that is needed otherwise.
    pub binder: Binder,
    /// Who takes pods away.
    pub evictor: Evictor,
    /// Pods that may go on.
    pub calls: Calls,
    /// Who schedules, and how long that may take.
    pub settings: SchedulingSettings,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Item {
    /// Look at a pod.
    Pod(Name),
    /// End the waiting of a pod that has no node.
    Unplaced(Name),
}

/// One time of leading.
struct Term {
    queue: Queue<Item, ()>,
    unplaced: Unplaced,
}

impl Gatekeeper {
    /// Lets pods through until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.binder.store.warmth());
        duty.each_term(stop, || self.act(), || ()).await;
    }

    async fn act(&self) {
        let mut changes = self.binder.cluster.changes();
        let opened = Opened::default();
        let mut work = FuturesUnordered::new();
        let mut term = Term {
            queue: Queue::new(PARALLEL),
            unplaced: Unplaced::default(),
        };
        self.line_up().await;
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            if next_look <= now {
                self.look_at_all(&mut term);
                next_look = now + PACE;
            }
            let patience = self.settings.patience;
            for name in term.unplaced.overdue(patience, now) {
                term.queue.add(Item::Unplaced(name), (), now);
            }
            while let Some((item, ())) = term.queue.next(now) {
                let opened = &opened;
                work.push(async move {
                    let again = self.settle(&item, opened).await;
                    (item, again)
                });
            }
            let due = [term.queue.next_due(), term.unplaced.next_due(patience)];
            let wake = due.into_iter().flatten().fold(next_look, Instant::min);
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(Change::Pod { now: pod, before }) => {
                        if pod.gate.is_none() {
                            opened.forget(&pod.uid);
                        }
                        if before.is_none_or(|before| is_news(&before, &pod)) {
                            self.note(&pod, &mut term);
                        }
                    }
                    Ok(Change::PodGone(pod) | Change::PodMissing(pod)) => {
                        opened.forget(&pod.uid);
                        term.unplaced.forget(&pod);
                    }
                    Ok(Change::Relisted) | Err(RecvError::Lagged(_)) => next_look = Instant::now(),
                    // The waker calls whom these concern.
                    Ok(
                        Change::Workload(_)
                        | Change::Node(_)
                        | Change::NodeLooks(_)
                        | Change::NodeReadiness(_),
                    )
                    | Err(RecvError::Closed) => {}
                },
                called = self.calls.taken() => {
                    for name in called {
                        term.queue.add(Item::Pod(name), (), Instant::now());
                    }
                }
                Some((item, again)) = work.next() => {
                    term.queue.done(item, again, Instant::now());
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// A new leader knows nobody's place: all that are at the gate wait, before the first
    /// of them is looked at. Otherwise a pod of an old revision could be the first.
    async fn line_up(&self) {
        let pods = self.binder.cluster.pods();
        let gated: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.gate.is_some()).collect();
        if gated.is_empty() || self.settings.mode == Scheduling::Extender {
            return;
        }
        info!(pods = gated.len(), "looking at all pods at the gate");
        for pod in gated {
            if let Ok(claim) = self.binder.claims.alone(Arc::clone(pod)).await {
                self.binder.waiting.refused(&claim);
            }
        }
    }

    fn look_at_all(&self, term: &mut Term) {
        for pod in self.binder.cluster.pods() {
            self.note(&pod, term);
        }
    }

    fn note(&self, pod: &Pod, term: &mut Term) {
        let now = Instant::now();
        let has_work = pod.gate.is_some() || {
            let is_gates = self.settings.mode == Scheduling::Gates;
            if is_gates {
                term.unplaced.note(pod, now);
            }
            is_gates
                && (self.binder.is_unplaced(pod) || still_waits(pod) || has_missed(pod).is_some())
        };
        if has_work {
            let name = (pod.namespace.clone(), pod.name.clone());
            term.queue.add(Item::Pod(name), (), now);
        }
    }

    /// Works on an item; whether that has to be done again.
    async fn settle(&self, item: &Item, opened: &Opened) -> Option<()> {
        match item {
            Item::Pod(name) => self.look(name, opened).await,
            Item::Unplaced(name) => {
                let error = self.give_up_on(name).await.err()?;
                warn!(reason = error.reason(), %error, "pod without a node is not evicted yet");
                Some(())
            }
        }
    }

    async fn look(&self, (namespace, name): &Name, opened: &Opened) -> Option<()> {
        let _turn = self.binder.turns.wait(namespace, name).await;
        let pod = self.binder.cluster.pod(namespace, name)?;
        if pod.terminating {
            self.binder.waiting.leave(&pod.uid);
            return None;
        }
        if pod.gate.is_none() {
            return self.follow(&pod).await;
        }
        if opened.has(&pod.uid) {
            return None;
        }
        let done = match self.settings.mode {
            Scheduling::Gates => self.binder.open(Arc::clone(&pod)).await,
            // Somebody has switched over, and these are left: the extender knows them.
            Scheduling::Extender => self.binder.only_open(&pod).await,
        };
        match done {
            Ok(()) => {
                opened.note(&pod.uid);
                self.binder.waiting.leave(&pod.uid);
                None
            }
            Err(error) => self.refused(&pod, &error).await,
        }
    }

    /// Does what is left to do for a pod that was let through; whether that has to be
    /// done again.
    async fn follow(&self, pod: &Pod) -> Option<()> {
        if still_waits(pod) {
            self.say(pod, true, "AddressAssigned", String::new()).await;
        }
        if let Some(missed) = has_missed(pod) {
            self.binder.reporter.missed_gate(pod, &missed);
            self.say(pod, false, missed::REASON, missed.to_string())
                .await;
        }
        let error = self.binder.place(pod).await.err()?;
        let reason = error.reason();
        if !matches!(error, BindError::Write(_)) {
            self.binder.reporter.waits(pod, reason, &error);
        }
        debug!(reason, namespace = pod.namespace, pod = pod.name, %error, "will look again");
        Some(())
    }

    /// Tells why a pod waits; whether it is tried again by itself.
    async fn refused(&self, pod: &Pod, error: &BindError) -> Option<()> {
        let reason = error.reason();
        let again = match error {
            BindError::Refused(_) => false,
            BindError::Claim(error) => error.is_transient(),
            BindError::Ending { .. } | BindError::Gone { .. } => {
                self.binder.waiting.leave(&pod.uid);
                return None;
            }
            // Passing troubles, which the log has.
            BindError::NotReady | BindError::Contended { .. } | BindError::Late => {
                debug!(reason, pod = pod.name, namespace = pod.namespace, %error, "will look again");
                return Some(());
            }
            BindError::NotWanted
            | BindError::AlreadyBound { .. }
            | BindError::NodeNotAccepted { .. }
            | BindError::NodeUnreadable { .. }
            | BindError::Write(_)
            | BindError::Cloud { .. }
            | BindError::Binding { .. }
            | BindError::Gate { .. }
            | BindError::Aborted => true,
        };
        self.binder.reporter.waits(pod, reason, error);
        self.say(pod, false, reason, error.to_string()).await;
        again.then_some(())
    }

    async fn say(&self, pod: &Pod, holds: bool, reason: &str, message: String) {
        let says = Assigned {
            holds,
            reason: reason.to_owned(),
            message,
        };
        condition::write(&self.binder.client, pod, &says).await;
    }
}

/// Whether a pod that has its addresses still says that it waits for them.
fn still_waits(pod: &Pod) -> bool {
    let says_so = pod.assigned.as_ref().is_some_and(|it| !it.holds);
    let has_some = || pod.claimed().is_ok_and(|claimed| !claimed.is_empty());
    says_so && pod.gate.is_none() && !pod.terminating && has_some()
}

/// Whether a pod is on its node for nothing, and what its people can do.
fn has_missed(pod: &Pod) -> Option<missed::Missed> {
    missed::missed(missed::Passer {
        wants_address: pod.wants_address,
        is_gated: pod.gate.is_some(),
        // What cannot be read is refused by the agent, with its own reason.
        claims_some: pod.claimed().map_or(true, |claimed| !claimed.is_empty()),
        is_leaving: pod.terminating || pod.phase == Phase::Finished,
        node: pod.node.as_deref(),
        owners: &pod.owners,
    })
}

/// Whether a change of a pod matters here: of one at the gate, more than what it says
/// about itself.
fn is_news(before: &Pod, now: &Pod) -> bool {
    now.gate.is_none() || before.gate != now.gate || {
        let silent = |pod: &Pod| Pod {
            assigned: None,
            ..pod.clone()
        };
        silent(before).differs_from(&silent(now))
    }
}

/// The pods that were let through, until a cache shows it.
#[derive(Debug, Default)]
struct Opened(Mutex<BTreeSet<String>>);

impl Opened {
    fn has(&self, uid: &str) -> bool {
        self.uids().contains(uid)
    }

    fn note(&self, uid: &str) {
        self.uids().insert(uid.to_owned());
    }

    fn forget(&self, uid: &str) {
        self.uids().remove(uid);
    }

    fn uids(&self) -> std::sync::MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
