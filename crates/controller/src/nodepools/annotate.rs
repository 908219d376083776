//! The annotations of nodes: which addresses pools have given them.
//!
//! A node may serve several pools, so one task knows what all of them say. Compat: FLIPOP's
//! key has room for one address: it names that of the first pool, by namespace and name.
//!
//! A pool sees only nodes that it selects. So the annotations of all nodes are read once,
//! when the pools are known: those of a node that has lost its label meanwhile are taken
//! off, too, and so are those of a pool that was deleted while no controller ran.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use floe_api::flipop::{address, pool::FloatingIPPool};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep, sleep_until},
};
use tracing::{debug, info, warn};

use super::{
    facts::Notes,
    objects::{Id, Objects},
    server::{Failure, Server},
};

/// The pause before a failed patch is tried again.
const PAUSE: Duration = Duration::from_secs(5);

/// The pools, as the API server has them.
type Pools = BTreeMap<Id, Arc<FloatingIPPool>>;

/// What a pool says.
#[derive(Debug)]
pub struct Word {
    /// Which pool, and its uid: another one may have taken its name.
    pub pool: (Id, String),
    /// What it has given to nodes.
    pub given: Given,
}

/// What nodes were given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// All addresses of the pool. A node that was given none of them shall not be annotated
    /// with one.
    pub ips: BTreeSet<IpAddr>,
    /// By the name of the node.
    pub nodes: BTreeMap<String, BTreeSet<IpAddr>>,
    /// What the annotations of nodes say, as far as that is news to the pool.
    pub seen: BTreeMap<String, Notes>,
}

/// Where pools say it.
pub type Words = mpsc::UnboundedSender<Word>;

/// Annotates nodes as pools say, as long as somebody can say something.
pub async fn run(
    server: Server,
    mut words: mpsc::UnboundedReceiver<Word>,
    objects: Objects<FloatingIPPool>,
) {
    let mut changes = objects.changes();
    let mut known = listed(&objects).await;
    let present = present(&server).await;
    let mut annotator = Annotator {
        server,
        pools: BTreeMap::new(),
        present,
        failed: BTreeSet::new(),
        is_swept: false,
        told: false,
    };
    annotator.sweep(&known).await;
    loop {
        let is_done = annotator.failed.is_empty() && annotator.is_swept;
        let retry = (!is_done).then(|| Instant::now() + PAUSE);
        tokio::select! {
            word = words.recv() => match word {
                Some(word) => annotator.hear(word).await,
                None => return,
            },
            // The sender lives as long as the objects.
            _ = changes.changed() => {
                let before = std::mem::replace(&mut known, listed(&objects).await);
                // What a pool has written is taken off by its own word, if it has a task
                // that can still say it.
                if before.keys().any(|id| !known.contains_key(id)) {
                    annotator.sweep(&known).await;
                }
            }
            () = sleep_until(retry.unwrap_or_else(Instant::now)), if retry.is_some() => {
                let again = std::mem::take(&mut annotator.failed);
                annotator.annotate(again).await;
                if !annotator.is_swept {
                    annotator.sweep(&known).await;
                }
            }
        }
    }
}

/// All pools, once they are known.
async fn listed(objects: &Objects<FloatingIPPool>) -> Pools {
    let mut changes = objects.changes();
    loop {
        if let Some(all) = objects.all() {
            return all;
        }
        // The sender lives as long as the objects.
        let _ = changes.changed().await;
    }
}

/// What the annotations of all nodes say.
async fn present(server: &Server) -> BTreeMap<String, Notes> {
    let mut told = false;
    loop {
        match server.notes().await {
            Ok(notes) => return notes,
            Err(failure) => {
                if !std::mem::replace(&mut told, true) {
                    let reason = "NodeNotAnnotated";
                    warn!(reason, error = %failure, "the annotations of nodes are not known");
                }
                sleep(PAUSE).await;
            }
        }
    }
}

struct Annotator {
    server: Server,
    pools: BTreeMap<(Id, String), BTreeMap<String, BTreeSet<IpAddr>>>,
    present: BTreeMap<String, Notes>,
    failed: BTreeSet<String>,
    /// Whether nothing is left of pools that are gone.
    is_swept: bool,
    /// Whether it was told that patches fail.
    told: bool,
}

impl Annotator {
    async fn hear(&mut self, word: Word) {
        let Word { pool, given } = word;
        let Given { ips, nodes, seen } = given;
        self.present.extend(seen);
        let mut concerned: BTreeSet<String> = nodes.keys().cloned().collect();
        let named = self.present.iter();
        let named = named.filter(|(_, notes)| !notes.addresses().is_disjoint(&ips));
        concerned.extend(named.map(|(node, _)| node.clone()));
        let before = self.pools.insert(pool.clone(), nodes);
        concerned.extend(before.into_iter().flat_map(BTreeMap::into_keys));
        if self.pools.get(&pool).is_some_and(BTreeMap::is_empty) {
            self.pools.remove(&pool);
        }
        self.annotate(concerned).await;
    }

    /// Takes off what pools have left that are gone: addresses that stand in no pool's list,
    /// and that no pool has given.
    async fn sweep(&mut self, known: &Pools) {
        let texts = known.values().flat_map(|it| &it.spec.ips);
        let mut living: BTreeSet<IpAddr> = texts.filter_map(|it| address::parse(it)).collect();
        living.extend(self.pools.values().flat_map(BTreeMap::values).flatten());
        let left = self.present.iter();
        let left = left.filter_map(|(node, notes)| Some((node.clone(), notes.only(&living)?)));
        let left: Vec<(String, Notes)> = left.collect();
        self.is_swept = true;
        for (node, wanted) in left {
            info!(node, "annotated by a pool that is gone");
            self.is_swept &= self.write(&node, wanted).await;
        }
    }

    async fn annotate(&mut self, nodes: BTreeSet<String>) {
        for node in nodes {
            let wanted = self.wanted(&node);
            // Nothing was told of nodes that say nothing.
            if *self.present.get(&node).unwrap_or(&Notes::default()) == wanted {
                continue;
            }
            if !self.write(&node, wanted).await {
                self.failed.insert(node);
            }
        }
    }

    /// Whether it is there, or nobody needs it any more.
    async fn write(&mut self, node: &str, wanted: Notes) -> bool {
        match self.server.annotate(node, &wanted).await {
            Ok(()) => {
                debug!(node, "annotated");
                self.present.insert(node.to_owned(), wanted);
                self.told = false;
                true
            }
            Err(Failure::Gone) => {
                self.present.remove(node);
                true
            }
            Err(failure) => {
                if !std::mem::replace(&mut self.told, true) {
                    let reason = "NodeNotAnnotated";
                    warn!(reason, node, error = %failure, "a node is not annotated");
                }
                false
            }
        }
    }

    fn wanted(&self, node: &str) -> Notes {
        let given = self.pools.values().filter_map(|pool| pool.get(node));
        let mut all: Vec<IpAddr> = Vec::new();
        for ip in given.flatten() {
            if !all.contains(ip) {
                all.push(*ip);
            }
        }
        let first = |v4: bool| {
            all.iter()
                .find(|ip| ip.is_ipv4() == v4)
                .map(ToString::to_string)
        };
        let texts: Vec<String> = all.iter().map(ToString::to_string).collect();
        Notes {
            v4: first(true),
            v6: first(false),
            all: (!texts.is_empty()).then(|| texts.join(",")),
        }
    }
}
