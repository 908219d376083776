//! From a query to a page.
//!
//! A list is one ascending sequence; a page of the list turned round is a piece of the
//! sequence, turned round.

use std::{borrow::Cow, net::IpAddr, ops::Range};

use super::{
    Catalogue, Item, Page, Query, Sort,
    four::{Fours, Order},
    order::{Field, Lines},
    sieve::Sieve,
    six::Sixes,
    text::{TextKey, octets},
};
use crate::addr::IpSet;

/// An address of a list, before anybody needs more of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Slot {
    /// The one of the line with this number.
    Held(u32),
    Free(IpAddr),
}

/// What a query is about.
struct Listing<'a> {
    catalogue: &'a Catalogue,
    query: &'a Query,
    sieve: Sieve<'a>,
    /// The numbers of the lines in the list.
    held: Vec<u32>,
}

/// The page that a query asks for.
pub(super) fn page(catalogue: &Catalogue, query: &Query) -> Page {
    let sieve = Sieve::new(&query.filter);
    let listing = Listing {
        held: sieve.admitted(&catalogue.lines, &catalogue.texts),
        catalogue,
        query,
        sieve,
    };
    let (slots, total) = match query.sort {
        Sort::Ip => listing.by_address(Order::Number),
        Sort::IpText => listing.by_address(Order::Text),
        Sort::Pod => listing.by_field(Field::Pod),
        Sort::Namespace => listing.by_field(Field::Namespace),
        Sort::App => listing.by_field(Field::App),
        Sort::Node => listing.by_field(Field::Node),
        Sort::Policy => listing.by_field(Field::Policy),
        Sort::Since => listing.by_field(Field::Since),
    };
    let item = |slot| match slot {
        Slot::Held(line) => catalogue.lines[place(line)].item(),
        Slot::Free(ip) => Item::Free(ip),
    };
    let mut items: Vec<_> = slots.into_iter().map(item).collect();
    if query.descending {
        items.reverse();
    }
    Page { items, total }
}

/// Those that have the places of `piece` when all are sorted, sorted. Takes O(n) and
/// sorts no more than the piece.
pub(super) fn piece_of<T: Ord>(mut all: Vec<T>, piece: Range<usize>) -> impl Iterator<Item = T> {
    let (start, end) = (piece.start.min(all.len()), piece.end.min(all.len()));
    if end < all.len() {
        all.select_nth_unstable(end);
        all.truncate(end);
    }
    if 0 < start && start < all.len() {
        all.select_nth_unstable(start);
    }
    let skipped = start.min(all.len());
    all[skipped..].sort_unstable();
    all.into_iter().skip(skipped)
}

/// The number of the line at a place.
pub(super) fn number(place: usize) -> u32 {
    u32::try_from(place).expect("no memory has 4 billion lines")
}

/// The place of the line with a number.
pub(super) fn place(number: u32) -> usize {
    usize::try_from(number).expect("the line is in memory")
}

impl Listing<'_> {
    /// All in the order of their addresses.
    fn by_address(&self, order: Order) -> (Vec<Slot>, u64) {
        let (fours, sixes) = self.families(&self.held);
        let total = fours.len() + sixes.len() as u64;
        let piece = self.piece(total);
        let (first, last) = match order {
            Order::Number => {
                let fours = fours.len();
                let cut = |place: u64| (place.min(fours), place.saturating_sub(fours));
                (cut(piece.start), cut(piece.end))
            }
            Order::Text => {
                let gaps = sixes.gaps();
                (
                    cut(&fours, &gaps, piece.start),
                    cut(&fours, &gaps, piece.end),
                )
            }
        };
        let mut slots = fours.slice(order, first.0..last.0);
        let few = slots.len();
        slots.extend(sixes.slice(order, places(first.1..last.1)));
        if order == Order::Text && 0 < few && few < slots.len() {
            let Catalogue { lines, texts, .. } = self.catalogue;
            slots.sort_by_cached_key(|slot| match slot {
                Slot::Held(line) => texts.order(&lines[place(*line)]),
                Slot::Free(ip) => TextKey::of(&ip.to_string()),
            });
        }
        (slots, total)
    }

    /// All in the order of something that records have. Free addresses have the
    /// least there is, and come after records that have no more.
    fn by_field(&self, field: Field) -> (Vec<Slot>, u64) {
        let Catalogue {
            lines,
            texts,
            orders,
            ..
        } = self.catalogue;
        let sorted = self.admitted(orders.of(field, Lines { lines, texts }));
        let least = field.least();
        let without = |line: &u32| field.value(texts, &lines[place(*line)]) <= least;
        let (without, with) = sorted.split_at(sorted.partition_point(without));
        let (fours, sixes) = self.families(&[]);
        let counts = [
            without.len() as u64,
            fours.len(),
            sixes.len() as u64,
            with.len() as u64,
        ];
        let total = counts.iter().sum();
        // Which piece of each part the page has.
        let (mut start, piece) = (0, self.piece(total));
        let [a, b, c, d] = counts.map(|count| {
            let cut = |place: u64| place.saturating_sub(start).min(count);
            let part = cut(piece.start)..cut(piece.end);
            start += count;
            part
        });
        let held = |lines: &[u32]| lines.iter().copied().map(Slot::Held).collect::<Vec<_>>();
        let mut slots = held(&without[places(a)]);
        slots.extend(fours.slice(Order::Number, b));
        slots.extend(sixes.slice(Order::Number, places(c)));
        slots.extend(held(&with[places(d)]));
        (slots, total)
    }

    /// Those of all lines that are in the list, in the same order.
    fn admitted<'b>(&self, sorted: &'b [u32]) -> Cow<'b, [u32]> {
        if self.held.len() == sorted.len() {
            return Cow::Borrowed(sorted);
        }
        let mut in_list = vec![false; sorted.len()];
        for line in &self.held {
            in_list[place(*line)] = true;
        }
        let admitted = sorted.iter().filter(|line| in_list[place(**line)]);
        let mut lines = Vec::with_capacity(self.held.len());
        lines.extend(admitted);
        Cow::Owned(lines)
    }

    /// These lines, and what is free and in the list.
    fn families<'b>(&'b self, held: &'b [u32]) -> (Fours<'b>, Sixes) {
        let Catalogue {
            lines,
            texts,
            configured,
            sixes: all,
            ..
        } = self.catalogue;
        let (free, text) = (self.sieve.free(configured), self.sieve.text());
        let mut sixes = Sixes::default();
        sixes.add_held(lines, texts, held);
        let fours = if let Some(free) = free {
            sixes.add_free(all, self.query.filter.within.as_ref(), text, lines);
            Fours::new(&free, text, lines, held)
        } else {
            Fours::new(&IpSet::new(), None, lines, held)
        };
        (fours, sixes)
    }

    /// Which piece of the ascending list the page is.
    fn piece(&self, total: u64) -> Range<u64> {
        let start = self.query.offset.min(total);
        let end = start.saturating_add(self.query.limit as u64).min(total);
        if self.query.descending {
            total - end..total - start
        } else {
            start..end
        }
    }
}

/// How many IPv4 and how many IPv6 addresses are before a place of the list that is
/// in the order of texts.
fn cut(fours: &Fours<'_>, gaps: &[u64; 257], place: u64) -> (u64, u64) {
    let (mut four, mut six, mut left) = (0, 0, place);
    for (gap, octet) in gaps.iter().zip(octets().iter().map(Some).chain([None])) {
        let few = left.min(*gap);
        (six, left) = (six + few, left - few);
        if left == 0 {
            break;
        }
        let few = octet.map_or(0, |octet| left.min(fours.count(*octet)));
        (four, left) = (four + few, left - few);
    }
    (four, six)
}

fn places(piece: Range<u64>) -> Range<usize> {
    let place = |place| usize::try_from(place).unwrap_or(usize::MAX);
    place(piece.start)..place(piece.end)
}
