//! The nodes and pods that one pool or record set is about, and which of the nodes fit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use floe_core::nodepool::{
    matching::{NodeFacts, PodFacts, Rule},
    pool::{Seen, Server},
};
use tokio::sync::watch;

use super::{
    check::Selection,
    facts::NodeView,
    watches::{Feed, Watches},
    witness::Witnesses,
};

/// The watches of a pool or record set.
pub struct Sight {
    selection: Selection,
    nodes: Arc<Feed<NodeView>>,
    node_changes: watch::Receiver<u64>,
    pods: Option<(Arc<Feed<PodFacts>>, watch::Receiver<u64>)>,
    dead: watch::Receiver<BTreeSet<String>>,
    /// They tell as long as somebody has them.
    _witnesses: Arc<Witnesses>,
}

/// A node, and why it does not fit if it does not.
pub struct Judged {
    /// The node.
    pub node: Arc<NodeView>,
    /// How it is, as the machine of a pool has it.
    pub seen: Seen,
}

impl Sight {
    /// Begins to watch what is selected, or joins those who do.
    pub fn new(watches: &Watches, selection: &Selection) -> Self {
        let nodes = watches.nodes(&selection.nodes);
        let witnesses = watches.witnesses();
        let pods = selection.pods.as_ref().map(|(namespace, selector)| {
            let feed = watches.pods(namespace, selector);
            let changes = feed.changes();
            (feed, changes)
        });
        Self {
            selection: selection.clone(),
            node_changes: nodes.changes(),
            nodes,
            pods,
            dead: witnesses.dead(),
            _witnesses: witnesses,
        }
    }

    /// What is watched.
    pub fn selection(&self) -> &Selection {
        &self.selection
    }

    /// Waits until something has changed.
    pub async fn changed(&mut self) {
        let pods = async {
            match &mut self.pods {
                // The sender lives as long as the feed, which is here.
                Some((_, changes)) => {
                    let _ = changes.changed().await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.node_changes.changed() => {}
            Ok(()) = self.dead.changed() => {}
            () = pods => {}
        }
    }

    /// All nodes that have a server, by it; none before everything was listed once.
    pub fn judge(&self, rule: &Rule) -> Option<BTreeMap<Server, Judged>> {
        let nodes = self.nodes.all()?;
        let pods = match &self.pods {
            Some((feed, _)) => feed.all()?,
            None => BTreeMap::new(),
        };
        let mut by_node = BTreeMap::<&str, Vec<&PodFacts>>::new();
        for pod in pods.values() {
            by_node.entry(&pod.node).or_default().push(pod);
        }
        let dead = self.dead.borrow();
        let mut judged = BTreeMap::<Server, Judged>::new();
        for node in nodes.into_values() {
            let facts = &node.facts;
            if facts.provider_id.is_empty() {
                continue;
            }
            let own = by_node.get(facts.name.as_str());
            let own = own.into_iter().flatten().copied();
            let unfit = if dead.contains(&facts.name) {
                let facts = NodeFacts {
                    unreachable: true,
                    ..facts.clone()
                };
                rule.unfit(&facts, own)
            } else {
                rule.unfit(facts, own)
            };
            let seen = Seen {
                name: facts.name.clone(),
                unfit,
            };
            let server = facts.provider_id.clone();
            // Two nodes of one server: an old object and the one that took its place.
            let taken = judged.get(&server);
            if taken.is_none_or(|it| it.seen.unfit.is_some()) {
                judged.insert(server, Judged { node, seen });
            }
        }
        Some(judged)
    }
}
