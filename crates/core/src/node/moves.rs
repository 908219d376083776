//! The move of a host's addresses and routes from a device to its bridge, as it is
//! written down before it begins.
//!
//! A bridge takes every frame of its ports, so a host whose device joins a bridge
//! is reachable only through addresses on the bridge. The journal says what was
//! where. Whoever finds it can finish the move or undo it, from whatever point it
//! had come to: every step may have been done already.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

pub use super::names::{BRIDGE_ALIAS, VLAN_ALIAS};

/// The folder of the journals, below the folder of floe's state.
pub const FOLDER: &str = "moves";

/// Routes that the kernel makes itself, with the address that they belong to.
const PROTOCOL_KERNEL: u8 = 2;

/// What is moved from a device to a bridge.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// The device that had everything.
    pub device: String,
    /// The bridge that the device joins.
    pub bridge: String,
    /// The addresses of the device.
    pub addresses: Vec<MovedAddress>,
    /// The routes through the device, but those that the kernel makes itself.
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
}

/// A route that is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
        let read: Self =
            serde_json::from_str(text).map_err(|error| MoveError::Malformed(error.to_string()))?;
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
                let nets = |it: &Self| it.addresses.iter().map(|it| it.net).collect::<Vec<_>>();
                let there = nets(bridge);
                back.addresses.retain(|it| there.contains(&it.net));
                back.routes
                    .retain(|it| bridge.routes.iter().any(|is| is.is_same(it)));
            }
            Some(bridge) if own => {
                for address in &bridge.addresses {
                    if !back.addresses.iter().any(|it| it.net == address.net) {
                        back.addresses.push(*address);
                    }
                }
                for route in &bridge.routes {
                    if !back.routes.iter().any(|it| it.is_same(route)) {
                        back.routes.push(*route);
                    }
                }
            }
            Some(_) => {}
        }
        back
    }

    /// The routes in the order in which they can be added: a next hop must be
    /// reachable before a route goes there.
    pub fn routes_in_order(&self) -> Vec<MovedRoute> {
        let mut routes = self.routes.clone();
        routes.sort_by_key(|route| {
            let length = route.dst.prefix_len();
            (route.gateway.is_some(), u8::MAX - length, *route)
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
}

impl MovedRoute {
    /// Whether the kernel takes both for the same route.
    fn is_same(&self, other: &Self) -> bool {
        let key = |it: &Self| (it.dst, it.table, it.metric);
        key(self) == key(other)
    }

    /// Whether a route moves at all: one that the kernel makes itself comes with its
    /// address or its link.
    pub fn moves(protocol: u8, dst: IpNet) -> bool {
        let is_multicast = dst.addr().is_multicast();
        protocol != PROTOCOL_KERNEL && !is_multicast
    }
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
