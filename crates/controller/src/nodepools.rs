//! Node floating IPs: what the leader does about `FloatingIPPool` and `NodeDNSRecordSet`.
//!
//! ```text
//!   objects ── steward ──┬── worker: one task for each pool, with the core's machine
//!                        └── recordset: one task for each record set
//!                               │
//!   watches, sight: only the nodes and pods that somebody selects; witness: who is dead
//!   account: one list for all pools of a cloud, rate limits; names: DNS
//!   server, status, annotate, tell: what is written and told
//! ```
//!
//! - [`l2`]: the provider without a cloud: agents keep the addresses on their nodes.
//! - [`schema`]: fields that the API server does not keep; [`permissions`]: what this process
//!   may not do; [`blocked`]: pools report it when nothing works without it.
//! - [`check`]: whether a specification can be followed, in FLIPOP's words; [`rivalry`]: which
//!   pools list an address that another one keeps.
//!
//! A fault of one pool stops no other: each has its own task, and one that breaks is begun
//! anew. Only a leader acts; should two do it at once, versions of objects, and what the
//! machine wrote down before it bought, keep them from doing things twice.

use std::{collections::BTreeMap, fmt::Debug, sync::Arc, time::Duration};

use floe_api::flipop::{pool::FloatingIPPool, records::NodeDNSRecordSet};
use floe_core::nodepool::{cloud::Refusal, records::RecordSet};
use floe_providers::registry::Registry;
use floe_shell::{backoff, stop::Stop};
use kube::{Client, Resource};
use tokio::{
    sync::{mpsc, watch},
    task::{self, JoinError, JoinSet},
    time::{Instant, sleep, sleep_until},
};
use tracing::{error, info, warn};

use self::{
    account::Accounts, annotate::Words, check::DnsPlan, clock::Clock, objects::Objects,
    permissions::Missing, rivalry::Rivals, server::Server, tell::Teller, watches::Watches,
};
use crate::{
    events::Events,
    installation::{Installation, PERMISSION_MISSING, SCHEMA_OUTDATED},
    leader::Standing,
    metrics::{Metrics, NodePools},
};

pub use self::{account::Caller, objects::Id};

mod account;
mod annotate;
mod blocked;
mod check;
mod clock;
mod facts;
pub mod l2;
mod names;
mod objects;
mod permissions;
mod recordset;
mod rivalry;
mod schema;
mod server;
mod sight;
mod status;
mod tell;
mod watches;
mod witness;
mod worker;

/// The pause before a task that has broken is begun anew.
const BROKEN: Duration = Duration::from_secs(30);

/// What a steward needs of the process.
pub struct Needs {
    /// The way to the API server.
    pub client: Client,
    /// Clouds and name servers.
    pub registry: Registry,
    /// Where it is told.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
    /// Counts changes of CRDs.
    pub crd_changes: watch::Receiver<u64>,
}

/// Looks after all pools and record sets.
pub struct Steward {
    needs: Needs,
    pools: Objects<FloatingIPPool>,
    record_sets: Objects<NodeDNSRecordSet>,
}

/// What all tasks share.
struct Shared {
    server: Server,
    watches: Watches,
    accounts: Accounts,
    registry: Registry,
    words: Words,
    teller: Teller,
    metrics: NodePools,
    clock: Clock,
    /// The uid of the cluster.
    cluster: String,
    /// The pools that list an address of another one.
    rivals: watch::Sender<Rivals>,
    /// Where CRDs that lack fields are reported.
    installation: Installation,
    /// Counts changes of CRDs.
    crd_changes: watch::Receiver<u64>,
    /// What this process may not do.
    missing: watch::Receiver<Missing>,
}

impl Shared {
    async fn write_name(
        &self,
        plan: &DnsPlan,
        caller: &Caller,
        set: &RecordSet,
    ) -> Result<(), Refusal> {
        let pace = self.accounts.pace(&plan.provider);
        let call = plan.dns.ensure(set);
        pace.call("EnsureDNSARecordSet", Some(caller), call).await
    }

    async fn remove_name(
        &self,
        plan: &DnsPlan,
        caller: &Caller,
        set: &RecordSet,
    ) -> Result<(), Refusal> {
        let pace = self.accounts.pace(&plan.provider);
        let call = plan.dns.remove(set);
        pace.call("RemoveDNSRecordSet", Some(caller), call).await
    }
}

impl Steward {
    /// One that has not begun.
    pub fn new(needs: Needs) -> Self {
        Self {
            needs,
            pools: Objects::default(),
            record_sets: Objects::default(),
        }
    }

    /// Looks after pools and record sets until `stop`, while this process leads.
    pub async fn run(self, mut stop: Stop) {
        let client = &self.needs.client;
        let pools = self.pools.clone();
        let pools = pools.feed(client.clone(), "floatingippools", stop.clone());
        let record_sets = self.record_sets.clone();
        let record_sets = record_sets.feed(client.clone(), "nodednsrecordsets", stop.clone());
        let work = async {
            tokio::join!(pools, record_sets, self.serve());
        };
        tokio::select! {
            () = stop.requested() => {}
            () = work => {}
        }
    }

    async fn serve(&self) {
        let mut standing = self.needs.standing.clone();
        let leads = |it: &Standing| *it == Standing::Leading;
        loop {
            if standing.wait_for(leads).await.is_err() && !leads(&standing.borrow()) {
                // Nobody is left who could let this process lead.
                std::future::pending::<()>().await;
            }
            let mut ends = standing.clone();
            let ended = async {
                if ends.wait_for(|it| !leads(it)).await.is_err() {
                    std::future::pending::<()>().await;
                }
            };
            tokio::select! {
                () = ended => {}
                () = self.act() => {}
            }
            // Only a leader tells how pools are, and what it may not do for them.
            self.needs.metrics.node_pools().clear();
            let installation = self.needs.metrics.installation();
            installation.forget(PERMISSION_MISSING);
            for crd in [
                schema::crd::<FloatingIPPool>(),
                schema::crd::<NodeDNSRecordSet>(),
            ] {
                installation.forget_objects(SCHEMA_OUTDATED, &crd);
            }
        }
    }

    async fn act(&self) {
        let found = watch::Sender::new(Missing::default());
        let checking = async {
            let installation = self.needs.metrics.installation();
            permissions::check(self.needs.client.clone(), installation, &found).await;
        };
        let working = self.work(found.subscribe());
        tokio::join!(checking, working);
    }

    async fn work(&self, mut missing: watch::Receiver<Missing>) {
        let server = Server::new(self.needs.client.clone());
        let teller = Teller::new(self.needs.events.clone());
        let cluster = tokio::select! {
            uid = cluster(&server) => uid,
            () = blocked::report(&server, &teller, &self.pools, &self.record_sets, &mut missing) => return,
        };
        let (words, said) = mpsc::unbounded_channel();
        let metrics = self.needs.metrics.node_pools().clone();
        let clock = Clock::start();
        let shared = Arc::new(Shared {
            server: server.clone(),
            watches: Watches::new(self.needs.client.clone(), clock),
            accounts: Accounts::new(metrics.clone()),
            registry: self.needs.registry.clone(),
            words,
            teller,
            metrics,
            clock,
            cluster,
            rivals: watch::Sender::default(),
            installation: self.needs.metrics.installation().clone(),
            crd_changes: self.needs.crd_changes.clone(),
            missing,
        });
        let mut crew = Crew::default();
        let annotating = annotate::run(server, said, self.pools.clone());
        let managing = crew.manage(&shared, &self.pools, &self.record_sets);
        tokio::join!(annotating, managing);
    }
}

/// The uid of the cluster; without it nothing can be marked as bought.
async fn cluster(server: &Server) -> String {
    let mut failures = 0;
    loop {
        match server.cluster().await {
            Ok(uid) => return uid,
            Err(failure) => {
                if failures == 0 {
                    let reason = "ClusterUnknown";
                    warn!(reason, error = %failure, "the uid of namespace kube-system is not known");
                }
                sleep(backoff(failures)).await;
                failures += 1;
            }
        }
    }
}

/// All tasks. They end with it.
#[derive(Default)]
struct Crew {
    tasks: JoinSet<()>,
    pools: BTreeMap<Id, Member<FloatingIPPool>>,
    record_sets: BTreeMap<Id, Member<NodeDNSRecordSet>>,
}

/// A task, and where it hears how its object is.
struct Member<K> {
    object: watch::Sender<Arc<K>>,
    task: task::Id,
    /// It has broken, and is begun anew then.
    broken: Option<Instant>,
}

impl Crew {
    async fn manage(
        &mut self,
        shared: &Arc<Shared>,
        pools: &Objects<FloatingIPPool>,
        record_sets: &Objects<NodeDNSRecordSet>,
    ) {
        let (mut pool_changes, mut set_changes) = (pools.changes(), record_sets.changes());
        loop {
            // Before anybody begins with, or hears of, a list that others have too.
            if let Some(all) = pools.all() {
                rivalry::settle(&all, &shared.registry, &shared.rivals);
            }
            let again = [
                assign(&mut self.pools, &mut self.tasks, pools, |id, object| {
                    worker::run(Arc::clone(shared), id, object)
                }),
                assign(
                    &mut self.record_sets,
                    &mut self.tasks,
                    record_sets,
                    |id, object| recordset::run(Arc::clone(shared), id, object),
                ),
            ];
            let again = again.into_iter().flatten().min();
            tokio::select! {
                // The senders live as long as the objects.
                _ = pool_changes.changed() => {}
                _ = set_changes.changed() => {}
                Some(ended) = self.tasks.join_next_with_id(), if !self.tasks.is_empty() => {
                    self.ended(ended);
                }
                () = sleep_until(again.unwrap_or_else(Instant::now)), if again.is_some() => {}
            }
        }
    }

    fn ended(&mut self, ended: Result<(task::Id, ()), JoinError>) {
        // Whoever ends by itself has lost its object.
        let Err(failure) = ended else { return };
        let task = failure.id();
        let kept = mark(&mut self.pools, task).or_else(|| mark(&mut self.record_sets, task));
        let Some(Id { namespace, name }) = kept else {
            return;
        };
        let reason = "PoolTaskBroken";
        error!(reason, namespace, name, error = %failure, "a task has broken, it is begun anew");
    }
}

fn mark<K>(members: &mut BTreeMap<Id, Member<K>>, task: task::Id) -> Option<Id> {
    let (id, member) = members.iter_mut().find(|(_, it)| it.task == task)?;
    member.broken = Some(Instant::now() + BROKEN);
    Some(id.clone())
}

/// Gives each object a task, tells tasks how their objects are, and lets those end whose
/// objects are gone. Says when a broken one is to be begun anew.
fn assign<K, F>(
    members: &mut BTreeMap<Id, Member<K>>,
    tasks: &mut JoinSet<()>,
    objects: &Objects<K>,
    run: impl Fn(Id, watch::Receiver<Arc<K>>) -> F,
) -> Option<Instant>
where
    K: Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + Debug + PartialEq,
    K: Send + Sync + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    // Without the objects nobody can say which ones are gone.
    let all = objects.all()?;
    let now = Instant::now();
    let is_over = |member: &Member<K>| member.broken.is_some_and(|at| at <= now);
    members.retain(|id, member| {
        let same = |it: &Arc<K>| it.meta().uid == member.object.borrow().meta().uid;
        all.get(id).is_some_and(same) && !is_over(member)
    });
    for (id, object) in all {
        if let Some(member) = members.get(&id) {
            let changed = *member.object.borrow() != object;
            if changed {
                member.object.send_replace(object);
            }
            continue;
        }
        info!(namespace = id.namespace, name = id.name, kind = %K::kind(&()), "begins");
        let (sender, receiver) = watch::channel(object);
        let task = tasks.spawn(run(id.clone(), receiver)).id();
        let member = Member {
            object: sender,
            task,
            broken: None,
        };
        members.insert(id, member);
    }
    members.values().filter_map(|it| it.broken).min()
}

#[cfg(test)]
mod fakes;
#[cfg(test)]
mod scene;
#[cfg(test)]
mod tests;
