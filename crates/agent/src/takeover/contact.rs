//! Whether the API server can be reached.
//!
//! A watch does not notice when its connection is cut: it waits, and shows what was
//! true before. Small questions of their own do notice.

use std::time::Duration;

use kube::Client;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::PROBE;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// The pause before the next question when there was no answer.
const SOON: Duration = Duration::from_secs(1);

/// Asks the API server for ever whether it is there, and calls `regained` each time that
/// it answers after it did not.
pub async fn ask(client: Client, regained: impl Fn()) {
    let mut is_lost = false;
    loop {
        let answers = match timeout(PATIENCE, client.apiserver_version()).await {
            Ok(Ok(_)) => true,
            // A refusal is an answer, but not one from something in between.
            Ok(Err(kube::Error::Api(status))) => status.code < 500,
            Ok(Err(_)) | Err(_) => false,
        };
        match (is_lost, answers) {
            (false, false) => warn!(reason = "ContactLost", "API server does not answer"),
            (true, true) => {
                info!("API server answers again");
                regained();
            }
            (false, true) | (true, false) => {}
        }
        is_lost = !answers;
        sleep(if answers { PROBE } else { SOON }).await;
    }
}
