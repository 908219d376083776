//! One at a time for each key, first come first served.
//!
//! A turn is held across awaits on purpose: it guards no memory, only the right to
//! act.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};

/// Whose turn it is; all clones are the same.
#[derive(Clone, Debug)]
pub struct Turns<K: Ord>(Arc<Shared<K>>);

/// The right to act for a key, until it is dropped.
#[derive(Debug)]
pub struct Turn<K: Ord> {
    shared: Arc<Shared<K>>,
    key: K,
    guard: Option<OwnedMutexGuard<()>>,
}

#[derive(Debug)]
struct Shared<K: Ord> {
    queues: Mutex<Queues<K>>,
    /// Told when there is no queue any more.
    over: Notify,
}

type Queues<K> = BTreeMap<K, Arc<AsyncMutex<()>>>;

impl<K: Ord> Default for Turns<K> {
    fn default() -> Self {
        Self(Arc::new(Shared {
            queues: Mutex::default(),
            over: Notify::new(),
        }))
    }
}

impl<K: Ord + Clone> Turns<K> {
    /// Waits for the turn. Who gives up waiting leaves nothing behind.
    pub async fn wait(&self, key: K) -> Turn<K> {
        let queue = Arc::clone(self.0.queues().entry(key.clone()).or_default());
        // Made before the wait, so that the queue is cleared also when nobody waits
        // to the end.
        let mut turn = Turn {
            shared: Arc::clone(&self.0),
            key,
            guard: None,
        };
        turn.guard = Some(queue.lock_owned().await);
        turn
    }

    /// The keys for which somebody acts, or waits to.
    pub fn taken(&self) -> BTreeSet<K> {
        self.0.queues().keys().cloned().collect()
    }

    /// Whether somebody acts for a key, or waits to.
    pub fn is_taken(&self, key: &K) -> bool {
        self.0.queues().contains_key(key)
    }

    /// Waits until nobody acts.
    pub async fn all_over(&self) {
        loop {
            let over = self.0.over.notified();
            if self.0.queues().is_empty() {
                return;
            }
            over.await;
        }
    }
}

impl<K: Ord> Shared<K> {
    fn queues(&self) -> MutexGuard<'_, Queues<K>> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Ord> Drop for Turn<K> {
    fn drop(&mut self) {
        self.guard = None;
        let mut queues = self.shared.queues();
        // Whoever waits has a share of the queue; the map's own is the only other.
        if let Some(queue) = queues.get(&self.key)
            && Arc::strong_count(queue) == 1
        {
            queues.remove(&self.key);
        }
        if queues.is_empty() {
            self.shared.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn the_next_one_waits_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let other = turns.wait("b").await;
        let mut next = pin!(turns.wait("a"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(first);
        let next = next.await;
        assert!(turns.is_taken(&"a"));
        assert_eq!(turns.taken(), BTreeSet::from(["a", "b"]));
        drop((next, other));
        assert!(!turns.is_taken(&"a"));
        assert!(turns.taken().is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        {
            let mut next = pin!(turns.wait("a"));
            assert!(futures::poll!(next.as_mut()).is_pending());
        }
        drop(first);
        assert!(turns.taken().is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_when_it_is_his_turn_leaves_nothing_behind() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let mut over = pin!(turns.all_over());
        {
            let mut next = pin!(turns.wait("a"));
            assert!(futures::poll!(next.as_mut()).is_pending());
            drop(first);
            assert!(turns.is_taken(&"a"));
            assert!(futures::poll!(over.as_mut()).is_pending());
        }
        assert!(turns.taken().is_empty());
        over.await;
    }

    #[tokio::test]
    async fn who_waits_for_the_end_of_all_is_told() {
        let turns = Turns::default();
        turns.all_over().await;
        let (first, second) = (turns.wait("a").await, turns.wait("b").await);
        let mut over = pin!(turns.all_over());
        assert!(futures::poll!(over.as_mut()).is_pending());
        drop(first);
        assert!(futures::poll!(over.as_mut()).is_pending());
        drop(second);
        over.await;
    }
}
