//! Which nodes are dead by two witnesses, before Kubernetes calls them not ready.
//!
//! The first witness is the agent of a node, which renews a lease every second while the node
//! serves shared addresses. Only when it is silent, the second one is asked for: the lease of
//! the kubelet, read again and again until it changes. Nodes without such an agent are judged by their
//! conditions alone.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use floe_api::floe::tenure::{self, LEASE_LABEL, LEASES};
use floe_core::nodepool::witness::{self, Evidence, Patience, Renewal, Written};
use floe_shell::follow;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client,
    runtime::watcher::{Config, Event},
};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{MissedTickBehavior, interval, timeout},
};
use tracing::{info, warn};

use super::clock::Clock;

/// Where the leases of kubelets are.
const KUBELETS: &str = "kube-node-lease";

/// The time between two looks.
const TICK: Duration = Duration::from_secs(1);

/// How long an agent may be silent before its kubelet is looked at. It takes a while to see
/// that a lease is not renewed, so this is before the silence means something.
const SUSPICIOUS: Duration = Duration::from_secs(2);

/// After so long nobody waits for an agent any more: it has nothing to hold and so nothing to
/// renew, or its node is gone; by then the conditions of the node have said all there is.
const FORGOTTEN: Duration = Duration::from_secs(90);

/// How many leases of kubelets are read at a time: when more agents are silent, something
/// else is wrong.
const SUSPECTS: usize = 32;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Tells which nodes are dead, as long as somebody has it.
pub struct Witnesses {
    dead: watch::Receiver<BTreeSet<String>>,
    task: AbortHandle,
}

impl Drop for Witnesses {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Witnesses {
    /// Begins to listen.
    pub fn start(client: Client, clock: Clock) -> Self {
        let (sender, dead) = watch::channel(BTreeSet::new());
        let task = tokio::spawn(listen(client, clock, sender));
        Self {
            dead,
            task: task.abort_handle(),
        }
    }

    /// The names of the nodes that are dead; a new value is one to look at.
    pub fn dead(&self) -> watch::Receiver<BTreeSet<String>> {
        self.dead.clone()
    }
}

async fn listen(client: Client, clock: Clock, dead: watch::Sender<BTreeSet<String>>) {
    let (heard, mut renewals) = mpsc::unbounded_channel();
    let agents: Api<Lease> = Api::namespaced(client.clone(), LEASES);
    let enter = |event| {
        // The receiver lives as long as this.
        let _ = heard.send(event);
    };
    let judge = async {
        let mut court = Court {
            kubelets: Api::namespaced(client, KUBELETS),
            clock,
            nodes: BTreeMap::new(),
            dead,
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(event) = renewals.recv() => court.hear(event),
                _ = ticks.tick() => court.look().await,
            }
            // What came while somebody was asked counts first.
            while let Ok(event) = renewals.try_recv() {
                court.hear(event);
            }
            court.judge();
        }
    };
    let config = Config::default().labels(LEASE_LABEL);
    tokio::select! {
        () = follow(agents, config, "leases of agents", enter) => {}
        () = judge => {}
    }
}

struct Court {
    kubelets: Api<Lease>,
    clock: Clock,
    nodes: BTreeMap<String, Known>,
    dead: watch::Sender<BTreeSet<String>>,
}

/// What is known of a node.
#[derive(Default)]
struct Known {
    evidence: Evidence,
    /// The version of its agent's lease that was seen last, and what was written there.
    agent: Option<String>,
    wrote: Written,
    /// The version of its kubelet's lease.
    kubelet: Option<String>,
}

impl Known {
    /// The lease of the kubelet is so now. Whoever cannot ask knows nothing, and begins to
    /// look anew.
    fn look(&mut self, lease: Option<&Lease>, now: Timestamp) {
        let version = lease.and_then(|it| it.metadata.resource_version.clone());
        let Some((lease, version)) = lease.zip(version) else {
            (self.kubelet, self.evidence.kubelet) = (None, None);
            return;
        };
        let before = self.kubelet.replace(version);
        if before == self.kubelet {
            return;
        }
        let kubelet = written(lease);
        self.evidence.kubelet = Some(if before.is_some() {
            Renewal {
                at: now,
                interval: kubelet.interval(),
            }
        } else {
            let agent = self.evidence.agent.map(|heard| (heard, self.wrote));
            witness::renewal(&kubelet, agent, now)
        });
    }
}

impl Court {
    fn hear(&mut self, event: Event<Lease>) {
        let now = self.clock.now();
        match event {
            Event::InitApply(lease) | Event::Apply(lease) => {
                let Some(node) = node_of(&lease) else { return };
                let known = self.nodes.entry(node).or_default();
                known.wrote = written(&lease);
                let version = lease.metadata.resource_version;
                if known.agent != version {
                    // A lease that was found is no sign of life; one that changes is.
                    let lives = known.agent.is_some();
                    known.agent = version;
                    known.evidence.agent = lives.then_some(now);
                }
            }
            Event::Delete(lease) => {
                if let Some(node) = node_of(&lease) {
                    self.nodes.remove(&node);
                }
            }
            Event::Init | Event::InitDone => {}
        }
    }

    /// Looks at the kubelets of nodes whose agents are silent.
    async fn look(&mut self) {
        let now = self.clock.now();
        let is_over = |at: Timestamp, patience| now.duration_since(at).unsigned_abs() >= patience;
        for known in self.nodes.values_mut() {
            let agent = known.evidence.agent;
            known.evidence.agent = agent.filter(|at| !is_over(*at, FORGOTTEN));
        }
        let silent = |known: &Known| {
            let at = known.evidence.agent;
            at.is_some_and(|at| is_over(at, SUSPICIOUS))
        };
        let suspects = self.nodes.iter().filter(|(_, known)| silent(known));
        let suspects: Vec<String> = suspects.map(|(node, _)| node.clone()).collect();
        if suspects.len() > SUSPECTS {
            return;
        }
        for known in self.nodes.values_mut().filter(|known| !silent(known)) {
            // A kubelet is looked at anew when its agent is silent again.
            (known.kubelet, known.evidence.kubelet) = (None, None);
        }
        let reads = suspects.iter().map(|node| {
            let read = self.kubelets.get_opt(node);
            timeout(PATIENCE, read)
        });
        let reads = join_all(reads).await;
        let now = self.clock.now();
        for (node, read) in suspects.iter().zip(reads) {
            let Some(known) = self.nodes.get_mut(node) else {
                continue;
            };
            let lease = read.ok().and_then(Result::ok).flatten();
            known.look(lease.as_ref(), now);
        }
    }

    fn judge(&self) {
        let now: Timestamp = self.clock.now();
        let nodes = self.nodes.iter();
        let nodes = nodes.map(|(node, known)| (node.clone(), known.evidence.clone()));
        let found = witness::dead(&nodes.collect(), &Patience::default(), now);
        self.dead.send_if_modified(|dead| {
            for node in found.difference(dead) {
                let reason = "NodeDead";
                warn!(
                    reason,
                    node, "a node is dead: neither agent nor kubelet are heard"
                );
            }
            for node in dead.difference(&found) {
                info!(node, "a node is heard again");
            }
            let changed = *dead != found;
            *dead = found;
            changed
        });
    }
}

fn written(lease: &Lease) -> Written {
    let spec = lease.spec.as_ref();
    let lasts = spec.and_then(|it| u64::try_from(it.lease_duration_seconds?).ok());
    Written {
        renewed: spec.and_then(|it| Some(it.renew_time.as_ref()?.0)),
        lasts: lasts.map(Duration::from_secs),
    }
}

fn node_of(lease: &Lease) -> Option<String> {
    tenure::node_of(lease).map(str::to_owned)
}
