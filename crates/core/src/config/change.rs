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
    /// Shared addresses that only the new configuration has.
    pub shared_added: IpSet,
    /// Shared addresses that only the old configuration has.
    pub shared_removed: IpSet,
    /// Shared addresses of both that other namespaces than before may have.
    pub shared_altered: IpSet,
    /// Whether the set of all node subnets changed, so that nodes may belong
    /// to other subnets than before.
    pub node_subnets: bool,
}

impl Change {
    /// What changes from `old` to `new`. How the addresses are divided into
    /// entries, and in which order, is no change.
    pub fn between(old: &AddressConfig, new: &AddressConfig) -> Self {
        let (before, after) = (old.addresses(), new.addresses());
        let unaltered = alike(&blocks(old), &blocks(new));
        let (shared_before, shared_after) = (old.shared(), new.shared());
        let same_namespaces = alike(&namespaces(old), &namespaces(new));
        Self {
            added: after.difference(&before),
            removed: before.difference(&after),
            altered: before.intersection(&after).difference(&unaltered),
            shared_added: shared_after.difference(&shared_before),
            shared_removed: shared_before.difference(&shared_after),
            shared_altered: shared_before
                .intersection(&shared_after)
                .difference(&same_namespaces),
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

/// The shared addresses by who may have them.
fn namespaces(config: &AddressConfig) -> BTreeMap<Option<&BTreeSet<String>>, IpSet> {
    let mut blocks = BTreeMap::<_, IpSet>::new();
    for entry in config.entries() {
        let block = blocks.entry(entry.allowed_namespaces()).or_default();
        block.extend(entry.shared().ranges());
    }
    blocks
}

/// The addresses that are under the same key in both.
fn alike<K: Ord>(old: &BTreeMap<K, IpSet>, new: &BTreeMap<K, IpSet>) -> IpSet {
    let mut alike = IpSet::new();
    for (key, before) in old {
        if let Some(after) = new.get(key) {
            alike.extend(before.intersection(after).ranges());
        }
    }
    alike
}

fn node_subnets(config: &AddressConfig) -> BTreeSet<&IpNet> {
    let entries = config.entries().iter();
    entries.flat_map(Entry::node_subnets).collect()
}

#[cfg(test)]
mod tests;
