//! One call of a plugin: what was asked, and where things lie.

use std::{
    env, io,
    path::PathBuf,
    time::{Duration, Instant},
};

use floe_core::cni::{
    call::Call,
    config::{Attachment, NetConf},
    error::{CniError, Code},
};
use floe_net::lock::Lock;

use crate::fail::system;

/// How long a call waits for others that make shared devices.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a plugin is asked.
pub struct Request<'a> {
    /// The environment.
    pub call: &'a Call,
    /// The configuration.
    pub conf: &'a NetConf,
    /// The configuration as it came, for plugins that are called in turn.
    pub stdin: &'a [u8],
    /// Where things lie.
    pub places: &'a Places,
}

impl Request<'_> {
    /// What the call is about.
    pub fn attachment(&self) -> Attachment {
        Attachment {
            container: self.call.container.clone(),
            ifname: self.call.ifname.clone(),
        }
    }
}

/// Where things lie on this host.
pub struct Places {
    /// What lasts until the next boot.
    pub run: PathBuf,
    /// What lasts longer.
    pub state: PathBuf,
}

impl Places {
    /// The usual places, or those of `FLOE_RUN` and `FLOE_STATE`.
    pub fn usual() -> Self {
        let place = |name, usual: &str| {
            let other = env::var_os(name).filter(|it| !it.is_empty());
            other.map_or_else(|| PathBuf::from(usual), PathBuf::from)
        };
        Self {
            run: place("FLOE_RUN", "/run/floe"),
            state: place("FLOE_STATE", "/var/lib/cni/floe"),
        }
    }

    /// Keeps other calls from making shared devices, until it is dropped. Nothing
    /// that takes long is done meanwhile.
    pub fn lock(&self) -> Result<Lock, CniError> {
        self.lock_at("net.lock", PATIENCE)
    }

    /// Keeps other calls from making virtual functions of a card, until it is dropped.
    /// It takes long, so nobody else waits for it, and who does waits longer.
    pub fn lock_card(&self, device: &str) -> Result<Lock, CniError> {
        self.lock_at(&format!("card-{device}.lock"), 2 * PATIENCE)
    }

    fn lock_at(&self, name: &str, patience: Duration) -> Result<Lock, CniError> {
        let path = self.run.join(name);
        let taken = Lock::take(&path, Instant::now() + patience);
        taken.map_err(|error| {
            if error.kind() == io::ErrorKind::TimedOut {
                // It passes, and the runtime knows what to do.
                return CniError::of(Code::TryAgainLater, error.to_string());
            }
            system(format_args!("lock {}", path.display()))(error)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_in_vain_for_a_lock_is_told_to_try_again_and_other_locks_are_free() {
        let folder = tempfile::tempdir().unwrap();
        let places = Places {
            run: folder.path().join("run"),
            state: folder.path().into(),
        };
        let _held = places.lock_card("ens1").unwrap();
        let error = places
            .lock_at("card-ens1.lock", Duration::ZERO)
            .unwrap_err();
        assert_eq!(
            (error.code, error.reason),
            (Code::TryAgainLater, "TryAgainLater")
        );
        assert!(error.message.contains("card-ens1.lock"), "{error}");
        places.lock_at("net.lock", Duration::ZERO).unwrap();
        places.lock_at("card-ens2.lock", Duration::ZERO).unwrap();
    }
}
