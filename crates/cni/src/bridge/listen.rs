//! Whether a bridge heeds routers, which is a setting of each link.

use std::io;

use floe_core::cni::error::CniError;
use floe_net::sysctl;

use crate::fail::system;

/// What a host learns from routers: routes, and addresses. Those that it has learned have
/// an end, and only the same routers can put it off.
const SETTINGS: [&str; 2] = ["accept_ra", "autoconf"];

/// Makes a new bridge heed routers as its device did, before it has any port.
pub fn alike(device: &str, bridge: &str) -> Result<(), CniError> {
    let of = |link: &str, name: &str| format!("net/ipv6/conf/{link}/{name}");
    for name in SETTINGS {
        let value = match sysctl::read(&of(device, name)) {
            Ok(value) => value,
            // A kernel without IPv6.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(system(format_args!("read {name} of {device}"))(error)),
        };
        sysctl::write(&of(bridge, name), &value)
            .map_err(system(format_args!("set {name} of {bridge}")))?;
    }
    Ok(())
}
