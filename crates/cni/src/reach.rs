//! Whether what is sent gets anywhere: carriers, and ports that their bridges open.
//!
//! The kernel drops without a word what is sent before, and silence would then be taken
//! for the answer that nobody has an address.

use std::{
    thread,
    time::{Duration, Instant},
};

use floe_core::{cni::error::CniError, node::names::HostVeth};
use floe_net::netlink::{Link, Netlink};

use crate::{
    del::alias_of,
    fail::{kernel, link_gone},
    plugin::{Side, parent_down},
};

/// How long a link may take to carry frames.
pub const CARRIER: Duration = Duration::from_secs(2);

/// How long a bridge with spanning tree may take to open a new port: twice its forward
/// delay, which is 15 s, or up to 30 s if somebody wants.
const OPENING: Duration = Duration::from_secs(65);

const PAUSE: Duration = Duration::from_millis(5);

/// Waits until frames get from the host to the network of an interface.
pub fn network(host: &mut Netlink, side: &Side) -> Result<(), CniError> {
    match side {
        Side::Bridged { bridge, uplink } => through(host, bridge, uplink.as_ref()),
        Side::Routed { .. } | Side::Macvlan(_) | Side::Ipvlan(..) => carrier(host, side.link()),
    }
}

/// Waits until a link of the host carries frames.
pub fn carrier(host: &mut Netlink, link: &Link) -> Result<(), CniError> {
    let deadline = Instant::now() + CARRIER;
    if host
        .wait_for_carrier(link.index, deadline)
        .map_err(kernel)?
    {
        return Ok(());
    }
    Err(parent_down(format!("device {} has no carrier", link.name)))
}

/// Waits until the host's end of a veth carries frames and, in a bridge, passes them on.
pub fn end(host: &mut Netlink, veth: &Link) -> Result<(), CniError> {
    let start = Instant::now();
    let mut pause = Duration::from_micros(200);
    loop {
        let now = host.link_at(veth.index).map_err(kernel)?;
        let now = now.ok_or_else(|| link_gone(&veth.name))?;
        let (limit, trouble) = match (now.has_carrier, now.is_blocked) {
            (true, false) => return Ok(()),
            (false, _) => (CARRIER, "has no carrier"),
            (true, true) => (OPENING, "is kept closed by its bridge"),
        };
        if start.elapsed() >= limit {
            return Err(parent_down(format!("{} {trouble}", veth.name)));
        }
        thread::sleep(pause);
        pause = (pause * 2).min(PAUSE);
    }
}

/// Waits until a bridge leads out of this host.
fn through(host: &mut Netlink, bridge: &Link, uplink: Option<&Link>) -> Result<(), CniError> {
    if let Some(uplink) = uplink {
        carrier(host, uplink)?;
        let now = host.link_at(uplink.index).map_err(kernel)?;
        if now.is_some_and(|now| passes(&now, bridge)) {
            return Ok(());
        }
    }
    let deadline = Instant::now() + CARRIER;
    loop {
        let links = host.links().map_err(kernel)?;
        let mut ports = links.iter().filter(|it| leads_out(it, bridge)).peekable();
        // A bridge without such ports is a network of its own.
        if ports.peek().is_none() || ports.any(|port| passes(port, bridge)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let message = format!("no port of {} that leads out passes frames", bridge.name);
            return Err(parent_down(message));
        }
        thread::sleep(PAUSE);
    }
}

/// Whether a port of a bridge is not one of a pod.
fn leads_out(port: &Link, bridge: &Link) -> bool {
    port.master == Some(bridge.index)
        && alias_of(port).is_none()
        && HostVeth::parse(&port.name).is_none()
}

fn passes(port: &Link, bridge: &Link) -> bool {
    port.master == Some(bridge.index) && port.has_carrier && !port.is_blocked
}
