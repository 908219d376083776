//! How long a whole run may take, and since when it has been running.

use std::fmt;
use std::time::Duration;

use floe_testbed::kubernetes::Programs;

use crate::workspace;

/// What a run finds on the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Kubernetes has to be built.
    Nothing,
    /// What comes from elsewhere is in the caches, but nothing of this checkout is built.
    FreshClone,
    /// This checkout has had a whole run.
    Warm,
}

impl Start {
    /// To be called before anything is prepared.
    pub fn look() -> Self {
        if !Programs::are_there() {
            Self::Nothing
        } else if workspace().join(super::REPORT).exists() {
            Self::Warm
        } else {
            Self::FreshClone
        }
    }

    const fn limit(self) -> Duration {
        match self {
            Self::Nothing => Duration::from_mins(40),
            Self::FreshClone => Duration::from_mins(20),
            Self::Warm => Duration::from_mins(15),
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Nothing => "from nothing",
            Self::FreshClone => "in a fresh clone",
            Self::Warm => "warm",
        }
    }
}

/// What a whole run took of its time.
pub struct Spent {
    pub start: Start,
    pub elapsed: Duration,
}

impl fmt::Display for Spent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limit = self.start.limit();
        let (difference, word) = match self.elapsed.checked_sub(limit) {
            Some(over) => (over, "over"),
            None => (limit.saturating_sub(self.elapsed), "under"),
        };
        write!(
            f,
            "budget {}: {:.0} min, {:.1} min {word}",
            self.start.words(),
            minutes(limit),
            minutes(difference),
        )
    }
}

pub fn minutes(duration: Duration) -> f64 {
    duration.as_secs_f64() / 60.0
}

/// How long this process has been running, as the one that cargo was before: cargo compiles this
/// program, and then becomes it.
pub fn since_keystroke() -> Option<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    let uptime = std::fs::read_to_string("/proc/uptime").ok()?;
    age(&stat, &uptime)
}

/// The age of a process, from its line in `/proc` and the file about the machine.
fn age(stat: &str, uptime: &str) -> Option<Duration> {
    // The kernel shows times to programs in hundredths of a second on all machines.
    const TICKS: f64 = 100.0;
    // The name before may have spaces; behind it this is the twentieth word.
    let (_, rest) = stat.rsplit_once(')')?;
    let begun: f64 = rest.split_whitespace().nth(19)?.parse().ok()?;
    let now: f64 = uptime.split_whitespace().next()?.parse().ok()?;
    Duration::try_from_secs_f64(now - begun / TICKS).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_told_with_what_is_over_or_left() {
        let spent = |start, seconds| Spent {
            start,
            elapsed: Duration::from_secs(seconds),
        };
        let expected = [
            (
                spent(Start::Warm, 870),
                "budget warm: 15 min, 0.5 min under",
            ),
            (spent(Start::Warm, 900), "budget warm: 15 min, 0.0 min over"),
            (
                spent(Start::FreshClone, 1260),
                "budget in a fresh clone: 20 min, 1.0 min over",
            ),
            (
                spent(Start::Nothing, 60),
                "budget from nothing: 40 min, 39.0 min under",
            ),
        ];
        for (spent, words) in expected {
            assert_eq!(spent.to_string(), words);
        }
    }

    #[test]
    fn the_age_of_a_process_counts_from_its_start() {
        let stat = "7 (a (b) c) S 1 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 9 0 12345 99 88";
        let age = |uptime| age(stat, uptime);
        assert_eq!(age("130.45 7.00\n"), Some(Duration::from_secs(7)));
        for strange in ["", "x", "100.00 1.00"] {
            assert_eq!(age(strange), None, "{strange}");
        }
        assert!(since_keystroke().is_some());
    }
}
