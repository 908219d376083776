//! A set of addresses, kept as sorted ranges with gaps between them.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use range_set_blaze::{Integer, RangeSetBlaze, UIntPlusOne};
use serde::{Serialize, Serializer};

use super::{
    canonical,
    range::{Ends, IpRange},
};

/// A set of addresses of both families, IPv4 before IPv6.
///
/// Neighbouring ranges are one range. With `r` ranges in the set, everything
/// about one address takes O(log r), and what looks at whole sets O(r); the
/// number of addresses never matters.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct IpSet {
    v4: RangeSetBlaze<Ipv4Addr>,
    v6: RangeSetBlaze<Ipv6Addr>,
}

impl IpSet {
    /// A set without addresses.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an address; false when it was there already.
    pub fn insert(&mut self, ip: IpAddr) -> bool {
        match canonical(ip) {
            IpAddr::V4(ip) => self.v4.insert(ip),
            IpAddr::V6(ip) => self.v6.insert(ip),
        }
    }

    /// Adds all addresses of a range.
    pub fn insert_range(&mut self, range: &IpRange) {
        match range.0 {
            Ends::V4(first, last) => self.v4.ranges_insert(first..=last),
            Ends::V6(first, last) => self.v6.ranges_insert(first..=last),
        };
    }

    /// Takes an address out; false when it was not there.
    pub fn remove(&mut self, ip: IpAddr) -> bool {
        match canonical(ip) {
            IpAddr::V4(ip) => self.v4.remove(ip),
            IpAddr::V6(ip) => self.v6.remove(ip),
        }
    }

    /// Takes all addresses of a range out, in O(r).
    pub fn remove_range(&mut self, range: &IpRange) {
        match range.0 {
            Ends::V4(first, last) => self.v4 = &self.v4 - RangeSetBlaze::from(first..=last),
            Ends::V6(first, last) => self.v6 = &self.v6 - RangeSetBlaze::from(first..=last),
        }
    }

    /// Whether the address is in the set.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match canonical(ip) {
            IpAddr::V4(ip) => self.v4.contains(ip),
            IpAddr::V6(ip) => self.v6.contains(ip),
        }
    }

    /// Whether the set has no address.
    pub fn is_empty(&self) -> bool {
        self.v4.is_empty() && self.v6.is_empty()
    }

    /// How many addresses the set has. (The set of all addresses that exist
    /// has one more than the type can say, and stays at the highest number.)
    pub fn len(&self) -> u128 {
        self.len_v4().saturating_add(self.len_v6())
    }

    /// How many IPv4 addresses the set has.
    pub fn len_v4(&self) -> u128 {
        self.v4.len().into()
    }

    /// How many IPv6 addresses the set has.
    pub fn len_v6(&self) -> u128 {
        match self.v6.len() {
            UIntPlusOne::UInt(len) => len,
            UIntPlusOne::MaxPlusOne => u128::MAX,
        }
    }

    /// The ranges in ascending order, with at least one address between two.
    pub fn ranges(&self) -> impl Iterator<Item = IpRange> + '_ {
        let v4 = self.v4.ranges().map(|range| IpRange(v4(range)));
        v4.chain(self.v6.ranges().map(|range| IpRange(v6(range))))
    }

    /// The lowest address.
    pub fn first(&self) -> Option<IpAddr> {
        let v4 = self.v4.first().map(IpAddr::V4);
        v4.or_else(|| self.v6.first().map(IpAddr::V6))
    }

    /// The highest address.
    pub fn last(&self) -> Option<IpAddr> {
        let v6 = self.v6.last().map(IpAddr::V6);
        v6.or_else(|| self.v4.last().map(IpAddr::V4))
    }

    /// The lowest address that is in the set and in the range, in O(log r).
    pub fn first_in(&self, range: &IpRange) -> Option<IpAddr> {
        match range.0 {
            Ends::V4(first, last) => first_between(&self.v4, first, last).map(IpAddr::V4),
            Ends::V6(first, last) => first_between(&self.v6, first, last).map(IpAddr::V6),
        }
    }

    /// The address with `n` others below it, in O(r). To pick addresses from a
    /// set in many pieces, [`IpSet::first_in`] is the cheap way.
    pub fn nth(&self, n: u128) -> Option<IpAddr> {
        let mut left = n;
        for range in self.ranges() {
            if left < range.len() {
                return Some(match range.0 {
                    Ends::V4(first, _) => {
                        let offset = u32::try_from(left).expect("below the range's length");
                        Ipv4Addr::from_bits(first.to_bits() + offset).into()
                    }
                    Ends::V6(first, _) => Ipv6Addr::from_bits(first.to_bits() + left).into(),
                });
            }
            left -= range.len();
        }
        None
    }

    /// The addresses that are in both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        Self {
            v4: &self.v4 & &other.v4,
            v6: &self.v6 & &other.v6,
        }
    }

    /// The addresses of this set that are not in the other.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        Self {
            v4: &self.v4 - &other.v4,
            v6: &self.v6 - &other.v6,
        }
    }

    /// The addresses that are in one of the sets or in both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self {
            v4: &self.v4 | &other.v4,
            v6: &self.v6 | &other.v6,
        }
    }

    /// Whether the sets have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        !(self.v4.is_disjoint(&other.v4) && self.v6.is_disjoint(&other.v6))
    }
}

/// The lowest member between two addresses, both included.
fn first_between<T: Integer>(set: &RangeSetBlaze<T>, first: T, last: T) -> Option<T> {
    let (around, present) = set.range_or_gap_at(first);
    if present {
        return Some(first);
    }
    // The member after a gap is right above it; a gap at the top has none.
    let next = around.end().checked_add_one()?;
    (next <= last).then_some(next)
}

fn v4(range: RangeInclusive<Ipv4Addr>) -> Ends {
    let (first, last) = range.into_inner();
    Ends::V4(first, last)
}

fn v6(range: RangeInclusive<Ipv6Addr>) -> Ends {
    let (first, last) = range.into_inner();
    Ends::V6(first, last)
}

impl FromIterator<IpRange> for IpSet {
    fn from_iter<I: IntoIterator<Item = IpRange>>(ranges: I) -> Self {
        let mut set = Self::new();
        set.extend(ranges);
        set
    }
}

impl FromIterator<IpAddr> for IpSet {
    fn from_iter<I: IntoIterator<Item = IpAddr>>(addresses: I) -> Self {
        addresses.into_iter().map(IpRange::single).collect()
    }
}

impl Extend<IpRange> for IpSet {
    fn extend<I: IntoIterator<Item = IpRange>>(&mut self, ranges: I) {
        for range in ranges {
            self.insert_range(&range);
        }
    }
}

impl From<IpRange> for IpSet {
    fn from(range: IpRange) -> Self {
        Self::from_iter([range])
    }
}

impl fmt::Display for IpSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(out, "{comma}{range}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for IpSet {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_set().entries(self.ranges()).finish()
    }
}

impl Serialize for IpSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.ranges())
    }
}

#[cfg(test)]
mod tests;
