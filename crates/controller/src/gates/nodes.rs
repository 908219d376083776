//! What a scheduler that does not know floe has to see on nodes: in which node subnet they
//! are, and that they have the resource.
//!
//! Kubelets leave labels alone, but set resources that they do not know to zero when they
//! start anew. So what is there is compared each time a node changes.

use std::{collections::BTreeMap, time::Duration};

use floe_core::{
    ipam::names,
    schedule::gate::{NODE_SUBNET, capacity, quantity, subnet_value},
};
use floe_shell::{logs, stop::Stop};
use futures::{StreamExt as _, stream::FuturesUnordered};
use k8s_openapi::api::core::v1::Node as NodeResource;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::{
    sync::{broadcast::error::RecvError, watch},
    time::{Instant, sleep_until, timeout},
};
use tracing::{debug, info, warn};

use crate::{
    cluster::{Change, Cluster, Node},
    duty::Duty,
    leader::Standing,
    queue::Queue,
    store::{News, Store},
};

/// How many nodes are written at a time.
const PARALLEL: usize = 8;

/// The time between two looks at all nodes.
const PACE: Duration = Duration::from_mins(1);

/// One change comes with another, and most are this process's own.
const MOMENT: Duration = Duration::from_millis(100);

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// Keeps nodes so.
pub struct NodeKeeper {
    /// The way to the API server.
    pub client: Client,
    /// The nodes.
    pub cluster: Cluster,
    /// The configuration in force.
    pub store: Store,
    /// The most that a node offers of the resource.
    pub cap: Option<u64>,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

/// What a node should have: nothing, where it is in no configured subnet.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    subnet: Option<String>,
    amount: Option<String>,
}

impl NodeKeeper {
    /// Keeps nodes so until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.store.warmth());
        duty.each_term(stop, || self.act(), || ()).await;
    }

    async fn act(&self) {
        let mut changes = self.cluster.changes();
        let mut news = self.store.news();
        let mut queue: Queue<String, ()> = Queue::new(PARALLEL);
        let mut work = FuturesUnordered::new();
        let mut next_look = Instant::now();
        loop {
            let now = Instant::now();
            if next_look <= now {
                for (name, node) in self.cluster.every_node() {
                    if self.differs(&node).is_some() {
                        queue.add(name, (), now);
                    }
                }
                next_look = now + PACE;
            }
            while let Some((name, ())) = queue.next(now) {
                work.push(async move {
                    let done = self.correct(&name).await;
                    (name, done)
                });
            }
            let wake = queue.next_due().map_or(next_look, |due| due.min(next_look));
            tokio::select! {
                change = changes.recv() => match change {
                    Ok(Change::Node(name) | Change::NodeLooks(name)) => {
                        queue.add(name, (), Instant::now() + MOMENT);
                    }
                    Ok(Change::Relisted) | Err(RecvError::Lagged(_)) => next_look = Instant::now(),
                    Ok(_) | Err(RecvError::Closed) => {}
                },
                told = news.recv() => {
                    if matches!(told, Ok(News::Configured) | Err(RecvError::Lagged(_))) {
                        next_look = Instant::now();
                    }
                }
                Some((name, done)) = work.next() => {
                    let failed = done.is_err().then_some(());
                    if let Err(error) = done {
                        warn!(
                            reason = "NodeNotLabelled",
                            node = name,
                            error,
                            "node does not show yet which addresses it can carry",
                        );
                    }
                    queue.done(name, failed, Instant::now());
                }
                () = sleep_until(wake) => {}
            }
        }
    }

    /// What a node should have, if it is not so. While nothing at all is configured
    /// nobody can tell.
    fn differs(&self, node: &Node) -> Option<Wanted> {
        let wanted = self.store.read(|books| {
            let topology = books.ledger().topology();
            if topology.config().entries().is_empty() {
                return None;
            }
            let subnet = node.address.and_then(|it| topology.node_subnet(it));
            Some(Wanted {
                subnet: subnet.map(subnet_value),
                amount: subnet.map(|it| quantity(capacity(topology, it, self.cap))),
            })
        })?;
        let looks = &node.looks;
        let is_so = looks.labels.get(NODE_SUBNET) == wanted.subnet.as_ref()
            && looks.capacity.addresses == wanted.amount
            && looks.allocatable.addresses == wanted.amount;
        (!is_so).then_some(wanted)
    }

    async fn correct(&self, name: &str) -> Result<(), String> {
        let Some(node) = self.cluster.node(name) else {
            return Ok(());
        };
        let Some(Wanted { subnet, amount }) = self.differs(&node) else {
            return Ok(());
        };
        let nodes: Api<NodeResource> = Api::all(self.client.clone());
        let params = PatchParams::default();
        if node.looks.labels.get(NODE_SUBNET) != subnet.as_ref() {
            info!(node = name, subnet, "node gets the label of its subnet");
            let patch = json!({ "metadata": { "labels": { NODE_SUBNET: subnet } } });
            let patch = Patch::Merge(&patch);
            answered(nodes.patch_metadata(name, &params, &patch)).await?;
        }
        let looks = &node.looks;
        if looks.capacity.addresses != amount || looks.allocatable.addresses != amount {
            debug!(node = name, amount, "node offers addresses");
            let offered = BTreeMap::from([(names::RESOURCE, &amount)]);
            let patch = json!({ "status": { "capacity": offered, "allocatable": offered } });
            let patch = Patch::Merge(&patch);
            answered(nodes.patch_status(name, &params, &patch)).await?;
        }
        Ok(())
    }
}

/// What came of a write. A node that is gone needs nothing.
async fn answered<T>(write: impl Future<Output = kube::Result<T>>) -> Result<(), String> {
    match timeout(PATIENCE, write).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Ok(()),
        Ok(Err(error)) => Err(logs::with_causes(&error)),
        Err(_) => Err(format!("no answer within {PATIENCE:?}")),
    }
}
