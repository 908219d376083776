//! Records of `VirtualIP` objects that are gone, as when somebody took off the finalizer or
//! the API server was restored. Nobody can tell who held such an address, so it is
//! freed only after the longest time that a node may go on alone.

use std::time::Duration;

use floe_core::{ipam::ledger::Record, vip::VipId};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{Steward, server::silence};

/// What is waited in addition, for watches that lag.
const MORE: Duration = Duration::from_mins(1);

/// How many are freed in one sweep; others wait for it meanwhile.
const AT_ONCE: usize = 16;

/// The start of all keys of shared addresses.
const KEYS: &str = "vip__";

impl Steward {
    /// Frees records whose object is gone for long.
    pub(super) async fn sweep(&self) {
        let records: Vec<(VipId, Record)> = self.store.read(|books| {
            let shared = books.ledger().starting_with(KEYS);
            let shared = shared.filter_map(|record| Some((record.key.vip()?, record.clone())));
            shared.collect()
        });
        let orphans: Vec<_> = records
            .into_iter()
            .filter(|(id, _)| self.vips.get(id).is_none())
            .collect();
        let due: Vec<_> = {
            let mut memory = self.memory();
            let known = |id: &VipId| orphans.iter().any(|(orphan, _)| orphan == id);
            memory.orphans.retain(|id, _| known(id));
            orphans
                .into_iter()
                .filter(|(id, _)| {
                    let since = memory.orphans.entry(id.clone());
                    since.or_insert_with(Instant::now).elapsed() >= silence(false) + MORE
                })
                .take(AT_ONCE)
                .collect()
        };
        for (id, record) in due {
            let VipId { namespace, name } = &id;
            match self.server.exists(&id).await {
                Ok(false) => {}
                Ok(true) => continue,
                Err(error) => {
                    warn!(reason = error.reason(), namespace, name, %error, "cannot look for a VirtualIP");
                    continue;
                }
            }
            match self.records.free(&record).await {
                Ok(()) => {
                    info!(ip = %record.ip, namespace, name, "freed the address of a VirtualIP that is gone");
                }
                Err(error) => {
                    warn!(reason = error.reason(), ip = %record.ip, %error, "cannot free an address");
                }
            }
        }
    }
}
