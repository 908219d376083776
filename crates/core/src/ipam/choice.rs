//! Which addresses a pod gets: one for each wish that it has.
//!
//! Wishes may overlap (two may both accept 10.0.0.2 and 10.0.0.3), so the
//! choice is a [`Matching`]. Candidates come in classes, the best class first. A
//! better address stays in use when worse ones are added: it may pass to another
//! wish, but only when there is no other way. So without overlap each wish plainly
//! gets the first address that it accepts.

use std::{net::IpAddr, ops::ControlFlow};

use ipnet::IpNet;

use super::{
    args::Args,
    families::{Families, Family},
    ledger::{Group, Ledger, SpareRank},
};
use crate::{
    addr::{IpRange, IpSet},
    config::{AddressConfig, EntryId},
};

/// One address that a pod asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// Any address of a family.
    Any(Family),
    /// An address out of one of these ranges.
    OutOf(Vec<IpRange>),
}

/// Where the address for a wish comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// The pod holds it already, under its key or the one that galaxy gave it.
    Own(IpAddr),
    /// A spare of the pod's group.
    Spare(IpAddr),
    /// Nobody has it.
    New(IpAddr),
}

impl Choice {
    /// The address.
    pub fn ip(self) -> IpAddr {
        match self {
            Self::Own(ip) | Self::Spare(ip) | Self::New(ip) => ip,
        }
    }
}

impl Wish {
    /// What a pod asks for by its annotations: an address out of each range list;
    /// without ranges, one of each family; without families, one address, which
    /// is IPv4 unless only IPv6 is configured.
    pub fn list(args: &Args, families: Option<Families>, config: &AddressConfig) -> Vec<Self> {
        if !args.ranges().is_empty() {
            return args.ranges().iter().cloned().map(Self::OutOf).collect();
        }
        if let Some(families) = families {
            return families.iter().map(Self::Any).collect();
        }
        let mut entries = config.entries().iter();
        let only_v6 = !config.entries().is_empty() && entries.all(|it| it.gateway().is_ipv6());
        let family = if only_v6 { Family::V6 } else { Family::V4 };
        vec![Self::Any(family)]
    }

    /// Whether an address would do.
    pub fn accepts(&self, ip: IpAddr) -> bool {
        match self {
            Self::Any(family) => family_of(ip) == *family,
            Self::OutOf(ranges) => ranges.iter().any(|range| range.contains(ip)),
        }
    }

    /// Whether the configuration has an address, free or held, out of the ranges of this
    /// wish. A wish without ranges is always configured.
    pub fn is_configured(&self, config: &AddressConfig) -> bool {
        let Self::OutOf(ranges) = self else {
            return true;
        };
        let set: IpSet = ranges.iter().copied().collect();
        let mut entries = config.entries().iter();
        entries.any(|entry| entry.addresses().overlaps(&set))
    }

    /// Free addresses that would do and that nodes of a subnet can carry, at most
    /// `count`, in order of preference: the lowest ones in ranges, otherwise those
    /// that have been free for longest.
    pub fn free(&self, ledger: &Ledger, subnet: IpNet, count: usize) -> Vec<IpAddr> {
        let entries = ledger.topology().entries_of(subnet);
        match self {
            Self::Any(family) => entries
                .iter()
                .filter(|entry| family_of_entry(ledger, **entry) == *family)
                .flat_map(|entry| ledger.free_in_turn(*entry).take(count))
                .take(count)
                .collect(),
            Self::OutOf(ranges) => {
                let pairs = entries
                    .iter()
                    .flat_map(|entry| ranges.iter().map(|range| (*entry, *range)));
                let mut found: Vec<IpAddr> = pairs
                    .flat_map(|(entry, range)| ledger.free_within(entry, range).take(count))
                    .collect();
                found.sort_unstable();
                found.dedup();
                found.truncate(count);
                found
            }
        }
    }

    /// Spares of a group that would do and that nodes of a subnet can carry, at
    /// most `count`, the most recent first.
    pub fn spares(
        &self,
        ledger: &Ledger,
        group: &Group,
        subnet: IpNet,
        count: usize,
    ) -> Vec<SpareRank> {
        let entries = ledger.topology().entries_of(subnet).iter();
        let mut found: Vec<SpareRank> = entries
            .flat_map(|entry| self.spares_in(ledger, group, *entry).take(count))
            .collect();
        found.sort_unstable();
        found.truncate(count);
        found
    }

    /// Spares of a group in an entry that would do, the most recent first.
    ///
    /// All addresses of an entry are of one family, so only ranges look at each.
    pub fn spares_in(
        &self,
        ledger: &Ledger,
        group: &Group,
        entry: EntryId,
    ) -> impl Iterator<Item = SpareRank> {
        let fits = match self {
            Self::Any(family) => family_of_entry(ledger, entry) == *family,
            Self::OutOf(_) => true,
        };
        let spares = fits.then(|| group.spares_of(entry));
        spares
            .into_iter()
            .flatten()
            .filter(|(_, ip)| self.accepts(*ip))
    }
}

/// The family of an address.
pub fn family_of(ip: IpAddr) -> Family {
    match ip {
        IpAddr::V4(_) => Family::V4,
        IpAddr::V6(_) => Family::V6,
    }
}

/// The family of all addresses of an entry.
pub fn family_of_entry(ledger: &Ledger, entry: EntryId) -> Family {
    family_of(ledger.topology().entry(entry).gateway())
}

/// Wishes and the addresses that were found for them, no address twice.
///
/// # Guarantees
/// As many wishes are filled as the candidates allow, and what is filled stays
/// filled. Of all ways to do so it takes one with the most addresses of the best
/// class, then of the next class, and so on.
#[derive(Clone, Debug)]
pub struct Matching {
    seats: Vec<Seat>,
}

/// A wish, what would fill it, and what does.
#[derive(Clone, Debug, Default)]
struct Seat {
    candidates: Vec<Choice>,
    chosen: Option<Choice>,
}

impl Matching {
    /// No address for any of so many wishes.
    pub fn new(wishes: usize) -> Self {
        let seats = vec![Seat::default(); wishes];
        Self { seats }
    }

    /// Adds the candidates of the next class, by the number of the wish and in
    /// order of preference, and fills the wishes that they can fill. Asks for
    /// none when all wishes are filled.
    pub fn add(&mut self, mut candidates: impl FnMut(usize) -> Vec<Choice>) {
        if self.is_complete() {
            return;
        }
        for (wish, seat) in self.seats.iter_mut().enumerate() {
            let mut next = candidates(wish);
            if seat.candidates.is_empty() {
                seat.candidates = next;
            } else {
                seat.candidates.append(&mut next);
            }
        }
        for wish in 0..self.seats.len() {
            if self.seats[wish].chosen.is_none() {
                self.fill(wish);
            }
        }
    }

    /// How many wishes are filled.
    pub fn filled(&self) -> usize {
        let chosen = self.seats.iter().filter(|seat| seat.chosen.is_some());
        chosen.count()
    }

    /// Whether all wishes are filled.
    pub fn is_complete(&self) -> bool {
        self.seats.iter().all(|seat| seat.chosen.is_some())
    }

    /// The addresses in the order of the wishes, if there is one for each.
    pub fn finish(self) -> Option<Vec<Choice>> {
        self.seats.into_iter().map(|seat| seat.chosen).collect()
    }

    fn fill(&mut self, wish: usize) {
        let untaken = self.seats[wish]
            .candidates
            .iter()
            .find(|choice| self.holder(choice.ip()).is_none());
        match untaken.copied() {
            Some(choice) => self.seats[wish].chosen = Some(choice),
            None => {
                let _ = self.reseat(wish, &mut Vec::new());
            }
        }
    }

    /// Finds an address for a wish by moving others: an augmenting path. Breaks
    /// when it is found.
    fn reseat(&mut self, wish: usize, tried: &mut Vec<IpAddr>) -> ControlFlow<()> {
        for position in 0..self.seats[wish].candidates.len() {
            let choice = self.seats[wish].candidates[position];
            if tried.contains(&choice.ip()) {
                continue;
            }
            tried.push(choice.ip());
            let moved = self
                .holder(choice.ip())
                .is_none_or(|other| self.reseat(other, tried).is_break());
            if moved {
                self.seats[wish].chosen = Some(choice);
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    fn holder(&self, ip: IpAddr) -> Option<usize> {
        let mut seats = self.seats.iter();
        seats.position(|seat| seat.chosen.is_some_and(|choice| choice.ip() == ip))
    }
}

#[cfg(test)]
mod tests;
