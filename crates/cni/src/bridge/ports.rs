//! Who is in a bridge already. Two cards in one bridge join two networks that their
//! owner keeps apart or, if both lead to the same switch, make a loop.

use floe_core::{
    cni::error::{CniError, Code},
    node::moves::Move,
};
use floe_net::{
    moves,
    netlink::{Link, LinkKind, Netlink},
};

use crate::{
    fail::{fail, kernel},
    request::Places,
};

/// Kinds of links that lead to nothing beyond this host: a port of a virtual machine,
/// and one that only keeps a bridge up.
const ENDS: [&str; 2] = ["tun", "dummy"];

/// Refuses a bridge that is the way out of another device.
pub fn must_be_free(
    host: &mut Netlink,
    places: &Places,
    name: &str,
    device: &Link,
) -> Result<(), CniError> {
    let Some(bridge) = host.link(name).map_err(kernel)? else {
        return Ok(());
    };
    let links = host.links().map_err(kernel)?;
    // One that cannot be read is told when its own device is asked for.
    let journals = moves::all(&places.state).unwrap_or_default();
    let journals: Vec<Move> = journals.into_iter().flatten().collect();
    match other_way_out(&links, &journals, &bridge, device) {
        None => Ok(()),
        Some(other) => {
            let message = format!(
                "{name} is the bridge of {}: {} needs another default_bridge_name or \
                 bridge_name_prefix",
                other.name, device.name
            );
            Err(fail(Code::InvalidConfiguration, "BridgeTaken", message))
        }
    }
}

/// The port through which a bridge leads out of this host, if it is not this device. A
/// veth leads to a pod, unless the host itself was moved from it.
fn other_way_out<'a>(
    links: &'a [Link],
    journals: &[Move],
    bridge: &Link,
    device: &Link,
) -> Option<&'a Link> {
    let is_moved = |port: &Link| {
        let is_its = |it: &Move| it.device == port.name && it.bridge == bridge.name;
        journals.iter().any(is_its)
    };
    let leads_out = |port: &&Link| match &port.kind {
        LinkKind::Veth => is_moved(port),
        LinkKind::Other(kind) => !ENDS.contains(&kind.as_str()),
        LinkKind::Bridge | LinkKind::Vlan { .. } | LinkKind::Macvlan | LinkKind::Ipvlan => true,
    };
    let mut others = links
        .iter()
        .filter(|it| it.master == Some(bridge.index) && it.index != device.index);
    others.find(leads_out)
}

#[cfg(test)]
mod tests;
