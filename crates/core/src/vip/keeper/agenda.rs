//! When to look again.

use std::time::Duration;

use crate::{lease::Moment, vip::Timing};

/// The present of one round. Whoever asks whether something is due and hears no is also
/// noted for the next round, so that no moment is missed.
#[derive(Debug)]
pub(super) struct Agenda {
    pub now: Moment,
    next: Option<Moment>,
}

impl Agenda {
    pub fn new(now: Moment) -> Self {
        Self { now, next: None }
    }

    /// Whether this moment has come.
    pub fn due(&mut self, at: Moment) -> bool {
        if at <= self.now {
            return true;
        }
        self.next = Some(self.next.map_or(at, |next| next.min(at)));
        false
    }

    /// The first of all moments that have not come.
    pub fn next(&self) -> Option<Moment> {
        self.next
    }
}

/// The longest that a kernel goes on for an agent that has died.
pub(super) fn longest_remains(timing: &Timing) -> Duration {
    timing.duration.max(timing.promise)
}

/// The moment that lies `span` before this one.
pub(super) fn before(at: Moment, span: Duration) -> Moment {
    Moment(at.0.saturating_sub(span))
}
