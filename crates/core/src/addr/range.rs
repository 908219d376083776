//! A range of addresses, both ends included.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::canonical;

/// A non-empty range of addresses of one family, both ends included.
///
/// Its text is `a~b`, or `a` when it has one address. No IPv6 range holds an
/// IPv4-mapped address: such ends become IPv4, and a range that reaches from
/// outside into the mapped block is refused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IpRange(pub(super) Ends);

/// The ends in their family; the first is never above the last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ends {
    V4(Ipv4Addr, Ipv4Addr),
    V6(Ipv6Addr, Ipv6Addr),
}

/// Why a text or a pair of addresses is not a range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid ip range {text}")]
pub struct RangeError {
    /// The range as it was given.
    pub text: String,
}

impl RangeError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "InvalidRange"
    }
}

impl IpRange {
    /// The range from `first` to `last`. Refused when they are of different
    /// families, in descending order, or on both sides of the border of the
    /// IPv4-mapped block.
    pub fn new(first: IpAddr, last: IpAddr) -> Result<Self, RangeError> {
        Self::checked(first, last).ok_or_else(|| RangeError {
            text: format!("{first}~{last}"),
        })
    }

    /// The range with one address.
    pub fn single(ip: IpAddr) -> Self {
        Self(match canonical(ip) {
            IpAddr::V4(ip) => Ends::V4(ip, ip),
            IpAddr::V6(ip) => Ends::V6(ip, ip),
        })
    }

    /// The lowest address.
    pub fn first(&self) -> IpAddr {
        match self.0 {
            Ends::V4(first, _) => first.into(),
            Ends::V6(first, _) => first.into(),
        }
    }

    /// The highest address.
    pub fn last(&self) -> IpAddr {
        match self.0 {
            Ends::V4(_, last) => last.into(),
            Ends::V6(_, last) => last.into(),
        }
    }

    /// Whether the addresses are IPv4.
    pub fn is_v4(&self) -> bool {
        matches!(self.0, Ends::V4(..))
    }

    /// Whether `ip` lies in the range.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.0, canonical(ip)) {
            (Ends::V4(first, last), IpAddr::V4(ip)) => first <= ip && ip <= last,
            (Ends::V6(first, last), IpAddr::V6(ip)) => first <= ip && ip <= last,
            _ => false,
        }
    }

    /// Whether the two ranges have an address in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        match (self.0, other.0) {
            (Ends::V4(a, b), Ends::V4(c, d)) => a <= d && c <= b,
            (Ends::V6(a, b), Ends::V6(c, d)) => a <= d && c <= b,
            _ => false,
        }
    }

    /// How many addresses the range has; at least one.
    // A range is never empty, so there is nothing for `is_empty` to say.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> u128 {
        match self.0 {
            Ends::V4(first, last) => u128::from(last.to_bits() - first.to_bits()) + 1,
            // Cannot overflow: the mapped block is never part of a range, so
            // none spans the whole of IPv6.
            Ends::V6(first, last) => last.to_bits() - first.to_bits() + 1,
        }
    }

    fn checked(first: IpAddr, last: IpAddr) -> Option<Self> {
        let ends = match (canonical(first), canonical(last)) {
            (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => Ends::V4(first, last),
            (IpAddr::V6(first), IpAddr::V6(last))
                if first <= last && !(first < MAPPED && MAPPED < last) =>
            {
                Ends::V6(first, last)
            }
            _ => return None,
        };
        Some(Self(ends))
    }
}

/// An address of the IPv4-mapped block. Ends inside the block are IPv4, so a
/// range that has some of the block has all of it.
const MAPPED: Ipv6Addr = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped();

impl FromStr for IpRange {
    type Err = RangeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (first, last) = text.split_once('~').unwrap_or((text, text));
        let range = match (first.parse(), last.parse()) {
            (Ok(first), Ok(last)) => Self::checked(first, last),
            _ => None,
        };
        range.ok_or_else(|| RangeError { text: text.into() })
    }
}

impl From<IpAddr> for IpRange {
    fn from(ip: IpAddr) -> Self {
        Self::single(ip)
    }
}

impl fmt::Display for IpRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.first(), self.last());
        if first == last {
            write!(out, "{first}")
        } else {
            write!(out, "{first}~{last}")
        }
    }
}

impl fmt::Debug for IpRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, out)
    }
}

impl Serialize for IpRange {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for IpRange {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests;
