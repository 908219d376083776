//! Linux networking for floe: what the kernel is asked and told.
//!
//! **What it is for.** Links, addresses, routes and rules over netlink, sysctls,
//! network namespaces, frames on the wire, connections and rules of the packet
//! filter, and locks between processes.
//!
//! **What it never does.** It decides nothing, starts no program but `nft`, and never
//! waits without a limit. No async runtime and no Kubernetes: the CNI plugin links
//! it, and lives for a few milliseconds.
//!
//! **Neighbours.** Below it lies `floe-core`, which says what a node should look
//! like. `floe-cni` and `floe-agent` use it.

#![forbid(unsafe_code)]

pub mod announce;
pub mod boottime;
pub mod conntrack;
pub mod files;
pub mod lock;
pub mod moves;
pub mod netlink;
pub mod netns;
pub mod nft;
pub mod packet;
pub mod pulse;
mod release;
pub mod responder;
pub mod sysctl;
pub mod takeoff;
