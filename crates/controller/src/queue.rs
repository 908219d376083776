//! Work that waits: each item once, failed ones again after a pause.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use tokio::time::Instant;

/// The first pause after a failure; each further one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// Items of work with what is known about them. An item that is worked on may be
/// added again; it then waits until that work has ended. Nothing here is needed
/// after a stop: what is lost is found again by a check.
#[derive(Debug)]
pub struct Queue<K, V> {
    waiting: BTreeMap<K, Waiting<V>>,
    /// In the order in which they are due, then in that in which they came.
    due: BTreeSet<(Instant, u64, K)>,
    working: BTreeMap<K, u32>,
    at_most: usize,
    count: u64,
}

#[derive(Debug)]
struct Waiting<V> {
    value: V,
    due: Instant,
    number: u64,
    failures: u32,
}

/// What is known about an item, from several sources.
pub trait Merge: Default {
    /// Adds what another source knows; true if that is news.
    fn merge(&mut self, other: Self) -> bool;
}

impl Merge for () {
    fn merge(&mut self, (): Self) -> bool {
        false
    }
}

impl<K: Ord + Clone, V: Merge> Queue<K, V> {
    /// A queue whose items are worked on `at_most` so many at a time.
    pub fn new(at_most: usize) -> Self {
        Self {
            waiting: BTreeMap::new(),
            due: BTreeSet::new(),
            working: BTreeMap::new(),
            at_most,
            count: 0,
        }
    }

    /// Adds an item, or what is known about it. News end the pause after a failure.
    pub fn add(&mut self, item: K, value: V, now: Instant) {
        match self.waiting.get_mut(&item) {
            None => self.insert(item, value, now, 0),
            Some(waiting) => {
                if waiting.value.merge(value) && waiting.due > now {
                    self.due
                        .remove(&(waiting.due, waiting.number, item.clone()));
                    waiting.due = now;
                    self.due.insert((now, waiting.number, item));
                }
            }
        }
    }

    /// The next item to work on, if one is due and not too many are in work.
    pub fn next(&mut self, now: Instant) -> Option<(K, V)> {
        if self.working.len() >= self.at_most {
            return None;
        }
        let ready = self.due.iter().take_while(|(due, ..)| *due <= now);
        let mut ready = ready.filter(|(_, _, item)| !self.working.contains_key(item));
        let entry = ready.next()?.clone();
        self.due.remove(&entry);
        let item = entry.2;
        let waiting = self.waiting.remove(&item)?;
        self.working.insert(item.clone(), waiting.failures);
        Some((item, waiting.value))
    }

    /// The work on an item has ended, and is to be done again if it has failed:
    /// with what was known, and what has been added since.
    pub fn done(&mut self, item: K, failed: Option<V>, now: Instant) {
        let failures = self.working.remove(&item).unwrap_or(0);
        let Some(value) = failed else {
            return;
        };
        match self.waiting.get_mut(&item) {
            // What was added meanwhile is not held up.
            Some(waiting) => {
                waiting.value.merge(value);
                waiting.failures = failures + 1;
            }
            None => self.insert(item, value, now + pause(failures), failures + 1),
        }
    }

    /// When the next item is due that can be worked on then.
    pub fn next_due(&self) -> Option<Instant> {
        if self.working.len() >= self.at_most {
            return None;
        }
        let mut due = self.due.iter();
        due.find(|(_, _, item)| !self.working.contains_key(item))
            .map(|(due, ..)| *due)
    }

    fn insert(&mut self, item: K, value: V, due: Instant, failures: u32) {
        self.count += 1;
        let number = self.count;
        self.due.insert((due, number, item.clone()));
        let waiting = Waiting {
            value,
            due,
            number,
            failures,
        };
        self.waiting.insert(item, waiting);
    }
}

fn pause(failures: u32) -> Duration {
    let factor = 1u32.checked_shl(failures.min(16)).unwrap_or(u32::MAX);
    FIRST_PAUSE.saturating_mul(factor).min(LONGEST_PAUSE)
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Merge for BTreeSet<u8> {
        fn merge(&mut self, other: Self) -> bool {
            let before = self.len();
            self.extend(other);
            self.len() > before
        }
    }

    type Items = Queue<&'static str, BTreeSet<u8>>;

    fn set(values: &[u8]) -> BTreeSet<u8> {
        values.iter().copied().collect()
    }

    #[tokio::test(start_paused = true)]
    async fn an_item_is_worked_on_once_at_a_time() {
        let now = Instant::now();
        let mut queue = Items::new(2);
        queue.add("a", set(&[1]), now);
        queue.add("b", set(&[]), now);
        queue.add("a", set(&[2]), now);
        queue.add("c", set(&[]), now);
        assert_eq!(queue.next(now), Some(("a", set(&[1, 2]))));
        queue.add("a", set(&[3]), now);
        assert_eq!(queue.next(now), Some(("b", set(&[]))));
        assert_eq!(queue.next(now), None);
        assert_eq!(queue.next_due(), None);
        queue.done("b", None, now);
        assert_eq!(queue.next(now), Some(("c", set(&[]))));
        queue.done("c", None, now);
        // The rest is in work.
        assert_eq!(queue.next(now), None);
        assert_eq!(queue.next_due(), None);
        queue.done("a", None, now);
        assert_eq!(queue.next_due(), Some(now));
        assert_eq!(queue.next(now), Some(("a", set(&[3]))));
        queue.done("a", None, now);
        assert_eq!(queue.next_due(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn failures_pause_longer_and_longer_and_news_end_the_pause() {
        let mut now = Instant::now();
        let mut queue = Items::new(2);
        queue.add("a", set(&[1]), now);
        let mut pauses = Vec::new();
        for _ in 0..9 {
            let (item, value) = queue.next(now).unwrap();
            queue.done(item, Some(value), now);
            assert_eq!(queue.next(now), None);
            let due = queue.next_due().unwrap();
            pauses.push((due - now).as_millis());
            now = due;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 6400, 10000, 10000]);
        let (item, value) = queue.next(now).unwrap();
        queue.done(item, Some(value), now);
        queue.add("a", set(&[1]), now);
        assert_eq!(queue.next(now), None);
        queue.add("a", set(&[2]), now);
        assert_eq!(queue.next(now), Some(("a", set(&[1, 2]))));
        queue.done("a", None, now);
        // Success forgets the failures.
        queue.add("a", set(&[]), now);
        let (item, value) = queue.next(now).unwrap();
        queue.done(item, Some(value), now);
        assert_eq!(queue.next_due(), Some(now + FIRST_PAUSE));
    }
}
