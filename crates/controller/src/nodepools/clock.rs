//! The time that machines of pools are told: it goes on steadily, and with the paused time
//! of tests.

use jiff::{SignedDuration, Timestamp};
use tokio::time::Instant;

/// Begins with the time of the system and then goes its own way.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: Instant,
    told: Timestamp,
}

impl Clock {
    /// Begins now.
    pub fn start() -> Self {
        Self {
            begin: Instant::now(),
            told: Timestamp::now(),
        }
    }

    /// Now.
    pub fn now(&self) -> Timestamp {
        let passed = self.begin.elapsed();
        self.told.saturating_add(passed).unwrap_or(Timestamp::MAX)
    }

    /// When a time of this clock comes.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let wait: SignedDuration = at.duration_since(self.now());
        Instant::now() + wait.try_into().unwrap_or_default()
    }
}
