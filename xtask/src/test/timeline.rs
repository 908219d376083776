//! How long each test of a program took, from the lines in which libtest reports their ends.
//!
//! Only a nightly libtest reports times itself. But it starts tests in the order in which it
//! lists them, a new one whenever one ends, so the beginnings follow from the ends.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// A test that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    pub name: String,
    pub took: Duration,
}

/// The tests of a running program.
#[derive(Debug)]
pub struct Timeline {
    waiting: VecDeque<String>,
    /// Since when each runs.
    running: BTreeMap<String, Duration>,
    ended: Vec<Timed>,
}

impl Timeline {
    /// Tests in the order of the program's list, of which so many run at a time.
    pub fn new(names: impl IntoIterator<Item = String>, at_once: usize) -> Self {
        let mut timeline = Self {
            waiting: names.into_iter().collect(),
            running: BTreeMap::new(),
            ended: Vec::new(),
        };
        for _ in 0..at_once {
            timeline.start(Duration::ZERO);
        }
        timeline
    }

    /// Takes in a line that the program has written so long after its start.
    pub fn take_in(&mut self, line: &str, now: Duration) {
        let Some(name) = ended(line) else { return };
        // One that libtest ignores, or that was not listed, was never started.
        if let Some(since) = self.running.remove(name) {
            self.ended.push(Timed {
                name: name.to_owned(),
                took: now.saturating_sub(since),
            });
            self.start(now);
        }
    }

    /// The tests that have ended, and those that still ran when the program ended.
    pub fn finish(mut self, now: Duration) -> Vec<Timed> {
        let left = self.running.into_iter().map(|(name, since)| Timed {
            name,
            took: now.saturating_sub(since),
        });
        self.ended.extend(left);
        self.ended
    }

    fn start(&mut self, now: Duration) {
        if let Some(name) = self.waiting.pop_front() {
            self.running.insert(name, now);
        }
    }
}

/// The name in a line such as `test leases::expire ... ok`.
fn ended(line: &str) -> Option<&str> {
    let (name, verdict) = line.strip_prefix("test ")?.split_once(" ... ")?;
    let name = name.split(" - ").next()?;
    (verdict == "ok" || verdict == "FAILED").then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn times(timeline: Timeline, end: u64) -> Vec<(String, u64)> {
        let ended = timeline.finish(seconds(end)).into_iter();
        ended.map(|it| (it.name, it.took.as_secs())).collect()
    }

    #[test]
    fn a_test_begins_when_an_earlier_one_ends() {
        let names = ["a", "b", "c", "d"].map(str::to_owned);
        let mut timeline = Timeline::new(names, 2);
        for (line, at) in [
            ("running 4 tests", 0),
            ("test b ... ok", 3),
            ("test c ... FAILED", 5),
            ("test other ... ok", 6),
            ("test a ... ok", 7),
        ] {
            timeline.take_in(line, seconds(at));
        }
        let expected = [("b", 3), ("c", 2), ("a", 7), ("d", 4)];
        let expected = expected.map(|(name, took)| (name.to_owned(), took));
        assert_eq!(times(timeline, 9), expected);
    }

    #[test]
    fn only_ends_of_tests_are_read() {
        assert_eq!(
            ended("test vips::fence::late ... ok"),
            Some("vips::fence::late")
        );
        assert_eq!(ended("test a - should panic ... ok"), Some("a"));
        for line in [
            "",
            "test ",
            "test a ... ignored",
            "ok",
            "test result: ok. 1 passed",
        ] {
            assert_eq!(ended(line), None, "{line}");
        }
    }
}
