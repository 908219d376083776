//! All addresses with their holders, for lists and searches that stay fast.
//!
//! Records are kept as lines in the order of their addresses. A page is found by one
//! pass over the lines that finds those that the filter admits, and then without
//! sorting more than the page, so its place in the list does not matter. Free
//! addresses are never written down one by one: they are counted in blocks
//! ([`four`]), and a configuration may have as many of them as there are.
//!
//! With IPv6 that has a limit: if more than [`FREE_V6`] IPv6 addresses are configured,
//! the free ones among them are not listed, in no order and under no filter; those
//! with a record always are.
//!
//! - [`line`](mod@line), [`texts`]: a record, prepared for searches.
//! - [`sieve`]: which lines a filter admits.
//! - [`four`], [`six`]: the addresses of a list, by family.
//! - [`pattern`]: which IPv4 addresses have a text in their own.
//! - [`listing`]: from a query to a page.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use jiff::Timestamp;

use self::{
    line::{Line, Nodes},
    six::Six,
    texts::Texts,
};
use crate::{
    addr::{IpSet, canonical},
    config::AddressConfig,
    ipam::{key::HolderKey, ledger::Record, policy::ReleasePolicy, state::State},
};

mod four;
mod line;
mod listing;
mod pattern;
mod sieve;
mod six;
#[cfg(test)]
mod tests;
mod text;
mod texts;

pub use self::six::FREE_V6;

/// All addresses: those with a record, and those of the configuration that are free.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// In the order of their addresses, one for each.
    lines: Vec<Line>,
    texts: Texts,
    nodes: Nodes,
    configured: IpSet,
    /// The configured IPv6 addresses, if they are few enough.
    sixes: Vec<Six>,
}

/// One address with a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The address.
    pub ip: IpAddr,
    /// The holder key as stored.
    pub key: HolderKey,
    /// What the address is to its holder.
    pub state: State,
    /// How long it stays.
    pub policy: ReleasePolicy,
    /// The node that it is bound for; empty for none.
    pub node: Arc<str>,
    /// The uid of the pod that runs with it; empty for none.
    pub uid: Box<str>,
    /// When it last changed hands.
    pub updated: Timestamp,
}

/// What a list has: an address with a record, or a free one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    /// It has a record.
    Held(Arc<Row>),
    /// It is in the configuration and has none.
    Free(IpAddr),
}

/// Which addresses, in which order, and which of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Which.
    pub filter: Filter,
    /// The order.
    pub sort: Sort,
    /// Whether the order is turned round.
    pub descending: bool,
    /// How many to leave out first.
    pub offset: u64,
    /// How many at most.
    pub limit: usize,
}

/// Which addresses. What is given must all hold.
///
/// Free addresses have an address and a state and nothing else: whoever asks for a
/// part of a record, even an empty one, gets none of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// A text that address, key or node have in them, whatever its case.
    pub text: Option<String>,
    /// A text that the key has in it. Free addresses have no key.
    pub keyword: Option<String>,
    /// A prefix of keys, see [`HolderKey::is_selected_by`]; the empty one also
    /// selects free addresses.
    pub selector: Option<HolderKey>,
    /// Addresses that they are among.
    pub within: Option<IpSet>,
    /// What they are to their holders.
    pub states: Option<BTreeSet<State>>,
    /// The pool.
    pub pool: Option<String>,
    /// The kind of the workload, as keys spell it.
    pub kind: Option<String>,
    /// The namespace.
    pub namespace: Option<String>,
    /// The workload.
    pub app: Option<String>,
    /// The pod.
    pub pod: Option<String>,
    /// The node that they are bound for.
    pub node: Option<String>,
    /// How long they stay.
    pub policy: Option<ReleasePolicy>,
    /// Whether the configuration lacks them.
    pub outside: Option<bool>,
}

/// By what to sort. Equal ones are sorted by address, and free addresses come after
/// those with a record that lacks what it is sorted by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    /// By the address as a number, IPv4 first.
    #[default]
    Ip,
    /// By the address as a text.
    IpText,
    /// By the name of the pod.
    Pod,
    /// By the namespace.
    Namespace,
    /// By the workload.
    App,
    /// By the node.
    Node,
    /// By the policy.
    Policy,
    /// By the time of the last change.
    Since,
}

/// Some addresses of a list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The addresses.
    pub items: Vec<Item>,
    /// How many the whole list has.
    pub total: u64,
}

/// From how many changes on it is cheaper to go through all lines once.
const MANY: usize = 16;

impl Catalogue {
    /// Another configuration is in force.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "whoever configures is done with it, and what is kept of it may change"
    )]
    pub fn configure(&mut self, config: AddressConfig) {
        self.configured = config.addresses();
        self.sixes = six::all(&self.configured);
        for line in &mut self.lines {
            line.outside = !self.configured.contains(line.ip);
        }
    }

    /// These are all records.
    pub fn replace<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        self.lines.clear();
        self.texts = Texts::default();
        self.nodes = Nodes::default();
        self.merge(records.map(|record| (record.ip, Some(record))));
    }

    /// An address has this record by now, or none.
    pub fn set(&mut self, ip: IpAddr, record: Option<&Record>) {
        let ip = canonical(ip);
        let line = record.map(|record| self.line(ip, record));
        match (self.place(ip), line) {
            (Ok(at), Some(line)) => {
                let old = std::mem::replace(&mut self.lines[at], line);
                self.texts.forget(&old);
            }
            (Err(at), Some(line)) => self.lines.insert(at, line),
            (Ok(at), None) => {
                let old = self.lines.remove(at);
                self.texts.forget(&old);
            }
            (Err(_), None) => {}
        }
        self.tidy();
    }

    /// These addresses have these records by now, or none. For many of them this is
    /// cheaper than one after the other.
    pub fn update(&mut self, changes: &[(IpAddr, Option<&Record>)]) {
        if changes.len() < MANY {
            for (ip, record) in changes {
                self.set(*ip, *record);
            }
        } else {
            self.merge(changes.iter().copied());
        }
    }

    /// One address, if it has a record or is in the configuration.
    pub fn get(&self, ip: IpAddr) -> Option<Item> {
        let ip = canonical(ip);
        match self.place(ip) {
            Ok(at) => Some(self.lines[at].item()),
            Err(_) => self.configured.contains(ip).then_some(Item::Free(ip)),
        }
    }

    /// All addresses with a record, in their order.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.lines.iter().map(|line| &*line.row)
    }

    /// Some addresses of a list.
    pub fn page(&self, query: &Query) -> Page {
        listing::page(self, query)
    }

    fn merge<'a>(&mut self, changes: impl Iterator<Item = (IpAddr, Option<&'a Record>)>) {
        let mut new: Vec<(IpAddr, Option<Line>)> = Vec::new();
        for (ip, record) in changes {
            let ip = canonical(ip);
            new.push((ip, record.map(|record| self.line(ip, record))));
        }
        // Usually they are sorted already. Of several about one address the last holds.
        new.sort_by_key(|(ip, _)| *ip);
        let mut lines: Vec<Line> = Vec::with_capacity(self.lines.len() + new.len());
        let mut old = std::mem::take(&mut self.lines).into_iter().peekable();
        for (ip, line) in new {
            while let Some(before) = old.next_if(|old| old.ip < ip) {
                lines.push(before);
            }
            let replaced = old.next_if(|old| old.ip == ip);
            if let Some(old) = replaced.or_else(|| lines.pop_if(|last| last.ip == ip)) {
                self.texts.forget(&old);
            }
            lines.extend(line);
        }
        lines.extend(old);
        self.lines = lines;
        self.tidy();
    }

    fn tidy(&mut self) {
        self.nodes.tidy(self.lines.len());
        self.texts.tidy(&mut self.lines);
    }

    fn line(&mut self, ip: IpAddr, record: &Record) -> Line {
        let text = self.texts.add(ip, record.key.as_str(), &record.node);
        Line::new(
            ip,
            record,
            text,
            self.nodes.shared(&record.node),
            !self.configured.contains(ip),
        )
    }

    /// Where the line of an address is, or would be.
    fn place(&self, ip: IpAddr) -> Result<usize, usize> {
        self.lines.binary_search_by_key(&ip, |line| line.ip)
    }
}

impl Item {
    /// The address.
    pub fn ip(&self) -> IpAddr {
        match self {
            Self::Held(row) => row.ip,
            Self::Free(ip) => *ip,
        }
    }
}
