//! One call of a plugin: what was asked, and where things lie.

use std::{
    env,
    path::PathBuf,
    time::{Duration, Instant},
};

use floe_core::cni::{
    call::Call,
    config::{Attachment, NetConf},
    error::CniError,
};
use floe_net::lock::Lock;

use crate::fail;

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
        let path = self.run.join("net.lock");
        Lock::take(&path, Instant::now() + PATIENCE)
            .map_err(fail::system(format_args!("lock {}", path.display())))
    }
}
