//! Shared addresses: which `VirtualIP` objects there are, and what the leader does about
//! them.
//!
//! - [`store`]: the objects and their registers, fed by watches.
//! - [`claims`]: what annotations ask for; [`made`]: the objects that stand for them.
//! - [`candidates`]: the pods that could have
//!   them; [`plan`]: moves that are planned.
//! - [`round`]: one look at a namespace; [`tend`]: one object; [`release`]: when an
//!   address may be given to others; [`orphans`]: records and entries without an object;
//!   [`remains`]: what such entries keep from others.
//! - [`status`], [`show`], [`server`], [`registrar`], [`tell`]: what is written and told.
//! - [`peers`]: the key by which agents know each other.
//!
//! A namespace is looked at as a whole, a moment after something in it has changed. No
//! takeover waits for any of this: agents decide among the candidates that are known.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::vip::VipId;
use floe_shell::{Unkept, stop::Stop};
use futures::{StreamExt as _, stream::FuturesUnordered};
use kube::Client;
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, MissedTickBehavior, interval, sleep_until},
};

use self::{release::Releases, server::Server, store::Vips, tell::Teller};
use crate::{
    cluster::{Change, Cluster},
    duty::Duty,
    events::Events,
    leader::Standing,
    metrics::Metrics,
    queue::{Merge, Queue},
    records::Records,
    store::{News, Store},
};

mod candidates;
mod claims;
mod leave;
mod made;
mod orphans;
pub mod peers;
mod plan;
mod registrar;
mod release;
mod remains;
mod round;
mod server;
mod show;
mod status;
pub mod store;
mod tell;
mod tend;
mod warrant;

/// How long more changes are waited for.
const MOMENT: Duration = Duration::from_millis(10);

/// How many namespaces are worked on at a time.
const NAMESPACES: usize = 8;

/// The time between two looks at what waits for time to pass.
const TICK: Duration = Duration::from_secs(1);

/// The time between two looks at everything when nothing is heard.
const PACE: Duration = Duration::from_secs(30);

/// How long nobody must have asked for an address by annotations before its object goes:
/// pods that are replaced may all be gone for a moment.
const UNCLAIMED: Duration = Duration::from_mins(1);

/// The same when pods that asked for it run on and do not any more, so that nobody is to come.
/// Longer than it takes until the pods of a workload that is deleted are deleted, too.
const RENOUNCED: Duration = Duration::from_secs(10);

/// The least time between two plans for one object.
const BETWEEN_PLANS: Duration = Duration::from_secs(10);

/// How long the status of an object may be behind its register before it is shown here: the
/// agent that has changed the register is about to.
const BEHIND: Duration = Duration::from_secs(3);

/// How long a pod that somebody wishes may take to be a candidate.
const HOPE: Duration = Duration::from_secs(30);

/// Where agents run, and the label by which they are known.
const AGENTS: (&str, &str, &str) = ("kube-system", "app.kubernetes.io/name", "floe-agent");

/// What a steward needs of the process.
pub struct Needs {
    /// The way to the API server.
    pub client: Client,
    /// Pods, nodes and workloads.
    pub cluster: Cluster,
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// All objects.
    pub vips: Vips,
    /// Where it is told.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
    /// Counts changes of CRDs.
    pub crd_changes: watch::Receiver<u64>,
}

/// Looks after all shared addresses.
pub struct Steward {
    cluster: Cluster,
    store: Store,
    records: Records,
    vips: Vips,
    standing: watch::Receiver<Standing>,
    crd_changes: watch::Receiver<u64>,
    server: Server,
    teller: Teller,
    metrics: Metrics,
    releases: Releases,
    memory: Mutex<Memory>,
}

/// What only this process remembers. Whoever leads next counts anew.
#[derive(Debug, Default)]
struct Memory {
    /// The pods that asked for the address of an object by annotations when somebody last did.
    claimants: BTreeMap<VipId, BTreeSet<String>>,
    /// Since when nobody asks for the address of an object by annotations.
    unclaimed: BTreeMap<VipId, Instant>,
    /// When a move was last planned.
    planned: BTreeMap<VipId, Instant>,
    /// The pods to which somebody wishes addresses to move, and since when.
    wishes: BTreeMap<VipId, (String, Instant)>,
    /// Since when records have no object.
    orphans: BTreeMap<VipId, Instant>,
    /// Since when entries have none, by its uid.
    lost: BTreeMap<String, Instant>,
    /// Since when a status does not show what the register says.
    behind: BTreeMap<VipId, Instant>,
    /// What the API server did not keep of a status.
    unkept: BTreeMap<VipId, Unkept>,
}

/// What has changed in a namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stir {
    /// These objects and nothing else. With many of them it matters.
    Objects(BTreeSet<VipId>),
    /// Something that may matter to all objects.
    All,
}

/// What has changed, by namespace.
type Stirred = BTreeMap<String, Stir>;

impl Default for Stir {
    fn default() -> Self {
        Self::Objects(BTreeSet::new())
    }
}

/// Any change ends the pause after a failure: what failed may not be what has changed.
impl Merge for Stir {
    fn merge(&mut self, other: Self) -> bool {
        match (&mut *self, other) {
            (Self::Objects(mine), Self::Objects(others)) => mine.extend(others),
            (Self::All, _) => {}
            (_, Self::All) => *self = Self::All,
        }
        true
    }
}

impl Stir {
    /// Whether this object has to be looked at.
    fn concerns(&self, id: &VipId) -> bool {
        match self {
            Self::Objects(ids) => ids.contains(id),
            Self::All => true,
        }
    }

    /// Whether this is so for one of the objects. Of all objects it may be.
    fn any(&self, is_so: impl Fn(&VipId) -> bool) -> bool {
        match self {
            Self::Objects(ids) => ids.iter().any(is_so),
            Self::All => true,
        }
    }
}

/// One object has changed.
fn one(id: VipId) -> Stirred {
    let namespace = id.namespace.clone();
    [(namespace, Stir::Objects([id].into()))].into()
}

/// Everything has to be looked at in these namespaces.
fn all(namespaces: BTreeSet<String>) -> Stirred {
    let all = namespaces.into_iter();
    all.map(|namespace| (namespace, Stir::All)).collect()
}

impl Steward {
    /// One that has not begun.
    pub fn new(needs: Needs) -> Self {
        Self {
            server: Server::new(needs.client, needs.vips.clone()),
            teller: Teller::new(needs.events, needs.metrics.clone()),
            cluster: needs.cluster,
            store: needs.store,
            records: needs.records,
            vips: needs.vips,
            standing: needs.standing,
            crd_changes: needs.crd_changes,
            metrics: needs.metrics,
            releases: Releases::default(),
            memory: Mutex::default(),
        }
    }

    /// Looks after shared addresses until `stop`, while this process leads.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        let forget = || {
            // Only a leader counts.
            self.metrics.vips().states(BTreeMap::new());
            *self.memory() = Memory::default();
            self.forget_reports();
        };
        duty.each_term(stop, || self.act(), forget).await;
    }

    async fn act(&self) {
        let mut changes = self.vips.changes();
        let mut nodes = self.cluster.changes();
        let mut news = self.store.news();
        let mut crd_changes = self.crd_changes.clone();
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut queue = Queue::<String, Stir>::new(NAMESPACES);
        let mut work = FuturesUnordered::new();
        let mut waiting = BTreeSet::new();
        let mut agents = self.agents();
        let mut last_look: Option<Instant> = None;
        loop {
            // Without the objects nobody can say which ones are missing.
            while self.vips.is_complete()
                && let Some((namespace, stir)) = queue.next(Instant::now())
            {
                if stir == Stir::All {
                    waiting.remove(&namespace);
                }
                let agents = agents.clone();
                work.push(async move {
                    let outcome = self.look(&namespace, &stir, &agents).await;
                    (namespace, stir, outcome)
                });
            }
            let due = queue.next_due().filter(|_| self.vips.is_complete());
            let stirred: Stirred = tokio::select! {
                Some((namespace, stir, outcome)) = work.next(), if !work.is_empty() => {
                    let failed = outcome.failed.then_some(stir);
                    queue.done(namespace.clone(), failed, Instant::now());
                    if outcome.waits {
                        waiting.insert(namespace);
                    }
                    continue;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => continue,
                stirred = self.cluster.stirred() => {
                    let now = self.agents();
                    if stirred.contains(AGENTS.0) && now != agents {
                        agents = now;
                        self.everywhere()
                    } else {
                        all(stirred)
                    }
                }
                change = changes.recv() => match change {
                    Ok(id) => one(id),
                    Err(RecvError::Lagged(_)) => self.everywhere(),
                    Err(RecvError::Closed) => return,
                },
                change = nodes.recv() => match change {
                    Ok(Change::Node(_) | Change::NodeReadiness(_) | Change::Relisted)
                    | Err(RecvError::Lagged(_)) => self.everywhere(),
                    Ok(_) => continue,
                    Err(RecvError::Closed) => return,
                },
                told = news.recv() => match told {
                    Ok(told) => self.concerned(&told),
                    Err(RecvError::Lagged(_)) => self.everywhere(),
                    Err(RecvError::Closed) => return,
                },
                Ok(()) = crd_changes.changed() => {
                    self.forget_unkept();
                    self.everywhere()
                }
                _ = ticks.tick() => {
                    self.count();
                    if last_look.is_none_or(|at| at.elapsed() >= PACE) && self.vips.is_complete() {
                        last_look = Some(Instant::now());
                        self.sweep().await;
                        self.everywhere()
                    } else {
                        all(waiting.clone())
                    }
                }
            };
            let due = Instant::now() + MOMENT;
            for (namespace, stir) in stirred {
                queue.add(namespace, stir, due);
            }
        }
    }

    /// All namespaces in which there can be something to do.
    fn everywhere(&self) -> Stirred {
        let mut namespaces = self.cluster.asking_namespaces();
        namespaces.extend(self.vips.all().into_iter().map(|(id, _)| id.namespace));
        // Of which the last object may have gone while no process led.
        namespaces.extend(self.orphaned_namespaces());
        all(namespaces)
    }

    /// To whom news of the books can matter.
    fn concerned(&self, news: &News) -> Stirred {
        let ip = match news {
            News::Configured | News::Relisted => return self.everywhere(),
            News::Freed(ip) | News::Changed(ip) => *ip,
            News::Pool(_) => return Stirred::new(),
        };
        let (is_shared, owner) = self.store.read(|books| {
            let ledger = books.ledger();
            let record = ledger.record(ip);
            let owner = record.and_then(|record| record.key.vip());
            (ledger.topology().shared_of(ip).is_some(), owner)
        });
        match owner {
            // It has got what it wanted; whoever wanted it too finds out when it tries.
            Some(id) => one(id),
            None if is_shared => self.everywhere(),
            None => Stirred::new(),
        }
    }

    /// The nodes whose agent lives, by the readiness of its pod. That is heard in a moment
    /// and needs no watch of its own; what an agent writes about its node is up to a
    /// minute old.
    fn agents(&self) -> BTreeSet<String> {
        let (namespace, label, value) = AGENTS;
        let members = self.cluster.members(namespace).into_iter();
        let agents = members.filter(|pod| {
            let label = pod.shape.labels.get(label);
            let lives = pod.ready_since.is_some() && !pod.terminating;
            lives && label.is_some_and(|it| it == value)
        });
        agents.filter_map(|pod| pod.node.clone()).collect()
    }

    fn count(&self) {
        let all = self.vips.all();
        self.teller.count(all.iter().map(|(id, vip)| (id, &**vip)));
        let exists = |id: &VipId| self.vips.get(id).is_some();
        self.releases.retain(exists);
        let mut memory = self.memory();
        memory.claimants.retain(|id, _| exists(id));
        memory.unclaimed.retain(|id, _| exists(id));
        memory.planned.retain(|id, _| exists(id));
        memory.wishes.retain(|id, _| exists(id));
        memory.behind.retain(|id, _| exists(id));
        let unkept = memory.unkept.extract_if(.., |id, _| !exists(id));
        let gone: Vec<VipId> = unkept.map(|(id, _)| id).collect();
        drop(memory);
        for id in gone {
            self.forget_report(&id);
        }
    }

    /// A panic in any task ends the process; until then memories are as good as they were.
    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub mod scene;
#[cfg(test)]
mod tests;
