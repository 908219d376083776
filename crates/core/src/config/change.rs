//! What a new configuration changes for the addresses.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;

use super::{
    AddressConfig,
    entry::{Attachment, Entry},
};
use crate::addr::IpSet;

/// The difference between two configurations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Addresses that only the new configuration has.
    pub added: IpSet,
    /// Addresses that only the old configuration has.
    pub removed: IpSet,
    /// Addresses of both whose gateway, mask, VLAN or node subnets changed.
    pub altered: IpSet,
    /// Whether the set of all node subnets changed, so that nodes may belong
    /// to other subnets than before.
    pub node_subnets: bool,
}

impl Change {
    /// What changes from `old` to `new`. How the addresses are divided into
    /// entries, and in which order, is no change.
    pub fn between(old: &AddressConfig, new: &AddressConfig) -> Self {
        let (before, after) = (old.addresses(), new.addresses());
        let new_blocks = blocks(new);
        let mut unaltered = IpSet::new();
        for (attachment, addresses) in blocks(old) {
            if let Some(now) = new_blocks.get(attachment) {
                unaltered.extend(addresses.intersection(now).ranges());
            }
        }
        Self {
            added: after.difference(&before),
            removed: before.difference(&after),
            altered: before.intersection(&after).difference(&unaltered),
            node_subnets: node_subnets(old) != node_subnets(new),
        }
    }

    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The addresses by the way they are attached.
fn blocks(config: &AddressConfig) -> BTreeMap<&Attachment, IpSet> {
    let mut blocks = BTreeMap::<_, IpSet>::new();
    for entry in config.entries() {
        let block = blocks.entry(&entry.attachment).or_default();
        block.extend(entry.addresses.ranges());
    }
    blocks
}

fn node_subnets(config: &AddressConfig) -> BTreeSet<&IpNet> {
    let entries = config.entries().iter();
    entries.flat_map(Entry::node_subnets).collect()
}

#[cfg(test)]
mod tests;
