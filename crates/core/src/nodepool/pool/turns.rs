//! In which order nodes are served.
//!
//! Who fits first is served first; those that fit from the start, by name. A node that has
//! lost its address through no fault of its own is served before all others. Nodes whose
//! last assignment failed come after those that did not fail, so that a bad node does not
//! use up every address' patience.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::spec::{Seen, Server};
use crate::nodepool::{cloud::Refusal, retry::Tries};

/// The fitting nodes, in their order.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    turn_of: BTreeMap<Server, i64>,
    server_at: BTreeMap<i64, Server>,
    failures: BTreeMap<Server, Tries>,
}

impl Turns {
    /// These nodes have begun to fit, all at once.
    pub fn join<'a>(&mut self, nodes: impl IntoIterator<Item = (&'a Server, &'a Seen)>) {
        let mut new: Vec<_> = nodes
            .into_iter()
            .filter(|(server, _)| !self.turn_of.contains_key(*server))
            .map(|(server, seen)| (&seen.name, server))
            .collect();
        new.sort_unstable();
        for (_, server) in new {
            let turn = self.server_at.last_key_value().map_or(0, |(it, _)| it + 1);
            self.put(server.clone(), turn);
        }
    }

    /// This node does not fit any more.
    pub fn leave(&mut self, server: &str) {
        if let Some(turn) = self.turn_of.remove(server) {
            self.server_at.remove(&turn);
        }
        self.failures.remove(server);
    }

    /// This node has lost its address, and still fits.
    pub fn put_first(&mut self, server: &str) {
        let Some(turn) = self.turn_of.remove(server) else {
            return;
        };
        self.server_at.remove(&turn);
        let first = self.server_at.first_key_value().map_or(0, |(it, _)| it - 1);
        self.put(server.to_owned(), first);
    }

    /// All fitting nodes, those without failures first.
    pub fn in_order(&self) -> impl Iterator<Item = &Server> {
        let failed = |it: &Server| self.failures.get(it).map_or(0, |it| it.failed);
        let clean = self.server_at.values().filter(move |it| failed(it) == 0);
        let mut rest: Vec<_> = self
            .failures
            .iter()
            .filter_map(|(server, it)| Some((it.failed, *self.turn_of.get(server)?, server)))
            .collect();
        rest.sort_unstable();
        clean.chain(rest.into_iter().map(|(_, _, server)| server))
    }

    /// Whether a node fits.
    pub fn fits(&self, server: &str) -> bool {
        self.turn_of.contains_key(server)
    }

    /// The cloud did not want this node. Says when the next try comes.
    pub fn refused(&mut self, server: &str, refusal: &Refusal, now: Timestamp) -> Timestamp {
        if !self.fits(server) {
            return now;
        }
        let tries = self.failures.entry(server.to_owned()).or_default();
        tries.refused(refusal, now)
    }

    /// An assignment to this node failed, and nobody knows whose fault it was.
    pub fn failed(&mut self, server: &str) {
        if !self.fits(server) {
            return;
        }
        let tries = self.failures.entry(server.to_owned()).or_default();
        tries.failed = tries.failed.saturating_add(1);
    }

    /// An assignment to this node was accepted.
    pub fn succeeded(&mut self, server: &str) {
        self.failures.remove(server);
    }

    /// Until when this node waits.
    pub fn wait_of(&self, server: &str) -> Option<Timestamp> {
        self.failures.get(server).and_then(|it| it.next)
    }

    /// The nodes whose last assignment failed.
    pub fn failed_ones(&self) -> impl Iterator<Item = &Server> {
        self.failures.keys()
    }

    fn put(&mut self, server: Server, turn: i64) {
        self.server_at.insert(turn, server.clone());
        self.turn_of.insert(server, turn);
    }
}
