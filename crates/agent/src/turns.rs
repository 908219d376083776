//! One at a time for each container, and a pause for all of them.
//!
//! ADD and DEL of one container must not interleave.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use floe_shell::turns;
use tokio::{
    sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock},
    time::timeout,
};

/// Whose turn it is.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    containers: turns::Turns<String>,
    /// Shared by all turns; whoever wants a pause takes it alone.
    pause: Arc<RwLock<()>>,
}

/// The right to act for a container, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _turn: turns::Turn<String>,
    _no_pause: OwnedRwLockReadGuard<()>,
}

/// The certainty that nobody acts, until it is dropped.
#[derive(Debug)]
pub struct Pause(
    #[expect(dead_code, reason = "dropping it ends the pause")] OwnedRwLockWriteGuard<()>,
);

impl Turns {
    /// Waits for the turn, first come first served.
    pub async fn wait(&self, container: &str) -> Turn {
        Turn {
            _turn: self.containers.wait(container.to_owned()).await,
            _no_pause: Arc::clone(&self.pause).read_owned().await,
        }
    }

    /// The containers for which somebody acts, or waits to.
    pub fn taken(&self) -> BTreeSet<String> {
        self.containers.taken()
    }

    /// Waits until nobody acts, and lets nobody begin; `None` when that takes longer
    /// than `limit`.
    pub async fn pause(&self, limit: Duration) -> Option<Pause> {
        let alone = Arc::clone(&self.pause).write_owned();
        timeout(limit, alone).await.ok().map(Pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_next_one_waits_and_nothing_is_left_behind() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let other = turns.wait("b").await;
        let mut next = Box::pin(turns.wait("a"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(first);
        let next = next.await;
        assert_eq!(turns.taken(), BTreeSet::from(["a".into(), "b".into()]));
        drop((next, other));
        assert!(turns.taken().is_empty());
    }

    #[tokio::test]
    async fn who_gives_up_during_a_pause_leaves_nothing_behind() {
        let turns = Turns::default();
        let pause = turns.pause(Duration::from_secs(1)).await.unwrap();
        {
            let mut next = Box::pin(turns.wait("a"));
            assert!(futures::poll!(next.as_mut()).is_pending());
            assert_eq!(turns.taken(), BTreeSet::from(["a".into()]));
        }
        assert!(turns.taken().is_empty());
        drop(pause);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_waits_for_all_and_lets_nobody_begin() {
        let turns = Turns::default();
        let first = turns.wait("a").await;
        let second = Duration::from_secs(1);
        assert!(turns.pause(second).await.is_none());
        drop(first);
        let pause = turns.pause(second).await.unwrap();
        let mut next = Box::pin(turns.wait("a"));
        assert!(futures::poll!(next.as_mut()).is_pending());
        drop(pause);
        next.await;
    }
}
