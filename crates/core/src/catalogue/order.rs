//! The orders of lists by something that records have.
//!
//! An order is made when it is first asked for. From then on each change moves what it
//! is about and nothing else, so that no list has to be sorted again.

use std::{cmp::Ordering, sync::OnceLock};

use jiff::Timestamp;

use super::{
    line::Line,
    listing::{number, place},
    text::Name,
    texts::Texts,
};
use crate::ipam::policy::ReleasePolicy;

/// Something that records have and that lists are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Pod,
    Namespace,
    App,
    Node,
    Policy,
    Since,
}

/// What a record has there. Values of one field are compared, never of two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Value<'a> {
    Name(Name<'a>),
    Policy(ReleasePolicy),
    Since(Timestamp),
}

/// The numbers of all lines, sorted by each field that was asked for, and then by
/// address. It has four bytes for each line and field.
#[derive(Debug, Default)]
pub(super) struct Orders([OnceLock<Vec<u32>>; FIELDS.len()]);

/// All lines, as they are to be compared.
#[derive(Clone, Copy)]
pub(super) struct Lines<'a> {
    pub lines: &'a [Line],
    pub texts: &'a Texts,
}

/// Where the lines have gone when many changed at once.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// The new number of each line that was there before; none if it is gone.
    pub kept: Vec<Option<u32>>,
    /// The numbers of new lines, ascending.
    pub new: Vec<u32>,
}

const FIELDS: [Field; 6] = [
    Field::Pod,
    Field::Namespace,
    Field::App,
    Field::Node,
    Field::Policy,
    Field::Since,
];

impl Field {
    /// What a line has there.
    pub fn value<'a>(self, texts: &'a Texts, line: &'a Line) -> Value<'a> {
        match self {
            Self::Pod => Value::Name(Name::of(texts.parts(line).pod)),
            Self::Namespace => Value::Name(Name::of(texts.parts(line).namespace)),
            Self::App => Value::Name(Name::of(texts.parts(line).app)),
            Self::Node => Value::Name(Name::of(texts.node(line))),
            Self::Policy => Value::Policy(line.policy),
            Self::Since => Value::Since(line.updated),
        }
    }

    /// The least that a line can have there.
    pub fn least(self) -> Value<'static> {
        match self {
            Self::Pod | Self::Namespace | Self::App | Self::Node => Value::Name(Name::of("")),
            Self::Policy => Value::Policy(ReleasePolicy::OnDelete),
            Self::Since => Value::Since(Timestamp::MIN),
        }
    }
}

impl Orders {
    /// The numbers of all lines in the order of a field.
    pub fn of(&self, field: Field, all: Lines<'_>) -> &[u32] {
        let place = FIELDS.iter().position(|it| *it == field);
        let place = place.expect("all fields are among them");
        self.0[place].get_or_init(|| sorted(field, all, 0..number(all.lines.len())))
    }

    /// A line is about to be replaced.
    pub fn replace(&mut self, at: usize, new: &Line, all: Lines<'_>) {
        let old = &all.lines[at];
        let at = number(at);
        for (field, order) in self.made() {
            let [from, to] = [old, new].map(|line| field.value(all.texts, line));
            if from == to {
                continue;
            }
            let from = all.search(field, order, (from, at));
            let to = all.search(field, order, (to, at));
            if from < to {
                order[from..to].rotate_left(1);
            } else {
                order[to..=from].rotate_right(1);
            }
        }
    }

    /// A line is new, and is among all lines already.
    pub fn insert(&mut self, at: usize, all: Lines<'_>) {
        let line = &all.lines[at];
        let at = number(at);
        for (field, order) in self.made() {
            for number in &mut *order {
                *number += u32::from(*number >= at);
            }
            let to = all.search(field, order, (field.value(all.texts, line), at));
            order.insert(to, at);
        }
    }

    /// A line is about to go.
    pub fn remove(&mut self, at: usize, all: Lines<'_>) {
        let line = &all.lines[at];
        let at = number(at);
        for (field, order) in self.made() {
            let from = all.search(field, order, (field.value(all.texts, line), at));
            order.remove(from);
            for number in order {
                *number -= u32::from(*number > at);
            }
        }
    }

    /// Many lines have changed at once. With `n` lines and `k` new ones this takes
    /// O(n + k log n), and compares only for the new ones.
    pub fn follow(&mut self, moves: &Moves, all: Lines<'_>) {
        for (field, order) in self.made() {
            let kept = order.iter().filter_map(|old| moves.kept[place(*old)]);
            let kept: Vec<u32> = kept.collect();
            let mut rest = &kept[..];
            order.clear();
            for new in sorted(field, all, moves.new.iter().copied()) {
                let value = field.value(all.texts, &all.lines[place(new)]);
                let (before, after) = rest.split_at(all.search(field, rest, (value, new)));
                order.extend_from_slice(before);
                order.push(new);
                rest = after;
            }
            order.extend_from_slice(rest);
        }
    }

    /// The orders that were asked for.
    fn made(&mut self) -> impl Iterator<Item = (Field, &mut Vec<u32>)> {
        let orders = FIELDS.into_iter().zip(&mut self.0);
        orders.filter_map(|(field, order)| Some((field, order.get_mut()?)))
    }
}

impl Lines<'_> {
    /// Where a line with this value and number is in an order, or would be.
    fn search(self, field: Field, order: &[u32], wanted: (Value<'_>, u32)) -> usize {
        order.partition_point(|number| {
            let value = field.value(self.texts, &self.lines[place(*number)]);
            value.cmp(&wanted.0).then(number.cmp(&wanted.1)) == Ordering::Less
        })
    }
}

/// Lines, given by their numbers, in the order of a field.
fn sorted(field: Field, all: Lines<'_>, numbers: impl Iterator<Item = u32>) -> Vec<u32> {
    let value = |number: u32| field.value(all.texts, &all.lines[place(number)]);
    let mut sorted: Vec<_> = numbers.map(|number| (value(number), number)).collect();
    sorted.sort_unstable();
    sorted.into_iter().map(|(_, number)| number).collect()
}
