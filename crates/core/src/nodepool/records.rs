//! The DNS records of a pool or of nodes, and the changes that make a zone so.
//!
//! A name is never emptied unless somebody asks for it: that there is no such name is
//! remembered for long, and a moment without any fitting node would be felt for hours.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

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
    /// How long others may remember them, in seconds.
    pub ttl: u32,
    /// Who keeps it, as a text that only this object of this cluster has.
    pub owner: String,
    /// Whose records are its own, beside those of its addresses: without an address they
    /// go. Records of another family are somebody else's, and stay as they are.
    pub families: BTreeSet<Family>,
}

impl RecordSet {
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

/// A record of a name, where each one has an identifier of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Existing<Id> {
    /// How the provider calls it.
    pub id: Id,
    /// What it says.
    pub address: IpAddr,
    /// Its time to live.
    pub ttl: u32,
    /// Nothing else about it has to be changed, as when it is proxied and should not be.
    pub tidy: bool,
}

/// What to do to the records of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change<Id> {
    /// Make a record say this.
    Edit {
        /// Which.
        id: Id,
        /// The address.
        address: IpAddr,
    },
    /// Make a new record.
    Create {
        /// The address.
        address: IpAddr,
    },
    /// Remove a record.
    Delete {
        /// Which.
        id: Id,
    },
}

/// The changes that make the records of a name say exactly these addresses.
///
/// What is right is kept; what is too much says something else from now on, within its
/// family, since a record does not change its type; the rest is created or deleted.
/// Deletions come last: a name that has addresses before and after has some in between.
pub fn changes<Id: Clone>(
    existing: &[Existing<Id>],
    wanted: &BTreeSet<IpAddr>,
    ttl: u32,
) -> Vec<Change<Id>> {
    let mut edits = Vec::new();
    let mut missing = wanted.clone();
    let mut surplus = Vec::new();
    for record in existing {
        if !missing.remove(&record.address) {
            surplus.push(record);
        } else if record.ttl != ttl || !record.tidy {
            edits.push(Change::Edit {
                id: record.id.clone(),
                address: record.address,
            });
        }
    }
    let mut creates = Vec::new();
    for address in missing {
        let mut same = surplus.iter();
        let reused = same.position(|it| it.address.is_ipv4() == address.is_ipv4());
        match reused {
            Some(index) => edits.push(Change::Edit {
                id: surplus.remove(index).id.clone(),
                address,
            }),
            None => creates.push(Change::Create { address }),
        }
    }
    let deletes = surplus
        .into_iter()
        .map(|it| Change::Delete { id: it.id.clone() });
    edits.into_iter().chain(creates).chain(deletes).collect()
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

/// The addresses of all fitting nodes, and the names of those that have none.
pub fn of_nodes<'a>(
    kind: &AddressType,
    nodes: &'a BTreeMap<String, NodeAddresses>,
) -> (BTreeSet<IpAddr>, Vec<&'a str>) {
    let mut addresses = BTreeSet::new();
    let mut without = Vec::new();
    for (name, node) in nodes {
        let own = kind.of(node);
        if own.is_empty() {
            without.push(name.as_str());
        }
        addresses.extend(own);
    }
    (addresses, without)
}

#[cfg(test)]
mod tests;
