//! What is found at addresses that several pods share.

use std::{collections::BTreeMap, net::IpAddr};

use super::{Finding, Sight, Vip};
use crate::{
    addr::{canonical, name},
    ipam::{key::HolderKey, ledger::Record},
    vip::VipId,
};

/// One inconsistency between records and `VirtualIP` objects. None has a fix: the
/// controller alone knows whether a node still serves the address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SharedFinding {
    /// A record is of an object that is not there.
    #[error("it is held for VirtualIP {}/{}, which is not there", .vip.namespace, .vip.name)]
    Gone {
        /// The address.
        ip: IpAddr,
        /// The object that its key names.
        vip: VipId,
    },
    /// An address of an object has no record.
    #[error("its status has {ip}, which has no record")]
    RecordMissing {
        /// The address.
        ip: IpAddr,
        /// The object.
        vip: VipId,
    },
    /// An address of an object is held by somebody else.
    #[error("its status has {ip}, but {holder:?} holds it")]
    Taken {
        /// The address.
        ip: IpAddr,
        /// The object.
        vip: VipId,
        /// Who holds it.
        holder: HolderKey,
    },
}

impl SharedFinding {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Gone { .. } => "VirtualIPGone",
            Self::RecordMissing { .. } => "SharedRecordMissing",
            Self::Taken { .. } => "AddressTaken",
        }
    }

    /// What it is about, as kubectl names things.
    pub fn subject(&self) -> String {
        match self {
            Self::Gone { ip, .. } => format!("floatingip/{}", name::name(*ip)),
            Self::RecordMissing { vip, .. } | Self::Taken { vip, .. } => {
                format!("virtualip/{}/{}", vip.namespace, vip.name)
            }
        }
    }

    /// What a person can do, or what is done anyway.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Gone { .. } => "the controller frees it; see its log if it stays",
            Self::RecordMissing { .. } => {
                "the controller makes the record; see its log and the condition Accepted"
            }
            Self::Taken { .. } => "let its holder go, or ask for another address",
        }
    }
}

impl Sight<'_> {
    /// Whether the object of a record is there, if it is one of a shared address.
    pub(super) fn vip_of(&self, record: &Record) -> Option<Finding> {
        let vip = record.key.vip().filter(|_| !record.reserved)?;
        let mut known = self.world.vips?.iter();
        let is_there = known.any(|it| it.id == vip);
        let ip = record.ip;
        (!is_there).then_some(Finding::Shared(SharedFinding::Gone { ip, vip }))
    }

    pub(super) fn vips(&self, findings: &mut Vec<Finding>) {
        let vips = self.world.vips.unwrap_or_default().iter();
        let vips: BTreeMap<&VipId, &Vip> = vips.map(|it| (&it.id, it)).collect();
        for (id, vip) in vips {
            for ip in vip.addresses.iter().copied().map(canonical) {
                let vip = || id.clone();
                let finding = match self.ledger.record(ip) {
                    None => SharedFinding::RecordMissing { ip, vip: vip() },
                    Some(record) if record.key.vip().as_ref() == Some(id) => continue,
                    Some(record) => SharedFinding::Taken {
                        ip,
                        vip: vip(),
                        holder: record.key.clone(),
                    },
                };
                findings.push(Finding::Shared(finding));
            }
        }
    }
}
