//! How long after a refusal the next try comes.
//!
//! The waits are FLIPOP's: what passes by itself is tried again soon, what a person has to
//! mend is tried again seldom, and nothing is ever given up.

use std::time::Duration;

use jiff::Timestamp;

use super::cloud::{Class, Refusal};

/// Waits before the first, second, … retry of what passes by itself; the last one repeats.
const FAST: [u64; 13] = [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300];

/// Waits before the retries of what somebody has to mend; the last one repeats.
const SLOW: [u64; 3] = [60, 300, 600];

/// The longest that is waited because somebody else said so: a wrong figure must not put a
/// pool to sleep for days.
const LONGEST: Duration = Duration::from_hours(1);

/// How soon something is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pace {
    /// It passes by itself.
    Fast,
    /// Somebody has to mend it.
    Slow,
}

impl Pace {
    /// The wait after this many tries in a row that came to nothing; counted from 1.
    pub fn wait(self, tries: u32) -> Duration {
        let waits: &[u64] = match self {
            Self::Fast => &FAST,
            Self::Slow => &SLOW,
        };
        let last = waits.len() - 1;
        let index = usize::try_from(tries.saturating_sub(1)).map_or(last, |it| it.min(last));
        Duration::from_secs(waits[index])
    }
}

impl Class {
    /// How soon it is worth another try.
    pub fn pace(self) -> Pace {
        match self {
            Self::RateLimited | Self::Busy | Self::Unavailable | Self::Unclear => Pace::Fast,
            Self::ServerTaken
            | Self::HeldElsewhere
            | Self::AddressUnknown
            | Self::ServerUnknown
            | Self::ZoneUnknown
            | Self::Quota
            | Self::Unauthorized
            | Self::Invalid
            | Self::NotStored
            | Self::NotPermitted => Pace::Slow,
        }
    }
}

/// When the next try comes after this many in a row have been refused, this one included.
/// Who says when to come back is not asked earlier.
pub fn wait(refusal: &Refusal, tries: u32) -> Duration {
    let asked = refusal.retry_after.unwrap_or_default().min(LONGEST);
    refusal.class.pace().wait(tries).max(asked)
}

/// Tries of one thing, and when the next one may come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tries {
    /// How many in a row have come to nothing.
    pub failed: u32,
    /// No sooner than then; none when at once.
    pub next: Option<Timestamp>,
}

impl Tries {
    /// One more was refused.
    pub fn refused(&mut self, refusal: &Refusal, now: Timestamp) -> Timestamp {
        self.failed = self.failed.saturating_add(1);
        let next = after(now, wait(refusal, self.failed));
        self.next = Some(next);
        next
    }

    /// One more look that brought nothing new.
    pub fn again(&mut self, pace: Pace, now: Timestamp) -> Timestamp {
        self.failed = self.failed.saturating_add(1);
        let next = after(now, pace.wait(self.failed));
        self.next = Some(next);
        next
    }
}

/// The moment that much later, or the last one there is.
pub fn after(at: Timestamp, wait: Duration) -> Timestamp {
    at.checked_add(wait).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(class: Class, asked: Option<u64>) -> Refusal {
        Refusal::new(class, "no").after(asked.map(Duration::from_secs))
    }

    #[test]
    fn the_waits_are_those_of_flipop_and_the_last_one_repeats() {
        let waits = |pace: Pace, count| -> Vec<u64> {
            (1..=count).map(|it| pace.wait(it).as_secs()).collect()
        };
        assert_eq!(
            waits(Pace::Fast, 15),
            [1, 1, 5, 5, 10, 10, 10, 60, 60, 60, 60, 60, 300, 300, 300]
        );
        assert_eq!(waits(Pace::Slow, 5), [60, 300, 600, 600, 600]);
        assert_eq!(Pace::Slow.wait(u32::MAX).as_secs(), 600);
    }

    #[test]
    fn who_says_when_to_come_back_is_not_asked_earlier() {
        for (class, asked, tries, seconds) in [
            (Class::RateLimited, Some(30), 1, 30),
            (Class::RateLimited, Some(30), 9, 60),
            (Class::RateLimited, None, 1, 1),
            (Class::Quota, Some(1), 1, 60),
            (Class::Busy, Some(10_000_000), 1, 3600),
        ] {
            let wait = wait(&refusal(class, asked), tries);
            assert_eq!(wait.as_secs(), seconds, "{class:?} {asked:?} {tries}");
        }
    }

    #[test]
    fn tries_grow_and_begin_anew_after_a_success() {
        let now = Timestamp::UNIX_EPOCH;
        let mut tries = Tries::default();
        let mut seen = Vec::new();
        for _ in 0..4 {
            let next = tries.refused(&refusal(Class::Unavailable, None), now);
            seen.push(next.as_second());
        }
        assert_eq!(seen, [1, 1, 5, 5]);
        tries = Tries::default();
        assert_eq!(tries.again(Pace::Fast, now).as_second(), 1);
        assert_eq!(after(Timestamp::MAX, LONGEST), Timestamp::MAX);
    }
}
