//! Configuring an address again whose record names its pod again, and noting what is missing.

use std::sync::Arc;

use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::{Configured, Outcome, Takeover};
use crate::events::{self, News};

/// The reason under which an address is configured again.
const RESTORED: &str = "AddressRestored";

/// The same where that fails.
const NOT_RESTORED: &str = "AddressNotRestored";

impl Takeover {
    /// Configures an address again. A failure is tried again when a record changes and once a
    /// minute: each try detaches and attaches the pod.
    pub(super) async fn restore_one(&self, configured: Configured) -> Outcome {
        let attachment = &configured.attachment;
        let (ip, container) = (attachment.ip, attachment.container.clone());
        let restored = (self.restore)(container, ip).await;
        let about = attachment.pod.as_ref();
        let about = about.map(|pod| events::pod(&pod.namespace, &pod.name, &pod.uid));
        let (warning, reason, note) = match &restored {
            Ok(false) => return Outcome::Settled,
            Ok(true) => {
                info!(reason = RESTORED, %ip, container = attachment.container, "address restored");
                let note = format!("{ip} is configured again: its record names this pod again");
                (false, RESTORED, note)
            }
            Err((cause, error)) => {
                warn!(
                    reason = NOT_RESTORED, cause, %ip, container = attachment.container, error,
                    "cannot restore an address",
                );
                let note = format!("{ip} is this pod's again, but cannot be configured: {error}");
                (true, NOT_RESTORED, note)
            }
        };
        if let Some(about) = about {
            self.events.tell(News {
                about,
                warning,
                reason,
                action: "Restore",
                note,
            });
        }
        if restored.is_ok() {
            Outcome::Settled
        } else {
            Outcome::Off(configured)
        }
    }

    /// Notes which addresses pods should have and do not have: those that cannot be restored,
    /// and those that the plugin has configured and that are not in the namespace any more.
    pub(super) async fn note_missing(&self, kept: Vec<Configured>, off: Vec<Configured>) {
        let look_in = Arc::clone(&self.look_in);
        let missing = spawn_blocking(move || {
            let is_missing = |it: &Configured| {
                let netns = it.netns.as_deref().filter(|_| it.is_expected);
                let found = netns.and_then(|netns| look_in(netns));
                found.is_some_and(|all| !all.contains(&it.attachment.ip))
            };
            kept.into_iter().filter(is_missing).chain(off).collect()
        });
        let missing: Vec<Configured> = match missing.await {
            Ok(missing) => missing,
            // A panic goes on in the task that waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let missing = missing.into_iter().map(|it| it.attachment);
        self.missing
            .replace(missing.filter_map(|it| Some((it.ip, it.pod?))));
    }
}
