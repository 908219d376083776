//! Running pods whose addresses have no record, or one that lacks something.
//!
//! Records get lost when somebody deletes them or etcd is restored from an old
//! snapshot, and those of galaxy do not always say where their pods run. What a pod
//! shows decides, see [`floe_core::ipam::adopt`]; pods themselves are never touched.
//!
//! Running pods come first: when this process begins to lead, and after each complete
//! list of records, no address is handed out to anybody until all running pods were
//! looked at once. What could not be adopted then, because a write failed or because
//! nobody can tell the pod's workload, is set aside for the pod and tried again.
//!
//! - [`memory`]: which pod shows which address, and what was told.
//! - [`round`]: the look at all running pods.
//! - [`sight`]: what a pod shows, and whether its records say the same.

use std::{net::IpAddr, sync::Arc, time::Duration};

use floe_core::ipam::{
    adopt::{Finding, Oddity, Runner, inspect},
    attribute::Attribute,
    ledger::Record,
};
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, info, warn};

use self::memory::{Name, Shown, Told};
use crate::{
    claims::{Claim, ClaimError, Claims},
    cluster::{Change, Cluster, Pod},
    duty::Duty,
    leader::Standing,
    metrics::Metrics,
    queue::Queue,
    records::{Holding, Records, WriteError},
    report::Reporter,
    store::{Books, News, Store},
    turns::Turns,
};

mod memory;
mod round;
mod sight;

use round::Round;
use sight::{Shows, runs};

/// How many pods are looked at closely at a time.
const PARALLEL: usize = 8;

/// The time between two looks at all pods.
const PACE: Duration = Duration::from_mins(3);

/// Gives such pods their records.
pub struct Adopter {
    /// What pods ask for.
    pub claims: Claims,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// One at a time for each pod name.
    pub turns: Turns,
    /// Where it is told.
    pub reporter: Reporter,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Adopter {
    /// Gives such pods their records until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        // What is seen between two terms, nobody notes: the next one begins anew.
        let forget = || {
            self.store.change(|books| {
                books.want_round();
                books.forget_runners();
            });
        };
        duty.each_term(stop, || self.act(), forget).await;
    }

    async fn act(&self) {
        let mut changes = self.cluster.changes();
        let mut news = self.store.news();
        let told = Told::default();
        let mut state = State {
            queue: Queue::new(PARALLEL),
            shown: Shown::default(),
            round: Round::default(),
        };
        let mut work = FuturesUnordered::new();
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            if next_look <= now {
                self.look_at_all(&mut state, &told);
                next_look = now + PACE;
            }
            self.end_round(&mut state);
            while let Some((name, ())) = state.queue.next(now) {
                let told = &told;
                work.push(async move {
                    let result = self.look(&name.0, &name.1, told).await;
                    (name, result)
                });
            }
            let due = state.queue.next_due();
            let wake = due.map_or(next_look, |due| due.min(next_look));
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(Change::Pod { now: pod, .. }) => self.note(&pod, &mut state),
                    Ok(Change::PodGone(pod) | Change::PodMissing(pod)) => {
                        self.ended(&pod, &mut state);
                        told.forget(&pod.uid);
                    }
                    Ok(Change::Relisted) | Err(RecvError::Lagged(_)) => next_look = Instant::now(),
                    Ok(
                        Change::Workload(_)
                        | Change::Node(_)
                        | Change::NodeLooks(_)
                        | Change::NodeReadiness(_),
                    )
                    | Err(RecvError::Closed) => {}
                },
                news = news.recv() => match news {
                    Ok(News::Freed(ip) | News::Changed(ip)) => self.note_record(ip, &mut state),
                    Ok(News::Configured | News::Relisted) | Err(RecvError::Lagged(_)) => {
                        next_look = Instant::now();
                    }
                    Ok(News::Pool(_)) | Err(RecvError::Closed) => {}
                },
                Some((name, result)) = work.next() => {
                    let failed = result.is_err().then_some(());
                    self.settle(&name, failed.is_none());
                    state.round.looked_at(&name);
                    if let Err(failure) = result {
                        debug!(
                            reason = failure.reason(),
                            namespace = name.0,
                            pod = name.1,
                            error = %failure,
                            "pod is not adopted yet, trying again",
                        );
                    }
                    state.queue.done(name, failed, Instant::now());
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    fn look_at_all(&self, state: &mut State, told: &Told) {
        // Asked before the look: a list that comes in meanwhile asks for another one.
        state.round = Round::begin(self.store.read(Books::round));
        state.shown = Shown::default();
        let pods = self.cluster.pods();
        // The end of some may have been missed.
        told.keep(&pods.iter().map(|pod| pod.uid.as_str()).collect());
        let running = pods.iter().filter(|pod| runs(pod));
        let running: Vec<_> = running.map(|pod| (pod, Shows::of(pod))).collect();
        // In one step, so that nothing is free in between.
        let unsettled: Vec<Name> = self.store.change(|books| {
            books.forget_runners();
            for (pod, shows) in &running {
                books.runs_with(&pod.uid, &shows.used);
            }
            let unsettled = running
                .iter()
                .filter(|(pod, shows)| !shows.is_settled(books.ledger(), pod));
            let names = unsettled.map(|(pod, _)| (pod.namespace.clone(), pod.name.clone()));
            names.collect()
        });
        for (pod, _) in running {
            state.shown.set(pod);
        }
        for name in unsettled {
            state.queue.add(name.clone(), (), Instant::now());
            state.round.expect(name);
        }
    }

    /// Looks at a pod, and closely if its records are not as they should be.
    fn note(&self, pod: &Pod, state: &mut State) {
        if !runs(pod) {
            self.ended(pod, state);
            return;
        }
        state.shown.set(pod);
        let shows = Shows::of(pod);
        let is_settled = self.store.change(|books| {
            books.runs_with(&pod.uid, &shows.used);
            shows.is_settled(books.ledger(), pod)
        });
        if !is_settled {
            let name = (pod.namespace.clone(), pod.name.clone());
            state.queue.add(name, (), Instant::now());
        }
    }

    /// A pod does not run any more.
    fn ended(&self, pod: &Pod, state: &mut State) {
        state.shown.forget(pod);
        let used = Shows::of(pod).used;
        self.store
            .change(|books| books.runs_without(&pod.uid, &used));
    }

    /// A close look is over. What a pod runs with and has no record is set aside for
    /// it until the next look, or, when there is nothing left to do, for others again.
    fn settle(&self, (namespace, name): &Name, done: bool) {
        let Some(pod) = self.cluster.pod(namespace, name).filter(|pod| runs(pod)) else {
            return;
        };
        self.store.change(|books| {
            if done {
                books.set_free(&pod.uid);
            } else {
                books.set_aside(&pod.uid, &Shows::of(&pod).used);
            }
        });
    }

    /// Lets addresses be handed out when all running pods were looked at.
    fn end_round(&self, state: &mut State) {
        let Some(round) = state.round.is_over() else {
            return;
        };
        if self.store.change(|books| books.round_over(round)) {
            info!("all running pods were looked at; addresses are handed out now");
        }
    }

    /// The record of an address is gone or different: who runs with it?
    fn note_record(&self, ip: IpAddr, state: &mut State) {
        let Some((namespace, name)) = state.shown.pod_with(ip) else {
            return;
        };
        if let Some(pod) = self.cluster.pod(&namespace, &name) {
            self.note(&pod, state);
        }
    }

    async fn look(&self, namespace: &str, name: &str, told: &Told) -> Result<(), Failure> {
        let _turn = self.turns.wait(namespace, name).await;
        let Some(pod) = self.cluster.pod(namespace, name) else {
            return Ok(());
        };
        let (true, Some(host)) = (runs(&pod), pod.node.clone()) else {
            return Ok(());
        };
        let claim = match self.claims.alone(Arc::clone(&pod)).await {
            Ok(claim) => claim,
            Err(error) if error.is_transient() => return Err(Failure::Claim(error)),
            Err(error) => {
                if told.is_news(&pod.uid, error.reason()) {
                    let reason = error.reason();
                    warn!(reason, namespace, pod = name, %error, "running pod makes no sense");
                    self.metrics.adoption(reason);
                }
                return Ok(());
            }
        };
        let addresses = Shows::of(&pod).claimed.unwrap_or_default();
        let note = claim.workload.app.note();
        let findings = self.store.read(|books| {
            let runner = Runner {
                uid: &pod.uid,
                key: &claim.claimant.key,
                galaxy_key: claim.claimant.galaxy_key.as_ref(),
                note: note.as_deref(),
                claimed: &addresses,
                shown: &pod.addresses,
            };
            inspect(books.ledger(), &runner)
        });
        let place = Attribute {
            node_name: host,
            uid: pod.uid.clone(),
        };
        let mut result = Ok(());
        for finding in findings {
            let (place, note) = (place.clone(), note.clone());
            // One that fails does not stop the others.
            let written = match finding {
                Finding::Sound(_) => Ok(()),
                Finding::Adopt(ip) => self.adopt(&claim, ip, place, note).await,
                Finding::Complete(record) => {
                    let note = note.filter(|_| record.key == claim.claimant.key);
                    self.complete(&pod, &record, place, note).await
                }
                Finding::Odd(oddity) => {
                    self.tell(&pod, &oddity, told);
                    Ok(())
                }
            };
            result = result.and(written);
        }
        result
    }

    async fn adopt(
        &self,
        claim: &Claim,
        ip: IpAddr,
        place: Attribute,
        note: Option<String>,
    ) -> Result<(), Failure> {
        let holding = Holding {
            key: claim.claimant.key.clone(),
            place,
            policy: claim.claimant.policy,
            note,
        };
        self.records.take(ip, &holding).await?;
        self.metrics.adoption("adopted");
        self.reporter.adopted(&claim.pod, ip);
        Ok(())
    }

    async fn complete(
        &self,
        pod: &Pod,
        record: &Record,
        place: Attribute,
        note: Option<String>,
    ) -> Result<(), Failure> {
        let holding = Holding {
            key: record.key.clone(),
            place,
            policy: record.policy,
            note: record.workload_note.clone().or(note),
        };
        self.records.change(record, &holding).await?;
        self.metrics.adoption("completed");
        info!(
            ip = %record.ip,
            key = %record.key,
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            "record says now where its pod runs",
        );
        Ok(())
    }

    fn tell(&self, pod: &Pod, oddity: &Oddity, told: &Told) {
        if told.is_news(&pod.uid, &oddity.to_string()) {
            self.metrics.adoption(oddity.reason());
            self.reporter.warns(pod, oddity.reason(), oddity);
        }
    }
}

struct State {
    queue: Queue<Name, ()>,
    shown: Shown,
    round: Round,
}

/// Why a pod has to be looked at again.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Claim(ClaimError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Failure {
    fn reason(&self) -> &'static str {
        match self {
            Self::Claim(error) => error.reason(),
            Self::Write(error) => error.reason(),
        }
    }
}

#[cfg(test)]
mod tests;
