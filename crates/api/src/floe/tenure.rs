//! By what it is known whether a node serves shared addresses: the lease of its agent, and
//! the mark of a node that does not run.

use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};

/// The namespace of the nodes' leases.
pub const LEASES: &str = "kube-system";

/// The label of the nodes' leases.
pub const LEASE_LABEL: &str = "floe.dev/vip-lease";

/// What the names of leases begin with.
const PREFIX: &str = "floe-vip-";

/// The taint that vouches that a node does not run.
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The name of a node's lease.
pub fn lease_name(node: &str) -> String {
    format!("{PREFIX}{node}")
}

/// The node of a lease; nothing if it is no such lease.
pub fn node_of(lease: &Lease) -> Option<&str> {
    let name = lease.metadata.name.as_deref()?;
    name.strip_prefix(PREFIX).filter(|it| !it.is_empty())
}

/// Whether somebody vouches that a node does not run.
pub fn is_out_of_service(node: &Node) -> bool {
    let taints = node.spec.as_ref().and_then(|it| it.taints.as_ref());
    let mut taints = taints.into_iter().flatten();
    taints.any(|taint| taint.key == OUT_OF_SERVICE)
}
