//! What the plugins differ in. All that they share is in the modules of the
//! commands: `add`, `del`, `check`, `status`, `gc`.

use std::{net::Ipv4Addr, time::Duration};

use floe_core::{
    cni::{
        config::NetConf,
        error::{CniError, Code},
    },
    node::nic::{Nic, Routing},
};
use floe_net::{
    announce::ArpForm,
    netlink::{IpvlanMode, Link, Netlink},
};

use crate::{
    fail::{self, fail, invalid},
    request::Places,
};

/// The window of duplicate address detection, unless configured.
const WINDOW: Duration = Duration::from_millis(200);

/// The longest window that can be configured.
const LONGEST_WINDOW: Duration = Duration::from_secs(2);

/// The MTU of a veth, unless configured or too much for what it leads to.
const VETH_MTU: u32 = 1500;

/// A way to connect pods to the network of their host.
pub trait Plugin {
    /// What all plugins let configure.
    fn options(&self) -> &Options;

    /// The end of the name of a veth on the host, for the interface of this number.
    fn suffix(&self, number: usize) -> String;

    /// Whether the host routes to interfaces of this VLAN, so that their veths are in
    /// no bridge.
    fn is_routed(&self, vlan: u16) -> bool;

    /// How routes are spread over several addresses.
    fn routing(&self) -> Routing;

    /// The host's device that leads to the network, which is there and up.
    fn parent(&self, host: &mut Netlink) -> Result<Link, CniError>;

    /// Where each interface is connected on the host. Shared devices are made if they
    /// are not there, and stay whatever happens.
    fn sides(
        &self,
        host: &mut Netlink,
        places: &Places,
        nics: &[Nic],
    ) -> Result<Vec<Side>, CniError>;
}

/// What all plugins let configure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// How long others are asked whether they use an address; none is not at all.
    pub window: Option<Duration>,
    /// How IPv4 addresses are announced.
    pub arp: ArpForm,
    /// The MTU, if not the usual one.
    pub mtu: Option<u32>,
}

/// Where an interface of a pod is connected on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// By a veth that is a port of a bridge.
    Bridged {
        /// The bridge.
        bridge: Link,
        /// Its port that leads to the network; none if the administrator's bridge
        /// itself was named.
        uplink: Option<Link>,
    },
    /// By a veth to which the host routes, and for which it answers on this device.
    Routed {
        /// The device.
        device: Link,
        /// The source that the host prefers towards the pod.
        src: Option<Ipv4Addr>,
        /// Whether the pod announces itself to its host too.
        tells_host: bool,
    },
    /// As a macvlan of this link.
    Macvlan(Link),
    /// As an ipvlan of this link.
    Ipvlan(Link, IpvlanMode),
}

impl Options {
    /// Reads what all plugins let configure.
    pub fn parse(conf: &NetConf) -> Result<Self, CniError> {
        let asks: Option<bool> = conf.member("duplicate_address_detection")?;
        let window: Option<u64> = conf.member("duplicate_address_window_ms")?;
        let window = window.map_or(WINDOW, Duration::from_millis);
        if window > LONGEST_WINDOW || window.is_zero() {
            let longest = LONGEST_WINDOW.as_millis();
            let message = format!("duplicate_address_window_ms must be from 1 to {longest}");
            return Err(invalid(message));
        }
        let is_request: Option<bool> = conf.member("gratuitous_arp_request")?;
        let mtu: Option<u32> = conf.member("mtu")?;
        Ok(Self {
            window: asks.unwrap_or(true).then_some(window),
            arp: match is_request {
                Some(true) => ArpForm::Request,
                Some(false) | None => ArpForm::Reply,
            },
            // Compat: galaxy's zero is no number either.
            mtu: mtu.filter(|mtu| *mtu != 0),
        })
    }
}

impl Side {
    /// The host's link that leads to the network.
    pub fn link(&self) -> &Link {
        match self {
            Self::Macvlan(link) | Self::Ipvlan(link, _) => link,
            Self::Bridged { bridge, .. } => bridge,
            Self::Routed { device, .. } => device,
        }
    }

    /// Whether the pod's interface speaks on the segment itself, so that it can answer
    /// there.
    pub fn is_on_segment(&self) -> bool {
        match self {
            Self::Bridged { .. } | Self::Macvlan(_) | Self::Ipvlan(_, IpvlanMode::L2) => true,
            Self::Routed { .. } | Self::Ipvlan(_, IpvlanMode::L3 | IpvlanMode::L3s) => false,
        }
    }

    /// Whether the pod's interface can ask if somebody has its addresses. An ipvlan
    /// cannot: the answer names no address of its own, so that its parent gets it.
    pub fn asks_in_pod(&self) -> bool {
        self.is_on_segment() && self.has_own_mac()
    }

    /// Whether the pod's interface keeps a random hardware address while it asks.
    pub fn gets_mac_later(&self, options: &Options) -> bool {
        self.asks_in_pod() && options.window.is_some()
    }

    /// Whether the pod announces its addresses through its own interface.
    pub fn tells_in_pod(&self) -> bool {
        match self {
            Self::Routed { tells_host, .. } => *tells_host,
            Self::Bridged { .. } | Self::Macvlan(_) | Self::Ipvlan(..) => self.is_on_segment(),
        }
    }

    /// Whether the interface has a hardware address of its own.
    pub fn has_own_mac(&self) -> bool {
        !matches!(self, Self::Ipvlan(..))
    }

    /// Whether it is one end of a veth.
    pub fn is_veth(&self) -> bool {
        matches!(self, Self::Bridged { .. } | Self::Routed { .. })
    }

    /// The MTU of the pod's interface; none is the one of the link below.
    pub fn mtu(&self, options: &Options) -> Option<u32> {
        options.mtu.or_else(|| match self {
            // More than the way can carry would only be lost.
            Self::Bridged { bridge: link, .. } | Self::Routed { device: link, .. } => {
                Some(link.mtu.min(VETH_MTU))
            }
            Self::Macvlan(_) | Self::Ipvlan(..) => None,
        })
    }
}

/// The first of these devices that is there. It must be up.
pub fn first_parent(host: &mut Netlink, devices: &[String]) -> Result<Link, CniError> {
    for device in devices {
        if let Some(link) = host.link(device).map_err(fail::kernel)? {
            return if link.is_up {
                Ok(link)
            } else {
                Err(parent_down(format!("device {device} is down")))
            };
        }
    }
    Err(parent_down(missing(devices)))
}

fn missing(devices: &[String]) -> String {
    match devices {
        [device] => format!("there is no device {device}"),
        devices => format!("none of these devices is there: {}", devices.join(", ")),
    }
}

/// The host's device cannot serve pods.
pub fn parent_down(message: String) -> CniError {
    fail(Code::NotAvailable, "ParentLinkDown", message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_devices_are_named() {
        let text = |names: &[&str]| {
            let names: Vec<String> = names.iter().copied().map(Into::into).collect();
            missing(&names)
        };
        assert_eq!(text(&["a"]), "there is no device a");
        assert_eq!(text(&["a", "b"]), "none of these devices is there: a, b");
    }
}
