//! All addresses with their holders, for lists and searches that stay fast.
//!
//! Records are kept as lines in the order of their addresses. A page is found by one
//! pass over the lines that finds those that the filter admits. Other orders than that
//! of addresses, and what each holder has, are made when they are first asked for and
//! kept true from then on, so nothing is sorted or counted for a page, and its place in
//! the list does not matter. Free
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
//! - [`order`]: the lines in other orders.
//! - [`listing`]: from a query to a page.
//! - [`holders`]: how many addresses each holder has.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;

use self::{
    holders::Holders,
    line::{Line, Nodes},
    listing::number,
    order::{Lines, Moves, Orders},
    six::Six,
    texts::Texts,
};
use crate::{
    addr::{IpSet, canonical},
    config::AddressConfig,
    ipam::{key::HolderKey, ledger::Record, policy::ReleasePolicy, state::State},
};

mod four;
mod holders;
mod line;
mod listing;
mod order;
mod pattern;
mod sieve;
mod six;
#[cfg(test)]
mod tests;
mod text;
mod texts;

pub use self::{holders::Holding, six::FREE_V6};

/// All addresses: those with a record, and those of the configuration that are free.
#[derive(Debug, Default)]
pub struct Catalogue {
    /// In the order of their addresses, one for each.
    lines: Vec<Line>,
    texts: Texts,
    nodes: Nodes,
    configured: IpSet,
    /// What is set aside to be shared. It is nobody's to get, so it is never listed as
    /// free.
    shared: IpSet,
    /// The configured IPv6 addresses, if they are few enough.
    sixes: Vec<Six>,
    orders: Orders,
    holders: OnceLock<Holders>,
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
        self.shared = config.shared();
        self.sixes = six::all(&self.configured);
        let mut lines = std::mem::take(&mut self.lines);
        for line in &mut lines {
            line.outside = self.is_outside(&line.row.key, line.ip);
        }
        self.lines = lines;
    }

    /// These are all records.
    pub fn replace<'a>(&mut self, records: impl Iterator<Item = &'a Record>) {
        self.lines.clear();
        self.texts = Texts::default();
        self.nodes = Nodes::default();
        self.orders = Orders::default();
        self.holders = OnceLock::new();
        self.merge(records.map(|record| (record.ip, Some(record))));
    }

    /// An address has this record by now, or none.
    pub fn set(&mut self, ip: IpAddr, record: Option<&Record>) {
        let ip = canonical(ip);
        let line = record.map(|record| self.line(ip, record));
        let Self {
            lines,
            texts,
            orders,
            holders,
            ..
        } = self;
        let mut holders = holders.get_mut();
        let place = lines.binary_search_by_key(&ip, |line| line.ip);
        if let (Some(holders), Ok(at)) = (&mut holders, place) {
            holders.remove(&lines[at].row);
        }
        if let (Some(holders), Some(line)) = (&mut holders, &line) {
            holders.add(&line.row);
        }
        match (place, line) {
            (Ok(at), Some(line)) => {
                orders.replace(at, &line, Lines { lines, texts });
                texts.forget(&std::mem::replace(&mut lines[at], line));
            }
            (Err(at), Some(line)) => {
                lines.insert(at, line);
                orders.insert(at, Lines { lines, texts });
            }
            (Ok(at), None) => {
                orders.remove(at, Lines { lines, texts });
                texts.forget(&lines.remove(at));
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

    /// All workloads and pools that have addresses, in the order of pool, namespace,
    /// kind and app. Reserved addresses, and those whose keys name nobody, do not count.
    pub fn holders(&self) -> impl Iterator<Item = Holding<'_>> {
        let holders = self.holders.get_or_init(|| Holders::of(self.rows()));
        holders.iter()
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
        // Usually they are sorted already.
        new.sort_by_key(|(ip, _)| *ip);
        let Self {
            lines,
            texts,
            orders,
            holders,
            ..
        } = self;
        // Of several about one address the last holds.
        new.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                std::mem::swap(later, earlier);
                later.1.iter().for_each(|line| texts.forget(line));
            }
            same
        });
        let mut holders = holders.get_mut();
        let mut moves = Moves::default();
        let mut old = std::mem::take(lines).into_iter().peekable();
        lines.reserve(old.len() + new.len());
        moves.kept.reserve(old.len());
        for (ip, line) in new {
            while let Some(before) = old.next_if(|old| old.ip < ip) {
                moves.kept.push(Some(number(lines.len())));
                lines.push(before);
            }
            if let Some(old) = old.next_if(|old| old.ip == ip) {
                moves.kept.push(None);
                texts.forget(&old);
                if let Some(holders) = &mut holders {
                    holders.remove(&old.row);
                }
            }
            if let Some(line) = line {
                if let Some(holders) = &mut holders {
                    holders.add(&line.row);
                }
                moves.new.push(number(lines.len()));
                lines.push(line);
            }
        }
        for line in old {
            moves.kept.push(Some(number(lines.len())));
            lines.push(line);
        }
        orders.follow(&moves, Lines { lines, texts });
        self.tidy();
    }

    fn tidy(&mut self) {
        self.nodes.tidy(self.lines.len());
        self.texts.tidy(&mut self.lines);
    }

    fn line(&mut self, ip: IpAddr, record: &Record) -> Line {
        let text = self.texts.add(ip, record.key.as_str(), &record.node);
        let node = self.nodes.shared(&record.node);
        let outside = self.is_outside(&record.key, ip);
        Line::new(ip, record, text, node, outside)
    }

    /// Whether the configuration does not have an address for such a holder.
    fn is_outside(&self, key: &HolderKey, ip: IpAddr) -> bool {
        let place = if key.is_vip() {
            &self.shared
        } else {
            &self.configured
        };
        !place.contains(ip)
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
