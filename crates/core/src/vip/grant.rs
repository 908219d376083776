//! Which addresses a `VirtualIP` gets, and why not others.
//!
//! An address must be set aside by the configuration to be shared, for this namespace,
//! and its record must be free or the `VirtualIP`'s own. One that is refused takes
//! nothing from the others.

use std::net::IpAddr;

use super::{VipId, claim::Special};
use crate::{
    addr::{self, IpRange, IpSet},
    ipam::{
        key::{HolderKey, KeyError},
        ledger::Ledger,
    },
};

/// What a `VirtualIP` asks for.
#[derive(Clone, Copy, Debug)]
pub struct Ask<'a> {
    /// These addresses.
    pub addresses: &'a [String],
    /// Or one address out of these ranges.
    pub ranges: &'a [String],
}

/// What a `VirtualIP` gets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grant {
    /// The addresses, in the order in which they are asked for.
    pub addresses: Vec<IpAddr>,
    /// Those of them that have no record yet.
    pub missing: Vec<IpAddr>,
    /// Why it does not get others.
    pub refused: Vec<Refusal>,
    /// Addresses with a record of it that it has no right to, or no use for, any more.
    pub surplus: Vec<IpAddr>,
}

/// Why a `VirtualIP` does not get an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Neither addresses nor ranges are there.
    #[error("spec has neither addresses nor ranges")]
    Nothing,
    /// A text is no address, or none that can be shared.
    #[error("{text:?} is {why}")]
    InvalidAddress {
        /// The text.
        text: String,
        /// What it is.
        why: String,
    },
    /// A text is no range.
    #[error("{text:?} is not a range of addresses like 10.0.0.1~10.0.0.9")]
    InvalidRange {
        /// The text.
        text: String,
    },
    /// No entry of the configuration sets it aside to be shared.
    #[error("{0} is in no range that the address configuration sets aside to be shared")]
    NotShared(String),
    /// It is set aside for others.
    #[error("{what} is not for namespace {namespace}: see allowedNamespaces of its entry")]
    NamespaceNotAllowed {
        /// The address or the ranges.
        what: String,
        /// The namespace that asks.
        namespace: String,
    },
    /// Somebody else has it.
    #[error("{ip} belongs to {holder}")]
    Taken {
        /// The address.
        ip: IpAddr,
        /// Who has it.
        holder: String,
    },
    /// All addresses of the ranges are taken.
    #[error("no address of {0} is free")]
    Exhausted(String),
    /// No record can name it.
    #[error(transparent)]
    Key(KeyError),
}

impl Refusal {
    /// Whether it can never be granted as it is written, whatever others do.
    pub fn is_malformed(&self) -> bool {
        match self {
            Self::Nothing
            | Self::InvalidAddress { .. }
            | Self::InvalidRange { .. }
            | Self::Key(_) => true,
            Self::NotShared(_)
            | Self::NamespaceNotAllowed { .. }
            | Self::Taken { .. }
            | Self::Exhausted(_) => false,
        }
    }

    /// The stable reason for the condition, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Nothing | Self::InvalidAddress { .. } | Self::InvalidRange { .. } => {
                "InvalidAddress"
            }
            Self::NotShared(_) => "AddressNotShared",
            Self::NamespaceNotAllowed { .. } => "NamespaceNotAllowed",
            Self::Taken { .. } => "AddressTaken",
            Self::Exhausted(_) => "RangeExhausted",
            Self::Key(error) => error.reason(),
        }
    }
}

/// Decides by configuration and records what a `VirtualIP` gets.
pub fn decide(id: &VipId, ask: Ask<'_>, ledger: &Ledger) -> Grant {
    let mut grant = Grant::default();
    let key = match HolderKey::of_vip(id) {
        Ok(key) => key,
        Err(error) => {
            grant.refused.push(Refusal::Key(error));
            return grant;
        }
    };
    let asking = Asking { id, key, ledger };
    let Ask { addresses, ranges } = ask;
    if addresses.is_empty() && ranges.is_empty() {
        grant.refused.push(Refusal::Nothing);
    }
    for text in addresses {
        match asking.address(text) {
            Ok(ip) if grant.addresses.contains(&ip) => {}
            Ok(ip) => grant.addresses.push(ip),
            Err(refusal) => grant.refused.push(refusal),
        }
    }
    // Addresses that are named count before ranges, should both be there.
    if addresses.is_empty() && !ranges.is_empty() {
        match asking.pick(ranges) {
            Ok(ip) => grant.addresses.push(ip),
            Err(refusal) => grant.refused.push(refusal),
        }
    }
    let held: Vec<IpAddr> = ledger.held_by(&asking.key).map(|it| it.ip).collect();
    let missing = grant.addresses.iter().filter(|ip| !held.contains(ip));
    grant.missing = missing.copied().collect();
    let surplus = held.iter().filter(|ip| !grant.addresses.contains(ip));
    grant.surplus = surplus.copied().collect();
    grant
}

struct Asking<'a> {
    id: &'a VipId,
    key: HolderKey,
    ledger: &'a Ledger,
}

impl Asking<'_> {
    fn address(&self, text: &str) -> Result<IpAddr, Refusal> {
        let invalid = |why: String| Refusal::InvalidAddress {
            text: text.to_owned(),
            why,
        };
        let ip = addr::parse(text).ok_or_else(|| invalid("not an IP address".into()))?;
        if let Some(kind) = Special::of(ip) {
            return Err(invalid(format!("{kind}, which cannot be shared")));
        }
        let topology = self.ledger.topology();
        let entry = topology.shared_of(ip);
        let entry = entry.ok_or_else(|| Refusal::NotShared(ip.to_string()))?;
        if !topology.entry(entry).allows(&self.id.namespace) {
            return Err(self.not_allowed(ip.to_string()));
        }
        match self.ledger.record(ip) {
            Some(record) if record.key != self.key => {
                let holder = record.key.vip().map_or_else(
                    || format!("a record with key {}", record.key.as_str()),
                    |other| format!("VirtualIP {}/{}", other.namespace, other.name),
                );
                Err(Refusal::Taken { ip, holder })
            }
            _ => Ok(ip),
        }
    }

    /// The address that it has already, or the first free one.
    fn pick(&self, texts: &[String]) -> Result<IpAddr, Refusal> {
        let mut asked = IpSet::new();
        for text in texts {
            let range: IpRange = text
                .parse()
                .map_err(|_| Refusal::InvalidRange { text: text.clone() })?;
            asked.insert_range(&range);
        }
        let words = texts.join(", ");
        let config = self.ledger.topology().config();
        let shared = asked.intersection(&config.shared());
        if shared.is_empty() {
            return Err(Refusal::NotShared(words));
        }
        let allowed: IpSet = config
            .entries()
            .iter()
            .filter(|entry| entry.allows(&self.id.namespace))
            .flat_map(|entry| entry.shared().ranges())
            .collect();
        let mut allowed = shared.intersection(&allowed);
        if allowed.is_empty() {
            return Err(self.not_allowed(words));
        }
        let mut own = self.ledger.held_by(&self.key).map(|record| record.ip);
        if let Some(ip) = own.find(|ip| allowed.contains(*ip)) {
            return Ok(ip);
        }
        // There are as many steps as records, not as addresses.
        while let Some(ip) = allowed.first() {
            if self.ledger.record(ip).is_none() {
                return Ok(ip);
            }
            allowed.remove(ip);
        }
        Err(Refusal::Exhausted(words))
    }

    fn not_allowed(&self, what: String) -> Refusal {
        Refusal::NamespaceNotAllowed {
            what,
            namespace: self.id.namespace.clone(),
        }
    }
}
