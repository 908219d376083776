//! The clock by which an agent counts: one that runs on while the machine sleeps.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, SystemTime},
};

use floe_core::lease::Moment;
use floe_net::boottime;

/// A clock. Tests have their own.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> Moment + Send + Sync>);

impl Clock {
    /// The clock of this machine.
    pub fn of_machine() -> Self {
        Self::new(|| Moment(boottime::now()))
    }

    /// A clock that shows what a function says.
    pub fn new(now: impl Fn() -> Moment + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// What it shows.
    pub fn now(&self) -> Moment {
        (self.0)()
    }
}

/// The least number of a term for a process that begins now: seconds since 2024. It is
/// the only thing that the time of day is asked for, and only while nothing is served: a
/// lease that is there counts on from its own number, whatever this says.
pub fn first_term() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    first_term_at(now.unwrap_or_default())
}

/// A lease counts up to 2147483647. A clock that is far ahead must not use that up.
fn first_term_at(since_1970: Duration) -> i64 {
    const BEGINNING: u64 = 1_704_067_200;
    const HIGHEST: i64 = 1 << 30;
    let seconds = since_1970.as_secs().saturating_sub(BEGINNING);
    i64::try_from(seconds).unwrap_or(HIGHEST).clamp(1, HIGHEST)
}

impl fmt::Debug for Clock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Clock({:?})", self.now())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_later_process_begins_with_a_higher_term_that_a_lease_can_have() {
        let at = |seconds| first_term_at(Duration::from_secs(seconds));
        assert_eq!(at(0), 1, "a clock that was never set");
        assert_eq!(at(1_704_067_200 + 90_000_000), 90_000_000);
        assert_eq!(at(1_704_067_200 + 90_000_001), 90_000_001);
        assert!(i32::try_from(at(u64::MAX)).is_ok_and(|it| it < i32::MAX));
        assert!(first_term() > 50_000_000, "of this machine");
    }
}
