//! What a name in DNS shall say, of a pool or of nodes.
//!
//! A name is never emptied unless somebody asks for it: that there is no such name is
//! remembered for long, and a moment without any fitting node would be felt for hours.

use std::{collections::BTreeSet, net::IpAddr};

use crate::ipam::families::Family;

/// The word of `addressType` that means the annotation with this key.
pub const BY_ANNOTATION: &str = "flipop.digitalocean.com/ipv4-reserved-ip";

/// What a name shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    /// The zone, in the provider's way: a domain or an identifier.
    pub zone: String,
    /// The name, in the provider's way: relative or full.
    pub name: String,
    /// The addresses: A and AAAA records.
    pub addresses: BTreeSet<IpAddr>,
    /// How long others may remember them, in seconds; 0 leaves it to the server.
    pub ttl: u32,
    /// Who keeps it, as a text that only this object of this cluster has.
    pub owner: String,
    /// Whose records are its own, beside those of its addresses: without an address they
    /// go. Records of another family are somebody else's, and stay as they are.
    pub families: BTreeSet<Family>,
}

impl RecordSet {
    /// How long addresses are remembered where neither the object nor the server says it.
    pub const USUAL_TTL: u32 = 60;

    /// Whether a time that a record has is as it shall be.
    pub fn takes(&self, ttl: u32) -> bool {
        self.ttl == 0 || self.ttl == ttl
    }

    /// The time to write where a server has none of its own.
    pub fn ttl_or_usual(&self) -> u32 {
        if self.ttl == 0 {
            Self::USUAL_TTL
        } else {
            self.ttl
        }
    }

    /// Whether records of this family are its own.
    pub fn keeps(&self, family: Family) -> bool {
        let mut own = self.addresses.iter();
        self.families.contains(&family) || own.any(|ip| family_of(*ip) == family)
    }
}

/// The family of an address.
pub fn family_of(ip: IpAddr) -> Family {
    if ip.is_ipv4() { Family::V4 } else { Family::V6 }
}

/// What a name says now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The addresses of its A and AAAA records.
    pub addresses: BTreeSet<IpAddr>,
    /// Who keeps it, if that is written beside it.
    pub owner: Option<String>,
}

/// What a name shall say of these addresses; nothing when it shall stay as it is: as long
/// as nobody knows the addresses, and when there are none and the name is not to be emptied.
pub fn wanted(known: Option<&BTreeSet<IpAddr>>, empties: bool) -> Option<BTreeSet<IpAddr>> {
    known.filter(|it| empties || !it.is_empty()).cloned()
}

/// Which address of a node goes into a record set: `addressType`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressType {
    /// Those of the node's status that have this type.
    Status(String),
    /// The one that the annotation says.
    Annotation,
}

/// The addresses of a node, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeAddresses {
    /// Those of its status: type and address.
    pub status: Vec<(String, String)>,
    /// The value of the annotation, if there is one. Several may stand in it, with commas.
    pub annotation: Option<String>,
}

impl AddressType {
    /// Reads the word of a specification.
    pub fn parse(word: &str) -> Self {
        match word {
            "" => Self::Status("ExternalIP".to_owned()),
            BY_ANNOTATION => Self::Annotation,
            other => Self::Status(other.to_owned()),
        }
    }

    /// The addresses of one node. What is none, like a host name, is left out.
    pub fn of(&self, node: &NodeAddresses) -> BTreeSet<IpAddr> {
        let texts: Vec<&str> = match self {
            Self::Status(kind) => {
                let same = node.status.iter().filter(|(it, _)| it == kind);
                same.map(|(_, address)| address.as_str()).collect()
            }
            Self::Annotation => node
                .annotation
                .iter()
                .flat_map(|it| it.split(','))
                .collect(),
        };
        let parsed = texts.iter().filter_map(|it| it.trim().parse().ok());
        parsed.collect()
    }
}

#[cfg(test)]
mod tests;
