//! Writes of `FloatingIP` objects: the only place that takes, moves and frees.
//!
//! An address is held if and only if its object exists. Creating it (its name is
//! unique) and changing or deleting it in a known state (`resourceVersion`) are
//! the only ways to write, so of two writers one loses, and learns it. Each
//! answer is entered in the books at once.
//!
//! A write without an answer may have been done. One look tells: what was wanted is
//! there, which is as good as the answer; or something else is, and the write can
//! never be done any more; or nothing has changed, and nobody knows.

use std::net::IpAddr;

use floe_api::galaxy::FloatingIP;
use floe_core::{
    addr::name,
    ipam::{attribute::Attribute, key::HolderKey, ledger::Record, policy::ReleasePolicy},
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Client, Resource as _};
use tracing::debug;

use self::server::{Deleted, Failure, Server};
use crate::{
    metrics::Metrics,
    store::{Books, Seen, Store},
};

mod assigned;
mod content;
mod server;

pub use self::content::{Network, network};

/// Writes records.
#[derive(Clone)]
pub struct Records {
    server: Server,
    store: Store,
    metrics: Metrics,
}

/// What to write into a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Who holds the address.
    pub key: HolderKey,
    /// Where the holder runs; empty for kept ones and spares.
    pub place: Attribute,
    /// How long the address stays.
    pub policy: ReleasePolicy,
    /// What the key cannot say about the workload.
    pub note: Option<String>,
}

impl Holding {
    /// Whether a record says exactly this.
    pub fn is_of(&self, record: &Record) -> bool {
        self.key == record.key
            && self.place.node_name == record.node
            && self.place.uid == record.uid
            && self.policy == record.policy
            && self.note == record.workload_note
    }
}

/// Why a record is not written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// Somebody else was faster. The books have what the API server says now, so
    /// the decision can be made again.
    #[error("{ip} was changed by somebody else meanwhile")]
    Conflict {
        /// The address.
        ip: IpAddr,
    },
    /// The API server refuses, for example for lack of rights.
    #[error("cannot write the record of {ip}: {why}")]
    Refused {
        /// The address.
        ip: IpAddr,
        /// What it says.
        why: String,
    },
    /// No answer, so nobody knows whether it was written. The books have what a
    /// later look shows.
    #[error("no answer when writing the record of {ip}: {why}")]
    Unknown {
        /// The address.
        ip: IpAddr,
        /// What went wrong.
        why: String,
    },
}

impl WriteError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict { .. } => "RecordConflict",
            Self::Refused { .. } => "RecordWriteRefused",
            Self::Unknown { .. } => "RecordWriteUnknown",
        }
    }
}

/// One write that gives an address to a holder.
#[derive(Clone, Copy, Debug)]
pub enum Gift<'a> {
    /// The address has no record.
    New(IpAddr),
    /// The address has this record.
    Held(&'a Record),
}

impl Records {
    /// A writer that keeps the books of `store` current.
    pub fn new(client: Client, store: Store, metrics: Metrics) -> Self {
        Self {
            server: Server::new(client),
            store,
            metrics,
        }
    }

    /// Takes an address that has no record.
    pub async fn take(&self, ip: IpAddr, holding: &Holding) -> Result<(), WriteError> {
        self.give(Gift::New(ip), holding, None, |_| ()).await
    }

    /// Changes the holding of an address whose record is as the caller saw it: a
    /// conflict when the books know another one by now.
    pub async fn change(&self, seen: &Record, holding: &Holding) -> Result<(), WriteError> {
        self.give(Gift::Held(seen), holding, None, |_| ()).await
    }

    /// Reserves an address that has no record.
    pub async fn reserve(&self, ip: IpAddr, key: &HolderKey) -> Result<(), WriteError> {
        let holding = Holding {
            key: key.clone(),
            place: Attribute::default(),
            policy: ReleasePolicy::Never,
            note: None,
        };
        let wanted =
            |object: &FloatingIP| object.is_reserved() && content::says(object, &holding, None);
        let written = self
            .create(ip, &holding, None, content::reserve, wanted)
            .await?;
        self.store.change(|books| books.record(&written));
        Ok(())
    }

    /// Takes or changes, and does something more with the books in the very step
    /// in which the new record is entered. `network` is what a pod is told to set up;
    /// without it that is the marker's to add.
    pub async fn give<R>(
        &self,
        gift: Gift<'_>,
        holding: &Holding,
        network: Option<Network<'_>>,
        then: impl FnOnce(&mut Books) -> R,
    ) -> Result<R, WriteError> {
        let wanted = |object: &FloatingIP| content::says(object, holding, network);
        let written = match gift {
            Gift::New(ip) => self.create(ip, holding, network, |_| (), wanted).await?,
            Gift::Held(seen) => {
                let patch = |version: &str| {
                    let outside = |books: &Books| {
                        let ledger = books.ledger();
                        ledger.is_outside_for(&holding.key, seen.ip)
                    };
                    let outside = self.store.read(outside);
                    content::patch(seen, holding, network, version, outside, Timestamp::now())
                };
                self.patch(seen, patch, wanted).await?
            }
        };
        Ok(self.store.change(|books| {
            books.record(&written);
            then(books)
        }))
    }

    /// Frees an address whose record is as the caller saw it. One that is gone
    /// already is freed.
    pub async fn free(&self, seen: &Record) -> Result<(), WriteError> {
        let ip = seen.ip;
        if self.known(ip).0.is_none() {
            return Ok(());
        }
        let Some((before, version)) = self.expect(seen).await? else {
            return Ok(());
        };
        let name = name::name(ip);
        match self.server.delete(&name, &version).await {
            Ok(Deleted::Gone(uid)) => {
                let metadata = ObjectMeta {
                    name: Some(name),
                    uid,
                    resource_version: Some(version),
                    ..ObjectMeta::default()
                };
                self.store.change(|books| books.record_deleted(&metadata));
                Ok(())
            }
            Ok(Deleted::Waits(object)) => {
                self.store.change(|books| books.record(&object));
                let why = "its object has finalizers and stays until they are taken off".into();
                Err(WriteError::Refused { ip, why })
            }
            Err(Failure::Missing) => {
                self.missing(ip, before);
                Ok(())
            }
            Err(Failure::Conflict) => match self.look(ip).await {
                Ok(None) => Ok(()),
                _ => Err(self.conflict(ip)),
            },
            Err(Failure::Refused(why)) => Err(WriteError::Refused { ip, why }),
            Err(Failure::Unknown(why)) => match self.look(ip).await {
                Ok(None) => Ok(()),
                Ok(Some(object)) if is_version(&object, &version) => {
                    Err(WriteError::Unknown { ip, why })
                }
                Ok(Some(_)) => Err(self.conflict(ip)),
                Err(_) => Err(WriteError::Unknown { ip, why }),
            },
        }
    }

    /// Makes the labels of a record true: whether its address is outside of the
    /// configuration, and its node. A record of a pod that lacks the network gets the
    /// one of the configuration in force. Holder and time stay.
    pub async fn mark(&self, seen: &Record, outside: bool) -> Result<(), WriteError> {
        let (network, assigning) = self.store.read(|books| {
            let ledger = books.ledger();
            let lacking = books.is_bare(seen.ip);
            let network = lacking.then(|| content::network(ledger, seen.ip)).flatten();
            (network, books.is_assigning(seen.ip))
        });
        let network = network.as_ref().map(|info| Network { info, assigning });
        let wanted = |object: &FloatingIP| content::is_marked(seen, object, outside, network);
        let patch = |version: &str| content::mark(seen, version, outside, network);
        let written = self.patch(seen, patch, wanted).await?;
        self.store.change(|books| books.record(&written));
        Ok(())
    }

    async fn create(
        &self,
        ip: IpAddr,
        holding: &Holding,
        network: Option<Network<'_>>,
        finish: impl FnOnce(&mut FloatingIP),
        wanted: impl Fn(&FloatingIP) -> bool,
    ) -> Result<Seen<FloatingIP>, WriteError> {
        // Without a configuration every address is outside, which says nothing.
        let (held, outside) = self.store.read(|books| {
            let ledger = books.ledger();
            let held = ledger.record(ip).is_some();
            (held, ledger.is_taken_out_for(&holding.key, ip))
        });
        if held {
            return Err(self.conflict(ip));
        }
        let mut object = content::object(ip, holding, network, outside, Timestamp::now());
        finish(&mut object);
        match self.server.create(&object).await {
            Ok(object) => Ok(object),
            Err(Failure::Conflict) => {
                // Unreadable or not, it is held by somebody; the next try learns by whom.
                let _ = self.look(ip).await;
                Err(self.conflict(ip))
            }
            Err(Failure::Missing) => Err(WriteError::Refused {
                ip,
                why: "the API server does not serve floatingips.galaxy.k8s.io".into(),
            }),
            Err(Failure::Refused(why)) => Err(WriteError::Refused { ip, why }),
            Err(Failure::Unknown(why)) => match self.look(ip).await {
                Ok(Some(Seen::Whole(object))) if wanted(&object) => Ok(Seen::Whole(object)),
                Ok(Some(_)) => Err(self.conflict(ip)),
                Ok(None) | Err(_) => Err(WriteError::Unknown { ip, why }),
            },
        }
    }

    /// Changes an object that is as the caller saw it, and returns what is there
    /// then, for the books.
    async fn patch(
        &self,
        seen: &Record,
        patch: impl Fn(&str) -> serde_json::Value,
        wanted: impl Fn(&FloatingIP) -> bool,
    ) -> Result<Seen<FloatingIP>, WriteError> {
        let ip = seen.ip;
        let Some((before, version)) = self.expect(seen).await? else {
            return Err(self.conflict(ip));
        };
        match self.server.patch(&name::name(ip), &patch(&version)).await {
            Ok(object) => Ok(object),
            Err(Failure::Missing) => {
                self.missing(ip, before);
                Err(self.conflict(ip))
            }
            Err(Failure::Conflict) => {
                let _ = self.look(ip).await;
                Err(self.conflict(ip))
            }
            Err(Failure::Refused(why)) => Err(WriteError::Refused { ip, why }),
            Err(Failure::Unknown(why)) => match self.look(ip).await {
                Ok(Some(object)) if is_version(&object, &version) => {
                    Err(WriteError::Unknown { ip, why })
                }
                Ok(Some(Seen::Whole(object))) if wanted(&object) => Ok(Seen::Whole(object)),
                Ok(_) => Err(self.conflict(ip)),
                Err(_) => Err(WriteError::Unknown { ip, why }),
            },
        }
    }

    /// The record of an address as the books have it, and its version.
    fn known(&self, ip: IpAddr) -> (Option<Record>, Option<u64>) {
        self.store.read(|books| {
            let record = books.ledger().record(ip);
            (record.cloned(), books.version(ip))
        })
    }

    /// The version that a record has, as the books have it and in the words of the
    /// API server, if it is what the caller saw. `None` when it is gone.
    async fn expect(&self, seen: &Record) -> Result<Option<(Option<u64>, String)>, WriteError> {
        let ip = seen.ip;
        let (record, version) = self.known(ip);
        if record.as_ref() != Some(seen) {
            return Err(self.conflict(ip));
        }
        if let Some(number) = version {
            return Ok(Some((version, number.to_string())));
        }
        // The books keep no versions that are no numbers.
        let Some(object) = self
            .look(ip)
            .await
            .map_err(|failure| refused(ip, failure))?
        else {
            return Ok(None);
        };
        if self.known(ip).0.as_ref() != Some(seen) {
            return Err(self.conflict(ip));
        }
        let version = object.meta().resource_version.clone();
        Ok(Some((None, version.unwrap_or_default())))
    }

    /// Looks at the object and enters what is there.
    async fn look(&self, ip: IpAddr) -> Result<Option<Seen<FloatingIP>>, Failure> {
        let before = self.known(ip).1;
        let object = self.server.read(&name::name(ip)).await?;
        match &object {
            Some(object) => self.store.change(|books| books.record(object)),
            None => self.missing(ip, before),
        }
        Ok(object)
    }

    fn missing(&self, ip: IpAddr, version: Option<u64>) {
        self.store.change(|books| books.record_missing(ip, version));
    }

    fn conflict(&self, ip: IpAddr) -> WriteError {
        self.metrics.conflict();
        debug!(reason = "RecordConflict", %ip, "another writer was faster");
        WriteError::Conflict { ip }
    }
}

/// A read before the write has failed, so nothing was written.
fn refused(ip: IpAddr, failure: Failure) -> WriteError {
    let why = match failure {
        Failure::Conflict | Failure::Missing => "the object cannot be read".into(),
        Failure::Refused(why) | Failure::Unknown(why) => why,
    };
    WriteError::Refused { ip, why }
}

fn is_version(object: &Seen<FloatingIP>, version: &str) -> bool {
    object.meta().resource_version.as_deref() == Some(version)
}

#[cfg(test)]
mod tests;
