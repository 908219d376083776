//! The messages that make and change links.

use std::os::fd::{AsRawFd, BorrowedFd};

use nix::libc;

use super::{
    super::{super::wire::Request, VF_VLAN, VLAN_ID, header},
    IpvlanMode, LinkChange, NewKind, NewLink,
};

const VETH_PEER: u16 = 1;
const BRIDGE_FORWARD_DELAY: u16 = 1;
const BRIDGE_STP: u16 = 5;
const MACVLAN_MODE: u16 = 1;
const MACVLAN_BRIDGE: u32 = 4;
const IPVLAN_MODE: u16 = 1;
const VF_INFO: u16 = 1;

/// The message that makes a link.
pub fn birth(new: &NewLink<'_>, name: &str, up: bool) -> Request {
    let flags = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
    let request = Request::new(libc::RTM_NEWLINK, flags, &new_header(up));
    let request = common(request, new, name).with(new.master, |request, master| {
        request.put_u32(libc::IFLA_MASTER, master)
    });
    match &new.kind {
        NewKind::Veth { peer } => kind(request, "veth", |data| {
            data.nest(VETH_PEER, &new_header(false), |data| {
                common(data, peer, peer.name)
            })
        }),
        NewKind::Bridge => kind(request, "bridge", |data| {
            data.put_u32(BRIDGE_FORWARD_DELAY, 0).put_u32(BRIDGE_STP, 0)
        }),
        NewKind::Vlan { parent, id } => {
            kind(request.put_u32(libc::IFLA_LINK, *parent), "vlan", |data| {
                data.put(VLAN_ID, &id.to_ne_bytes())
            })
        }
        NewKind::Macvlan { parent } => kind(
            request.put_u32(libc::IFLA_LINK, *parent),
            "macvlan",
            |data| data.put_u32(MACVLAN_MODE, MACVLAN_BRIDGE),
        ),
        NewKind::Ipvlan { parent, mode } => {
            let mode: u16 = match mode {
                IpvlanMode::L2 => 0,
                IpvlanMode::L3 => 1,
                IpvlanMode::L3s => 2,
            };
            kind(
                request.put_u32(libc::IFLA_LINK, *parent),
                "ipvlan",
                |data| data.put(IPVLAN_MODE, &mode.to_ne_bytes()),
            )
        }
    }
}

fn new_header(up: bool) -> [u8; 16] {
    let up = if up { libc::IFF_UP.cast_unsigned() } else { 0 };
    header(0, up, up)
}

/// What both ends of a veth can have.
fn common(request: Request, new: &NewLink<'_>, name: &str) -> Request {
    request
        .put_name(libc::IFLA_IFNAME, name)
        .with(new.mac, |request, mac| {
            request.put(libc::IFLA_ADDRESS, &mac.0)
        })
        .with(new.mtu, |request, mtu| request.put_u32(libc::IFLA_MTU, mtu))
        .with(new.namespace, put_namespace)
}

fn put_namespace(request: Request, namespace: BorrowedFd<'_>) -> Request {
    request.put(libc::IFLA_NET_NS_FD, &namespace.as_raw_fd().to_ne_bytes())
}

fn kind(request: Request, name: &str, data: impl FnOnce(Request) -> Request) -> Request {
    request.nest(libc::IFLA_LINKINFO, &[], |info| {
        info.put_name(libc::IFLA_INFO_KIND, name)
            .nest(libc::IFLA_INFO_DATA, &[], data)
    })
}

/// The message that changes a link.
pub fn alteration(index: u32, changes: &[LinkChange<'_>]) -> Request {
    let (mut flags, mut counts) = (0, 0);
    for change in changes {
        if let LinkChange::Up(up) = change {
            counts = libc::IFF_UP.cast_unsigned();
            flags = if *up { counts } else { 0 };
        }
    }
    let request = Request::new(libc::RTM_SETLINK, 0, &header(index, flags, counts));
    let request = changes.iter().fold(request, put_change);
    // Of two lists of virtual functions the kernel would see only one.
    if !changes.iter().any(is_of_vf) {
        return request;
    }
    request.nest(libc::IFLA_VFINFO_LIST, &[], |list| {
        changes.iter().fold(list, put_vf_change)
    })
}

fn is_of_vf(change: &LinkChange<'_>) -> bool {
    matches!(change, LinkChange::VfVlan { .. })
}

fn put_change(request: Request, change: &LinkChange<'_>) -> Request {
    match *change {
        LinkChange::Name(name) => request.put_name(libc::IFLA_IFNAME, name),
        // Without a zero, which would be part of it.
        LinkChange::Alias(alias) => request.put(libc::IFLA_IFALIAS, alias.as_bytes()),
        LinkChange::Up(_) | LinkChange::VfVlan { .. } => request,
        LinkChange::Mac(mac) => request.put(libc::IFLA_ADDRESS, &mac.0),
        LinkChange::Mtu(mtu) => request.put_u32(libc::IFLA_MTU, mtu),
        LinkChange::Master(master) => {
            request.put_u32(libc::IFLA_MASTER, master.unwrap_or_default())
        }
        LinkChange::Namespace(namespace) => put_namespace(request, namespace),
    }
}

fn put_vf_change(list: Request, change: &LinkChange<'_>) -> Request {
    if let LinkChange::VfVlan { vf, vlan } = *change {
        let value = [vf, u32::from(vlan), 0].map(u32::to_ne_bytes).concat();
        return list.nest(VF_INFO, &[], |info| info.put(VF_VLAN, &value));
    }
    list
}

#[cfg(test)]
mod tests;
