//! The host's half: links that are up, and for pods that it routes to sysctls, host
//! routes, and answering for them on the device.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr},
};

use floe_core::{
    cni::error::{CniError, Code},
    ipam::args::IpInfo,
};
use floe_net::{
    netlink::{Link, LinkChange, Neighbour, Netlink, Route},
    sysctl,
};
use ipnet::IpNet;

use crate::fail::{kernel, system};

/// The scope of what is on the link.
const SCOPE_LINK: u8 = 253;
const SCOPE_WORLD: u8 = 0;
const TABLE_MAIN: u32 = 254;
/// Made by boot scripts and people, as `ip route add` says.
const PROTOCOL_BOOT: u8 = 3;

/// Makes the host lead traffic to a pod, and answer for it on `device`.
pub fn lead(
    host: &mut Netlink,
    veth: &Link,
    device: &Link,
    src: Option<Ipv4Addr>,
    addresses: &[IpInfo],
) -> Result<(), CniError> {
    if addresses.iter().any(|it| it.ip.addr().is_ipv4()) {
        set("net/ipv4/conf/all/arp_ignore", "0")?;
        for name in [&device.name, &veth.name] {
            set(&format!("net/ipv4/conf/{name}/arp_ignore"), "0")?;
            answer_for_others(name)?;
        }
    }
    if addresses.iter().any(|it| it.ip.addr().is_ipv6()) {
        forward_v6()?;
        for name in [&device.name, &veth.name] {
            set(&format!("net/ipv6/conf/{name}/proxy_ndp"), "1")?;
            set(&format!("net/ipv6/neigh/{name}/proxy_delay"), "0")?;
        }
    }
    for info in addresses {
        match info.ip.addr() {
            IpAddr::V4(_) => route_v4(host, veth, src, info)?,
            IpAddr::V6(_) => route_v6(host, veth, device, info)?,
        }
    }
    Ok(())
}

/// Sets a link up that is not.
pub fn up(host: &mut Netlink, mut link: Link) -> Result<Link, CniError> {
    if !link.is_up {
        let changes = [LinkChange::Up(true)];
        host.change(link.index, &changes).map_err(kernel)?;
        link.is_up = true;
    }
    Ok(link)
}

/// Makes the host answer ARP on a link for whatever it can route to, at once.
pub fn answer_for_others(link: &str) -> Result<(), CniError> {
    set(&format!("net/ipv4/conf/{link}/proxy_arp"), "1")?;
    // It answers for others only where it forwards for them.
    set(&format!("net/ipv4/conf/{link}/forwarding"), "1")?;
    set(&format!("net/ipv4/neigh/{link}/proxy_delay"), "0")
}

/// Lets the host speak in the name of its pods.
///
/// Compat: galaxy needs it for `arping`. floe does not, but whoever has come to
/// rely on it finds it.
pub fn allow_foreign_sources() -> Result<(), CniError> {
    set("net/ipv4/ip_nonlocal_bind", "1")
}

/// Keeps the kernel from asking for a second whether the link-local address of a new
/// veth is in use: nobody but the other end could, and until it is done this end
/// cannot look for the other one.
pub fn skip_kernel_detection(link: &str) -> Result<(), CniError> {
    set_if_there(&format!("net/ipv6/conf/{link}/accept_dad"), "0")
}

/// The route of the host to an address.
pub fn host_route(ip: IpAddr) -> IpNet {
    IpNet::from(ip)
}

fn route_v4(
    host: &mut Netlink,
    veth: &Link,
    src: Option<Ipv4Addr>,
    info: &IpInfo,
) -> Result<(), CniError> {
    let route = Route {
        dst: host_route(info.ip.addr()),
        gateway: None,
        link: veth.index,
        src: src.map(IpAddr::V4),
        table: TABLE_MAIN,
        metric: 0,
        protocol: PROTOCOL_BOOT,
        scope: SCOPE_LINK,
        on_link: false,
    };
    add(host, &route)
}

/// Adds a route to an address, which no other pod of this host may have.
fn add(host: &mut Netlink, route: &Route) -> Result<(), CniError> {
    if host.add_route(route).map_err(kernel)? {
        return Ok(());
    }
    let ip = route.dst.addr();
    let message = format!("{ip} is already in use: this host has a route to it");
    Err(CniError::of(Code::AddressConflict, message))
}

fn route_v6(host: &mut Netlink, veth: &Link, device: &Link, info: &IpInfo) -> Result<(), CniError> {
    let route = Route {
        dst: host_route(info.ip.addr()),
        gateway: None,
        link: veth.index,
        src: None,
        table: TABLE_MAIN,
        metric: 0,
        protocol: PROTOCOL_BOOT,
        scope: SCOPE_WORLD,
        on_link: false,
    };
    add(host, &route)?;
    let mut answer = |link: u32, ip: IpAddr| {
        host.put_neighbour(&Neighbour {
            link,
            ip,
            mac: None,
            is_proxy: true,
            is_permanent: false,
        })
        .map_err(kernel)
    };
    answer(device.index, info.ip.addr())?;
    if info.gateway.is_unspecified() {
        return Ok(());
    }
    // There is no general proxy for neighbour discovery, so a pod reaches
    // everybody through its gateway, for which its host answers.
    answer(veth.index, info.gateway)
}

/// Turns on forwarding of IPv6, which is for the whole host. A host that forwards
/// heeds no router unless told so, and would lose its own default route.
fn forward_v6() -> Result<(), CniError> {
    const ALL: &str = "net/ipv6/conf/all/forwarding";
    let value = sysctl::read(ALL).map_err(system(format_args!("read {ALL}")))?;
    if value.trim() == "1" {
        return Ok(());
    }
    let folder = "/proc/sys/net/ipv6/conf";
    let entries = fs::read_dir(folder).map_err(system(format_args!("read {folder}")))?;
    for entry in entries {
        let entry = entry.map_err(system(format_args!("read {folder}")))?;
        let Ok(name) = entry.file_name().into_string() else {
            continue;
        };
        if name == "all" || name == "default" {
            continue;
        }
        let heeds = format!("net/ipv6/conf/{name}/accept_ra");
        match sysctl::read(&heeds) {
            Ok(value) if value.trim() == "1" => set_if_there(&heeds, "2")?,
            // Links come and go.
            Ok(_) | Err(_) => {}
        }
    }
    set(ALL, "1")
}

/// Writes a setting.
pub fn set(path: &str, value: &str) -> Result<(), CniError> {
    sysctl::write(path, value)
        .map(drop)
        .map_err(system(format_args!("set {path} to {value}")))
}

/// Writes a setting, if the kernel has it.
pub fn set_if_there(path: &str, value: &str) -> Result<(), CniError> {
    match sysctl::write(path, value) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other
            .map(drop)
            .map_err(system(format_args!("set {path} to {value}"))),
    }
}
