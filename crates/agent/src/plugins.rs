//! The names under which floe's plugins are called.
//!
//! Compat: galaxy's, so that configurations go on as they are.

/// The one that asks the agent.
pub const SHIM: &str = "galaxy-sdn";

/// Those that the agent calls. They know every version of the protocol.
pub const OWN: [&str; 3] = [
    "galaxy-k8s-vlan",
    "galaxy-underlay-veth",
    "galaxy-k8s-sriov",
];
