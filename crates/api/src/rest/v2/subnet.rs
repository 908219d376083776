//! How full the configured ranges are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All entries of the configuration, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SubnetList {
    /// The entries.
    pub items: Vec<Subnet>,
    /// Records of addresses that are in none of them.
    pub outside: u64,
}

/// One entry of the configuration. Its figures are of its own ranges only.
///
/// Figures are texts where an IPv6 range can be larger than what JSON readers take.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Subnet {
    /// The network of the pods.
    pub subnet: String,
    /// Its gateway.
    pub gateway: String,
    /// Its VLAN; none if untagged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vlan: Option<u16>,
    /// Its ranges, as `a~b`.
    pub ranges: Vec<String>,
    /// How many addresses the ranges have.
    pub capacity: String,
    /// How many have no record.
    pub free: String,
    /// How many pods are bound with.
    pub bound: u64,
    /// How many wait for a pod of the same name.
    pub kept: u64,
    /// How many wait for any pod of their workload or pool.
    pub spare: u64,
    /// How many an administrator has reserved.
    pub reserved: u64,
    /// How many have a record that makes no sense.
    pub foreign: u64,
    /// Its ranges that are set aside to be shared by several pods. They do not count
    /// for the other figures.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shared_ranges: Vec<String>,
    /// How many addresses of those a `VirtualIP` has.
    #[serde(default)]
    pub shared: u64,
    /// Whose nodes can have pods with them.
    pub node_subnets: Vec<NodeSubnet>,
}

/// A network of nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeSubnet {
    /// The network.
    pub subnet: String,
    /// How many nodes are in it now.
    pub nodes: u64,
}
