//! How long ago something was reached.

use std::{sync::Arc, time::Duration};

use tokio::{sync::watch, time::Instant};

/// A shared note of the last successful contact.
#[derive(Clone)]
pub struct Contact(Arc<watch::Sender<Option<Instant>>>);

impl Contact {
    /// Never reached so far.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(None)))
    }

    /// Reached just now.
    pub fn mark(&self) {
        self.0.send_replace(Some(Instant::now()));
    }

    /// The time since the last contact; `None` when there was none.
    pub fn age(&self) -> Option<Duration> {
        self.0.borrow().map(|at| at.elapsed())
    }
}
