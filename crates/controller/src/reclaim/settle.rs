//! The work on one item: gather, decide, write, tell.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Mutex,
};

use floe_core::ipam::{
    attribute::Attribute,
    key::HolderKey,
    ledger::Record,
    overuse::Overuse,
    owner::{App, replica_set_of},
    reclaim::{self, Left, Settlement, Step},
    slot::{Cause, Departure},
    workload::{Scale, State, Workload},
};
use floe_providers::ProviderError;
use tokio::sync::Semaphore;
use tracing::info;

use super::{ASKING, Evidence, Item, Reclaimer, sight::Sight};
use crate::{
    cluster::{Freshness, Phase, Pod, is_name},
    records::{Holding, WriteError},
    turns::Turns,
};

/// Why an item has to be worked on again.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Nobody can say whether the pod is there.
    #[error("cannot read pod {namespace}/{pod}: {why}")]
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        pod: String,
        /// What went wrong.
        why: String,
    },
    /// The cloud still has the address on a node.
    #[error("cannot take {ip} from node {node} in the cloud")]
    Cloud {
        /// The address.
        ip: IpAddr,
        /// The node.
        node: String,
        /// What the provider says.
        #[source]
        source: ProviderError,
    },
    /// The record is not written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Failure {
    /// The stable reason for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Pod { .. } => "PodUnreadable",
            Self::Cloud { .. } => "CloudUnassignFailed",
            Self::Write(error) => error.reason(),
        }
    }

    /// Whether somebody else was only faster.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(WriteError::Conflict { .. }))
    }
}

/// Works on items.
pub(super) struct Settler<'a> {
    pub reclaimer: &'a Reclaimer,
    /// The right to ask the API server. Nobody has it while he waits for the cloud,
    /// so that a slow one does not hold up the others.
    asking: Semaphore,
    /// One decision at a time for each group whose addresses are counted.
    groups: Turns,
    /// What the last check found above its limit, and whether that was told.
    pub overused: Mutex<BTreeMap<Overuse, bool>>,
}

impl<'a> Settler<'a> {
    pub fn new(reclaimer: &'a Reclaimer) -> Self {
        Self {
            reclaimer,
            asking: Semaphore::new(ASKING),
            groups: Turns::default(),
            overused: Mutex::default(),
        }
    }

    /// Works on an item, and says what else to look at.
    pub async fn settle(&self, item: &Item, evidence: &Evidence) -> Result<Vec<Item>, Failure> {
        match item {
            Item::Check => Ok(self.check().await),
            Item::Pod { namespace, pod } => {
                self.settle_pod(namespace, pod, evidence).await?;
                Ok(Vec::new())
            }
            Item::App(app) => {
                let _asking = self.asking.acquire().await;
                self.settle_app(app).await
            }
        }
    }

    async fn settle_pod(
        &self,
        namespace: &str,
        pod: &str,
        evidence: &Evidence,
    ) -> Result<(), Failure> {
        // No pod can have such a name, and a key with it makes no sense. It would
        // become part of a path, too.
        if !is_name(namespace) || !is_name(pod) {
            return Ok(());
        }
        let reclaimer = self.reclaimer;
        let _turn = reclaimer.turns.wait(namespace, pod).await;
        self.take_promises_back(evidence);
        // Nobody closes it.
        let asking = self.asking.acquire().await;
        let left = self.left_by(namespace, pod, evidence).await?;
        if left.is_empty() {
            return Ok(());
        }
        drop(asking);
        for (record, ..) in left.iter().filter(|(record, ..)| !record.node.is_empty()) {
            let (node, ip) = (&record.node, record.ip);
            let unassigned = reclaimer.cloud.unassign(node, ip).await;
            unassigned.map_err(|source| Failure::Cloud {
                ip,
                node: node.clone(),
                source,
            })?;
        }
        let _asking = self.asking.acquire().await;
        let workloads = self.workloads_of(&left).await;
        let mut turns = Vec::new();
        for group in counted_groups(&left) {
            turns.push(self.groups.wait("", group.as_str()).await);
        }
        let settlements = reclaimer.store.read(|books| {
            let left: Vec<Left<'_>> = left
                .iter()
                .zip(&workloads)
                .map(|((record, departure, _), workload)| Left {
                    record,
                    departure: *departure,
                    workload,
                })
                .collect();
            reclaim::settle(books.ledger(), &left)
        });
        let mut result = Ok(());
        for settlement in settlements {
            let note = left
                .iter()
                .find(|(record, ..)| record.ip == settlement.record.ip);
            let note = note.and_then(|(_, _, app)| app.note());
            // One that fails does not stop the others.
            let written = self.write(&settlement, note).await;
            result = result.and(written);
        }
        Ok(result?)
    }

    /// A pod that is gone needs nothing that was set aside for it. Nobody binds it
    /// now, for the turn is ours.
    fn take_promises_back(&self, evidence: &Evidence) {
        for uid in evidence.0.keys() {
            let promise = self.reclaimer.store.change(|books| {
                let promise = books.ledger().promise_to(uid).cloned();
                books.promise(uid, None);
                promise
            });
            if let Some(promise) = promise {
                self.reclaimer.waiting.given_back(promise);
            }
        }
    }

    /// The records that no pod of the name runs with, and what they belong to.
    async fn left_by(
        &self,
        namespace: &str,
        name: &str,
        evidence: &Evidence,
    ) -> Result<Vec<(Record, Departure, App)>, Failure> {
        let records: Vec<Record> = self.reclaimer.store.read(|books| {
            let records = books.of_pod(namespace, name);
            records.filter(|record| !record.reserved).cloned().collect()
        });
        let cached = self.reclaimer.cluster.pod(namespace, name);
        let cached = cached.as_deref().filter(|pod| pod.phase != Phase::Finished);
        let mut sight = None;
        let mut left = Vec::new();
        for record in records {
            let known = evidence.about(&record.uid);
            let departure = if cached.is_some_and(|pod| runs_with(pod, &record)) {
                None
            } else if let Some((_, departure)) = known {
                Some(*departure)
            } else {
                if sight.is_none() {
                    sight = Some(Sight::of(&self.reclaimer.client, namespace, name).await);
                }
                match &sight {
                    Some(Sight::Unreadable(why)) => {
                        return Err(Failure::Pod {
                            namespace: namespace.to_owned(),
                            pod: name.to_owned(),
                            why: why.clone(),
                        });
                    }
                    Some(sight) => Departure::seen(&record.uid, sight.of_address(record.ip)),
                    None => None,
                }
            };
            let app = app_of(&record, known.map(|(pod, _)| &**pod));
            if let (Some(departure), Some(app)) = (departure, app) {
                left.push((record, departure, app));
            }
        }
        Ok(left)
    }

    /// The workloads, read directly where they decide about anything.
    async fn workloads_of(&self, left: &[(Record, Departure, App)]) -> Vec<Workload> {
        let mut result: Vec<Workload> = Vec::new();
        for (record, _, app) in left {
            let asks = self
                .reclaimer
                .store
                .read(|books| reclaim::asks_the_workload(books.ledger(), record));
            let known = result.iter().find(|workload| workload.app == *app);
            let workload = match known {
                Some(known) if !asks || is_read(known) => known.clone(),
                _ if asks => {
                    let workloads = &self.reclaimer.workloads;
                    workloads.workload(app.clone(), Freshness::Direct).await
                }
                _ => unread(app.clone()),
            };
            result.push(workload);
        }
        result
    }

    async fn write(&self, settlement: &Settlement, note: Option<String>) -> Result<(), WriteError> {
        let records = &self.reclaimer.records;
        let Settlement {
            record,
            verdict,
            step,
        } = settlement;
        match step {
            Step::Leave => return Ok(()),
            Step::Free => records.free(record).await?,
            Step::Rest(key) => {
                let holding = Holding {
                    key: key.clone(),
                    place: Attribute::default(),
                    policy: record.policy,
                    note: record.workload_note.clone().or(note),
                };
                records.change(record, &holding).await?;
            }
        }
        self.tell(record, step, verdict.departure.text(), verdict.cause);
        Ok(())
    }

    async fn settle_app(&self, app: &App) -> Result<Vec<Item>, Failure> {
        let Reclaimer {
            workloads,
            store,
            records,
            ..
        } = self.reclaimer;
        let Ok(group) = app.holder(None, "").key() else {
            return Ok(Vec::new());
        };
        let is_empty = |workload: &Workload| {
            store.read(|books| reclaim::leftovers(books.ledger(), workload).is_empty())
        };
        let cached = workloads.workload(app.clone(), Freshness::Cached).await;
        if is_empty(&cached) {
            return Ok(Vec::new());
        }
        let workload = workloads.workload(app.clone(), Freshness::Direct).await;
        let _turn = self.groups.wait("", group.as_str()).await;
        let leftovers = store.read(|books| reclaim::leftovers(books.ledger(), &workload));
        let mut result = Ok(());
        for (record, cause) in leftovers.spares {
            let freed = records.free(&record).await;
            if freed.is_ok() {
                self.tell(&record, &Step::Free, "spare", cause);
            }
            result = result.and(freed);
        }
        result?;
        let pods = leftovers.pods.into_iter().map(|pod| Item::Pod {
            namespace: app.namespace.clone(),
            pod,
        });
        Ok(pods.collect())
    }

    fn tell(&self, record: &Record, step: &Step, what: &'static str, cause: Cause) {
        let fate = match step {
            Step::Leave => "left",
            Step::Free => "freed",
            Step::Rest(key) if *key == record.key => "kept",
            Step::Rest(_) => "spare",
        };
        info!(
            ip = %record.ip,
            key = %record.key,
            node = record.node,
            uid = record.uid,
            pod = what,
            fate,
            reason = cause.reason(),
            galaxy = cause.galaxy_text(),
            "address was left",
        );
        self.reclaimer.metrics.reclaimed(fate, cause.reason());
    }
}

/// Whether a pod that was seen may run with the address of a record.
fn runs_with(pod: &Pod, record: &Record) -> bool {
    record.uid.is_empty() || record.uid == pod.uid || pod.addresses.contains(&record.ip)
}

/// The workload of a record. A key does not tell the API group of a kind: where
/// galaxy stored it without floe's note, the owners of the pod do, if it is known.
fn app_of(record: &Record, pod: Option<&Pod>) -> Option<App> {
    let parts = record.key.parts()?;
    let by_owners = pod
        .filter(|pod| record.workload_note.is_none() && replica_set_of(&pod.owners).is_none())
        .and_then(|pod| App::of_pod(&pod.namespace, &pod.owners, None).ok())
        .filter(|app| app.prefix().as_str() == parts.kind && app.name == parts.app);
    by_owners.or_else(|| App::of_key(&parts, record.workload_note.as_deref()))
}

/// The groups whose addresses are counted to decide, in an order that is the same
/// for everybody.
fn counted_groups(left: &[(Record, Departure, App)]) -> BTreeSet<HolderKey> {
    left.iter()
        .filter(|(_, _, app)| app.kind.shares_spares())
        .filter_map(|(record, ..)| record.key.group_key())
        .collect()
}

/// A workload that nobody has to ask.
fn unread(app: App) -> Workload {
    let why = || UNREAD.to_owned();
    Workload {
        app,
        scale: Scale::Unreadable { why: why() },
        state: State::Unreadable { why: why() },
    }
}

const UNREAD: &str = "not read, because it does not matter";

fn is_read(workload: &Workload) -> bool {
    !matches!(&workload.state, State::Unreadable { why } if why == UNREAD)
}
