//! A record, prepared for searches.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use jiff::Timestamp;

use super::{Item, Row, texts::Text};
use crate::ipam::{ledger::Record, policy::ReleasePolicy, state::State};

/// One address with a record. What filters and orders look at is in the line itself
/// or among the [texts](super::texts), so that a pass over all lines reads memory
/// from start to end.
#[derive(Debug)]
pub(super) struct Line {
    pub ip: IpAddr,
    pub state: State,
    pub policy: ReleasePolicy,
    /// Whether the configuration lacks the address.
    pub outside: bool,
    pub text: Text,
    pub updated: Timestamp,
    pub row: Arc<Row>,
}

/// The names of nodes, each of them in memory once.
#[derive(Debug, Default)]
pub(super) struct Nodes(BTreeSet<Arc<str>>);

/// How many names too many are kept before somebody looks through them.
const SPARE_NAMES: usize = 1024;

impl Line {
    pub fn new(ip: IpAddr, record: &Record, text: Text, node: Arc<str>, outside: bool) -> Self {
        let row = Row {
            ip,
            key: record.key.clone(),
            state: State::of(record),
            policy: record.policy,
            node,
            uid: record.uid.as_str().into(),
            updated: record.updated,
        };
        Self {
            ip,
            state: row.state,
            policy: row.policy,
            outside,
            text,
            updated: row.updated,
            row: Arc::new(row),
        }
    }

    pub fn item(&self) -> Item {
        Item::Held(Arc::clone(&self.row))
    }
}

impl Nodes {
    /// A name as it is in memory already, or else from now on.
    pub fn shared(&mut self, name: &str) -> Arc<str> {
        if let Some(known) = self.0.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        self.0.insert(Arc::clone(&name));
        name
    }

    /// How many names there are.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Forgets names that nobody has any more, if they may be many.
    pub fn tidy(&mut self, lines: usize) {
        if self.0.len() > lines + SPARE_NAMES {
            self.0.retain(|name| Arc::strong_count(name) > 1);
        }
    }
}
