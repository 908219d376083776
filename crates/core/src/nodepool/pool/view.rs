//! How a pool looks, in the words of its status.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    Pool,
    address::{Address, Place, family},
    spec::Server,
};
use crate::{ipam::families::Family, nodepool::cloud::Class};

/// How a pool looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Each address that is tracked, and each that is left out.
    pub ips: BTreeMap<IpAddr, AddressView>,
    /// Fitting nodes that wait for an address, in the order in which they are served.
    pub assignable_nodes: Vec<String>,
    /// Fitting nodes whose last assignment failed.
    pub node_errors: Vec<String>,
    /// Why nothing can be bought, or the list cannot be had.
    pub error: Option<Trouble>,
    /// How many addresses are missing.
    pub unfulfilled: usize,
    /// Node name to the address that it has been given: what annotations say.
    pub annotations: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses that DNS shall name: those that were last seen on fitting nodes. None
    /// as long as the cloud has not been heard.
    pub published: Option<BTreeSet<IpAddr>>,
}

/// How an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressView {
    /// The word of the status.
    pub state: State,
    /// The server that has it or shall have it.
    pub server: Option<Server>,
    /// The name of that server's node, while it fits.
    pub node: Option<String>,
    /// What went wrong last.
    pub error: Option<Trouble>,
    /// How often it was assigned, and how often that failed, since the process began.
    pub assignments: u64,
    /// See above.
    pub assignment_errors: u64,
}

/// What went wrong, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The stable reason.
    pub reason: &'static str,
    /// The text of the status.
    pub message: String,
}

/// The states of an address, in FLIPOP's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// On a node that fits.
    Active,
    /// On its way.
    InProgress,
    /// Something failed.
    Error,
    /// On a server that does not fit.
    NoMatch,
    /// On no server.
    Unassigned,
    /// Listed beyond the number that is wanted.
    Disabled,
}

impl State {
    /// The word of the status.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::InProgress => "in-progress",
            Self::Error => "error",
            Self::NoMatch => "no-match",
            Self::Unassigned => "unassigned",
            Self::Disabled => "disabled",
        }
    }
}

impl Pool {
    /// How everything looks.
    pub fn view(&self, _now: jiff::Timestamp) -> View {
        let (used, unused) = self.ips.split_at(self.enabled);
        let mut ips = BTreeMap::new();
        for ip in used {
            if let Some(address) = self.addresses.get(ip) {
                ips.insert(*ip, self.address_view(*ip, address));
            }
        }
        for ip in unused {
            ips.insert(*ip, disabled(self.addresses.get(ip)));
        }
        View {
            ips,
            assignable_nodes: self.assignable_nodes(),
            node_errors: self.node_errors(),
            error: self.error(),
            unfulfilled: self.missing(),
            annotations: self.annotations(),
            published: self.published(),
        }
    }

    fn address_view(&self, ip: IpAddr, address: &Address) -> AddressView {
        let server = match address.under_way() {
            Some(order) => order.target.as_ref().or(address.place.server()),
            None => address.place.server(),
        };
        let (state, error) = self.state(ip, address);
        AddressView {
            state,
            server: server.cloned(),
            node: server.and_then(|it| self.fitting(it)),
            error,
            assignments: address.assignments,
            assignment_errors: address.assignment_errors,
        }
    }

    fn state(&self, ip: IpAddr, address: &Address) -> (State, Option<Trouble>) {
        let shown = address.trouble.as_ref().map(|it| it.trouble.clone());
        let shown = shown.or_else(|| self.releases.trouble_of(ip).cloned());
        if address.under_way().is_some() {
            return (State::InProgress, shown);
        }
        match &address.place {
            // What cannot be known is an error only if nothing was known before.
            Place::Unknown => match &self.account.trouble {
                Some(trouble) => (State::Error, Some(trouble.clone())),
                None => (State::InProgress, shown),
            },
            Place::Missing => {
                let class = Class::AddressUnknown;
                let message = "retrieving IPs current provider ID: not found".to_owned();
                let reason = class.reason();
                (State::Error, Some(Trouble { reason, message }))
            }
            Place::On(server) if self.turns.fits(server) => match &address.order {
                Some(order) if order.is_doubted() => (State::InProgress, shown),
                Some(_) | None => (State::Active, shown),
            },
            Place::On(_) | Place::Nowhere if address.foreign => {
                let class = Class::HeldElsewhere;
                let message = "assigning IP to node: another cluster has bought it".to_owned();
                let reason = class.reason();
                (State::Error, Some(Trouble { reason, message }))
            }
            Place::On(_) | Place::Nowhere if shown.is_some() => (State::Error, shown),
            Place::On(_) => (State::NoMatch, None),
            Place::Nowhere => (State::Unassigned, None),
        }
    }

    /// The families that a node gets an address of.
    fn families(&self) -> BTreeSet<Family> {
        let families: BTreeSet<Family> = self.enabled().iter().map(|ip| family(*ip)).collect();
        if families.is_empty() {
            return [Family::V4].into();
        }
        families
    }

    fn assignable_nodes(&self) -> Vec<String> {
        let mut waiting = BTreeSet::new();
        for family in self.families() {
            waiting.extend(self.waiting(family));
        }
        let in_order = self.turns.in_order().filter(|it| waiting.contains(it));
        in_order.map(|it| self.name_of(it)).collect()
    }

    fn node_errors(&self) -> Vec<String> {
        let mut failed: BTreeSet<&Server> = self.turns.failed_ones().collect();
        for family in self.families() {
            let waiting = self.waiting(family);
            failed.extend(waiting.filter(|it| self.is_full(it, family)));
        }
        let mut names: Vec<String> = failed.into_iter().map(|it| self.name_of(it)).collect();
        names.sort_unstable();
        names
    }

    fn error(&self) -> Option<Trouble> {
        let buying = self.buying.trouble.as_ref();
        buying.or(self.account.trouble.as_ref()).cloned()
    }

    /// What has been given: as soon as the cloud has taken the order.
    fn annotations(&self) -> BTreeMap<String, BTreeSet<IpAddr>> {
        let mut annotations: BTreeMap<String, BTreeSet<IpAddr>> = BTreeMap::new();
        for ip in self.enabled() {
            let Some(address) = self.addresses.get(ip) else {
                continue;
            };
            let server = match &address.order {
                Some(order) if !order.is_accepted() => None,
                Some(order) => order.target.as_ref(),
                None => address.place.server(),
            };
            if let Some(name) = server.and_then(|it| self.fitting(it)) {
                annotations.entry(name).or_default().insert(*ip);
            }
        }
        annotations
    }

    fn published(&self) -> Option<BTreeSet<IpAddr>> {
        self.nodes.as_ref().and(self.account.heard)?;
        let placed = self.enabled().iter().filter(|ip| {
            let server = self.addresses.get(ip).and_then(Address::held_by);
            server.is_some_and(|it| self.turns.fits(it))
        });
        Some(placed.copied().collect())
    }

    /// The name of a server's node, while it fits.
    fn fitting(&self, server: &str) -> Option<String> {
        self.turns.fits(server).then(|| self.name_of(server))
    }
}

fn disabled(address: Option<&Address>) -> AddressView {
    AddressView {
        state: State::Disabled,
        server: None,
        node: None,
        error: None,
        assignments: address.map_or(0, |it| it.assignments),
        assignment_errors: address.map_or(0, |it| it.assignment_errors),
    }
}
