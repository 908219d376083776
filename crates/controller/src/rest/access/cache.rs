//! Answers that are remembered for a while, and never more than so many.

use std::{collections::HashMap, hash::Hash};

use tokio::time::{Duration, Instant};

/// A bounded memory of answers, each with its own end.
pub struct Cache<K, V> {
    entries: HashMap<K, (V, Instant)>,
    most: usize,
}

impl<K: Eq + Hash + Clone, V: Clone> Cache<K, V> {
    /// Remembers no more than `most` answers.
    pub fn new(most: usize) -> Self {
        Self {
            entries: HashMap::new(),
            most,
        }
    }

    /// An answer that is still good.
    pub fn get(&self, key: &K) -> Option<V> {
        let (value, end) = self.entries.get(key)?;
        (Instant::now() < *end).then(|| value.clone())
    }

    /// Remembers an answer for so long. If there is no room, the one that ends next is
    /// forgotten.
    pub fn put(&mut self, key: K, value: V, life: Duration) {
        let now = Instant::now();
        if self.entries.len() >= self.most && !self.entries.contains_key(&key) {
            self.entries.retain(|_, (_, end)| now < *end);
            if self.entries.len() >= self.most {
                let next = self.entries.iter().min_by_key(|(_, (_, end))| *end);
                if let Some(next) = next.map(|(key, _)| key.clone()) {
                    self.entries.remove(&next);
                }
            }
        }
        self.entries.insert(key, (value, now + life));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_end_and_those_that_end_first_make_room() {
        let second = Duration::from_secs(1);
        let mut cache = Cache::new(2);
        cache.put("a", 1, 3 * second);
        cache.put("b", 2, 2 * second);
        cache.put("a", 3, 3 * second);
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(3), Some(2)));
        cache.put("c", 4, 4 * second);
        assert_eq!((cache.get(&"a"), cache.get(&"b")), (Some(3), None));
        tokio::time::advance(3 * second).await;
        assert_eq!((cache.get(&"a"), cache.get(&"c")), (None, Some(4)));
        cache.put("d", 5, second);
        assert_eq!((cache.get(&"c"), cache.get(&"d")), (Some(4), Some(5)));
        assert_eq!(cache.entries.len(), 2);
    }
}
