//! Which node may use which entries.
//!
//! A node has one subnet: of all configured node subnets that contain its
//! address, the longest. It may use the addresses of exactly those entries that
//! list this subnet; so one subnet in several entries gets their union, and
//! several subnets may share an entry. Of nested subnets the inner one wins for
//! the nodes inside it, and inherits nothing from the outer one. (galaxy takes
//! the first match in the order of the entries, which makes one of two nested
//! subnets unusable.)

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

use super::{AddressConfig, Entry, EntryId};
use crate::addr::{IpSet, canonical};

/// An address configuration prepared for questions about nodes and addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    config: AddressConfig,
    /// The node subnets in ascending order, each with the entries that list it, in
    /// their order.
    subnets: Vec<(IpNet, Vec<EntryId>)>,
    /// Which lengths node subnets have, the longest first.
    lengths: BTreeSet<Reverse<u8>>,
    /// The ranges for pods.
    owners: Owners,
    /// The same for addresses that several pods share.
    sharers: Owners,
}

/// Ranges in ascending order that do not overlap: first and last address, and the entry.
type Owners = Vec<(IpAddr, IpAddr, EntryId)>;

impl Topology {
    /// Prepares a configuration.
    pub fn new(config: AddressConfig) -> Self {
        let mut subnets = BTreeMap::<_, Vec<_>>::new();
        let (mut owners, mut sharers) = (Owners::new(), Owners::new());
        for (id, entry) in config.enumerate() {
            for &subnet in entry.node_subnets() {
                subnets.entry(subnet).or_default().push(id);
            }
            let all = |addresses: &IpSet, owners: &mut Owners| {
                owners.extend(addresses.ranges().map(|it| (it.first(), it.last(), id)));
            };
            all(entry.addresses(), &mut owners);
            all(entry.shared(), &mut sharers);
        }
        owners.sort_unstable();
        sharers.sort_unstable();
        Self {
            lengths: subnets
                .keys()
                .map(|net| Reverse(net.prefix_len()))
                .collect(),
            config,
            subnets: subnets.into_iter().collect(),
            owners,
            sharers,
        }
    }

    /// The configuration.
    pub fn config(&self) -> &AddressConfig {
        &self.config
    }

    /// The entry with that name. The name must come from this topology.
    pub fn entry(&self, id: EntryId) -> &Entry {
        self.config.entry(id)
    }

    /// The subnet of the node with this address: the longest that contains it.
    pub fn node_subnet(&self, node: IpAddr) -> Option<IpNet> {
        Some(self.subnets[self.place_of_node(node)?].0)
    }

    /// The place of that subnet among [all of them](Topology::node_subnets).
    pub fn place_of_node(&self, node: IpAddr) -> Option<usize> {
        let node = canonical(node);
        self.lengths.iter().find_map(|&Reverse(length)| {
            // An IPv6 length says nothing about an IPv4 node.
            let subnet = IpNet::new(node, length).ok()?.trunc();
            self.place_of(subnet)
        })
    }

    /// All node subnets in ascending order, with the entries that list them.
    pub fn node_subnets(&self) -> impl ExactSizeIterator<Item = (IpNet, &[EntryId])> {
        self.subnets.iter().map(|(net, ids)| (*net, ids.as_slice()))
    }

    /// The entries that list exactly this node subnet, in their order.
    pub fn entries_of(&self, node_subnet: IpNet) -> &[EntryId] {
        let place = self.place_of(node_subnet);
        place.map_or(&[], |place| self.subnets[place].1.as_slice())
    }

    /// The entry that a pod address belongs to; `None` when the address is
    /// outside the configuration.
    pub fn entry_of(&self, ip: IpAddr) -> Option<EntryId> {
        owner(&self.owners, ip)
    }

    /// The entry that sets an address aside to be shared; `None` when none does. Such an
    /// address has no [`entry_of`](Topology::entry_of): no pod gets it for itself.
    pub fn shared_of(&self, ip: IpAddr) -> Option<EntryId> {
        owner(&self.sharers, ip)
    }

    /// The subnets whose nodes may host a pod address; `None` when the address
    /// is outside the configuration.
    pub fn node_subnets_of(&self, ip: IpAddr) -> Option<&BTreeSet<IpNet>> {
        Some(self.entry(self.entry_of(ip)?).node_subnets())
    }

    fn place_of(&self, subnet: IpNet) -> Option<usize> {
        let found = self.subnets.binary_search_by(|(net, _)| net.cmp(&subnet));
        found.ok()
    }
}

fn owner(owners: &Owners, ip: IpAddr) -> Option<EntryId> {
    let ip = canonical(ip);
    let after = owners.partition_point(|(first, ..)| *first <= ip);
    let (_, last, id) = owners[after.checked_sub(1)?];
    // IPv4 sorts before IPv6, so this holds between families as well.
    (ip <= last).then_some(id)
}

#[cfg(test)]
mod tests;
