//! The IPv4 addresses of a list, counted in blocks and never all written down.

use std::{
    net::{IpAddr, Ipv4Addr},
    ops::Range,
};

use super::{
    line::Line,
    listing::{self, Slot},
    pattern::Pattern,
    text::{numbers, octets},
};
use crate::addr::IpSet;

/// The IPv4 addresses of a list: some with a record, and some free ones.
///
/// With `n` lines and `r` ranges, the number of those below an address takes
/// O(log n + log r), and finding a piece of the list takes that for some hundred
/// addresses, wherever the piece is.
#[derive(Debug)]
pub(super) struct Fours<'a> {
    /// All lines in order, also those that are not in the list.
    lines: &'a [Line],
    /// The numbers of the lines in the list, ascending.
    held: &'a [u32],
    /// The addresses that are in the list if they are free, ascending.
    admitted: Vec<Admitted>,
    /// What the text of free addresses must have in it, and which addresses have it
    /// but are not free, ascending.
    pattern: Option<(Pattern, Vec<u32>)>,
}

/// A range of addresses that are in the list if they are free.
#[derive(Debug)]
struct Admitted {
    first: u32,
    last: u32,
    /// How many addresses the ranges before have that match the pattern.
    matching: u64,
    /// How many lines the ranges before have.
    taken: usize,
    /// The first line that is not below the range.
    line: usize,
}

/// The order of a list of addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Number,
    Text,
}

/// The way through a list to a piece of it.
struct Walk {
    order: [u8; 256],
    skip: u64,
    take: u64,
    found: Vec<Slot>,
}

/// How many IPv4 addresses there are.
const ALL: u64 = 1 << 32;

impl<'a> Fours<'a> {
    /// A list of what is free and `admitted`, and of these lines, given by
    /// their numbers. `lines` are all lines in order.
    pub fn new(admitted: &IpSet, text: Option<&str>, lines: &'a [Line], held: &'a [u32]) -> Self {
        let pattern = text.map(Pattern::new);
        // A text that no address can have leaves nothing.
        let ranges = match pattern {
            Some(None) => Vec::new(),
            _ => ranges(admitted),
        };
        let mut list = Self {
            lines,
            held,
            admitted: Vec::with_capacity(ranges.len()),
            pattern: pattern.flatten().map(|pattern| (pattern, Vec::new())),
        };
        let (mut matching, mut taken) = (0, 0);
        for (first, last) in ranges {
            let line = list.lines_below(first.into());
            let end = list.lines_below(u64::from(last) + 1);
            list.admitted.push(Admitted {
                first,
                last,
                matching,
                taken,
                line,
            });
            matching += list.matching(u64::from(last) + 1) - list.matching(first.into());
            taken += end - line;
            if let Some((pattern, taken)) = &mut list.pattern {
                let all = lines[line..end].iter().filter_map(|line| bits(line.ip));
                taken.extend(all.filter(|ip| pattern.is_in(*ip)));
            }
        }
        list
    }

    /// How many addresses the list has.
    pub fn len(&self) -> u64 {
        self.below(ALL)
    }

    /// How many of them have this first byte.
    pub fn count(&self, first: u8) -> u64 {
        let start = u64::from(first) << 24;
        self.below(start + (1 << 24)) - self.below(start)
    }

    /// A piece of the list.
    pub fn slice(&self, order: Order, piece: Range<u64>) -> Vec<Slot> {
        let mut walk = Walk {
            order: match order {
                Order::Number => numbers(),
                Order::Text => *octets(),
            },
            skip: piece.start,
            take: piece.end.saturating_sub(piece.start),
            found: Vec::new(),
        };
        if walk.take > 0 {
            self.walk(0, 32, &mut walk);
        }
        walk.found
    }

    /// Goes through the block of addresses that starts here and differs in the last
    /// `bits` bits.
    fn walk(&self, start: u64, bits: u32, walk: &mut Walk) {
        if bits == 8 {
            self.collect(start, walk);
            return;
        }
        let size = 1 << (bits - 8);
        let mut ends = [0; 257];
        for (end, at) in ends.iter_mut().zip(0..) {
            *end = self.below(start + at * size);
        }
        for byte in walk.order {
            let place = usize::from(byte);
            let count = ends[place + 1] - ends[place];
            if walk.skip >= count {
                walk.skip -= count;
            } else if walk.take == 0 {
                return;
            } else {
                self.walk(start + u64::from(byte) * size, bits - 8, walk);
            }
        }
    }

    /// Takes what the list has of the 256 addresses that start here.
    fn collect(&self, start: u64, walk: &mut Walk) {
        let mut block = [const { None::<Slot> }; 256];
        let first = u32::try_from(start).expect("blocks are of IPv4 addresses");
        let last = first | 0xff;
        let place = |ip: u32| usize::from(ip.to_be_bytes()[3]);
        let from = self.admitted.partition_point(|range| range.last < first);
        let ranges = self.admitted[from..].iter();
        for range in ranges.take_while(|range| range.first <= last) {
            for ip in range.first.max(first)..=range.last.min(last) {
                if self.matches(ip) {
                    block[place(ip)] = Some(Slot::Free(Ipv4Addr::from_bits(ip).into()));
                }
            }
        }
        let lines = self.lines_below(start)..self.lines_below(start + 256);
        for ip in self.lines[lines].iter().filter_map(|line| bits(line.ip)) {
            block[place(ip)] = None;
        }
        let held = self.held_below(start)..self.held_below(start + 256);
        for &line in &self.held[held] {
            if let Some(ip) = bits(self.lines[listing::place(line)].ip) {
                block[place(ip)] = Some(Slot::Held(line));
            }
        }
        for byte in walk.order {
            let Some(slot) = block[usize::from(byte)] else {
                continue;
            };
            if walk.skip > 0 {
                walk.skip -= 1;
            } else if walk.take > 0 {
                walk.take -= 1;
                walk.found.push(slot);
            }
        }
    }

    /// How many addresses of the list are below this one.
    fn below(&self, ip: u64) -> u64 {
        let held = self.held_below(ip) as u64;
        let ranges = (self.admitted).partition_point(|range| u64::from(range.first) < ip);
        let Some(range) = ranges.checked_sub(1).map(|at| &self.admitted[at]) else {
            return held;
        };
        let end = ip.min(u64::from(range.last) + 1);
        let admitted = range.matching + self.matching(end) - self.matching(range.first.into());
        let taken = match &self.pattern {
            Some((_, taken)) => taken.partition_point(|taken| u64::from(*taken) < end),
            None => range.taken + self.lines_below(end) - range.line,
        };
        held + admitted - taken as u64
    }

    fn lines_below(&self, ip: u64) -> usize {
        self.lines.partition_point(|line| rank(line.ip) < ip)
    }

    fn held_below(&self, ip: u64) -> usize {
        (self.held).partition_point(|line| rank(self.lines[listing::place(*line)].ip) < ip)
    }

    /// How many addresses below this one match the pattern, free or not.
    fn matching(&self, ip: u64) -> u64 {
        let pattern = self.pattern.as_ref();
        pattern.map_or(ip, |(pattern, _)| pattern.count_below(ip))
    }

    fn matches(&self, ip: u32) -> bool {
        let pattern = self.pattern.as_ref();
        pattern.is_none_or(|(pattern, _)| pattern.is_in(ip))
    }
}

/// An address as a number; those of IPv6 are above all of IPv4.
fn rank(ip: IpAddr) -> u64 {
    bits(ip).map_or(ALL, u64::from)
}

/// The ranges of IPv4 addresses in a set.
fn ranges(set: &IpSet) -> Vec<(u32, u32)> {
    let ranges = set.ranges();
    let ends = ranges.map_while(|range| Some((bits(range.first())?, bits(range.last())?)));
    ends.collect()
}

/// An IPv4 address as a number.
fn bits(ip: IpAddr) -> Option<u32> {
    match ip {
        IpAddr::V4(ip) => Some(ip.to_bits()),
        IpAddr::V6(_) => None,
    }
}
