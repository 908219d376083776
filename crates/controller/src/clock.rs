//! A clock for what only this process remembers: promises and when they lapse.
//!
//! The clock of the system can be set. Were it set back by an hour, a promise of
//! seconds would stand in others' way for an hour.

use std::{sync::LazyLock, time::Instant};

use jiff::Timestamp;

/// Begins with the time of the system and then goes its own way.
struct Steady {
    begin: Instant,
    told: Timestamp,
}

static STEADY: LazyLock<Steady> = LazyLock::new(|| Steady {
    begin: Instant::now(),
    told: Timestamp::now(),
});

/// Now, as compared with other answers of this function only.
pub fn now() -> Timestamp {
    // The first answer makes the clock, so that no later moment is before it.
    let steady = &*STEADY;
    steady.at(Instant::now())
}

impl Steady {
    fn at(&self, moment: Instant) -> Timestamp {
        let passed = moment.saturating_duration_since(self.begin);
        self.told.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn it_goes_on_by_what_has_passed_whatever_the_system_says() {
        let steady = Steady {
            begin: Instant::now(),
            told: Timestamp::UNIX_EPOCH,
        };
        let later = steady.begin + Duration::from_secs(90);
        assert_eq!(steady.at(later).as_second(), 90);
        assert_eq!(steady.at(steady.begin), Timestamp::UNIX_EPOCH);
    }
}
