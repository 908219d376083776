//! Records and entries of `VirtualIP` objects that are gone, as when somebody took off the finalizer or
//! the API server was restored. Nobody can tell who held such an address, so it is
//! freed only after the longest time that a node may go on alone.

use std::{collections::BTreeSet, time::Duration};

use floe_api::floe::register::Entry;
use floe_core::{ipam::ledger::Record, vip::VipId};
use futures::{StreamExt as _, stream};
use tokio::time::Instant;
use tracing::{info, warn};

use super::{
    Steward, Stir,
    round::PARALLEL,
    server::{Failure, silence},
};

/// What is waited in addition, for watches that lag.
const MORE: Duration = Duration::from_mins(1);

/// How many are freed in one sweep; others wait for it meanwhile.
const AT_ONCE: usize = 16;

/// The start of all keys of shared addresses.
const KEYS: &str = "vip__";

impl Steward {
    /// Takes away what is left of objects that are gone for long.
    pub(super) async fn sweep(&self) {
        self.sweep_records().await;
        self.sweep_entries().await;
        for register in self.vips.leaving() {
            if let Err(error) = self.server.let_go(&register).await {
                warn!(reason = error.reason(), %error, "a VirtualIPRegister cannot go");
            }
        }
    }

    /// The namespaces in which addresses are to be withdrawn.
    pub(super) fn orphaned_namespaces(&self) -> BTreeSet<String> {
        let due = self.vips.lost_where(|it| it.withdrawn().is_some());
        due.values().map(|it| id_of(it).namespace).collect()
    }

    /// Withdraws the addresses from entries of this namespace whose objects are gone; whether
    /// all could be withdrawn.
    ///
    /// An agent that stood still meanwhile does not know yet that the object is gone, and would
    /// take the addresses again. After this write the API server rejects that, and the agent
    /// finds nothing to take. The holder stays in the entry: its node may still answer.
    pub(super) async fn withdraw_orphans(&self, namespace: &str, stir: &Stir) -> bool {
        // A search through all entries, so only if something may be found.
        if !stir.any(|id| self.vips.entry(id).is_none()) {
            return true;
        }
        let lost = self
            .vips
            .lost_where(|it| it.withdrawn().is_some() && id_of(it).namespace == namespace);
        let work = lost
            .into_iter()
            .map(|(uid, entry)| self.withdraw(uid, entry));
        let done = stream::iter(work).buffer_unordered(PARALLEL);
        let done: Vec<bool> = done.collect().await;
        done.into_iter().all(|it| it)
    }

    /// The same for one entry.
    async fn withdraw(&self, uid: String, entry: Entry) -> bool {
        let Some(next) = entry.orphaned() else {
            return true;
        };
        let vip = next.vip.clone();
        let replaced = match self.is_orphan(&uid, &entry).await {
            Ok(false) => return true,
            Ok(true) => self.server.replace_orphan(&uid, entry, next).await,
            Err(error) => Err(error),
        };
        match replaced {
            Ok(()) => info!(vip, "withdrew the addresses of a VirtualIP that is gone"),
            // Another writer was faster: it is tried again with what that one wrote.
            Err(Failure::Conflict) => return false,
            Err(error) => {
                let reason = error.reason();
                warn!(reason, vip, %error, "cannot withdraw the addresses of a VirtualIP that is gone");
                return false;
            }
        }
        true
    }

    /// Whether the object of an entry is gone, as the API server says it now. The caches of
    /// objects and of entries are filled independently, so they do not tell.
    async fn is_orphan(&self, uid: &str, entry: &Entry) -> Result<bool, Failure> {
        let id = id_of(entry);
        // One without a name belongs to nobody.
        if id.namespace.is_empty() || id.name.is_empty() {
            return Ok(true);
        }
        let found = self.server.uid(&id).await?;
        Ok(found.as_deref() != Some(uid))
    }

    /// Nobody serves by an entry without an object.
    async fn sweep_entries(&self) {
        let lost = self.vips.lost();
        let due: Vec<_> = {
            let mut memory = self.memory();
            memory.lost.retain(|uid, _| lost.contains_key(uid));
            let due = lost.into_iter().filter(|(uid, _)| {
                let since = memory.lost.entry(uid.clone());
                since.or_insert_with(Instant::now).elapsed() >= silence(false) + MORE
            });
            due.take(AT_ONCE).collect()
        };
        for (uid, entry) in due {
            let vip = entry.vip.clone();
            let struck = match self.is_orphan(&uid, &entry).await {
                Ok(false) => continue,
                Ok(true) => self.server.strike(&uid, entry).await,
                Err(error) => Err(error),
            };
            match struck {
                Ok(()) => info!(vip, "an entry without a VirtualIP is gone"),
                Err(error) => {
                    warn!(reason = error.reason(), vip, %error, "cannot take out an entry");
                }
            }
        }
    }

    async fn sweep_records(&self) {
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
            match self.server.uid(&id).await {
                Ok(None) => {}
                Ok(Some(_)) => continue,
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

/// The object that an entry belongs to, without a name if the entry has none.
fn id_of(entry: &Entry) -> VipId {
    let (namespace, name) = entry.vip.split_once('/').unwrap_or_default();
    VipId {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    }
}
