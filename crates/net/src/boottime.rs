//! The clock that runs on while the machine sleeps, and deadlines on it.
//!
//! Nobody can set it, and a node that was suspended sees at once how late it is.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use nix::time::{ClockId, clock_gettime};

/// The time since this machine was switched on, sleep included.
pub fn now() -> Duration {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME)
        .expect("every kernel since 2.6.39 has this clock, and reading it cannot fail");
    Duration::from(time)
}

/// A moment after which nobody acts, shared by all that ask for it. A new one has
/// passed already.
#[derive(Clone, Debug, Default)]
pub struct Deadline(Arc<AtomicU64>);

impl Deadline {
    /// Sets the moment, on the clock of [`now`]. It may be earlier than before.
    pub fn set(&self, moment: Duration) {
        let nanos = u64::try_from(moment.as_nanos()).unwrap_or(u64::MAX);
        self.0.store(nanos, Ordering::SeqCst);
    }

    /// Makes it a moment that has passed.
    pub fn end(&self) {
        self.set(Duration::ZERO);
    }

    /// The moment.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::SeqCst))
    }

    /// What is left until then; none when it has come.
    pub fn left(&self) -> Option<Duration> {
        let left = self.get().saturating_sub(now());
        (!left.is_zero()).then_some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_goes_forward() {
        let start = now();
        assert!(start > Duration::ZERO);
        while now() == start {}
        assert!(now() > start);
    }

    #[test]
    fn a_deadline_is_seen_by_all_who_share_it_and_has_passed_at_first() {
        let deadline = Deadline::default();
        let other = deadline.clone();
        assert_eq!(other.left(), None);
        deadline.set(now() + Duration::from_mins(1));
        assert!(other.left().unwrap() > Duration::from_secs(50));
        deadline.end();
        assert_eq!(other.left(), None);
    }
}
