//! What a plugin answers to ADD, in the form of every version.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{error::CniError, version::Version};
use wire::Wire;

mod wire;

/// The result of an ADD, as the newest version has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Interfaces that were made, on the host and in the container.
    pub interfaces: Vec<Interface>,
    /// Addresses that were given.
    pub ips: Vec<Ip>,
    /// Routes that were made in the container.
    pub routes: Vec<Route>,
    /// DNS settings.
    pub dns: Dns,
}

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its hardware address, if known.
    pub mac: Option<String>,
    /// Its MTU, if known; since 1.1.0.
    pub mtu: Option<u32>,
    /// The namespace that it is in; none is the host's.
    pub sandbox: Option<String>,
    /// The socket of an interface in user space; since 1.1.0.
    pub socket_path: Option<String>,
    /// The PCI address of its device; since 1.1.0.
    pub pci_id: Option<String>,
}

/// An address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The address with the length of its network.
    pub address: IpNet,
    /// The gateway.
    pub gateway: Option<IpAddr>,
    /// The place of its interface in the list of interfaces.
    pub interface: Option<usize>,
}

/// A route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Route {
    /// Where to.
    pub dst: IpNet,
    /// The next hop; without it, the gateway of the address.
    pub gw: Option<IpAddr>,
    /// The MTU of the path; since 1.1.0, as all that follow.
    pub mtu: Option<u32>,
    /// The largest segment of TCP to advertise.
    pub advmss: Option<u32>,
    /// The metric.
    pub priority: Option<u32>,
    /// The table.
    pub table: Option<u32>,
    /// The scope, as in `rtnetlink`.
    pub scope: Option<u8>,
}

/// DNS settings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Dns {
    /// Name servers.
    #[serde(
        deserialize_with = "wire::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub nameservers: Vec<String>,
    /// The local domain.
    #[serde(
        deserialize_with = "wire::filled",
        skip_serializing_if = "Option::is_none"
    )]
    pub domain: Option<String>,
    /// Search domains.
    #[serde(
        deserialize_with = "wire::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub search: Vec<String>,
    /// Options.
    #[serde(
        deserialize_with = "wire::or_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub options: Vec<String>,
}

impl Route {
    /// A route through the gateway of the address.
    pub fn to(dst: IpNet) -> Self {
        Self {
            dst,
            ..Self::default()
        }
    }

    /// A route through this next hop.
    pub fn via(dst: IpNet, gw: IpAddr) -> Self {
        Self {
            gw: Some(gw),
            ..Self::to(dst)
        }
    }
}

impl Outcome {
    /// The form of a version. Older ones have no place for all of it: 0.1.0 and
    /// 0.2.0 take the first address of each family with its routes.
    pub fn to_json(&self, version: Version) -> Value {
        serde_json::to_value(Wire::of(self, version))
            .expect("texts, numbers and lists of them always have a JSON form")
    }

    /// The text of it, with the members in the usual order.
    pub fn to_text(&self, version: Version) -> String {
        serde_json::to_string(&Wire::of(self, version))
            .expect("texts, numbers and lists of them always have a JSON form")
    }

    /// Reads a result of any version. The number of an interface that is not in the
    /// list is read as none, since IPAM plugins of old number what they do not know.
    pub fn from_json(json: &Value) -> Result<Self, CniError> {
        wire::read(json)
    }
}

#[cfg(test)]
pub(super) mod tests;
