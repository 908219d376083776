//! The machine of one pool: facts go in, calls come out, and answers go in again.
//!
//! The caller tells it the pool's specification, the nodes, what the cloud lists and what
//! became of each call; it says which calls to begin now, when to ask it again at the
//! latest, and how everything looks. It never waits for anybody: a call is under way until
//! it is answered, and one address that fails does not stop another.
//!
//! ```text
//!   address:   free, or parked on a node that does not fit and has had its grace
//!                 |  a fitting node waits
//!                 v
//!              called --done--> settling --a list says so--> placed
//!                 |  \--pending--> checked until done --^       |
//!                 |  \--no answer--> unclear --lists decide     |
//!                 v                                             v
//!              refused: again later, here or elsewhere       the node does not fit: parked
//! ```
//!
//! - `listing`: what a list of the account means for each address.
//! - `turns` and `plan`: which node is served next, and with which address.
//! - `orders`: what becomes of what was asked of the cloud.
//! - `buying` and `reclaim`: how addresses are bought once, and given back.
//!
//! # Guarantees
//! An address has at most one order at a time, and one whose end is not known ends only by
//! what the cloud says. Nothing is bought before the intent has been written, and nothing
//! is bought again before lists have shown that it was not bought. Only addresses that bear
//! the mark of this pool are given back.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;

pub use call::{Answer, Call};
pub use memory::{Memory, Move, Pending, Purchase};
pub use spec::{Grace, Seen, Server, Spec, Unfit};
pub use view::{AddressView, State, Trouble, View};

use account::Account;
use address::{Address, Order, Origin, Place, Stage, Tick};
use agenda::Agenda;
use buying::Buying;
use reclaim::Releases;
use turns::Turns;

use super::{cloud::Mark, retry::Tries};
use crate::ipam::families::Family;

mod account;
mod address;
mod agenda;
mod buying;
mod call;
mod conclusions;
mod listing;
mod memory;
mod orders;
mod plan;
mod reclaim;
mod spec;
mod turns;
mod view;

/// The machine. `now` never goes back from one call to the next; if it does, waits last
/// longer, and nothing else.
#[derive(Clone, Debug)]
pub struct Pool {
    spec: Spec,
    memory: Memory,
    /// Addresses of the specification, and those that are about to stand there; the first
    /// `enabled` of them are used.
    ips: Vec<IpAddr>,
    enabled: usize,
    /// None until they are told.
    nodes: Option<BTreeMap<Server, Seen>>,
    account: Account,
    /// Those of `ips`, and others as long as something is under way.
    addresses: BTreeMap<IpAddr, Address>,
    turns: Turns,
    /// Which nodes had an address of which family.
    held: BTreeSet<(Server, Family)>,
    /// Servers of which the cloud knows nothing.
    unknown_servers: BTreeSet<Server>,
    buying: Buying,
    releases: Releases,
    /// When an assignment was last accepted.
    assigned: Option<Timestamp>,
    steps: u64,
    /// Something has happened since the last poll.
    stirred: bool,
    /// The conclusions of everything that has happened are drawn.
    is_concluded: bool,
    /// By the last plan there is no address that a node could get.
    is_spent: bool,
    next: Option<Timestamp>,
}

impl Pool {
    /// Begins with what the last process has left in the status.
    pub fn new(spec: Spec, memory: Memory) -> Self {
        let buying = Buying::resume(&memory);
        let assigned = memory.moves.values().map(|it| it.at).max();
        let resumed = memory.pending.iter().map(|(ip, it)| (*ip, resumed(it)));
        let mut pool = Self {
            ips: Vec::new(),
            enabled: 0,
            nodes: None,
            account: Account::default(),
            addresses: resumed.collect(),
            turns: Turns::default(),
            held: BTreeSet::new(),
            unknown_servers: BTreeSet::new(),
            buying,
            releases: Releases::default(),
            assigned,
            steps: 0,
            stirred: true,
            is_concluded: false,
            is_spent: false,
            next: None,
            spec,
            memory,
        };
        pool.arrange();
        pool
    }

    /// The specification may have changed.
    pub fn configure(&mut self, spec: Spec, now: Timestamp) {
        if self.spec == spec && self.buying.entered.is_empty() {
            return;
        }
        self.stirred = true;
        let is_elsewhere = self.spec.provider != spec.provider;
        let is_anew = is_elsewhere || self.spec.region != spec.region;
        if self.spec.reclaims != spec.reclaims {
            self.releases = Releases::default();
        }
        self.spec = spec;
        if is_elsewhere {
            // Whatever is under way there is not about these addresses.
            self.memory = Memory::default();
            self.addresses.clear();
            self.buying = Buying::resume(&self.memory);
        }
        if is_anew {
            self.account = Account::default();
            self.addresses.retain(|_, it| it.under_way().is_some());
            self.held.clear();
            self.turns = Turns::default();
            self.join();
        }
        self.buying.has_seen(&self.spec.ips, now);
        self.arrange();
        self.refresh(now);
    }

    /// All nodes that the rule's labels select, by server. Who is not in it is gone.
    pub fn nodes(&mut self, nodes: BTreeMap<Server, Seen>, now: Timestamp) {
        if self.nodes.as_ref() == Some(&nodes) {
            return;
        }
        self.stirred = true;
        let old = self.nodes.replace(nodes).unwrap_or_default();
        let fits = |server: &Server| {
            let node = self.nodes.as_ref().and_then(|it| it.get(server));
            node.is_some_and(|it| it.unfit.is_none())
        };
        for server in old.keys().filter(|it| !fits(it)) {
            self.turns.leave(server);
        }
        self.join();
        self.refresh(now);
    }

    /// One node has changed, or is gone: the same as telling all of them again.
    pub fn node(&mut self, server: &str, seen: Option<Seen>, now: Timestamp) {
        let is_first = self.nodes.is_none();
        let nodes = self.nodes.get_or_insert_default();
        let known = nodes.get_mut(server);
        if known.as_deref() == seen.as_ref() {
            return;
        }
        let fits = |it: &Seen| it.unfit.is_none();
        let fitted = known.as_deref().is_some_and(fits);
        match &seen {
            Some(seen) if fits(seen) && !fitted => {
                self.turns.join([(&server.to_owned(), seen)]);
            }
            Some(seen) if fits(seen) => {}
            Some(_) | None if fitted => self.turns.leave(server),
            Some(_) | None => {}
        }
        match (known, seen) {
            (Some(known), Some(seen)) => *known = seen,
            (None, Some(seen)) => {
                nodes.insert(server.to_owned(), seen);
            }
            (_, None) => {
                nodes.remove(server);
            }
        }
        // Of the many pools that select a node, few have an address there, or one for it.
        let concerned = is_first || !self.is_concluded || self.has_to_do_with(server);
        if concerned {
            self.refresh(now);
        }
        self.stirred |= concerned || !self.is_spent;
    }

    /// What became of a call that [`Pool::poll`] gave out. The answer to somebody else's
    /// `List` may be told too, as one that was asked for.
    pub fn answered(&mut self, call: &Call, answer: Answer, now: Timestamp) {
        self.stirred = true;
        match &answer {
            Answer::Refused(refusal) => self.account.refused(refusal, now),
            Answer::Listed(_)
            | Answer::Progress(_)
            | Answer::Taken(_)
            | Answer::Bought(_)
            | Answer::Done => self.account.answered(now),
        }
        match call {
            Call::List => self.listed(answer, now),
            Call::Check { ip, handle } => self.checked(*ip, handle, answer, now),
            Call::Assign { ip, server } => self.ordered(*ip, Some(server), answer, now),
            Call::Detach { ip } => self.ordered(*ip, None, answer, now),
            Call::Write => self.written(&answer, now),
            Call::Buy { mark } => self.bought(mark, answer, now),
            Call::Enter { ips } => self.entered(ips, &answer, now),
            Call::Release { ip } => self.released(*ip, &answer, now),
        }
        self.refresh(now);
    }

    /// The calls to begin now. Each is under way from now on, until it is answered.
    pub fn poll(&mut self, now: Timestamp) -> Vec<Call> {
        let is_due = self.stirred || self.next.is_some_and(|at| at <= now);
        if self.is_concluded && !is_due {
            return Vec::new();
        }
        let mut agenda = Agenda::new(now);
        self.stirred = false;
        self.is_spent = false;
        if !self.is_concluded {
            self.refresh(now);
        }
        let mut calls = Vec::from_iter(self.buy(&mut agenda));
        if self.spec.reclaims {
            calls.extend(self.give_back(&mut agenda));
        } else {
            calls.extend(self.plan(&mut agenda));
        }
        calls.extend(self.repeat(&mut agenda));
        calls.extend(self.check(&mut agenda));
        let eager = self.is_eager();
        if self.account.ask(eager, self.steps, &mut agenda) {
            calls.push(Call::List);
        }
        for address in self.addresses.values_mut() {
            address.trouble = address.trouble.take().filter(|it| !agenda.due(it.until));
        }
        self.next = agenda.next();
        self.is_concluded = calls.is_empty() && self.buying.is_idle() && !self.spec.reclaims;
        calls
    }

    /// When to poll again if nothing is heard.
    pub fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        if self.stirred { Some(now) } else { self.next }
    }

    /// What has to outlive the process.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The mark that an address bears by the last list: who gives it back has to name it.
    pub fn mark_of(&self, ip: IpAddr) -> Option<&Mark> {
        self.account.listed.get(&ip)?.mark.as_ref()
    }

    /// Which addresses are used: the first ones of the specification.
    fn enabled(&self) -> &[IpAddr] {
        &self.ips[..self.enabled]
    }

    /// Reads the list of addresses anew.
    fn arrange(&mut self) {
        let mut seen = BTreeSet::new();
        let entered = self.buying.entered.keys();
        let all = self.spec.ips.iter().chain(entered);
        self.ips = all.copied().filter(|it| seen.insert(*it)).collect();
        self.enabled = match self.spec.desired {
            0 => self.ips.len(),
            desired => desired.min(self.ips.len()),
        };
        self.addresses
            .retain(|ip, it| seen.contains(ip) || it.under_way().is_some());
        for ip in &self.ips {
            let new = || Address::new(Place::Unknown, Tick::START);
            self.addresses.entry(*ip).or_insert_with(new);
        }
        if self.addresses.values().any(|it| it.place == Place::Unknown) {
            self.account.look_at_once();
        }
        self.memory.moves.retain(|ip, _| seen.contains(ip));
    }

    fn join(&mut self) {
        let fitting = self.nodes.iter().flatten();
        self.turns
            .join(fitting.filter(|(_, seen)| seen.unfit.is_none()));
    }

    /// Counts a change, to tell lists that were begun before it.
    fn tick(&mut self, now: Timestamp) -> Tick {
        self.steps += 1;
        Tick {
            at: now,
            step: Some(self.steps),
        }
    }

    /// The name of a server's node, or how the cloud calls it.
    fn name_of(&self, server: &str) -> String {
        let node = self.nodes.as_ref().and_then(|it| it.get(server));
        node.map_or_else(|| server.to_owned(), |it| it.name.clone())
    }

    /// Whether something is not settled, so that the cloud is asked more often.
    fn is_eager(&self) -> bool {
        self.buying.wants_look()
            || self.releases.wants_look()
            || self.addresses.values().any(Address::wants_look)
    }
}

/// An address of which an order was under way when the last process ended.
fn resumed(pending: &Pending) -> Address {
    let stage = Stage::Pending {
        handle: pending.handle.clone(),
        since: None,
        checking: false,
        looks: Tries::default(),
    };
    let order = Order {
        target: pending.server.clone(),
        stage,
        origin: Origin {
            from: String::new(),
            reason: "Resumed",
        },
        unclear_since: None,
    };
    Address {
        order: Some(order),
        ..Address::new(Place::Unknown, Tick::START)
    }
}

#[cfg(test)]
mod tests;
