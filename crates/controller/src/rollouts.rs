//! Rolling updates whose new pods wait for the addresses of old ones: takes one old pod
//! away, so that its address is handed over, or says why nothing moves.
//!
//! 1. [`gather`](mod@gather): the Deployment, its pods, what they hold and who waits; from
//!    the caches, and read directly before a pod is taken away.
//! 2. Decide, in [`floe_core::rollout`].
//! 3. [`evict`](mod@crate::evict): by the Eviction API with the uid of the pod, so that disruption
//!    budgets hold and no other pod of the name is meant.
//! 4. [`memory`]: what was done and told, and [`tell`](mod@tell): Events on the Deployment.
//!
//! Who gets the address afterwards is decided where addresses are handed out, see
//! [`floe_core::rollout::precedence`].

use std::{collections::BTreeSet, time::Duration};

use floe_core::{
    ipam::owner::AppKind,
    rollout::{Eviction, Step, Why, decide},
};
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::Client;
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, sleep_until},
};
use tracing::{debug, info};

use self::{
    gather::{Scene, Unknown},
    memory::{Memory, Name},
};
use crate::{
    claims::Claims,
    cluster::{Change, Cluster, Freshness, Pod, Workloads},
    duty::Duty,
    events::Events,
    evict::{Evictor, Outcome, Victim},
    leader::Standing,
    metrics::Metrics,
    queue::Queue,
    store::Store,
    waiting::Waiting,
};

mod gather;
mod memory;
mod tell;
#[cfg(test)]
mod tests;

/// How many Deployments are looked at at a time.
const PARALLEL: usize = 8;

/// The time between two looks at all that wait, for what no event tells.
const PACE: Duration = Duration::from_secs(5);

/// Helps rolling updates along.
pub struct Rollouts {
    /// Who takes pods away.
    pub evictor: Evictor,
    /// The way to the API server.
    pub client: Client,
    /// What pods ask for.
    pub claims: Claims,
    /// Nodes and pods.
    pub cluster: Cluster,
    /// What pods belong to.
    pub workloads: Workloads,
    /// The books.
    pub store: Store,
    /// Who waits.
    pub waiting: Waiting,
    /// Where it is told.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Rollouts {
    /// Helps until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        let forget = || self.metrics.rollouts().waiting([]);
        duty.each_term(stop, || self.act(), forget).await;
    }

    async fn act(&self) {
        let mut changes = self.cluster.changes();
        let memory = Memory::default();
        let mut queue: Queue<Name, ()> = Queue::new(PARALLEL);
        let mut work = FuturesUnordered::new();
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            if next_look <= now {
                self.look_at_all(&mut queue, &memory);
                next_look = now + PACE;
            }
            while let Some((name, ())) = queue.next(now) {
                let memory = &memory;
                work.push(async move {
                    let result = self.look(&name, memory).await;
                    (name, result)
                });
            }
            let due = queue.next_due();
            let wake = due.map_or(next_look, |due| due.min(next_look));
            tokio::select! {
                pods = self.waiting.stood_still() => {
                    add(&mut queue, self.deployments_of(pods));
                }
                change = changes.recv() => match change {
                    Ok(change) => add(&mut queue, self.concerned(&change, &memory)),
                    Err(RecvError::Lagged(_)) => next_look = Instant::now(),
                    Err(RecvError::Closed) => {}
                },
                Some((name, result)) = work.next() => {
                    let failed = result.is_err().then_some(());
                    if let Err(unknown) = result {
                        debug!(
                            reason = unknown.reason(), namespace = name.0, deployment = name.1,
                            error = %unknown, "a rolling update is looked at again",
                        );
                    }
                    queue.done(name, failed, Instant::now());
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// All Deployments of which a pod waits, and those of which one did.
    fn look_at_all(&self, queue: &mut Queue<Name, ()>, memory: &Memory) {
        let mut names = self.deployments_of(self.waiting.sharing());
        names.extend(memory.known());
        add(queue, names);
    }

    fn deployments_of(&self, pods: BTreeSet<(String, String)>) -> BTreeSet<Name> {
        let found = pods.into_iter().filter_map(|(namespace, name)| {
            let pod = self.cluster.pod(&namespace, &name)?;
            Some((namespace, self.cluster.deployment_of_pod(&pod)?))
        });
        found.collect()
    }

    /// The Deployment that a change concerns, if one of its pods waits.
    fn concerned(&self, change: &Change, memory: &Memory) -> Option<Name> {
        let of_pod = |pod: &Pod| {
            let name = self.cluster.deployment_of_pod(pod)?;
            let name = (pod.namespace.clone(), name);
            let waits = memory.knows(&name) || self.waiting.sites(&pod.uid).is_some();
            waits.then_some(name)
        };
        match change {
            Change::Pod { now, .. } => of_pod(now),
            Change::PodGone(pod) | Change::PodMissing(pod) => of_pod(pod),
            Change::Workload(app) if app.kind == AppKind::Deployment => {
                let name = (app.namespace.clone(), app.name.clone());
                memory.knows(&name).then_some(name)
            }
            Change::Workload(_)
            | Change::Node(_)
            | Change::NodeLooks(_)
            | Change::NodeReadiness(_)
            | Change::Relisted => None,
        }
    }

    /// Looks at a Deployment. An error is to be looked at again soon.
    async fn look(&self, name: &Name, memory: &Memory) -> Result<(), Unknown> {
        let result = self.help(name, memory).await;
        self.metrics.rollouts().waiting(memory.reasons());
        result
    }

    async fn help(&self, name: &Name, memory: &Memory) -> Result<(), Unknown> {
        let Some(scene) = self.gather(name, Freshness::Cached, memory).await? else {
            memory.forget(name);
            return Ok(());
        };
        let eviction = match decide(&scene.picture) {
            Step::Nothing => {
                memory.forget(name);
                return Ok(());
            }
            Step::Wait { pod, why } => {
                self.leave_waiting(name, &scene, &pod, &why, memory);
                return Ok(());
            }
            Step::Evict(eviction) => eviction,
        };
        if let Some(times) = memory.is_too_early(&eviction.heir.uid, Instant::now()) {
            self.not_taken(name, &scene, &eviction.heir.name, times, memory);
            return Ok(());
        }
        // The caches may lag behind, and a pod that is gone does not come back.
        let Some(scene) = self.gather(name, Freshness::Direct, memory).await? else {
            return Ok(());
        };
        match decide(&scene.picture) {
            Step::Nothing => Ok(()),
            Step::Wait { pod, why } => {
                self.leave_waiting(name, &scene, &pod, &why, memory);
                Ok(())
            }
            Step::Evict(eviction) => self.hand_over(name, &scene, &eviction, memory).await,
        }
    }

    async fn hand_over(
        &self,
        name: &Name,
        scene: &Scene,
        eviction: &Eviction,
        memory: &Memory,
    ) -> Result<(), Unknown> {
        let victim = Victim {
            namespace: &name.0,
            name: &eviction.name,
            uid: &eviction.uid,
            version: None,
        };
        let outcome = self.evictor.evict(victim).await;
        self.metrics.rollouts().evicted(outcome.reason());
        match outcome {
            Outcome::Evicted => {
                info!(
                    reason = "RolloutHandover",
                    namespace = name.0,
                    deployment = name.1,
                    pod = eviction.name,
                    uid = eviction.uid,
                    heir = eviction.heir.name,
                    available = eviction.available,
                    "an old pod is evicted, for its address",
                );
                self.waiting.hand_over(&eviction.heir.uid);
                memory.evicted(&eviction.uid, &eviction.heir.uid, Instant::now());
                self.handed_over(name, scene, eviction, memory);
                Ok(())
            }
            Outcome::Gone => Ok(()),
            Outcome::Refused(why) => {
                self.refused(name, scene, eviction, &why, memory);
                Err(Unknown::Refused(why))
            }
        }
    }

    fn leave_waiting(&self, name: &Name, scene: &Scene, pod: &str, why: &Why, memory: &Memory) {
        match &scene.invalid {
            Some(invalid) if matches!(why, Why::Asked) => {
                self.misunderstood(name, scene, invalid, memory);
            }
            Some(_) | None => self.waits(name, scene, pod, why, memory),
        }
    }
}

fn add(queue: &mut Queue<Name, ()>, names: impl IntoIterator<Item = Name>) {
    for name in names {
        queue.add(name, (), Instant::now());
    }
}
