//! The nodes and pods that one pool or record set is about, and which of the nodes fit.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use floe_core::nodepool::{
    census::{Census, Field, Glance, News, bare_node},
    matching::{PodFacts, Rule},
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
    /// What was seen already, and by which rule.
    glance: Glance,
    rule: Option<Rule>,
    /// Whether nodes without a server count.
    with_bare: bool,
}

/// What is new. Who has no server is left out, unless those count.
pub enum Looked {
    /// All nodes, by server: who is not in it is gone.
    All(BTreeMap<Server, Judged>),
    /// Only those about which something may have changed; none when no node has that
    /// server any more.
    Changed(BTreeMap<Server, Option<Judged>>),
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
    pub fn new(watches: &Watches, selection: &Selection, with_bare: bool) -> Self {
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
            glance: Glance::default(),
            rule: None,
            with_bare,
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

    /// What is new since the last look; none before everything was listed once.
    pub fn look(&mut self, rule: &Rule) -> Option<Looked> {
        if self.rule.as_ref() != Some(rule) {
            self.glance.reset();
            self.rule = Some(rule.clone());
        }
        let Self {
            nodes,
            pods,
            dead,
            glance,
            with_bare,
            ..
        } = self;
        let dead = dead.borrow();
        nodes.look(|nodes| {
            let mut judge = |pods: Option<&Census<PodFacts>>| {
                let dead = &dead;
                judge(&Field { nodes, pods, dead }, rule, glance, *with_bare)
            };
            match pods {
                Some((pods, _)) => pods.look(|pods| judge(Some(pods))),
                None => Some(judge(None)),
            }
        })?
    }
}

fn judge(field: &Field<'_, NodeView>, rule: &Rule, glance: &mut Glance, with_bare: bool) -> Looked {
    let counts = |server: &&Server| with_bare || bare_node(server).is_none();
    let judge = |server: &Server| {
        let (node, seen) = field.judge(rule, server)?;
        let node = Arc::clone(node);
        Some(Judged { node, seen })
    };
    match glance.look(field) {
        News::All => Looked::All(
            field
                .servers()
                .filter(counts)
                .filter_map(|server| Some((server.clone(), judge(server)?)))
                .collect(),
        ),
        News::Of(servers) => Looked::Changed(
            servers
                .into_iter()
                .filter(|server| counts(&server))
                .map(|server| {
                    let judged = judge(&server);
                    (server, judged)
                })
                .collect(),
        ),
    }
}
