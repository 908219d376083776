//! How full the entries of a configuration are.

use std::collections::BTreeMap;

use floe_api::rest::v2::{NodeSubnet, Subnet, SubnetList};
use floe_core::{
    config::{Entry, Topology},
    ipam::state::State,
};
use ipnet::IpNet;

use crate::record::Record;

/// Counts the records of each entry. Entries come in the order in which they were written.
pub fn of(
    topology: &Topology,
    records: &[Record],
    nodes: Option<&BTreeMap<IpNet, u64>>,
) -> SubnetList {
    let entries = topology.config().entries();
    let mut counts = vec![Counts::default(); entries.len()];
    let mut outside = 0;
    for record in records {
        let shared = || {
            let ip = record.ip.filter(|_| record.state == State::Shared)?;
            topology.shared_of(ip)
        };
        match record.ip.and_then(|ip| topology.entry_of(ip)) {
            Some(id) => counts[id.position()].add(record.state),
            None => match shared() {
                Some(id) => counts[id.position()].shared += 1,
                None => outside += 1,
            },
        }
    }
    let mut items: Vec<_> = entries.iter().zip(&counts).collect();
    items.sort_by_key(|(entry, _)| entry.index());
    let items = items
        .into_iter()
        .map(|(entry, counts)| subnet(entry, counts, nodes));
    SubnetList {
        items: items.collect(),
        outside,
    }
}

#[derive(Clone, Debug, Default)]
struct Counts {
    bound: u64,
    kept: u64,
    spare: u64,
    reserved: u64,
    foreign: u64,
    /// Of the ranges that are set aside for them.
    shared: u64,
}

impl Counts {
    fn add(&mut self, state: State) {
        let count = match state {
            State::Bound => &mut self.bound,
            State::Kept => &mut self.kept,
            State::Spare => &mut self.spare,
            State::Reserved => &mut self.reserved,
            // No record says that its address is free, and what is shared has no place
            // among the addresses for pods.
            State::Shared | State::Foreign | State::Free => &mut self.foreign,
        };
        *count += 1;
    }

    fn sum(&self) -> u64 {
        self.bound + self.kept + self.spare + self.reserved + self.foreign
    }
}

fn subnet(entry: &Entry, counts: &Counts, nodes: Option<&BTreeMap<IpNet, u64>>) -> Subnet {
    let capacity = entry.addresses().len();
    let nodes_of = |subnet: &IpNet| nodes.and_then(|nodes| nodes.get(subnet)).copied();
    Subnet {
        subnet: entry.network().to_string(),
        gateway: entry.gateway().to_string(),
        vlan: Some(entry.vlan()).filter(|&vlan| vlan != 0),
        ranges: entry
            .addresses()
            .ranges()
            .map(|range| range.to_string())
            .collect(),
        capacity: capacity.to_string(),
        free: capacity
            .saturating_sub(u128::from(counts.sum()))
            .to_string(),
        bound: counts.bound,
        kept: counts.kept,
        spare: counts.spare,
        reserved: counts.reserved,
        foreign: counts.foreign,
        shared_ranges: entry
            .shared()
            .ranges()
            .map(|range| range.to_string())
            .collect(),
        shared: counts.shared,
        node_subnets: entry
            .node_subnets()
            .iter()
            .map(|subnet| NodeSubnet {
                subnet: subnet.to_string(),
                nodes: nodes_of(subnet).unwrap_or_default(),
            })
            .collect(),
    }
}
