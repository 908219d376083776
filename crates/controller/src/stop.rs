//! The wish to stop, as every task sees it.

use tokio::sync::watch;

/// Asks all tasks to stop. Dropping it asks as well, so that no task outlives
/// its owner.
pub struct Stopper(watch::Sender<bool>);

/// Where one task learns that it shall stop.
#[derive(Clone)]
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
}
