//! When to look again.

use jiff::Timestamp;

/// The present of one round. Whoever asks whether something is due and hears no is noted
/// for the next round, so that no moment is missed.
#[derive(Debug)]
pub(super) struct Agenda {
    pub now: Timestamp,
    next: Option<Timestamp>,
}

impl Agenda {
    pub fn new(now: Timestamp) -> Self {
        Self { now, next: None }
    }

    /// Whether this moment has come.
    pub fn due(&mut self, at: Timestamp) -> bool {
        if at <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }

    /// Whether nothing is to be waited for any longer.
    pub fn is_over(&mut self, wait: Option<Timestamp>) -> bool {
        wait.is_none_or(|at| self.due(at))
    }

    /// The first of all moments that have not come.
    pub fn next(&self) -> Option<Timestamp> {
        self.next
    }
}
