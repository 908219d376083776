//! One at a time for each pod name.
//!
//! Binding a pod and releasing what a pod of that name has left must not
//! interleave, nor must two binds: the ledger's promises assume it. A turn is
//! held across awaits on purpose. It guards no memory, only the right to act.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as AsyncMutex, Notify, OwnedMutexGuard};

/// Whose turn it is, by namespace and name.
#[derive(Clone, Debug, Default)]
pub struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    queues: Mutex<Queues>,
    /// Told when there is no queue any more.
    over: Notify,
}

type Queues = BTreeMap<(String, String), Arc<AsyncMutex<()>>>;

/// The right to act for a pod name, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    shared: Arc<Shared>,
    name: (String, String),
    guard: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    /// Waits for the turn.
    pub async fn wait(&self, namespace: &str, pod: &str) -> Turn {
        let name = (namespace.to_owned(), pod.to_owned());
        let queue = Arc::clone(self.0.queues().entry(name.clone()).or_default());
        Turn {
            shared: Arc::clone(&self.0),
            name,
            guard: Some(queue.lock_owned().await),
        }
    }

    /// Whether somebody acts for a pod name, or waits to.
    pub fn is_taken(&self, namespace: &str, pod: &str) -> bool {
        let name = (namespace.to_owned(), pod.to_owned());
        self.0.queues().contains_key(&name)
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

impl Shared {
    fn queues(&self) -> MutexGuard<'_, Queues> {
        self.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.guard = None;
        let mut queues = self.shared.queues();
        // Whoever waits has a share of the queue; the map's own is the only other.
        if let Some(queue) = queues.get(&self.name)
            && Arc::strong_count(queue) == 1
        {
            queues.remove(&self.name);
        }
        if queues.is_empty() {
            self.shared.over.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_one_waits_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.wait("ns", "a").await;
        let other = turns.wait("ns", "b").await;
        assert!(turns.is_taken("ns", "a"));
        let mut next = std::pin::pin!(turns.wait("ns", "a"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(first);
        let next = next.await;
        assert!(turns.is_taken("ns", "a"));
        drop((next, other));
        assert!(!turns.is_taken("ns", "a"));
        assert!(turns.0.queues().is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_waiting_leaves_nothing_behind() {
        let turns = Turns::default();
        let first = turns.wait("ns", "a").await;
        {
            let mut next = std::pin::pin!(turns.wait("ns", "a"));
            assert!(futures::poll!(next.as_mut()).is_pending());
        }
        drop(first);
        assert!(turns.0.queues().is_empty());
    }

    #[tokio::test]
    async fn who_waits_for_the_end_of_all_is_told() {
        let turns = Turns::default();
        turns.all_over().await;
        let (first, second) = (turns.wait("ns", "a").await, turns.wait("ns", "b").await);
        let mut over = std::pin::pin!(turns.all_over());
        assert!(futures::poll!(over.as_mut()).is_pending());
        drop(first);
        assert!(futures::poll!(over.as_mut()).is_pending());
        drop(second);
        over.await;
    }
}
