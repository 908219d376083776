//! The ground that the node side is tested on: a cluster with an agent on each node,
//! whose pods get addresses of both families on the segment of the nodes themselves.
//!
//! The kernel of the machine has no VLANs, so that the ranges have none either; the
//! tagged forms are tested in the guest.

use anyhow::Result;
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::floe;
use tokio::sync::{OnceCell, RwLockReadGuard, RwLockWriteGuard};

use crate::floe_nodes::FloeNodes;

/// The networks of each node. The second one routes to its pods, and answers for them
/// on the bridge of the first: that is there after the first pod of the first network.
pub const NETWORKS: &str = r#"{
  "NetworkConf": [
    { "type": "galaxy-k8s-vlan", "device": "eth0" },
    { "name": "routed", "type": "galaxy-underlay-veth", "device": "docker" }
  ],
  "DefaultNetworks": ["pods"],
  "ENIIPNetwork": "galaxy-k8s-vlan"
}"#;

static NODES: FloeNodes = FloeNodes {
    cluster: Shared::new(|| ClusterSpec::new("node-side")),
    configure: floe::configure_segment,
    networks: NETWORKS,
    options: &[],
    variables: &[],
    ready: OnceCell::const_new(),
};

/// The cluster with floe on every node, beside other tests.
pub async fn together() -> Result<RwLockReadGuard<'static, Cluster>> {
    NODES.together().await
}

/// The same, with no other test beside.
pub async fn alone() -> Result<RwLockWriteGuard<'static, Cluster>> {
    NODES.alone().await
}
