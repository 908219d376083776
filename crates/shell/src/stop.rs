//! The wish to stop, as every task sees it.

use tokio::sync::watch;

/// Asks all tasks to stop. Dropping it asks as well, so that no task outlives
/// its owner.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Where one task learns that it shall stop.
#[derive(Clone, Debug)]
pub struct Stop(watch::Receiver<bool>);

/// A connected pair.
pub fn channel() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Asks all tasks to stop.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits until the task shall stop.
    pub async fn requested(&mut self) {
        // An error means that the stopper is gone, which is the same wish.
        let _ = self.0.wait_for(|stop| *stop).await;
    }

    /// Whether it shall stop.
    pub fn is_requested(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use super::*;

    #[tokio::test]
    async fn every_task_learns_of_the_wish_and_a_lost_stopper_is_one() {
        let (stopper, mut first) = channel();
        let mut second = first.clone();
        {
            let mut waits = pin!(first.requested());
            assert!(futures::poll!(waits.as_mut()).is_pending());
            assert!(!second.is_requested());
            stopper.stop();
            waits.await;
        }
        assert!(second.is_requested());
        second.requested().await;

        let (stopper, mut orphan) = channel();
        drop(stopper);
        assert!(orphan.is_requested());
        orphan.requested().await;
    }
}
