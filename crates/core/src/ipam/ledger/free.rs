//! The free addresses of one entry, and the order in which they are handed out.
//!
//! An address that was given back rests: stale neighbour entries and connections
//! of its old holder should not meet the next one. Addresses that nobody had
//! since the start come first, in ascending order; then those that rest, the
//! longest resting first.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::addr::{IpRange, IpSet};

/// How many addresses rest at most. The longest resting one counts as never used
/// when there are more, so that an IPv6 network does not fill the memory.
const MOST_RESTING: usize = 1024;

/// The free addresses of one entry.
#[derive(Clone, Debug, Default)]
pub(super) struct Free {
    fresh: IpSet,
    /// The others by turn; a lower one rests for longer.
    resting: BTreeMap<u64, IpAddr>,
    turns: BTreeMap<IpAddr, u64>,
    next_turn: u64,
}

impl Free {
    pub fn new(fresh: IpSet) -> Self {
        Self {
            fresh,
            ..Self::default()
        }
    }

    pub fn len(&self) -> u128 {
        let resting = self.resting.len() as u128;
        self.fresh.len().saturating_add(resting)
    }

    pub fn contains(&self, ip: IpAddr) -> bool {
        self.fresh.contains(ip) || self.turns.contains_key(&ip)
    }

    /// Takes an address; whether it was free.
    pub fn take(&mut self, ip: IpAddr) -> bool {
        if self.fresh.remove(ip) {
            return true;
        }
        let turn = self.turns.remove(&ip);
        turn.is_some_and(|turn| self.resting.remove(&turn).is_some())
    }

    /// The address is free again and rests.
    pub fn give_back(&mut self, ip: IpAddr) {
        if !self.fresh.contains(ip) {
            self.rest(ip);
        }
    }

    /// Lets addresses that are free rest, in this order.
    pub fn rest_all(&mut self, addresses: impl IntoIterator<Item = IpAddr>) {
        for ip in addresses {
            if self.fresh.remove(ip) {
                self.rest(ip);
            }
        }
    }

    /// The resting addresses, the longest resting first.
    pub fn resting(&self) -> impl Iterator<Item = IpAddr> {
        self.resting.values().copied()
    }

    /// The free addresses in the order in which they are handed out.
    pub fn in_turn(&self) -> impl Iterator<Item = IpAddr> {
        self.fresh
            .ranges()
            .flat_map(addresses)
            .chain(self.resting())
    }

    /// The free addresses inside a range, in ascending order.
    pub fn within(&self, range: IpRange) -> impl Iterator<Item = IpAddr> {
        std::iter::successors(self.first_in(range), move |ip| {
            let rest = IpRange::new(successor(*ip)?, range.last()).ok()?;
            self.first_in(rest)
        })
    }

    fn first_in(&self, range: IpRange) -> Option<IpAddr> {
        let mut resting = self.turns.range(range.first()..=range.last());
        let resting = resting.next().map(|(ip, _)| *ip);
        let fresh = self.fresh.first_in(&range);
        fresh.into_iter().chain(resting).min()
    }

    /// One that rests already keeps its turn.
    fn rest(&mut self, ip: IpAddr) {
        let Entry::Vacant(turn) = self.turns.entry(ip) else {
            return;
        };
        turn.insert(self.next_turn);
        self.resting.insert(self.next_turn, ip);
        self.next_turn += 1;
        if self.resting.len() > MOST_RESTING
            && let Some((_, rested)) = self.resting.pop_first()
        {
            self.turns.remove(&rested);
            self.fresh.insert(rested);
        }
    }

    #[cfg(test)]
    pub fn all(&self) -> IpSet {
        self.fresh.union(&self.resting().collect())
    }

    #[cfg(test)]
    pub fn check_invariants(&self) {
        let resting: IpSet = self.resting().collect();
        assert!(!self.fresh.overlaps(&resting), "rests and does not");
        assert_eq!(self.len(), self.all().len());
        assert!(self.resting.len() <= MOST_RESTING);
        let turns = self.turns.iter().map(|(ip, turn)| (*turn, *ip));
        assert_eq!(turns.collect::<BTreeMap<_, _>>(), self.resting);
    }
}

fn addresses(range: IpRange) -> impl Iterator<Item = IpAddr> {
    std::iter::successors(Some(range.first()), move |ip| {
        (*ip < range.last()).then(|| successor(*ip)).flatten()
    })
}

/// The address after this one, if it is not the last of its family.
fn successor(ip: IpAddr) -> Option<IpAddr> {
    match ip {
        IpAddr::V4(ip) => Some(Ipv4Addr::from_bits(ip.to_bits().checked_add(1)?).into()),
        IpAddr::V6(ip) => Some(Ipv6Addr::from_bits(ip.to_bits().checked_add(1)?).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    fn free(range: &str) -> Free {
        Free::new(range.parse::<IpRange>().unwrap().into())
    }

    fn in_turn(free: &Free) -> Vec<String> {
        free.check_invariants();
        free.in_turn().map(|ip| ip.to_string()).collect()
    }

    #[test]
    fn a_freed_address_waits_for_all_others() {
        let mut free = free("10.0.0.2~10.0.0.5");
        for last in 2..=5 {
            assert!(free.take(IpAddr::from([10, 0, 0, last])));
        }
        assert!(!free.take(ip("10.0.0.2")), "it is taken");
        assert!(!free.take(ip("10.0.0.9")), "it is no address of the entry");
        free.give_back(ip("10.0.0.4"));
        free.give_back(ip("10.0.0.2"));
        free.give_back(ip("10.0.0.4"));
        assert_eq!(in_turn(&free), ["10.0.0.4", "10.0.0.2"]);
        // It is used again, and then is the last of the line.
        free.take(ip("10.0.0.4"));
        free.give_back(ip("10.0.0.4"));
        assert_eq!(in_turn(&free), ["10.0.0.2", "10.0.0.4"]);
    }

    #[test]
    fn fresh_addresses_come_first() {
        let mut free = free("10.0.0.2~10.0.0.5");
        free.take(ip("10.0.0.2"));
        free.give_back(ip("10.0.0.2"));
        let order = ["10.0.0.3", "10.0.0.4", "10.0.0.5", "10.0.0.2"];
        assert_eq!(in_turn(&free), order);
        let range = "10.0.0.1~10.0.0.4".parse().unwrap();
        let within: Vec<IpAddr> = free.within(range).collect();
        assert_eq!(within, [ip("10.0.0.2"), ip("10.0.0.3"), ip("10.0.0.4")]);
    }

    #[test]
    fn rest_is_bounded_and_the_longest_resting_is_fresh_again() {
        let mut free = free("fd00::~fd00::ffff:ffff");
        let mut first = free.in_turn();
        let used: Vec<IpAddr> = first.by_ref().take(MOST_RESTING + 1).collect();
        drop(first);
        for ip in &used {
            free.take(*ip);
        }
        for ip in &used {
            free.give_back(*ip);
        }
        free.check_invariants();
        assert_eq!(free.resting().count(), MOST_RESTING);
        assert_eq!(free.in_turn().next(), Some(used[0]));
        assert_eq!(free.in_turn().nth(1), Some(ip("fd00::401")));
    }

    #[test]
    fn the_last_address_of_a_family_has_none_after_it() {
        assert_eq!(successor(ip("255.255.255.255")), None);
        assert_eq!(
            successor(ip("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff")),
            None
        );
        let free = free("255.255.255.254~255.255.255.255");
        assert_eq!(in_turn(&free), ["255.255.255.254", "255.255.255.255"]);
        let range = "255.255.255.255".parse().unwrap();
        assert_eq!(free.within(range).count(), 1);
    }

    #[test]
    fn both_sides_of_the_mapped_block_are_one_line() {
        // A network so wide that IPv4-mapped addresses lie in the middle of it.
        let mut all = IpSet::new();
        all.insert(ip("::fffe:ffff:ffff"));
        all.insert(ip("::1:0:0:0"));
        let mut free = Free::new(all);
        assert_eq!(in_turn(&free), ["::fffe:ffff:ffff", "::1:0:0:0"]);
        free.take(ip("::fffe:ffff:ffff"));
        free.give_back(ip("::fffe:ffff:ffff"));
        assert_eq!(in_turn(&free), ["::1:0:0:0", "::fffe:ffff:ffff"]);
    }
}
