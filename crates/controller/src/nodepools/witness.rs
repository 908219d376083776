//! Which nodes are dead by two witnesses, before Kubernetes calls them not ready.
//!
//! The first witness is the agent of a node, which renews a lease every second while the node
//! serves shared addresses, and another one every 10 seconds while it has a pool's address.
//! Only when it is silent, the second one is asked for: the lease of the kubelet, read again and
//! again until it changes. Nodes without an agent are judged by their conditions alone.
//!
//! Where so few nodes have an address that nobody could tell a dead one from an API server
//! that hears nobody, kubelets of other nodes are looked at, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use floe_api::floe::tenure::{self, LEASE_LABEL, LEASES, LIFE_LABEL};
use floe_core::nodepool::{
    retry::after,
    witness::{self, Evidence, Patience, Renewal, Written},
};
use floe_shell::follow;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, ResourceExt as _,
    api::ListParams,
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

/// How late an agent may be before its kubelet is looked at. It takes a while to see that a
/// lease is not renewed, so this is before the silence means something.
const SUSPICIOUS: Patience = Patience {
    late: Duration::from_secs(1),
};

/// After so long nobody waits for an agent any more: it has nothing to hold and so nothing to
/// renew, or its node is gone; by then the conditions of the node have said all there is.
const FORGOTTEN: Duration = Duration::from_secs(90);

/// How many leases of kubelets are read at a time: when more agents are silent, something
/// else is wrong.
const SUSPECTS: usize = 32;

/// How many leases of other kubelets are read at a time.
const OTHERS: u32 = 20;

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
    let enter = |sign: Sign| {
        let heard = heard.clone();
        move |event| {
            // The receiver lives as long as this.
            let _ = heard.send((sign, event));
        }
    };
    let judge = async {
        let mut court = Court {
            kubelets: Api::namespaced(client, KUBELETS),
            clock,
            nodes: BTreeMap::new(),
            others: BTreeMap::new(),
            dead,
        };
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some((sign, event)) = renewals.recv() => court.hear(sign, event),
                _ = ticks.tick() => court.look().await,
            }
            // What came while somebody was asked counts first.
            while let Ok((sign, event)) = renewals.try_recv() {
                court.hear(sign, event);
            }
            court.judge();
        }
    };
    let labelled = |label: &str| Config::default().labels(label);
    let serving = enter(Sign::Serving);
    let living = enter(Sign::Living);
    tokio::select! {
        () = follow(agents.clone(), labelled(LEASE_LABEL), "leases of agents", serving) => {}
        () = follow(agents, labelled(LIFE_LABEL), "leases of nodes with addresses", living) => {}
        () = judge => {}
    }
}

/// By which of its leases an agent is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Sign {
    /// It serves shared addresses.
    Serving,
    /// Its node has an address of a pool.
    Living,
}

impl Sign {
    fn node_of(self, lease: &Lease) -> Option<String> {
        let node = match self {
            Self::Serving => tenure::node_of(lease),
            Self::Living => tenure::life_of(lease),
        };
        node.map(str::to_owned)
    }
}

struct Court {
    kubelets: Api<Lease>,
    clock: Clock,
    /// Those of which agents have leases.
    nodes: BTreeMap<String, Known>,
    /// The kubelets of some others, while that matters.
    others: BTreeMap<String, Sight>,
    dead: watch::Sender<BTreeSet<String>>,
}

/// What is known of a node.
#[derive(Default)]
struct Known {
    agent: BTreeMap<Sign, Heard>,
    kubelet: Sight,
}

/// What was heard of an agent by a lease.
#[derive(Default)]
struct Heard {
    /// The version that was seen last, and what was written there.
    version: Option<String>,
    wrote: Written,
    /// When it was seen to change.
    at: Option<Timestamp>,
}

/// What was seen of a kubelet's lease.
#[derive(Default)]
struct Sight {
    /// Its version.
    version: Option<String>,
    /// None as long as nobody has seen it.
    renewal: Option<Renewal>,
}

impl Known {
    /// By which renewal the agent is still believed to live, and what it wrote then.
    fn agent(&self) -> Option<(Renewal, Written)> {
        let heard = self.agent.values().filter_map(|it| {
            let interval = it.wrote.interval();
            Some((
                Renewal {
                    at: it.at?,
                    interval,
                },
                it.wrote,
            ))
        });
        heard.max_by_key(|(renewal, _)| Patience::default().ends(renewal))
    }

    /// Whether it is time to look at its kubelet.
    fn is_suspicious(&self, now: Timestamp) -> bool {
        let agent = self.agent();
        agent.is_some_and(|(renewal, _)| SUSPICIOUS.ends(&renewal) <= now)
    }

    /// The lease of the kubelet is so now. Whoever cannot ask knows nothing, and begins to
    /// look anew.
    fn look(&mut self, lease: Option<&Lease>, now: Timestamp) {
        let agent = self.agent();
        let Some(lease) = lease else {
            self.kubelet = Sight::default();
            return;
        };
        let first = |kubelet: &Written| {
            let agent = agent.map(|(renewal, wrote)| (renewal.at, wrote));
            Some(witness::renewal(kubelet, agent, now))
        };
        self.kubelet.look(lease, first, now);
    }
}

impl Sight {
    /// The lease is so now; `first` says what to make of one that was never seen before.
    fn look(
        &mut self,
        lease: &Lease,
        first: impl FnOnce(&Written) -> Option<Renewal>,
        now: Timestamp,
    ) {
        let before = std::mem::replace(&mut self.version, lease.resource_version());
        if before == self.version {
            return;
        }
        let kubelet = written(lease);
        let interval = kubelet.interval();
        self.renewal = match before {
            Some(_) => Some(Renewal { at: now, interval }),
            None => first(&kubelet),
        };
    }
}

impl Court {
    fn hear(&mut self, sign: Sign, event: Event<Lease>) {
        let now = self.clock.now();
        match event {
            Event::InitApply(lease) | Event::Apply(lease) => {
                let Some(node) = sign.node_of(&lease) else {
                    return;
                };
                let known = self.nodes.entry(node).or_default();
                let heard = known.agent.entry(sign).or_default();
                heard.wrote = written(&lease);
                let version = lease.metadata.resource_version;
                if heard.version != version {
                    // A lease that was found is no sign of life; one that changes is.
                    let lives = heard.version.is_some();
                    heard.version = version;
                    heard.at = lives.then_some(now);
                }
            }
            Event::Delete(lease) => {
                let Some(node) = sign.node_of(&lease) else {
                    return;
                };
                if let Some(known) = self.nodes.get_mut(&node) {
                    known.agent.remove(&sign);
                    if known.agent.is_empty() {
                        self.nodes.remove(&node);
                    }
                }
            }
            Event::Init | Event::InitDone => {}
        }
    }

    /// Looks at the kubelets of nodes whose agents are silent.
    async fn look(&mut self) {
        let now = self.clock.now();
        let heard = self.nodes.values_mut().flat_map(|it| it.agent.values_mut());
        for heard in heard {
            heard.at = heard.at.filter(|at| after(*at, FORGOTTEN) > now);
        }
        let suspects = self.nodes.iter().filter(|(_, it)| it.is_suspicious(now));
        let suspects: Vec<String> = suspects.map(|(node, _)| node.clone()).collect();
        if suspects.len() > SUSPECTS {
            return;
        }
        for known in self.nodes.values_mut().filter(|it| !it.is_suspicious(now)) {
            // A kubelet is looked at anew when its agent is silent again.
            known.kubelet = Sight::default();
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
        let with_agent = self.nodes.values().filter(|it| it.agent().is_some());
        if suspects.len() * 2 > with_agent.count() {
            self.look_around().await;
        } else {
            self.others.clear();
        }
    }

    /// Looks at kubelets of nodes whose agents have nothing to say: whether anybody is heard.
    async fn look_around(&mut self) {
        let some = ListParams::default().limit(OTHERS);
        let Ok(Ok(listed)) = timeout(PATIENCE, self.kubelets.list(&some)).await else {
            return;
        };
        let now = self.clock.now();
        let mut before = std::mem::take(&mut self.others);
        for lease in listed {
            let node = lease.name_any();
            if self.nodes.get(&node).is_some_and(|it| it.agent().is_some()) {
                continue;
            }
            let mut sight = before.remove(&node).unwrap_or_default();
            // One that was found is no sign of life.
            sight.look(&lease, |_| None, now);
            self.others.insert(node, sight);
        }
    }

    fn judge(&self) {
        let now: Timestamp = self.clock.now();
        let nodes = self.nodes.iter().map(|(node, known)| {
            let evidence = Evidence {
                agent: known.agent().map(|(renewal, _)| renewal),
                kubelet: known.kubelet.renewal,
            };
            (node.clone(), evidence)
        });
        let patience = Patience::default();
        let lives = |it: &&Sight| it.renewal.is_some_and(|it| patience.ends(&it) > now);
        let others = self.others.values().filter(lives).count();
        let found = witness::dead(&nodes.collect(), others, &patience, now);
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
