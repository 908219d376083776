//! The nodes and pods that pools are about, watched by the selectors that pools have.
//!
//! Pools with the same selector share a watch, and a watch ends with the last pool that
//! needs it. A node that leaves a watch is either gone or has other labels now, which is
//! not the same: it is looked up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use floe_core::nodepool::{
    census::{Census, Entry, Key},
    matching::PodFacts,
};
use k8s_openapi::{
    api::core::v1::{Node, Pod},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{
    Api, Client, Resource,
    runtime::watcher::{Config, Event},
};
use tokio::{
    sync::{mpsc, watch},
    task::AbortHandle,
    time::{sleep, timeout},
};
use tracing::debug;

use super::{
    clock::Clock,
    facts::{self, NodeView},
    objects::Id,
    witness::Witnesses,
};

/// The pause before somebody is looked up again.
const AGAIN: Duration = Duration::from_secs(1);

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// All watches that somebody needs.
#[derive(Clone)]
pub struct Watches {
    client: Client,
    clock: Clock,
    open: Arc<Mutex<Open>>,
}

/// By selector; for pods by namespace and selector.
#[derive(Default)]
struct Open {
    nodes: BTreeMap<String, Weak<Feed<NodeView>>>,
    pods: BTreeMap<(String, String), Weak<Feed<PodFacts>>>,
    witnesses: Weak<Witnesses>,
}

/// What one watch has seen. It ends when nobody has it any more.
pub struct Feed<T> {
    table: Arc<Table<T>>,
    task: AbortHandle,
}

impl<T> Drop for Feed<T> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Table<T> {
    rows: Mutex<Rows<T>>,
    changes: watch::Sender<u64>,
}

struct Rows<T> {
    census: Census<T>,
    /// Those that have left, and nobody knows yet what has become of them.
    leaving: BTreeMap<Key, Leaving>,
    listed: Option<BTreeSet<Key>>,
    complete: bool,
}

/// What is known of somebody who has left.
#[derive(Default)]
struct Leaving {
    /// How often it was asked what has become of them. Only the last answer counts.
    questions: u32,
    /// Whether the watch has seen them since.
    has_returned: bool,
}

impl Watches {
    /// None so far.
    pub fn new(client: Client, clock: Clock) -> Self {
        Self {
            client,
            clock,
            open: Arc::default(),
        }
    }

    /// Those who tell which nodes are dead.
    pub fn witnesses(&self) -> Arc<Witnesses> {
        let mut open = self.lock();
        open.witnesses.upgrade().unwrap_or_else(|| {
            let witnesses = Arc::new(Witnesses::start(self.client.clone(), self.clock));
            open.witnesses = Arc::downgrade(&witnesses);
            witnesses
        })
    }

    /// The nodes that a selector selects.
    pub fn nodes(&self, selector: &str) -> Arc<Feed<NodeView>> {
        let mut open = self.lock();
        open.nodes.retain(|_, feed| feed.strong_count() > 0);
        if let Some(feed) = open.nodes.get(selector).and_then(Weak::upgrade) {
            return feed;
        }
        let table = Arc::new(Table::default());
        let api: Api<Node> = Api::all(self.client.clone());
        let task = follow_nodes(api, selected(selector), Arc::clone(&table));
        let feed = Feed::start(table, task);
        open.nodes
            .insert(selector.to_owned(), Arc::downgrade(&feed));
        feed
    }

    /// The pods of a namespace, or of all, that a selector selects.
    pub fn pods(&self, namespace: &str, selector: &str) -> Arc<Feed<PodFacts>> {
        let mut open = self.lock();
        open.pods.retain(|_, feed| feed.strong_count() > 0);
        let key = (namespace.to_owned(), selector.to_owned());
        if let Some(feed) = open.pods.get(&key).and_then(Weak::upgrade) {
            return feed;
        }
        let table = Arc::new(Table::default());
        let api: Api<Pod> = match namespace {
            "" => Api::all(self.client.clone()),
            namespace => Api::namespaced(self.client.clone(), namespace),
        };
        let task = follow_pods(api, selected(selector), Arc::clone(&table));
        let feed = Feed::start(table, task);
        open.pods.insert(key, Arc::downgrade(&feed));
        feed
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Send + Sync + 'static> Feed<T> {
    fn start(table: Arc<Table<T>>, task: impl Future<Output = ()> + Send + 'static) -> Arc<Self> {
        let task = tokio::spawn(task).abort_handle();
        Arc::new(Self { table, task })
    }

    /// Where it is told that something has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.table.changes.subscribe()
    }

    /// Looks at everything, once the first list is in. Nobody else can meanwhile.
    pub fn look<R>(&self, at: impl FnOnce(&Census<T>) -> R) -> Option<R> {
        let rows = self.table.lock();
        rows.complete.then(|| at(&rows.census))
    }
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let rows = Rows {
            census: Census::default(),
            leaving: BTreeMap::new(),
            listed: None,
            complete: false,
        };
        Self {
            rows: Mutex::new(rows),
            changes: watch::Sender::new(0),
        }
    }
}

impl<T: Entry> Table<T> {
    /// Notes an event; whoever has left is handed back, and stays until
    /// [`Table::settle`].
    fn enter<K: Resource>(&self, event: Event<K>, view: impl FnOnce(K) -> T) -> Vec<Key> {
        let (changed, left) = {
            let mut rows = self.lock();
            match event {
                Event::Init => {
                    rows.listed = Some(BTreeSet::new());
                    (false, Vec::new())
                }
                Event::InitApply(object) | Event::Apply(object) => {
                    let key = key_of(object.meta());
                    if let Some(listed) = &mut rows.listed {
                        listed.insert(key.clone());
                    }
                    if let Some(leaving) = rows.leaving.get_mut(&key) {
                        leaving.has_returned = true;
                    }
                    (rows.put(key, view(object)), Vec::new())
                }
                Event::InitDone => {
                    let listed = rows.listed.take().unwrap_or_default();
                    let left = rows.census.keys().filter(|key| !listed.contains(key));
                    let left = left.cloned().collect();
                    let first = !std::mem::replace(&mut rows.complete, true);
                    (first, left)
                }
                Event::Delete(object) => (false, vec![key_of(object.meta())]),
            }
        };
        let mut rows = self.lock();
        for key in &left {
            let leaving = rows.leaving.entry(key.clone()).or_default();
            leaving.questions += 1;
            leaving.has_returned = false;
        }
        drop(rows);
        if changed {
            self.tell();
        }
        left
    }

    /// What has become of somebody who has left: gone, or not as it was. Who has come back
    /// meanwhile is as the watch says: the answer may be older.
    fn settle(&self, key: &Key, now: Option<T>) {
        let changed = {
            let mut rows = self.lock();
            let Some(leaving) = rows.leaving.get_mut(key) else {
                return;
            };
            leaving.questions -= 1;
            if leaving.questions > 0 {
                return;
            }
            let has_returned = leaving.has_returned;
            rows.leaving.remove(key);
            if has_returned {
                return;
            }
            match now {
                Some(view) => rows.put(key.clone(), view),
                None => rows.census.remove(key),
            }
        };
        if changed {
            self.tell();
        }
    }
}

impl<T> Table<T> {
    fn tell(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    fn lock(&self) -> MutexGuard<'_, Rows<T>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Entry> Rows<T> {
    /// Kubelets write their nodes again and again: only what differs is told.
    fn put(&mut self, key: Key, view: T) -> bool {
        // While the first list comes in nobody can use it.
        self.census.put(key, view) && self.complete
    }
}

fn key_of(metadata: &ObjectMeta) -> Key {
    let Id { namespace, name } = Id::of(metadata);
    (namespace, name)
}

async fn follow_pods(api: Api<Pod>, config: Config, table: Arc<Table<PodFacts>>) {
    let enter = |event| {
        // A pod that has left the watch does not count, whether it is gone or not.
        for key in table.enter(event, facts::pod) {
            table.settle(&key, None);
        }
    };
    floe_shell::follow(api, config, "pods of node pools", enter).await;
}

async fn follow_nodes(api: Api<Node>, config: Config, table: Arc<Table<NodeView>>) {
    let (sender, mut leavers) = mpsc::unbounded_channel();
    let enter = |event| {
        for key in table.enter(event, facts::node) {
            // The receiver lives as long as this.
            let _ = sender.send(key);
        }
    };
    let look_up = async {
        while let Some(key) = leavers.recv().await {
            table.settle(&key, found(&api, &key.1).await.map(facts::node));
        }
    };
    tokio::select! {
        () = floe_shell::follow(api.clone(), config, "nodes of node pools", enter) => {}
        () = look_up => {}
    }
}

/// A node, if there is one, as the API server says it now.
async fn found(api: &Api<Node>, name: &str) -> Option<Node> {
    loop {
        match timeout(PATIENCE, api.get_opt(name)).await {
            Ok(Ok(node)) => return node,
            Ok(Err(error)) => debug!(node = name, %error, "a node cannot be looked up"),
            Err(_) => debug!(node = name, "nobody answers about a node"),
        }
        sleep(AGAIN).await;
    }
}

fn selected(selector: &str) -> Config {
    match selector {
        "" => Config::default(),
        selector => Config::default().labels(selector),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_has_come_back_stays_whatever_an_older_answer_says() {
        let table: Table<NodeView> = Table::default();
        let node = || Node {
            metadata: ObjectMeta {
                name: Some("n1".into()),
                ..ObjectMeta::default()
            },
            ..Node::default()
        };
        let enter = |event| table.enter(event, facts::node);
        for event in [Event::Init, Event::InitApply(node()), Event::InitDone] {
            assert!(enter(event).is_empty());
        }
        let there = || table.lock().census.keys().count();
        let left = enter(Event::Delete(node()));
        assert_eq!((left.len(), there()), (1, 1), "nobody knows yet");
        enter(Event::Apply(node()));
        table.settle(&left[0], None);
        assert_eq!(there(), 1);
        // It leaves, returns and leaves again before the first answer: only the last counts.
        let left = enter(Event::Delete(node()));
        enter(Event::Apply(node()));
        enter(Event::Delete(node()));
        table.settle(&left[0], Some(facts::node(node())));
        assert_eq!(there(), 1, "the last answer is to come");
        table.settle(&left[0], None);
        assert_eq!(there(), 0);
    }
}
