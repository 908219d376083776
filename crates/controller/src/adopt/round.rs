//! The look at all running pods, after which addresses are handed out.

use std::collections::BTreeSet;

use super::memory::Name;

/// One look at all running pods.
#[derive(Debug, Default)]
pub struct Round {
    /// Which one, as the books count them.
    number: u64,
    /// The pods that are still to be looked at closely.
    left: BTreeSet<Name>,
}

impl Round {
    /// The round that the books ask for.
    pub fn begin(number: u64) -> Self {
        Self {
            number,
            left: BTreeSet::new(),
        }
    }

    /// It is not over before this pod was looked at closely.
    pub fn expect(&mut self, name: Name) {
        self.left.insert(name);
    }

    /// A pod was looked at closely, with success or not: one that makes trouble does
    /// not hold up all others.
    pub fn looked_at(&mut self, name: &Name) {
        self.left.remove(name);
    }

    /// Which round it is, if it is over.
    pub fn is_over(&self) -> Option<u64> {
        self.left.is_empty().then_some(self.number)
    }
}
