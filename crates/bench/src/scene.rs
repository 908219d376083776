//! The cluster that is measured: how big it is, and its addresses.

use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use floe_core::{
    config::{AddressConfig, Mode},
    ipam::{
        choice::Wish,
        families::Family,
        owner::{App, AppKind},
        policy::ReleasePolicy,
        workload::{Scale, State, Workload},
    },
    schedule::claimant::Claimant,
};
use ipnet::IpNet;
use serde_json::{Value, json};

/// How big everything is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Addresses of the small books.
    pub few_addresses: u32,
    /// Addresses of the large books.
    pub many_addresses: u32,
    /// Node subnets, each with an entry of the configuration.
    pub subnets: u32,
    /// Nodes in each of them.
    pub nodes_per_subnet: u32,
    /// Addresses of each entry that are held.
    pub held_per_subnet: u32,
    /// Addresses of each entry that are free at first.
    pub free_per_subnet: u32,
    /// Pods that are bound, half of them by floe.
    pub pods: u32,
}

impl Size {
    /// What the promises are about.
    pub const FULL: Self = Self {
        few_addresses: 1_000,
        many_addresses: 1_000_000,
        subnets: 100,
        nodes_per_subnet: 50,
        held_per_subnet: 1_000,
        free_per_subnet: 200,
        pods: 10_000,
    };

    /// Small enough to try the benchmarks themselves.
    pub const QUICK: Self = Self {
        few_addresses: 1_000,
        many_addresses: 100_000,
        subnets: 10,
        pods: 1_000,
        ..Self::FULL
    };

    /// All nodes.
    pub fn nodes(self) -> u32 {
        self.subnets * self.nodes_per_subnet
    }

    /// All addresses that are held before any pod is bound.
    pub fn held(self) -> u32 {
        self.subnets * self.held_per_subnet
    }

    /// The entries of the configuration, as an administrator writes them.
    pub fn entries(self) -> Value {
        let entry = |subnet| {
            let addresses = self.held_per_subnet + self.free_per_subnet;
            let range = [0, addresses - 1].map(|nth| address(subnet, nth).to_string());
            json!({
                "nodeSubnets": [format!("{}/{NODE_PREFIX}", node_address(subnet, 0))],
                "ips": [range.join("~")],
                "subnet": format!("{}/{POD_PREFIX}", pods(subnet, 0)),
                "gateway": gateway(subnet),
            })
        };
        (0..self.subnets).map(entry).collect()
    }

    /// The same, checked.
    pub fn config(self) -> Result<AddressConfig> {
        parse(&self.entries())
    }

    /// The names of all nodes with their addresses.
    pub fn node_list(self) -> Vec<(String, IpAddr)> {
        let of = |subnet| (1..=self.nodes_per_subnet).map(move |nth| (subnet, nth));
        (0..self.subnets)
            .flat_map(of)
            .map(|(subnet, nth)| (node_name(subnet, nth), node_address(subnet, nth)))
            .collect()
    }
}

/// A configuration that is sound.
pub fn parse(entries: &Value) -> Result<AddressConfig> {
    let loaded = AddressConfig::parse(&entries.to_string(), Mode::Strict);
    Ok(loaded.context("the configuration is not sound")?.config)
}

/// A pod that wants one address, of a workload in the namespace of all pods here.
pub fn pod(kind: AppKind, app: &str, name: &str, policy: ReleasePolicy) -> Claimant {
    let workload = Workload {
        app: App {
            kind,
            namespace: NAMESPACE.into(),
            name: app.into(),
        },
        scale: Scale::No,
        state: State::Exists {
            replicas: Some(10),
            first_ordinal: 0,
        },
    };
    // As long as a real one.
    let uid = format!("0b7c2d6e-5a41-4f5e-9d3a-{:>012}", name.len());
    let wishes = vec![Wish::Any(Family::V4)];
    Claimant::new(&workload, None, name, &uid, policy, wishes).expect("these names have no `_`")
}

/// The namespace of all pods here; it is there from the beginning.
pub const NAMESPACE: &str = "default";

/// The name of a node of a subnet, counted from 1.
pub fn node_name(subnet: u32, nth: u32) -> String {
    format!("bench-{nth:02}.rack-{subnet:03}.example.com")
}

/// The network of the addresses of its nodes.
pub fn node_subnet(subnet: u32) -> Result<IpNet> {
    Ok(IpNet::new(node_address(subnet, 0), NODE_PREFIX)?)
}

/// The length of such a network.
const NODE_PREFIX: u8 = 26;

/// The address of a node.
fn node_address(subnet: u32, nth: u32) -> IpAddr {
    plus([10, 128, 0, 0], subnet * 64 + nth)
}

/// An address of an entry, counted from 0.
pub fn address(subnet: u32, nth: u32) -> IpAddr {
    pods(subnet, nth + 2)
}

/// The gateway of an entry.
pub fn gateway(subnet: u32) -> IpAddr {
    pods(subnet, 1)
}

/// The length of the network of an entry.
pub const POD_PREFIX: u8 = 21;

/// An address of the network of an entry.
fn pods(subnet: u32, offset: u32) -> IpAddr {
    plus([10, 32, 0, 0], subnet * 2048 + offset)
}

fn plus(base: [u8; 4], offset: u32) -> IpAddr {
    Ipv4Addr::from_bits(Ipv4Addr::from(base).to_bits() + offset).into()
}

#[cfg(test)]
mod tests {
    use floe_core::config::Topology;

    use super::*;

    #[test]
    fn every_node_has_its_own_entry() {
        let size = Size::FULL;
        let topology = Topology::new(size.config().unwrap());
        assert_eq!(topology.config().addresses().len(), 120_000);
        assert_eq!(topology.node_subnets().count(), 100);
        for (subnet, nth) in [(0, 1), (99, 50)] {
            let net = topology.node_subnet(node_address(subnet, nth)).unwrap();
            let entries = topology.entries_of(net);
            assert_eq!(entries.len(), 1);
            assert_eq!(topology.entry_of(address(subnet, 0)), Some(entries[0]));
            assert_eq!(topology.entry_of(address(subnet, 1199)), Some(entries[0]));
        }
        assert_eq!(size.node_list().len(), 5_000);
    }
}
