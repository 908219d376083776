//! Releasing addresses by hand: never one that a pod runs with.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    net::IpAddr,
    sync::Arc,
};

use floe_core::{
    addr::canonical,
    ipam::{
        key::{HolderKey, KeyParts, PoolName},
        ledger::Record,
        preallocate,
        slot::Departure,
    },
    vip::VipId,
};
use floe_providers::ProviderError;
use floe_shell::logs;
use tracing::info;

use super::Actions;
use crate::{
    cluster::{Phase, Pod, is_name},
    reclaim::sight::Sight,
    records::WriteError,
    store::Books,
};

/// An address that somebody wants to be free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The address.
    pub ip: IpAddr,
    /// The key that its record must have; without one any will do.
    pub key: Option<HolderKey>,
}

/// How an address came to be free, or would with a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freed {
    /// Its record was deleted.
    Released,
    /// Its record was deleted, and the preallocator takes another address for its pool.
    Refilled,
    /// It had no record.
    AlreadyFree,
    /// It had no record, and is not in the configuration either.
    NotConfigured,
}

/// Why an address is not released.
#[derive(Debug, thiserror::Error)]
pub enum ReleaseError {
    /// Somebody else has it.
    #[error("held by another one: {key}")]
    OtherHolder {
        /// The key of its record.
        key: HolderKey,
    },
    /// It is reserved, and stays so until that is taken back.
    #[error("reserved as {key}; unreserve it instead")]
    Reserved {
        /// The key of its record.
        key: HolderKey,
    },
    /// Several pods share it, and it goes with its `VirtualIP`.
    #[error("shared by VirtualIP {}/{}; delete that instead", .vip.namespace, .vip.name)]
    Shared {
        /// The `VirtualIP`.
        vip: VipId,
    },
    /// A pod runs with it.
    #[error("pod {namespace}/{pod} (uid {uid}) runs with it")]
    PodRuns {
        /// The namespace of the pod.
        namespace: String,
        /// Its name.
        pod: String,
        /// Its uid.
        uid: String,
    },
    /// Nobody can say whether its pod is there.
    #[error("cannot read pod {namespace}/{pod}: {why}")]
    PodUnreadable {
        /// The namespace of the pod.
        namespace: String,
        /// Its name.
        pod: String,
        /// What went wrong.
        why: String,
    },
    /// Something runs with it, and its key does not tell which pod.
    #[error("bound, but its key {key:?} names no pod that one could look for")]
    HolderUnknown {
        /// The key of its record.
        key: HolderKey,
    },
    /// The cloud still has it on a node.
    #[error("cannot take it from node {node} in the cloud")]
    Cloud {
        /// The address.
        ip: IpAddr,
        /// The node.
        node: String,
        /// What the provider says.
        #[source]
        source: ProviderError,
    },
    /// The record is not deleted.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Freed {
    /// The stable word for answers.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Released | Self::Refilled => "Released",
            Self::AlreadyFree => "AlreadyFree",
            Self::NotConfigured => "NotConfigured",
        }
    }
}

impl fmt::Display for Freed {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Released => "released",
            Self::Refilled => {
                "released; its pool has preAllocateIP, so floe allocates another address for the \
                 pool at once: reduce its size if it has too many"
            }
            Self::AlreadyFree => "it was free already",
            Self::NotConfigured => "it has no record and is in no range of the configuration",
        })
    }
}

impl ReleaseError {
    /// The stable reason for answers, logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OtherHolder { .. } => "HeldByAnother",
            Self::Reserved { .. } => "AddressReserved",
            Self::Shared { .. } => "SharedAddress",
            Self::PodRuns { .. } => "PodRuns",
            Self::PodUnreadable { .. } => "PodUnreadable",
            Self::HolderUnknown { .. } => "HolderUnknown",
            Self::Cloud { .. } => "CloudUnassignFailed",
            Self::Write(error) => error.reason(),
        }
    }

    /// The same in the words of galaxy's API.
    ///
    /// Compat: galaxy releases reserved addresses, too, and has no text for that, nor
    /// for shared ones.
    pub fn galaxy_text(&self) -> String {
        match self {
            Self::OtherHolder { key } => format!("ip allocated to another pod {key}"),
            Self::Reserved { .. } => "releasable is false, ip is reserved".into(),
            Self::Shared { vip } => {
                let VipId { namespace, name } = vip;
                format!("releasable is false, ip is shared by VirtualIP {namespace}/{name}")
            }
            Self::PodRuns {
                namespace,
                pod,
                uid,
            } => format!("pod {namespace}_{pod} (uid {uid}) is running"),
            Self::Cloud { ip, node, source } => {
                let why = logs::with_causes(source);
                format!("UnAssignIP nodeName {node}, ip {ip}: {why}")
            }
            Self::Write(error) => format!("release ip: {error}"),
            Self::PodUnreadable { .. } | Self::HolderUnknown { .. } => self.to_string(),
        }
    }
}

impl Actions {
    /// Releases addresses, several at a time; the results are in the order of the
    /// wishes. A dry run changes nothing, and asks the cloud nothing.
    pub async fn release(
        &self,
        wishes: &[Wish],
        dry_run: bool,
    ) -> Vec<Result<Freed, ReleaseError>> {
        let shown = self.shown(wishes);
        let work = wishes
            .iter()
            .map(|wish| self.release_one(wish, shown.get(&canonical(wish.ip)), dry_run));
        self.some_at_a_time(work.collect(), ReleaseError::reason)
            .await
    }

    /// Why an address cannot be released because it is shared, if it is.
    pub fn shared(&self, ip: IpAddr) -> Option<ReleaseError> {
        let key = |books: &Books| Some(books.ledger().record(ip)?.key.clone());
        let vip = self.store.read(key)?.vip()?;
        Some(ReleaseError::Shared { vip })
    }

    /// Pods that show a wished address, whatever the records say.
    fn shown(&self, wishes: &[Wish]) -> BTreeMap<IpAddr, Arc<Pod>> {
        let asked: BTreeSet<IpAddr> = wishes.iter().map(|wish| canonical(wish.ip)).collect();
        let mut shown = BTreeMap::new();
        if asked.is_empty() {
            return shown;
        }
        for pod in self.cluster.pods() {
            if pod.phase == Phase::Finished {
                continue;
            }
            let addresses = pod.addresses.iter().map(|ip| canonical(*ip));
            for ip in addresses.filter(|ip| asked.contains(ip)) {
                shown.insert(ip, Arc::clone(&pod));
            }
        }
        shown
    }

    async fn release_one(
        &self,
        wish: &Wish,
        shown_by: Option<&Arc<Pod>>,
        dry_run: bool,
    ) -> Result<Freed, ReleaseError> {
        let before = match self.wanted(wish)? {
            Ok(record) => record,
            Err(free) => return Ok(free),
        };
        let pod = pod_of(&before.key);
        let _turn = match pod {
            Some((namespace, pod)) => Some(self.turns.wait(namespace, pod).await),
            None => None,
        };
        // Another one may have had the turn.
        let record = match self.wanted(wish)? {
            Ok(record) => record,
            Err(free) => return Ok(free),
        };
        if record.key != before.key {
            return Err(WriteError::Conflict { ip: record.ip }.into());
        }
        self.nobody_runs(&record, pod, shown_by).await?;
        let freed = if self.is_refilled(&record) {
            Freed::Refilled
        } else {
            Freed::Released
        };
        if dry_run {
            return Ok(freed);
        }
        if !record.node.is_empty() {
            let unassigned = self.cloud.unassign(&record.node, record.ip).await;
            unassigned.map_err(|source| ReleaseError::Cloud {
                ip: record.ip,
                node: record.node.clone(),
                source,
            })?;
        }
        self.records.free(&record).await?;
        let Record { ip, key, node, .. } = &record;
        info!(%ip, %key, node, reason = BY_HAND, "address was released by hand");
        self.metrics.reclaimed("freed", BY_HAND);
        Ok(freed)
    }

    /// Whether the pool of a record lacks an address without it, and asks for one ahead of
    /// its pods.
    fn is_refilled(&self, record: &Record) -> bool {
        let Some(pool) = record.key.parts().and_then(|parts| parts.pool) else {
            return false;
        };
        let Ok(pool) = PoolName::new(pool) else {
            return false;
        };
        self.store.change(|books| {
            let declared = books.declared(&pool);
            books.try_out(|ledger| preallocate::is_missed(ledger, &pool, &declared, record.ip))
        })
    }

    /// The record to delete, or why there is nothing to do.
    fn wanted(&self, wish: &Wish) -> Result<Result<Record, Freed>, ReleaseError> {
        let (record, configured) = self.store.read(|books| {
            let ledger = books.ledger();
            (
                ledger.record(wish.ip).cloned(),
                !ledger.is_outside(canonical(wish.ip)),
            )
        });
        let Some(record) = record else {
            return Ok(Err(if configured {
                Freed::AlreadyFree
            } else {
                Freed::NotConfigured
            }));
        };
        let key = record.key.clone();
        // Whatever key was wished, the reason is the one that helps.
        if let Some(vip) = key.vip() {
            return Err(ReleaseError::Shared { vip });
        }
        if wish.key.as_ref().is_some_and(|wanted| *wanted != key) {
            return Err(ReleaseError::OtherHolder { key });
        }
        if record.reserved {
            return Err(ReleaseError::Reserved { key });
        }
        Ok(Ok(record))
    }

    /// Makes sure that no pod runs with the address: neither the one of the record,
    /// nor one that shows it. The caches lag behind, so the API server is asked.
    async fn nobody_runs(
        &self,
        record: &Record,
        pod: Option<(&str, &str)>,
        shown_by: Option<&Arc<Pod>>,
    ) -> Result<(), ReleaseError> {
        match pod {
            Some((namespace, pod)) => {
                let sight = Sight::of(&self.client, namespace, pod).await;
                let sighting = sight.of_address(record.ip);
                let has_left = Departure::seen(&record.uid, sighting).is_some();
                left(&sight, namespace, pod, has_left)?;
            }
            None if !record.is_idle() => {
                let key = record.key.clone();
                return Err(ReleaseError::HolderUnknown { key });
            }
            None => {}
        }
        let Some(shown_by) = shown_by else {
            return Ok(());
        };
        let Pod {
            namespace, name, ..
        } = &**shown_by;
        if pod == Some((namespace, name)) {
            return Ok(());
        }
        let sight = Sight::of(&self.client, namespace, name).await;
        let shows = matches!(&sight, Sight::Pod(pod)
            if pod.phase != Phase::Finished && pod.addresses.contains(&record.ip));
        left(&sight, namespace, name, !shows)
    }
}

/// The reason that is told with a release.
const BY_HAND: &str = "ReleasedByHand";

/// The pod that a key names, if there can be one.
fn pod_of(key: &HolderKey) -> Option<(&str, &str)> {
    let KeyParts { namespace, pod, .. } = key.parts()?;
    (is_name(namespace) && is_name(pod)).then_some((namespace, pod))
}

fn left(sight: &Sight, namespace: &str, name: &str, has_left: bool) -> Result<(), ReleaseError> {
    let (namespace, name) = (namespace.to_owned(), name.to_owned());
    match sight {
        Sight::Unreadable(why) => Err(ReleaseError::PodUnreadable {
            namespace,
            pod: name,
            why: why.clone(),
        }),
        Sight::Pod(seen) if !has_left => Err(ReleaseError::PodRuns {
            namespace,
            pod: name,
            uid: seen.uid.clone(),
        }),
        Sight::Pod(_) | Sight::Nobody => Ok(()),
    }
}

#[cfg(test)]
mod tests;
