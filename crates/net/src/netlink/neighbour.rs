//! Neighbours: where addresses live, and for which ones this host answers.

use std::net::IpAddr;

use floe_core::announce::Mac;
use nix::libc;

use super::{
    Netlink, NetlinkError, done_unless,
    wire::{Request, V4, V6, attributes, body, family_of, ip_of, mac_of, u16_of, u32_of},
};

const PROXY: u8 = libc::NTF_PROXY;

/// A neighbour entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Neighbour {
    /// The index of the link.
    pub link: u32,
    /// The address.
    pub ip: IpAddr,
    /// Where it lives, if known.
    pub mac: Option<Mac>,
    /// Whether this host answers for it.
    pub is_proxy: bool,
    /// Whether it never ages.
    pub is_permanent: bool,
}

impl Netlink {
    /// All neighbour entries, also those that this host answers for. Those that need
    /// no neighbour, as of groups and of the loopback, are left out.
    pub fn neighbours(&mut self) -> Result<Vec<Neighbour>, NetlinkError> {
        let mut all = Vec::new();
        for flags in [0, PROXY] {
            let request = || Request::new(libc::RTM_GETNEIGH, 0, &header(0, 0, 0, flags));
            all.extend(self.socket.list(request, "neighbours", read)?);
        }
        Ok(all)
    }

    /// Adds or changes a neighbour entry.
    pub fn put_neighbour(&mut self, neighbour: &Neighbour) -> Result<(), NetlinkError> {
        let flags = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        let request = message(libc::RTM_NEWNEIGH, flags, neighbour);
        let Neighbour { ip, link, .. } = neighbour;
        self.socket
            .tell(request, || format!("set neighbour {ip} of link {link}"))
    }

    /// Removes a neighbour entry; whether it was there.
    pub fn remove_neighbour(&mut self, neighbour: &Neighbour) -> Result<bool, NetlinkError> {
        let bare = Neighbour {
            mac: None,
            ..*neighbour
        };
        let request = message(libc::RTM_DELNEIGH, 0, &bare);
        let Neighbour { ip, link, .. } = neighbour;
        let what = || format!("remove neighbour {ip} of link {link}");
        done_unless(
            self.socket.tell(request, what),
            &[libc::ENOENT, libc::ENODEV],
        )
    }
}

fn message(kind: u16, flags: i32, neighbour: &Neighbour) -> Request {
    let state = if neighbour.is_permanent || neighbour.is_proxy {
        libc::NUD_PERMANENT
    } else {
        libc::NUD_REACHABLE
    };
    let proxy = if neighbour.is_proxy { PROXY } else { 0 };
    let family = family_of(neighbour.ip);
    Request::new(kind, flags, &header(family, neighbour.link, state, proxy))
        .put_ip(libc::NDA_DST, neighbour.ip)
        .with(neighbour.mac, |request, mac| {
            request.put(libc::NDA_LLADDR, &mac.0)
        })
}

/// `struct ndmsg`.
fn header(family: u8, link: u32, state: u16, flags: u8) -> [u8; 12] {
    let mut header = [0; 12];
    header[0] = family;
    header[4..8].copy_from_slice(&link.to_ne_bytes());
    header[8..10].copy_from_slice(&state.to_ne_bytes());
    header[10] = flags;
    header
}

pub(super) fn read(bytes: &[u8]) -> Result<Option<Neighbour>, NetlinkError> {
    let (header, rest) = body::<12>(bytes)?;
    let state = u16_of(&header[8..])?;
    let is_proxy = header[10] & PROXY != 0;
    let needs_none = state & libc::NUD_NOARP != 0 && !is_proxy;
    if ![V4, V6].contains(&header[0]) || needs_none {
        return Ok(None);
    }
    let (mut ip, mut mac) = (None, None);
    attributes(rest, |kind, value| {
        match kind {
            libc::NDA_DST => ip = Some(ip_of(value)?),
            libc::NDA_LLADDR => mac = mac_of(value),
            _ => {}
        }
        Ok(())
    })?;
    let link = u32_of(&header[4..])?;
    Ok(ip.map(|ip| Neighbour {
        link,
        ip,
        mac,
        is_proxy,
        is_permanent: is_proxy || state & libc::NUD_PERMANENT != 0,
    }))
}
