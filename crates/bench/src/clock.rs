//! The time that a computation takes of a processor.
//!
//! What only computes is measured by this and not by a clock on the wall: that
//! one would also count the turns of everybody else on the machine.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// A moment of this thread's own time.
#[derive(Clone, Copy)]
pub struct Turn(Duration);

impl Turn {
    /// Now.
    pub fn now() -> Self {
        let time = clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID);
        Self(time.expect("every Linux has this clock").into())
    }

    /// How long this thread has computed since.
    pub fn elapsed(self) -> Duration {
        Self::now().0.saturating_sub(self.0)
    }
}
