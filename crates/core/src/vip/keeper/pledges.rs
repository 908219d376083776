//! Promises given to other nodes: not to take anything from them for a while.

use std::{collections::BTreeMap, time::Duration};

use crate::{lease::Moment, vip::Timing};

/// Why a promise is not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The node has a newer term than that for which it asks.
    NewerTerm,
    /// The term was silent for so long that its addresses may have been taken.
    TermOver,
    /// One of the pods for which it asks cannot serve, and one of this node can.
    HolderUnfit,
}

impl Refusal {
    /// The stable reason for logs and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NewerTerm => "NewerTerm",
            Self::TermOver => "TermOver",
            Self::HolderUnfit => "HolderUnfit",
        }
    }
}

#[derive(Debug)]
pub(super) struct Pledges {
    /// How long a promise binds here: longer than the other side counts on it.
    span: Duration,
    ends: BTreeMap<String, Moment>,
}

impl Pledges {
    pub fn new(timing: &Timing) -> Self {
        Self {
            span: timing.beyond(timing.promise),
            ends: BTreeMap::new(),
        }
    }

    /// Promises, from the moment at which the question was received.
    pub fn give(&mut self, node: &str, now: Moment) {
        let end = now.after(self.span);
        self.ends.insert(node.to_owned(), end.max(self.end(node)));
    }

    /// When the last promise to a node ends.
    pub fn end(&self, node: &str) -> Moment {
        let end = self.ends.get(node).copied();
        end.unwrap_or(Moment(Duration::ZERO))
    }
}
