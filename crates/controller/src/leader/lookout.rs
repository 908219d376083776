//! Watches the lease, so that a follower sees at once that it was released, or
//! that another one leads.
//!
//! Each watch begins with a read of the lease and goes on from the version that
//! was read, so that nothing is missed between two watches. A watch without a
//! version, or from version 0, would need no read, but the API server makes it
//! one with initial events, which it refuses where its etcd cannot report the
//! progress of a watch (before 3.4.25 and 3.5.8).
//!
//! The watch only saves time. What it shows may be old or missing: the election
//! reads the lease for itself before it writes, and at its own pace anyway.

use std::{convert::Infallible, pin::pin, time::Duration};

use floe_core::lease::Record;
use floe_shell::logs;
use futures::StreamExt as _;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
    core::Status,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};
use tracing::{debug, info, warn};

use super::record;

const FIRST_BACKOFF: Duration = Duration::from_millis(500);
const LONGEST_BACKOFF: Duration = Duration::from_secs(30);

/// The record that was shown last; `None` when there was no lease.
pub type Shown = watch::Receiver<Option<Record>>;

/// Keeps a watch on one lease.
pub struct Lookout {
    leases: Api<Lease>,
    name: String,
    params: WatchParams,
    /// How long nothing may come before the connection counts as dead.
    patience: Duration,
    shown: watch::Sender<Option<Record>>,
    /// Whether the last watch has failed; repeated failures are not news.
    failing: bool,
}

/// Why a watch has ended.
#[derive(Debug, thiserror::Error)]
enum WatchError {
    #[error("cannot read the lease")]
    Look(#[source] kube::Error),
    #[error("the lease has no version")]
    NoVersion,
    #[error("cannot open the watch")]
    Open(#[source] kube::Error),
    #[error("no answer within {0:?}")]
    Silent(Duration),
    #[error("cannot read from the watch")]
    Read(#[source] kube::Error),
    #[error("the API server has ended the watch")]
    Ended(#[source] Box<Status>),
}

impl WatchError {
    fn reason(&self) -> &'static str {
        match self {
            Self::Look(_) => "LeaseReadFailed",
            Self::NoVersion => "LeaseWithoutVersion",
            Self::Open(_) => "LeaseWatchRefused",
            Self::Silent(_) => "LeaseWatchTimeout",
            Self::Read(_) => "LeaseWatchBroken",
            Self::Ended(_) => "LeaseWatchEnded",
        }
    }

    /// Whether the server no longer knows what has changed since the version
    /// that was asked for. This is no fault: the lease is as old as its last
    /// write, and the server remembers some minutes.
    fn is_gone(&self) -> bool {
        let status = match self {
            Self::Open(kube::Error::Api(status))
            | Self::Read(kube::Error::Api(status))
            | Self::Ended(status) => status,
            Self::Look(_) | Self::NoVersion | Self::Open(_) | Self::Silent(_) | Self::Read(_) => {
                return false;
            }
        };
        status.code == 410
    }
}

impl Lookout {
    /// A watch on the lease of this name. It is opened again when nothing has
    /// come for as long as `patience`, which a live holder never lets happen
    /// if that is longer than its pause between two renewals.
    pub fn new(leases: Api<Lease>, name: &str, patience: Duration) -> (Self, Shown) {
        let (sender, shown) = watch::channel(None);
        let lookout = Self {
            leases,
            name: name.to_owned(),
            // A role that is limited to this name permits the request only
            // because of this selector.
            params: WatchParams::default().fields(&format!("metadata.name={name}")),
            patience,
            shown: sender,
            failing: false,
        };
        (lookout, shown)
    }

    /// Watches until it is dropped. Errors only make it try again later.
    pub async fn run(mut self) -> Infallible {
        let mut attempts = 0;
        loop {
            let begin = Instant::now();
            let result = self.watch().await;
            self.note(result);
            if begin.elapsed() >= self.patience {
                attempts = 0;
            }
            // Also after a good end: a server that ends every watch at once
            // must not be asked in a tight loop.
            sleep(backoff(attempts)).await;
            attempts = attempts.saturating_add(1);
        }
    }

    async fn watch(&mut self) -> Result<(), WatchError> {
        let Some(version) = self.look().await? else {
            // Nothing to watch; the one who creates the lease leads with that.
            debug!("there is no lease to watch");
            return Ok(());
        };
        let events = timeout(self.patience, self.leases.watch(&self.params, &version))
            .await
            .map_err(|_| WatchError::Silent(self.patience))?
            .map_err(WatchError::Open)?;
        let mut events = pin!(events);
        loop {
            let Ok(next) = timeout(self.patience, events.next()).await else {
                // No holder renews, or the connection is dead; the next watch
                // tells. Neither is a fault of this one.
                debug!(patience = ?self.patience, "the lease watch shows nothing");
                return Ok(());
            };
            let Some(event) = next else { return Ok(()) };
            match event.map_err(WatchError::Read)? {
                WatchEvent::Added(lease) | WatchEvent::Modified(lease) => {
                    self.event(Some(record::from_lease(&lease)));
                }
                WatchEvent::Deleted(_) => self.event(None),
                WatchEvent::Bookmark(_) => {}
                WatchEvent::Error(status) => return Err(WatchError::Ended(status)),
            }
        }
    }

    /// Reads the lease and shows it. Returns its version, if there is one.
    async fn look(&self) -> Result<Option<String>, WatchError> {
        let lease = timeout(self.patience, self.leases.get_opt(&self.name))
            .await
            .map_err(|_| WatchError::Silent(self.patience))?
            .map_err(WatchError::Look)?;
        self.shown
            .send_replace(lease.as_ref().map(record::from_lease));
        let Some(lease) = lease else { return Ok(None) };
        let version = lease.metadata.resource_version;
        version.map(Some).ok_or(WatchError::NoVersion)
    }

    /// Shows what the watch tells. Unlike a read, it proves that the watch works.
    fn event(&mut self, record: Option<Record>) {
        if self.failing {
            self.failing = false;
            info!("the lease watch works again");
        }
        self.shown.send_replace(record);
    }

    fn note(&mut self, result: Result<(), WatchError>) {
        let Err(error) = result else { return };
        let (reason, causes) = (error.reason(), logs::with_causes(&error));
        if error.is_gone() {
            debug!(reason, error = causes, "the lease must be read again");
        } else if self.failing {
            debug!(reason, error = causes, "the lease watch still fails");
        } else {
            self.failing = true;
            warn!(
                reason,
                error = causes,
                "the lease watch fails, changes of the lease are seen at the next read only",
            );
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    let doubled = FIRST_BACKOFF.saturating_mul(2_u32.saturating_pow(attempts));
    doubled.min(LONGEST_BACKOFF)
}
