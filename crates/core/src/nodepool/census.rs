//! The nodes and pods that pools look at, and what has changed since a pool looked last.
//!
//! Pools with the same selectors share a census. A pool that looks again is told the few
//! servers about which something is new, so that an event of one node costs each pool a
//! look at one node, however many there are.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
};

use super::{
    matching::{NodeFacts, PodFacts, Rule},
    pool::{Seen, Server},
};

/// How many changes are remembered. Who has missed more looks at everything.
const REMEMBERED: usize = 4096;

/// What stands in the place of the server of a node that has none.
const BARE: &str = "node://";

/// The text in the place of a server, for a node that has none.
pub fn bare(node: &str) -> Server {
    format!("{BARE}{node}")
}

/// The node without a server whose text this is.
pub fn bare_node(server: &str) -> Option<&str> {
    server.strip_prefix(BARE)
}

/// Namespace and name of an object; nodes have no namespace.
pub type Key = (String, String);

/// What is in a census, and the word by which it is found there.
pub trait Entry: PartialEq {
    /// The server of a node, or the node of a pod.
    fn place(&self) -> &str;
}

impl Entry for NodeFacts {
    fn place(&self) -> &str {
        &self.provider_id
    }
}

impl Entry for PodFacts {
    fn place(&self) -> &str {
        &self.node
    }
}

/// All nodes or pods that somebody has selected.
#[derive(Clone, Debug)]
pub struct Census<T> {
    rows: BTreeMap<Key, Arc<T>>,
    by_place: BTreeMap<String, BTreeSet<Key>>,
    /// How many changes there were.
    changes: u64,
    /// The places of the last ones.
    log: VecDeque<String>,
}

impl<T> Default for Census<T> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            by_place: BTreeMap::new(),
            changes: 0,
            log: VecDeque::new(),
        }
    }
}

impl<T: Entry> Census<T> {
    /// Enters something as it is now; whether that is news.
    pub fn put(&mut self, key: Key, entry: T) -> bool {
        if self.rows.get(&key).is_some_and(|old| **old == entry) {
            return false;
        }
        let place = entry.place().to_owned();
        let old = self.rows.insert(key.clone(), Arc::new(entry));
        if let Some(old) = old.filter(|old| old.place() != place) {
            self.leave(old.place(), &key);
        }
        self.note(place.clone());
        self.by_place.entry(place).or_default().insert(key);
        true
    }

    /// Something is gone; whether it was there.
    pub fn remove(&mut self, key: &Key) -> bool {
        let Some(old) = self.rows.remove(key) else {
            return false;
        };
        self.leave(old.place(), key);
        true
    }

    /// What is there by this name.
    pub fn get(&self, key: &Key) -> Option<&Arc<T>> {
        self.rows.get(key)
    }

    /// All names.
    pub fn keys(&self) -> impl Iterator<Item = &Key> {
        self.rows.keys()
    }

    /// All that have this place.
    pub fn at(&self, place: &str) -> impl Iterator<Item = &Arc<T>> {
        let keys = self.by_place.get(place).into_iter().flatten();
        keys.filter_map(|key| self.rows.get(key))
    }

    fn leave(&mut self, place: &str, key: &Key) {
        if let Some(keys) = self.by_place.get_mut(place) {
            keys.remove(key);
            if keys.is_empty() {
                self.by_place.remove(place);
            }
        }
        self.note(place.to_owned());
    }

    fn note(&mut self, place: String) {
        self.changes += 1;
        self.log.push_back(place);
        if self.log.len() > REMEMBERED {
            self.log.pop_front();
        }
    }

    /// The places of all changes after so many; none when they are not remembered.
    fn since(&self, seen: u64) -> Option<impl Iterator<Item = &String>> {
        let new = self.changes.checked_sub(seen)?;
        let new = usize::try_from(new).ok()?;
        let skipped = self.log.len().checked_sub(new)?;
        Some(self.log.iter().skip(skipped))
    }
}

/// Everything that decides which servers a rule means.
pub struct Field<'a, N> {
    /// The nodes.
    pub nodes: &'a Census<N>,
    /// The pods, if the rule asks for them.
    pub pods: Option<&'a Census<PodFacts>>,
    /// The names of nodes that are dead by two witnesses.
    pub dead: &'a BTreeSet<String>,
}

/// How much of a field somebody has seen.
#[derive(Clone, Debug, Default)]
pub struct Glance {
    seen: Option<(u64, u64)>,
    dead: BTreeSet<String>,
}

/// About which servers something is new.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// All may have changed.
    All,
    /// These, and no others. Some may be as they were.
    Of(BTreeSet<Server>),
}

impl Glance {
    /// Forgets everything: the next look is at all.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks at a field, and says what is new there since the last look.
    pub fn look<N: Entry + AsRef<NodeFacts>>(&mut self, field: &Field<'_, N>) -> News {
        let pods = field.pods.map_or(0, |it| it.changes);
        let before = self.seen.replace((field.nodes.changes, pods));
        let news = before.and_then(|(nodes, pods)| {
            let mut servers = BTreeSet::new();
            servers.extend(field.nodes.since(nodes)?.cloned());
            let mut names = BTreeSet::new();
            if let Some(census) = field.pods {
                names.extend(census.since(pods)?);
            }
            names.extend(self.dead.symmetric_difference(field.dead));
            servers.extend(names.into_iter().filter_map(|name| {
                let node = field.nodes.get(&(String::new(), name.clone()))?;
                Some(node.place().to_owned())
            }));
            servers.remove("");
            Some(News::Of(servers))
        });
        if self.dead != *field.dead {
            self.dead.clone_from(field.dead);
        }
        news.unwrap_or(News::All)
    }
}

impl<N: Entry + AsRef<NodeFacts>> Field<'_, N> {
    /// All servers that some node has.
    pub fn servers(&self) -> impl Iterator<Item = &Server> {
        let all = self.nodes.by_place.keys();
        all.filter(|server| !server.is_empty())
    }

    /// The node of a server, and how a rule sees it; none when no node has that server.
    ///
    /// Where two nodes have one server, an old object and the one that took its place, the
    /// one that fits counts.
    pub fn judge(&self, rule: &Rule, server: &str) -> Option<(&Arc<N>, Seen)> {
        let mut judged = None;
        for node in self.nodes.at(server) {
            let facts = (**node).as_ref();
            let pods = self.pods.into_iter();
            let pods = pods.flat_map(|it| it.at(&facts.name)).map(|it| &**it);
            let unfit = if self.dead.contains(&facts.name) {
                let facts = NodeFacts {
                    unreachable: true,
                    ..facts.clone()
                };
                rule.unfit(&facts, pods)
            } else {
                rule.unfit(facts, pods)
            };
            let name = facts.name.clone();
            judged = Some((node, Seen { name, unfit }));
            if unfit.is_none() {
                break;
            }
        }
        judged
    }
}

impl AsRef<Self> for NodeFacts {
    fn as_ref(&self) -> &Self {
        self
    }
}

#[cfg(test)]
mod tests;
