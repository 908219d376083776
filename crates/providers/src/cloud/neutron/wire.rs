//! What Neutron says, as far as floe reads it.

use std::net::{IpAddr, Ipv4Addr};

use serde::Deserialize;

/// A floating IP.
#[derive(Clone, Debug, Deserialize)]
pub struct FloatingIp {
    pub id: String,
    #[serde(rename = "floating_ip_address")]
    pub address: IpAddr,
    pub floating_network_id: String,
    pub port_id: Option<String>,
    pub fixed_ip_address: Option<IpAddr>,
    #[serde(default)]
    pub description: Option<String>,
    /// Missing in clouds without that extension.
    #[serde(default)]
    pub port_details: Option<PortDetails>,
}

/// Whose port it is that an address is on.
#[derive(Clone, Debug, Deserialize)]
pub struct PortDetails {
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    pub device_owner: String,
}

/// A port: an interface of something on a network.
#[derive(Clone, Debug, Deserialize)]
pub struct Port {
    pub id: String,
    #[serde(default)]
    pub device_id: String,
    #[serde(default)]
    pub device_owner: String,
    #[serde(default)]
    pub fixed_ips: Vec<FixedIp>,
    #[serde(default)]
    pub tags: Vec<String>,
}

/// An address of a port.
#[derive(Clone, Debug, Deserialize)]
pub struct FixedIp {
    pub subnet_id: String,
    pub ip_address: IpAddr,
}

/// A router, and the network outside that it leads to.
#[derive(Clone, Debug, Deserialize)]
pub struct Router {
    pub id: String,
    pub external_gateway_info: Option<Gateway>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Gateway {
    pub network_id: String,
}

/// A network.
#[derive(Clone, Debug, Deserialize)]
pub struct Network {
    pub id: String,
    #[serde(default)]
    pub name: String,
}

/// An object under the name of its kind.
#[derive(Debug, Deserialize)]
pub struct One {
    pub floatingip: FloatingIp,
}

/// The body of a refusal. Old parts write a text where others write an object.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub enum Refused {
    Neutron {
        #[serde(rename = "NeutronError")]
        error: Fault,
    },
    Text {
        #[serde(rename = "NeutronError")]
        error: String,
    },
    /// Of whoever checks tokens.
    Keystone { error: Message },
}

#[derive(Debug, Deserialize)]
pub struct Fault {
    #[serde(rename = "type", default)]
    pub kind: String,
    #[serde(default)]
    pub message: String,
}

#[derive(Debug, Deserialize)]
pub struct Message {
    #[serde(default)]
    pub message: String,
}

/// Kinds of objects that come in lists.
pub trait Kind: for<'a> Deserialize<'a> {
    /// What a list of them is called.
    const KEY: &'static str;

    /// By which the next page is asked for.
    fn id(&self) -> &str;
}

macro_rules! kinds {
    ($($kind:ty => $key:literal),* $(,)?) => {$(
        impl Kind for $kind {
            const KEY: &'static str = $key;

            fn id(&self) -> &str {
                &self.id
            }
        }
    )*};
}

kinds! {
    FloatingIp => "floatingips",
    Port => "ports",
    Router => "routers",
    Network => "networks",
}

impl Port {
    /// Its addresses of IPv4, to which floating IPs can lead.
    pub fn v4(&self) -> impl Iterator<Item = (&FixedIp, Ipv4Addr)> {
        self.fixed_ips
            .iter()
            .filter_map(|fixed| match fixed.ip_address {
                IpAddr::V4(ip) => Some((fixed, ip)),
                IpAddr::V6(_) => None,
            })
    }
}

/// Whether the owner of a port is a machine, not a part of the network.
pub fn is_machine(device_id: &str, device_owner: &str) -> bool {
    const NETWORK: [&str; 4] = ["network:", "neutron:", "Octavia", "ovn-lb-vip"];
    !device_id.is_empty() && !NETWORK.iter().any(|owner| device_owner.starts_with(owner))
}
