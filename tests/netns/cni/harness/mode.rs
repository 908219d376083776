//! The modes of the plugins, families, and the addresses that tests use in them.

use floe_core::node::names::mac_of;
use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::site::{FAR_V4, FAR_V6, UPLINK};

/// A plugin in one of its modes.
#[derive(Clone, Copy, Debug)]
pub struct Mode {
    /// What messages call it.
    pub title: &'static str,
    /// The plugin.
    pub plugin: &'static str,
    /// The member `switch`; empty for plugins without it.
    pub switch: &'static str,
    /// The member `ipvlan_mode`; empty where it does not matter.
    pub ipvlan: &'static str,
    /// The VLAN of the addresses.
    pub vlan: u16,
    /// What the host has of a pod: the suffix of its veth; none if nothing.
    pub veth: Option<&'static str>,
    /// Whose hardware address the segment sees.
    pub seen: Seen,
    /// What the pod's interface is.
    pub kind: &'static str,
    /// The device of the host that stays, and is no trace.
    pub shared: Option<&'static str>,
}

/// Whose hardware address the segment sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seen {
    /// The one that belongs to the pod's address.
    Own,
    /// The one of the node's device.
    Node,
}

pub const BRIDGE: Mode = Mode {
    title: "bridge",
    plugin: "galaxy-k8s-vlan",
    switch: "bridge",
    ipvlan: "",
    vlan: 0,
    veth: Some("-l0"),
    seen: Seen::Own,
    kind: "veth",
    shared: Some("docker"),
};
pub const PURE: Mode = Mode {
    title: "pure",
    switch: "pure",
    seen: Seen::Node,
    shared: None,
    ..BRIDGE
};
pub const MACVLAN: Mode = Mode {
    title: "macvlan",
    switch: "macvlan",
    veth: None,
    kind: "macvlan",
    shared: None,
    ..BRIDGE
};
pub const UNDERLAY: Mode = Mode {
    title: "underlay",
    plugin: "galaxy-underlay-veth",
    switch: "",
    veth: Some("-u0"),
    ..PURE
};
/// The modes that the host's kernel can do.
pub const UNTAGGED: [Mode; 4] = [BRIDGE, PURE, MACVLAN, UNDERLAY];

/// All that a pod can have.
pub const FAMILIES: [Family; 3] = [Family::V4, Family::V6, Family::Dual];

/// Which addresses a pod gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// One of IPv4.
    V4,
    /// One of IPv6.
    V6,
    /// One of each, on one interface.
    Dual,
}

impl Mode {
    /// Its configuration for a network of a name, in a version of the protocol.
    pub fn config(&self, network: &str, version: &str) -> Map<String, Value> {
        let mut config = Map::new();
        let mut put = |name: &str, value: &str| {
            if !value.is_empty() {
                config.insert(name.to_owned(), json!(value));
            }
        };
        put("cniVersion", version);
        put("name", network);
        put("type", self.plugin);
        put("device", UPLINK);
        put("switch", self.switch);
        put("ipvlan_mode", self.ipvlan);
        config
    }

    /// Whether its pods have no neighbours, only routes.
    pub fn is_layer_three(&self) -> bool {
        matches!(self.ipvlan, "l3" | "l3s")
    }

    /// The addresses of a pod with this number, in this mode's VLAN.
    pub fn addresses(&self, family: Family, host: u8) -> Vec<Given> {
        let v4 = Given::v4(self.vlan, host);
        let v6 = Given::v6(self.vlan, host);
        match family {
            Family::V4 => vec![v4],
            Family::V6 => vec![v6],
            Family::Dual => vec![v4, v6],
        }
    }
}

/// An address that is given to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Given {
    /// The address.
    pub ip: IpAddr,
    /// The length of its network.
    pub length: u8,
    /// The VLAN.
    pub vlan: u16,
    /// The gateway.
    pub gateway: IpAddr,
}

impl Given {
    /// `192.168.<vlan>.<host>/24`.
    pub fn v4(vlan: u16, host: u8) -> Self {
        let at = |host: u8| format!("192.168.{vlan}.{host}").parse().unwrap();
        Self {
            ip: at(host),
            length: 24,
            vlan,
            gateway: at(1),
        }
    }

    /// `fd00:c<vlan>::<host>/64`.
    pub fn v6(vlan: u16, host: u8) -> Self {
        let at = |host: u8| format!("fd00:c{vlan}::{host}").parse().unwrap();
        Self {
            ip: at(host),
            length: 64,
            vlan,
            gateway: at(1),
        }
    }

    /// Any address and gateway, written as `ipinfos` has them.
    pub fn of(net: &str, vlan: u16, gateway: &str) -> Self {
        let (ip, length) = net.split_once('/').unwrap();
        Self {
            ip: ip.parse().unwrap(),
            length: length.parse().unwrap(),
            vlan,
            gateway: gateway.parse().unwrap(),
        }
    }

    /// The address with its length.
    pub fn net(&self) -> String {
        format!("{}/{}", self.ip, self.length)
    }

    /// The hardware address that belongs to it.
    pub fn mac(&self) -> String {
        match self.ip {
            IpAddr::V4(ip) => {
                let [a, b, c, d] = ip.octets();
                format!("02:42:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
            }
            IpAddr::V6(_) => mac_of(self.ip).to_string(),
        }
    }

    /// An address of its family that only the gateway leads to.
    pub fn far(&self) -> IpAddr {
        let far = if self.ip.is_ipv4() { FAR_V4 } else { FAR_V6 };
        far.parse().unwrap()
    }

    /// Its entry in `ipinfos`.
    pub fn json(&self) -> Value {
        json!({"ip": self.net(), "vlan": self.vlan, "gateway": self.gateway.to_string()})
    }
}
