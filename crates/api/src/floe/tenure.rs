//! By what it is known whether a node serves shared addresses, and whether it lives: the
//! leases of its agent, and the mark of a node that does not run.

use std::time::Duration;

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};

/// The namespace of the nodes' leases.
pub const LEASES: &str = "kube-system";

/// The label of the nodes' leases.
pub const LEASE_LABEL: &str = "floe.dev/vip-lease";

/// What the names of leases begin with.
const PREFIX: &str = "floe-vip-";

/// The label of leases that say nothing but that a node with a cloud's address lives. Those
/// who look after shared addresses do not see them.
pub const LIFE_LABEL: &str = "floe.dev/node-lease";

/// What the names of those begin with.
const LIFE_PREFIX: &str = "floe-node-";

/// How long such a lease is said to last. Like a kubelet's, it is renewed four times in that
/// time.
pub const LIFE: Duration = Duration::from_secs(40);

/// The taint that vouches that a node does not run.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The name of a node's lease.
pub fn lease_name(node: &str) -> String {
    format!("{PREFIX}{node}")
}

/// The node of a lease; nothing if it is no such lease.
pub fn node_of(lease: &Lease) -> Option<&str> {
    named(lease, PREFIX)
}

/// The name of the lease that says that a node lives.
pub fn life_name(node: &str) -> String {
    format!("{LIFE_PREFIX}{node}")
}

/// The node that lives by a lease; nothing if it is no such lease.
pub fn life_of(lease: &Lease) -> Option<&str> {
    named(lease, LIFE_PREFIX)
}

fn named<'a>(lease: &'a Lease, prefix: &str) -> Option<&'a str> {
    let name = lease.metadata.name.as_deref()?;
    name.strip_prefix(prefix).filter(|it| !it.is_empty())
}

/// Whether somebody vouches that a node does not run.
pub fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|it| it.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == OUT_OF_SERVICE)
}
