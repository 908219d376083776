//! The pods of a turn: what is created, and where the bare loop puts it.

use std::net::IpAddr;

use anyhow::{Context as _, Result};
use floe_core::{
    ipam::{args::IpInfo, names},
    schedule::gate,
};
use ipnet::IpNet;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::OwnerReference};
use serde_json::{Value, json};

use super::{Case, field::APP};
use crate::{
    filter,
    scene::{self, Size},
};

/// The name of a pod of a turn.
pub fn name(number: u32) -> String {
    format!("{APP}-{number}")
}

/// The number of a pod by its name.
pub fn number(name: &str) -> Option<u32> {
    name.strip_prefix(APP)?.strip_prefix('-')?.parse().ok()
}

/// A pod as the webhook leaves it: with the gate where gates are used.
pub fn object(case: Case, number: u32, owner: &OwnerReference) -> Result<Pod> {
    let mut pod = filter::pod_object(&name(number), None);
    pod["metadata"]["ownerReferences"] = json!([owner]);
    let spec = &mut pod["spec"];
    spec["schedulerName"] = Value::Null;
    if case.has_gates() {
        spec["schedulingGates"] = json!([{ "name": gate::GATE }]);
    }
    if !case.has_addresses() {
        let resources = &mut spec["containers"][0]["resources"];
        for kind in ["requests", "limits"] {
            let of_kind = resources[kind].as_object_mut();
            of_kind.and_then(|it| it.remove(names::RESOURCE));
        }
    }
    serde_json::from_value(pod).context("this is no pod")
}

/// What the bare loop gives to a pod. Like floe it gives addresses of all node subnets in
/// turn.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address and its network.
    pub info: IpInfo,
    /// The value of the label of nodes that can carry the address.
    pub subnet: String,
    /// One of these nodes.
    pub node: String,
}

impl Place {
    /// The place of a pod.
    pub fn of(number: u32, size: Size) -> Result<Self> {
        let (subnet, turn) = (number % size.subnets, number / size.subnets);
        Ok(Self {
            info: IpInfo {
                ip: IpNet::new(scene::address(subnet, turn), scene::POD_PREFIX)?,
                vlan: 0,
                gateway: scene::gateway(subnet),
            },
            subnet: gate::subnet_value(scene::node_subnet(subnet)?),
            node: scene::node_name(subnet, turn % size.nodes_per_subnet + 1),
        })
    }

    /// The address.
    pub fn ip(&self) -> IpAddr {
        self.info.ip.addr()
    }
}

#[cfg(test)]
mod tests {
    use floe_core::config::Topology;

    use super::*;
    use crate::scheduling::Effort;

    #[test]
    fn pods_differ_in_what_their_case_is_about_only() {
        let owner = OwnerReference::default();
        let of = |case| serde_json::to_value(object(case, 7, &owner).unwrap()).unwrap();
        let (plain, gated, asked) = (of(Case::Plain), of(Case::Gates), of(Case::Extender));
        assert_eq!(gated, of(Case::BareGates));
        assert_eq!(asked, of(Case::BareExtender));
        assert_eq!(gated["spec"]["schedulingGates"][0]["name"], gate::GATE);
        let resources = |pod: &Value| pod["spec"]["containers"][0]["resources"].to_string();
        assert!(resources(&gated).contains(names::RESOURCE));
        assert!(!resources(&plain).contains(names::RESOURCE));
        let mut without = gated;
        without["spec"]
            .as_object_mut()
            .unwrap()
            .remove("schedulingGates");
        assert_eq!(without, asked);
        assert_eq!(number(plain["metadata"]["name"].as_str().unwrap()), Some(7));
    }

    #[test]
    fn places_are_what_the_configuration_says() {
        let size = Effort::FULL.size();
        let topology = Topology::new(size.config().unwrap());
        let nodes = size.node_list();
        for pod in [0, 1, 99, 1_016] {
            let place = Place::of(pod, size).unwrap();
            let entry = topology.entry_of(place.ip()).unwrap();
            let entry = topology.entry(entry);
            assert_eq!(entry.prefix_len(), place.info.ip.prefix_len());
            assert_eq!(entry.gateway(), place.info.gateway);
            let (_, address) = nodes.iter().find(|(name, _)| *name == place.node).unwrap();
            let subnet = topology.node_subnet(*address).unwrap();
            assert_eq!(gate::subnet_value(subnet), place.subnet);
            let carries = topology.entries_of(subnet).iter();
            assert_eq!(carries.copied().next(), topology.entry_of(place.ip()));
        }
    }
}
