//! What this process knows of pods, nodes and workloads, fed by watches.
//!
//! - [`pod`]: a pod, with what decisions need of it.
//! - [`workloads`]: what a pod belongs to, and how many of it are wanted.
//! - [`crowd`]: all pods, with what shared addresses need of them.
//! - [`deployments`]: what updates of Deployments need to know.
//! - [`custom`]: workloads of kinds that are not built in.
//! - [`feed`](mod@feed): the watches, and [`pods`], [`nodes`], [`builtin`]: how their
//!   events are entered.
//! - [`slim`]: objects with only what is needed; [`table`]: where they are kept.
//! - [`ask`](mod@ask): single questions to the API server.
//!
//! Of other pods than those that want an address only the crowd is kept. A cache may lag behind: whoever takes
//! something away reads directly before.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
};

use floe_core::{
    ipam::owner::App,
    schedule::gate::needs::{self, Accepts, Needs},
};
use tokio::sync::broadcast;

pub use self::{
    ask::is_name,
    builtin::Sort,
    crowd::{Asks, Herd, Member},
    deployments::Deployment,
    feed::{Feeds, feed},
    nodes::Node,
    pod::{Assigned, Phase, Pod},
    slim::{NodeObject, PodObject},
    workloads::{Freshness, Unreadable, Workloads},
};
use self::{builtin::Builtin, crowd::Crowd, custom::Watches, table::Table};

mod ask;
mod builtin;
mod crowd;
mod custom;
mod deployments;
mod feed;
mod nodes;
mod pod;
mod pods;
mod slim;
mod table;
mod workloads;

/// How many changes a reader may lag behind.
const CHANGES: usize = 4096;

/// Names and addresses of nodes.
pub type Addressed = Vec<(String, Option<IpAddr>)>;

/// Shared access to the caches.
#[derive(Clone, Debug)]
pub struct Cluster(Arc<Caches>);

/// Each cache has one writer, its watch. No lock is held while a change is told.
#[derive(Debug)]
struct Caches {
    pods: Mutex<Table<Arc<Pod>>>,
    /// Readers take the whole table and look at it without the lock.
    nodes: RwLock<Arc<Table<Node>>>,
    builtin: Builtin,
    crowd: Crowd,
    custom: Watches,
    changes: broadcast::Sender<Change>,
}

/// Something that others may have to act on. Told after the caches have it.
#[derive(Clone, Debug)]
pub enum Change {
    /// A pod that wants an address is new, or is different in something that
    /// [`Pod`] has. `before` is its state until then.
    Pod {
        /// Its state now.
        now: Arc<Pod>,
        /// Its state until then.
        before: Option<Arc<Pod>>,
    },
    /// A pod that wanted an address is gone; this was its last known state.
    PodGone(Arc<Pod>),
    /// A list lacks a pod that was known, so its end was missed: most likely it is
    /// gone. This was its last known state.
    PodMissing(Arc<Pod>),
    /// A workload is new, scaled or gone, or has another revision.
    Workload(App),
    /// A node is new, gone, or has another address.
    Node(
        #[allow(
            dead_code,
            reason = "for readers of Debug; so far all look at every node"
        )]
        String,
    ),
    /// A node that was known has become ready, or has ceased to be.
    NodeReadiness(String),
    /// A node that was known has other labels or taints, or offers another amount of
    /// the resource of floating IPs.
    NodeLooks(String),
    /// A complete list has replaced what was known: anything may have changed. Of
    /// a first list only this is told, of later ones also each difference.
    Relisted,
}

impl Cluster {
    /// Empty caches.
    pub fn new() -> Self {
        Self(Arc::new(Caches {
            pods: Mutex::default(),
            nodes: RwLock::default(),
            builtin: Builtin::default(),
            crowd: Crowd::default(),
            custom: Watches::default(),
            changes: broadcast::Sender::new(CHANGES),
        }))
    }

    /// Where changes are told from now on. Whoever lags behind misses some, learns
    /// that, and looks at everything.
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.changes.subscribe()
    }

    /// A pod that wants an address, by its name.
    pub fn pod(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        lock(&self.0.pods).get(namespace, name).cloned()
    }

    /// All pods that want an address.
    pub fn pods(&self) -> Vec<Arc<Pod>> {
        lock(&self.0.pods).values().cloned().collect()
    }

    /// A node.
    pub fn node(&self, name: &str) -> Option<Node> {
        self.node_table().get("", name).cloned()
    }

    /// Looks at many nodes at once: calls `look` with a lookup function. All
    /// lookups see the same moment.
    pub fn nodes<R>(&self, look: impl FnOnce(&dyn Fn(&str) -> Option<IpAddr>) -> R) -> R {
        let nodes = self.node_table();
        look(&|name| nodes.get("", name)?.address)
    }

    /// The names and addresses of all nodes.
    pub fn all_nodes(&self) -> Addressed {
        let nodes = self.node_table();
        let all = nodes.iter();
        all.map(|(_, name, node)| (name.to_owned(), node.address))
            .collect()
    }

    /// The nodes that a pod accepts; if there are none, those that it would accept if
    /// they were in order.
    pub fn accepted_by(&self, needs: &Needs) -> Addressed {
        let (now, later) = self.accepting(needs);
        if now.is_empty() { later } else { now }
    }

    /// The nodes that a pod accepts as they are.
    pub fn accepted_now_by(&self, needs: &Needs) -> Addressed {
        self.accepting(needs).0
    }

    fn accepting(&self, needs: &Needs) -> (Addressed, Addressed) {
        let nodes = self.node_table();
        let (mut now, mut later) = (Vec::new(), Vec::new());
        for (_, name, node) in nodes.iter() {
            let looks = needs::Looks {
                name,
                labels: &node.looks.labels,
                taints: &node.looks.taints,
            };
            match needs.accept(looks) {
                Accepts::Yes => now.push((name.to_owned(), node.address)),
                Accepts::Later => later.push((name.to_owned(), node.address)),
                Accepts::No => {}
            }
        }
        (now, later)
    }

    /// Whether a pod with these needs accepts a node, as far as the cache knows the node;
    /// `None` for a node that it does not know.
    pub fn accepts(&self, needs: &Needs, node: &str) -> Option<Accepts> {
        let known = self.node(node)?;
        Some(needs.accept(needs::Looks {
            name: node,
            labels: &known.looks.labels,
            taints: &known.looks.taints,
        }))
    }

    /// Whether a control-plane node has this address, see
    /// [`Host`](floe_core::schedule::caller::Host).
    pub fn is_control_plane(&self, address: IpAddr) -> bool {
        let nodes = self.node_table();
        nodes.values().any(|node| node.callers.contains(&address))
    }

    /// The names of all nodes, with everything that is known of them.
    pub fn every_node(&self) -> Vec<(String, Node)> {
        let nodes = self.node_table();
        let all = nodes.iter();
        all.map(|(_, name, node)| (name.to_owned(), node.clone()))
            .collect()
    }

    fn node_table(&self) -> Arc<Table<Node>> {
        let nodes = self.0.nodes.read();
        nodes.unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell(&self, changes: impl IntoIterator<Item = Change>) {
        for change in changes {
            // An error means that nobody listens.
            let _ = self.0.changes.send(change);
        }
    }
}

/// A panic in any task ends the process; until then the caches are as good for
/// the others as they were.
fn lock<T>(cache: &Mutex<T>) -> MutexGuard<'_, T> {
    cache.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
