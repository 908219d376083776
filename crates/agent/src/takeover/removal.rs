//! Taking an address off, and telling it.

use std::{path::PathBuf, sync::Arc};

use floe_core::node::takeover::{Attachment, MOVED_AWAY, Oddity, Seen};
use floe_net::takeoff::{Removed, TakeOffError, Target};
use floe_shell::logs;
use tokio::task::spawn_blocking;
use tracing::{info, warn};

use super::{Cause, Configured, Outcome, Takeover};
use crate::{
    cri::CriError,
    events::{self, News},
};

/// Where a pod can be reached.
enum Reach {
    /// In its namespace.
    Netns(PathBuf),
    /// Only from the host: the runtime does not tell the namespace of its sandbox.
    Host,
    /// The runtime knows the sandbox no more: what is left of it can only be on the host.
    Gone,
}

impl Takeover {
    /// Takes an address off that somebody else has by now.
    pub(super) async fn remove(
        &self,
        configured: Configured,
        holder: &Seen,
        cause: Cause,
    ) -> Outcome {
        let Configured {
            attachment, netns, ..
        } = configured;
        let (ip, container) = (attachment.ip, &*attachment.container);
        let reach = match self.reach(container, netns).await {
            Ok(reach) => reach,
            // Only a namespace that there is no way to is a reason to cut the pod off as
            // a whole. A runtime that is just busy answers the next time.
            Err(error) => {
                warn!(
                    reason = error.reason(), %ip, container, error = %error,
                    "namespace of a pod is not known; its address is tried again",
                );
                return Outcome::Failed(container.to_owned());
            }
        };
        let is_gone = matches!(reach, Reach::Gone);
        let target = Target {
            ip,
            container: container.to_owned(),
            netns: match reach {
                Reach::Netns(netns) => Some(netns),
                Reach::Host | Reach::Gone => None,
            },
        };
        let take_off = Arc::clone(&self.take_off);
        let done = spawn_blocking(move || take_off(&target)).await;
        let (removed, mut failed) = match done {
            Ok(done) => done,
            // A panic goes on in whoever waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        // For the case that the record names this pod again.
        let noted = self.states.note_taken_off(container, ip).await;
        if !removed.0.is_empty() {
            self.report(&attachment, holder, &removed, cause);
        }
        if let Err(error) = noted {
            let reason = error.reason();
            let error = logs::with_causes(&error);
            warn!(reason, %ip, container, error, "cannot note that an address is taken off");
            return Outcome::Failed(container.to_owned());
        }
        let all = failed.len();
        failed.retain(|error| !matches!(error, TakeOffError::OutOfReach(_)));
        if !failed.is_empty() {
            let errors: Vec<String> = failed.iter().map(ToString::to_string).collect();
            warn!(
                reason = "TakeOffFailed", %ip, container, error = errors.join(" / "),
                "address of another pod is still configured; it is tried again",
            );
            return Outcome::Failed(container.to_owned());
        }
        if failed.len() < all && !is_gone {
            let key = holder.key.clone();
            return Outcome::Odd(ip, Oddity::OutOfReach { key });
        }
        Outcome::Settled
    }

    async fn reach(&self, container: &str, noted: Option<PathBuf>) -> Result<Reach, CriError> {
        if let Some(netns) = noted {
            return Ok(Reach::Netns(netns));
        }
        if let Some(netns) = self.cri.netns(container).await? {
            return Ok(Reach::Netns(netns));
        }
        let listed = self.cri.sandboxes().await?;
        let is_listed = listed.iter().any(|sandbox| sandbox.id == container);
        Ok(if is_listed { Reach::Host } else { Reach::Gone })
    }

    fn report(&self, attachment: &Attachment, holder: &Seen, removed: &Removed, cause: Cause) {
        self.metrics.taken_off();
        let took = cause.since.elapsed();
        let ip = attachment.ip;
        info!(
            reason = MOVED_AWAY,
            %ip,
            container = attachment.container,
            holder = holder.key.as_str(),
            node = holder.node,
            cause = cause.what,
            took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            removed = removed.0.join(", "),
            "address is taken off",
        );
        let Some(pod) = &attachment.pod else {
            return;
        };
        let place = if holder.node.is_empty() {
            String::new()
        } else {
            format!(" on node {}", holder.node)
        };
        self.events.tell(News {
            about: events::pod(&pod.namespace, &pod.name, &pod.uid),
            warning: true,
            reason: MOVED_AWAY,
            action: "TakeOff",
            note: format!("{ip} belongs to {}{place} by now", holder.key.as_str()),
        });
    }
}
