//! The DNS records of a pool or of nodes, and the changes that make a zone so.

use std::{collections::BTreeSet, net::IpAddr};

/// What a name shall say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordSet {
    /// The zone, in the provider's way: a domain or an identifier.
    pub zone: String,
    /// The name, in the provider's way: relative or full.
    pub name: String,
    /// The addresses: A and AAAA records, and no others of these types.
    pub addresses: BTreeSet<IpAddr>,
    /// How long others may remember them, in seconds.
    pub ttl: u32,
    /// Who keeps it, as a text that only this object of this cluster has.
    pub owner: String,
}

/// What a name says now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The addresses of its A and AAAA records.
    pub addresses: BTreeSet<IpAddr>,
    /// Who keeps it, if that is written beside it.
    pub owner: Option<String>,
}
