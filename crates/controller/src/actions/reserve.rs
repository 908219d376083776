//! Reserving addresses, and taking that back.

use std::{fmt, net::IpAddr};

use floe_core::{
    addr::{canonical, name},
    ipam::{key::HolderKey, reservation::is_reservation},
};
use tracing::info;

use super::Actions;
use crate::{records::WriteError, store::UNREADABLE_RECORD};

/// How an address came to be reserved, or would with a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reserved {
    /// It was free.
    Reserved,
    /// It was reserved before, maybe for something else.
    AlreadyReserved,
}

/// Why an address is not reserved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReserveError {
    /// It is in no range of the configuration, so no pod could get it.
    #[error("it is in no range of the configuration")]
    NotConfigured,
    /// Somebody has it.
    #[error("it is held by {key}")]
    Held {
        /// The key of its record.
        key: HolderKey,
    },
    /// A pod runs with it, and its record is missing.
    #[error("a pod runs with it whose record is missing")]
    PodRuns,
    /// The record is not written.
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// How a reservation came to be gone, or would with a dry run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreserved {
    /// It was deleted.
    Unreserved,
    /// The address had no record.
    AlreadyFree,
}

/// Why a reservation is not taken back.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreserveError {
    /// The address is held by somebody, and not reserved.
    #[error("it is not reserved but held by {key}")]
    NotReserved {
        /// The key of its record.
        key: HolderKey,
    },
    /// It has the label of a reservation, and the key or place of a pod.
    #[error("it is reserved, but its record is that of a pod: {key}")]
    HeldByPod {
        /// The key of its record.
        key: HolderKey,
    },
    /// It has the label of a reservation, and a `VirtualIP` has it.
    #[error("it is reserved, but shared by a VirtualIP: {key}")]
    Shared {
        /// The key of its record.
        key: HolderKey,
    },
    /// The record cannot be read, so nobody knows what it is.
    #[error("its record cannot be read")]
    Unreadable,
    /// The record is not deleted.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl Reserved {
    /// The stable word for answers.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Reserved => "Reserved",
            Self::AlreadyReserved => "AlreadyReserved",
        }
    }
}

impl fmt::Display for Reserved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Reserved => "reserved",
            Self::AlreadyReserved => "it was reserved already",
        })
    }
}

impl ReserveError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured => "NotConfigured",
            Self::Held { .. } => "HeldByAnother",
            Self::PodRuns => "PodRuns",
            Self::Write(error) => error.reason(),
        }
    }
}

impl Unreserved {
    /// The stable word for answers.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unreserved => "Unreserved",
            Self::AlreadyFree => "AlreadyFree",
        }
    }
}

impl fmt::Display for Unreserved {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Unreserved => "no longer reserved",
            Self::AlreadyFree => "it was free already",
        })
    }
}

impl UnreserveError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotReserved { .. } => "NotReserved",
            Self::HeldByPod { .. } => "HeldByPod",
            Self::Shared { .. } => "SharedAddress",
            Self::Unreadable => UNREADABLE_RECORD,
            Self::Write(error) => error.reason(),
        }
    }
}

impl Actions {
    /// Reserves free addresses, several at a time; the results are in the order of
    /// the addresses. A dry run changes nothing.
    ///
    /// The key is made by [`floe_core::ipam::reservation::key`].
    pub async fn reserve(
        &self,
        ips: &[IpAddr],
        key: &HolderKey,
        dry_run: bool,
    ) -> Vec<Result<Reserved, ReserveError>> {
        let work = ips
            .iter()
            .map(|ip| self.reserve_one(canonical(*ip), key, dry_run));
        self.some_at_a_time(work.collect(), ReserveError::reason)
            .await
    }

    /// Takes reservations back, several at a time; the results are in the order of
    /// the addresses. A dry run changes nothing.
    pub async fn unreserve(
        &self,
        ips: &[IpAddr],
        dry_run: bool,
    ) -> Vec<Result<Unreserved, UnreserveError>> {
        let work = ips
            .iter()
            .map(|ip| self.unreserve_one(canonical(*ip), dry_run));
        self.some_at_a_time(work.collect(), UnreserveError::reason)
            .await
    }

    async fn reserve_one(
        &self,
        ip: IpAddr,
        key: &HolderKey,
        dry_run: bool,
    ) -> Result<Reserved, ReserveError> {
        // Running pods come first, also those whose records are lost.
        self.store.until_it_serves().await;
        let (record, outside, in_use) = self.store.read(|books| {
            let ledger = books.ledger();
            let in_use = books.runner(ip).is_some();
            (ledger.record(ip).cloned(), ledger.is_outside(ip), in_use)
        });
        match record {
            Some(record) if record.reserved => return Ok(Reserved::AlreadyReserved),
            Some(record) => return Err(ReserveError::Held { key: record.key }),
            None if outside => return Err(ReserveError::NotConfigured),
            None if in_use => return Err(ReserveError::PodRuns),
            None if dry_run => return Ok(Reserved::Reserved),
            None => {}
        }
        self.records.reserve(ip, key).await?;
        info!(%ip, %key, "address was reserved by hand");
        Ok(Reserved::Reserved)
    }

    async fn unreserve_one(&self, ip: IpAddr, dry_run: bool) -> Result<Unreserved, UnreserveError> {
        let (record, strange) = self.store.read(|books| {
            let strange = books.strange().get(&name::name(ip)).copied();
            (books.ledger().record(ip).cloned(), strange)
        });
        let Some(record) = record else {
            return Ok(Unreserved::AlreadyFree);
        };
        if strange == Some(UNREADABLE_RECORD) {
            return Err(UnreserveError::Unreadable);
        }
        if !record.reserved {
            return Err(UnreserveError::NotReserved { key: record.key });
        }
        if record.key.is_vip() {
            return Err(UnreserveError::Shared { key: record.key });
        }
        if !is_reservation(&record) {
            return Err(UnreserveError::HeldByPod { key: record.key });
        }
        if !dry_run {
            self.records.free(&record).await?;
            info!(%ip, key = %record.key, "reservation was taken back by hand");
        }
        Ok(Unreserved::Unreserved)
    }
}

#[cfg(test)]
mod tests;
