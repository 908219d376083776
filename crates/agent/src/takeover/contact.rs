//! Whether the API server can be reached.
//!
//! A watch does not notice when its connection is cut: it waits, and shows what was
//! true before. Small questions of their own do notice.

use std::time::Duration;

use kube::Client;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{info, warn};

use super::PROBE;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pause before the next question when there was no answer.
const SOON: Duration = Duration::from_secs(1);

/// Asks the API server from time to time.
pub struct Contact {
    client: Client,
    is_lost: bool,
    next: Instant,
}

impl Contact {
    /// Takes for granted that the API server is there, until it does not answer.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            is_lost: false,
            next: Instant::now(),
        }
    }

    /// Waits until the API server answers after it did not. It may be dropped and called
    /// again at any time.
    pub async fn regained(&mut self) {
        loop {
            sleep_until(self.next).await;
            let answer = timeout(PATIENCE, self.client.apiserver_version()).await;
            let answers = match answer {
                Ok(Ok(_)) => true,
                // A refusal is an answer, but not one from something in between.
                Ok(Err(kube::Error::Api(status))) => status.code < 500,
                Ok(Err(_)) | Err(_) => false,
            };
            self.next = Instant::now() + if answers { PROBE } else { SOON };
            match (self.is_lost, answers) {
                (false, false) => {
                    warn!(reason = "ContactLost", "API server does not answer");
                    self.is_lost = true;
                }
                (true, true) => {
                    info!("API server answers again");
                    self.is_lost = false;
                    return;
                }
                (false, true) | (true, false) => {}
            }
        }
    }
}
