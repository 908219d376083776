//! How long to wait before a call is made again.

use std::time::Duration;

/// Pauses that double from the first to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The pause after the first failure.
    pub first: Duration,
    /// No pause is longer.
    pub longest: Duration,
    /// How often a call is made at most, the first time included.
    pub tries: u32,
}

impl Default for Backoff {
    /// Six tries within about three seconds. That outlasts a broken connection
    /// or a switch between two replicas of a provider; what takes longer is for
    /// the caller's next round.
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(5),
            tries: 6,
        }
    }
}

impl Backoff {
    /// The pause after the call has failed `failed` times; `None` when it is
    /// not made again.
    pub fn pause(&self, failed: u32) -> Option<Duration> {
        if failed >= self.tries {
            return None;
        }
        let factor = 2_u32.saturating_pow(failed.saturating_sub(1));
        Some(self.first.saturating_mul(factor).min(self.longest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_then_end() {
        let backoff = Backoff {
            first: Duration::from_millis(300),
            longest: Duration::from_secs(1),
            tries: 5,
        };
        let pauses: Vec<_> = (1..).map_while(|n| backoff.pause(n)).collect();
        assert_eq!(
            pauses,
            [300, 600, 1000, 1000].map(Duration::from_millis),
            "four pauses lie between five tries"
        );
    }

    #[test]
    fn a_single_try_has_no_pause() {
        for tries in [0, 1] {
            let backoff = Backoff {
                tries,
                ..Backoff::default()
            };
            assert_eq!(backoff.pause(1), None);
        }
    }

    #[test]
    fn very_many_failures_do_not_overflow() {
        let backoff = Backoff {
            tries: u32::MAX,
            ..Backoff::default()
        };
        assert_eq!(backoff.pause(u32::MAX - 1), Some(backoff.longest));
    }
}
