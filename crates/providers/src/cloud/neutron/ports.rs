//! Which port, and which of its addresses, a floating IP leads to.

use std::{collections::BTreeSet, net::Ipv4Addr};

use floe_core::nodepool::cloud::{Class, Refusal};

use super::wire::{Port, is_machine};

/// The tag by which people choose one port of several.
pub const TAG: &str = "floe";

/// An address of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The port.
    pub port: String,
    /// Its address.
    pub address: Ipv4Addr,
    subnet: String,
    tagged: bool,
}

/// All addresses of a server that a floating IP could lead to.
///
/// # Errors
/// When there are none: without a port there is no such server for Neutron.
pub fn targets(server: &str, ports: &[Port]) -> Result<Vec<Target>, Refusal> {
    let own = |port: &&Port| is_machine(&port.device_id, &port.device_owner);
    let mut machine = ports.iter().filter(own).peekable();
    if machine.peek().is_none() {
        let words = format!("server {server} has no port");
        return Err(Refusal::new(Class::ServerUnknown, words));
    }
    let targets: Vec<Target> = machine
        .flat_map(|port| {
            port.v4().map(|(fixed, address)| Target {
                port: port.id.clone(),
                address,
                subnet: fixed.subnet_id.clone(),
                tagged: port.tags.iter().any(|tag| tag == TAG),
            })
        })
        .collect();
    if targets.is_empty() {
        let words = format!("no port of server {server} has an address of IPv4");
        return Err(Refusal::new(Class::Invalid, words));
    }
    Ok(targets)
}

/// The one of several that is meant: on a subnet with a way outside, and if that leaves
/// several, on a port with the tag.
///
/// # Errors
/// When none is left, or still several: a wrong guess would send traffic astray.
pub fn choose(
    server: &str,
    targets: &[Target],
    routed: &BTreeSet<String>,
    network: &str,
) -> Result<Target, Refusal> {
    let left: Vec<&Target> = targets
        .iter()
        .filter(|target| routed.contains(&target.subnet))
        .collect();
    let tagged: Vec<&Target> = left
        .iter()
        .copied()
        .filter(|target| target.tagged)
        .collect();
    let left = if tagged.is_empty() { left } else { tagged };
    let words = match left.as_slice() {
        [] => format!(
            "none of the addresses {} of server {server} is on a subnet that a visible router \
             connects with network {network}",
            show(&targets.iter().collect::<Vec<_>>())
        ),
        [one] => return Ok((*one).clone()),
        several => format!(
            "network {network} can reach several addresses of server {server}: {}; give one \
             port the tag {TAG:?}",
            show(several)
        ),
    };
    Err(Refusal::new(Class::Invalid, words))
}

fn show(targets: &[&Target]) -> String {
    let texts: Vec<String> = targets
        .iter()
        .map(|target| format!("{} (port {})", target.address, target.port))
        .collect();
    texts.join(", ")
}
