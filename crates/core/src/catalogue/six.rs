//! The IPv6 addresses of a list.

use std::{
    net::{IpAddr, Ipv6Addr},
    ops::Range,
};

use super::{
    four::Order,
    line::Line,
    listing::{Slot, piece_of, place},
    text::{TextKey, starts},
    texts::Texts,
};
use crate::addr::IpSet;

/// If more IPv6 addresses than this are configured, free ones are not listed.
pub const FREE_V6: u128 = 65_536;

/// One configured IPv6 address, prepared for searches.
#[derive(Debug)]
pub(super) struct Six {
    ip: Ipv6Addr,
    order: TextKey,
    text: Box<str>,
}

/// The IPv6 addresses of a list: some with a record, and some free ones.
#[derive(Debug, Default)]
pub(super) struct Sixes(Vec<(Ipv6Addr, TextKey, Slot)>);

/// All IPv6 addresses of a set in ascending order, or none if they are too many.
pub(super) fn all(set: &IpSet) -> Vec<Six> {
    if set.len_v6() > FREE_V6 {
        return Vec::new();
    }
    let ranges = set
        .ranges()
        .filter_map(|range| match (range.first(), range.last()) {
            (IpAddr::V6(first), IpAddr::V6(last)) => Some(first.to_bits()..=last.to_bits()),
            _ => None,
        });
    let new = |bits| {
        let ip = Ipv6Addr::from_bits(bits);
        let text = ip.to_string().into_boxed_str();
        let order = TextKey::of(&text);
        Six { ip, order, text }
    };
    ranges.flatten().map(new).collect()
}

impl Sixes {
    /// Adds what is free among these and has the text, if one is given. `lines` are
    /// all lines in order.
    pub fn add_free(
        &mut self,
        sixes: &[Six],
        within: Option<&IpSet>,
        text: Option<&str>,
        lines: &[Line],
    ) {
        let start = lines.partition_point(|line| line.ip.is_ipv4());
        let mut lines = lines[start..].iter().peekable();
        for six in sixes {
            while lines.next_if(|line| line.ip < six.ip).is_some() {}
            let free = lines.peek().is_none_or(|line| line.ip != six.ip);
            if free
                && within.is_none_or(|set| set.contains(six.ip.into()))
                && text.is_none_or(|text| six.text.contains(text))
            {
                self.0.push((six.ip, six.order, Slot::Free(six.ip.into())));
            }
        }
    }

    /// Adds those of these lines that have an IPv6 address.
    pub fn add_held(&mut self, lines: &[Line], texts: &Texts, held: &[u32]) {
        let start = held.partition_point(|line| lines[place(*line)].ip.is_ipv4());
        for &number in &held[start..] {
            let line = &lines[place(number)];
            if let IpAddr::V6(ip) = line.ip {
                self.0.push((ip, texts.order(line), Slot::Held(number)));
            }
        }
    }

    /// How many addresses the list has.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many addresses are above as many first bytes of IPv4 addresses as the
    /// place in the result says, when all are in the order of their texts.
    pub fn gaps(&self) -> [u64; 257] {
        let mut gaps = [0; 257];
        for (_, order, _) in &self.0 {
            gaps[starts().partition_point(|start| start < order)] += 1;
        }
        gaps
    }

    /// A piece of the list.
    pub fn slice(self, order: Order, piece: Range<usize>) -> Vec<Slot> {
        let all = self.0.into_iter();
        match order {
            Order::Number => {
                let all = all.map(|(ip, _, slot)| (ip, slot)).collect();
                piece_of(all, piece).map(|(_, slot)| slot).collect()
            }
            Order::Text => {
                let all = all.map(|(_, order, slot)| (order, slot)).collect();
                piece_of(all, piece).map(|(_, slot)| slot).collect()
            }
        }
    }
}
