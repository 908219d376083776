//! The move of a host's addresses and routes from a device to its bridge, as it is
//! written down before it begins.
//!
//! A bridge takes every frame of its ports, so a host whose device joins a bridge
//! is reachable only through addresses on the bridge. The journal says what was
//! where. Whoever finds it can finish the move or undo it, from whatever point it
//! had come to: every step may have been done already.

mod unmovable;

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use super::names::{BRIDGE_ALIAS, VLAN_ALIAS};
pub use unmovable::Unmovable;

use crate::json::{self, Names};

/// The folder of the journals, below the folder of floe's state.
pub const FOLDER: &str = "moves";

/// Routes that the kernel makes itself, with the address that they belong to.
const PROTOCOL_KERNEL: u8 = 2;
/// The main table.
const MAIN: u32 = 254;
/// The metric of routes that the kernel makes with addresses of IPv6.
const METRIC_V6: u32 = 256;

/// What is moved from a device to a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The device that had everything.
    pub device: String,
    /// The bridge that the device joins.
    pub bridge: String,
    /// The addresses of the device.
    pub addresses: Vec<MovedAddress>,
    /// The routes through the device, but those that come with the addresses.
    pub routes: Vec<MovedRoute>,
    /// Whether the whole move was made, so that nothing is left to finish. What the
    /// administrator changes on the bridge later is then left alone.
    #[serde(default)]
    pub complete: bool,
}

/// An address that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MovedAddress {
    /// The address with the length of its network.
    pub net: IpNet,
    /// Its scope, as in `rtnetlink`.
    #[serde(default)]
    pub scope: u8,
    /// Whether the kernel makes no route to its network.
    #[serde(default)]
    pub no_prefix_route: bool,
    /// The address of the other end, if the link leads to one host only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<IpAddr>,
    /// The broadcast address that it was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub broadcast: Option<IpAddr>,
    /// The metric of the route to its network; 0 is the kernel's usual one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub metric: u32,
    /// How long it stays, if not for ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifetime: Option<Lifetime>,
}

/// How long an address stays, in seconds from when it was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Lifetime {
    /// Until nothing new begins with it.
    pub preferred: u32,
    /// Until it goes.
    pub valid: u32,
}

/// A route that is moved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct MovedRoute {
    /// Where to.
    pub dst: IpNet,
    /// The next hop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<IpAddr>,
    /// The source that it prefers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub src: Option<IpAddr>,
    /// The table; 254 is the main one.
    pub table: u32,
    /// The metric.
    #[serde(default)]
    pub metric: u32,
    /// Who made it, as in `rtnetlink`.
    pub protocol: u8,
    /// Its scope, as in `rtnetlink`.
    pub scope: u8,
    /// Whether the next hop counts as reachable on the link, whatever its network.
    #[serde(default)]
    pub on_link: bool,
    /// The type of service that it is for; 0 is any.
    #[serde(default, skip_serializing_if = "is_zero_u8")]
    pub tos: u8,
    /// Its preference among routers, as in `rtnetlink`; 0 is the usual one.
    #[serde(default, skip_serializing_if = "is_zero_u8")]
    pub preference: u8,
    /// In how many seconds it goes by itself, if ever.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u32>,
    /// MTU and the like, by the kernel's numbers for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<u16, u32>,
}

/// Why a journal cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MoveError {
    /// The file is not a journal.
    #[error("not a journal of a move: {0}")]
    Malformed(String),
    /// A name in it could not be that of a link.
    #[error("a journal of a move names {0:?}, which is no link")]
    NoLink(String),
}

impl MoveError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        "JournalUnreadable"
    }
}

impl Move {
    /// Reads a journal.
    pub fn parse(text: &str) -> Result<Self, MoveError> {
        let read: Self = json::decode(text.as_bytes(), Names::Exact)
            .map_err(|error| MoveError::Malformed(error.to_string()))?;
        for name in [&read.device, &read.bridge] {
            if !is_link_name(name) {
                return Err(MoveError::NoLink(name.clone()));
            }
        }
        Ok(read)
    }

    /// The text of the journal.
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self)
            .expect("texts, numbers and lists of them always have a JSON form")
    }

    /// What has to go back to the device when the move is undone. `bridge` is what the
    /// bridge has now, if it is there, and `own` whether floe made it; `device` is what
    /// the device has now.
    ///
    /// Once the move was complete the bridge is the host's interface, and an
    /// administrator may have changed it: an address that was taken off does not come
    /// back, since another host may have it. A bridge that is gone means that the host
    /// was booted, and has set itself up anew; only if the device has no address at
    /// all, the journal is the best that is known.
    #[must_use]
    pub fn back(&self, bridge: Option<&Self>, own: bool, device: &Self) -> Self {
        let mut back = self.clone();
        match bridge {
            None if device.addresses.is_empty() => {}
            None => {
                back.addresses.clear();
                back.routes.clear();
            }
            Some(bridge) if self.complete && own => {
                back.addresses.clone_from(&bridge.addresses);
                back.routes.clone_from(&bridge.routes);
            }
            // What else somebody's own bridge has is not the device's.
            Some(bridge) if self.complete => {
                back.addresses
                    .retain(|it| bridge.addresses.iter().any(|is| is.is_same(it)));
                back.routes
                    .retain(|it| bridge.routes.iter().any(|is| is.is_same(it)));
            }
            Some(bridge) if own => back.join(bridge),
            Some(_) => {}
        }
        back
    }

    /// Adds to a move that was cut short what is on a link now. The order stays: the
    /// first address of a network is its main one.
    pub fn join(&mut self, now: &Self) {
        for address in &now.addresses {
            match self.addresses.iter_mut().find(|it| it.is_same(address)) {
                // How long it stays is known better now.
                Some(known) => *known = *address,
                None => self.addresses.push(*address),
            }
        }
        for route in &now.routes {
            match self.routes.iter_mut().find(|it| it.is_same(route)) {
                Some(known) => known.clone_from(route),
                None => self.routes.push(route.clone()),
            }
        }
    }

    /// Why the move cannot be made, as far as the journal tells: the kernel takes no
    /// route whose next hop it does not find on the link.
    pub fn unmovable(&self) -> Option<Unmovable> {
        let lost = |route: &&MovedRoute| route.gateway.filter(|it| !self.reaches(route, *it));
        let mut lost = self.routes.iter().filter_map(|it| Some((it, lost(&it)?)));
        lost.next().map(|(route, gateway)| Unmovable::OutOfReach {
            dst: route.dst,
            gateway,
        })
    }

    /// Whether the next hop of a route is on the link after the move.
    fn reaches(&self, route: &MovedRoute, gateway: IpAddr) -> bool {
        let is_local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let of_addresses = || self.addresses.iter().flat_map(MovedAddress::networks);
        let of_routes = || {
            let is_asked = |it: &&MovedRoute| [MAIN, route.table].contains(&it.table);
            let direct = self.routes.iter().filter(|it| it.gateway.is_none());
            direct.filter(is_asked).map(|it| it.dst)
        };
        route.on_link
            || is_local
            || of_addresses().any(|it| it.contains(&gateway))
            || of_routes().any(|it| it.contains(&gateway))
    }

    /// The routes in the order in which they can be added: a next hop must be
    /// reachable before a route goes there.
    pub fn routes_in_order(&self) -> Vec<MovedRoute> {
        let mut routes = self.routes.clone();
        routes.sort_by_key(|route| {
            let length = route.dst.prefix_len();
            (route.gateway.is_some(), u8::MAX - length, route.clone())
        });
        routes
    }
}

impl MovedAddress {
    /// Whether an address moves at all: the link-local one of IPv6 stays, since
    /// every link has its own.
    pub fn moves(net: IpNet) -> bool {
        match net {
            IpNet::V4(_) => true,
            IpNet::V6(net) => !net.addr().is_unicast_link_local(),
        }
    }

    /// Whether the kernel takes both for the same address.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.net, self.peer) == (other.net, other.peer)
    }

    /// The networks to which the kernel makes routes with this address, its own first.
    fn networks(&self) -> impl Iterator<Item = IpNet> {
        let of_peer = |length| self.peer.and_then(|peer| IpNet::new(peer, length).ok());
        let networks = match (self.net, self.no_prefix_route) {
            (_, true) => [None, None],
            (IpNet::V4(net), false) => [of_peer(net.prefix_len()).or(Some(self.net)), None],
            (IpNet::V6(_), false) => [Some(self.net), of_peer(128)],
        };
        networks.into_iter().flatten().map(|net| net.trunc())
    }

    /// Whether the kernel makes this route at once with this address. Of IPv6, it makes the
    /// one to a peer a moment later, when a route through the peer may have been refused.
    fn makes(&self, route: &MovedRoute) -> bool {
        let metric = match (self.net, self.metric) {
            (IpNet::V6(_), 0) => METRIC_V6,
            (_, metric) => metric,
        };
        let mut at_once = self.networks().take(1);
        route.gateway.is_none() && route.metric == metric && at_once.any(|net| net == route.dst)
    }
}

impl MovedRoute {
    /// Whether the kernel takes both for the same route. Of IPv6, it has several to one
    /// destination, which share what goes there.
    pub fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| {
            let gateway = it.gateway.filter(|_| it.dst.addr().is_ipv6());
            (it.dst, it.table, it.metric, it.tos, gateway)
        };
        key(self) == key(other)
    }

    /// Whether a route of a link with these addresses moves at all: one that the kernel
    /// makes itself comes with its address or its link. Others only look as if it had: a
    /// network service may make the route to a network in the kernel's name.
    pub fn moves(&self, addresses: &[MovedAddress]) -> bool {
        let is_of_link = match self.dst {
            IpNet::V4(_) => false,
            IpNet::V6(dst) => {
                let is_local = dst.addr().is_unicast_link_local();
                dst.addr().is_multicast() || (is_local && self.protocol == PROTOCOL_KERNEL)
            }
        };
        let is_made = || addresses.iter().any(|it| it.makes(self));
        !is_of_link && (self.protocol != PROTOCOL_KERNEL || !is_made())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks so")]
fn is_zero_u8(number: &u8) -> bool {
    *number == 0
}

/// The name of the journal of a device, in [`FOLDER`].
pub fn journal_of(device: &str) -> String {
    format!("{device}.json")
}

/// What the kernel takes as the name of a link, and what is safe as a part of a path.
fn is_link_name(name: &str) -> bool {
    (1..=15).contains(&name.len())
        && name != "."
        && name != ".."
        && !name.contains(|c: char| c == '/' || c.is_whitespace() || c.is_control())
}

#[cfg(test)]
mod tests;
