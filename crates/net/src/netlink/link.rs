//! Links: what there is, and what is taken away.

pub mod make;

use std::{
    collections::BTreeMap,
    thread,
    time::{Duration, Instant},
};

use floe_core::announce::Mac;
use nix::libc;

use super::{
    Netlink, NetlinkError, done_unless,
    wire::{Request, attributes, body, mac_of, text_of, u16_of, u32_of},
};

/// The longest name that a link can have.
const NAME_LIMIT: usize = 15;
/// Counters are dear and not wanted: `RTEXT_FILTER_SKIP_STATS`.
const WITHOUT_COUNTERS: u32 = 1 << 3;
/// With their virtual functions: `RTEXT_FILTER_VF`.
const WITH_FUNCTIONS: u32 = 1;
const VLAN_ID: u16 = 1;
const VF_VLAN: u16 = 2;
const PORT_STATE: u16 = 1;
/// `BR_STATE_FORWARDING`.
const FORWARDING: u8 = 3;

/// A link as it is.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate fact"
)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Its index in its namespace.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Its alias.
    pub alias: Option<String>,
    /// Its hardware address, if it has one of Ethernet.
    pub mac: Option<Mac>,
    /// Its MTU.
    pub mtu: u32,
    /// Whether it was set up by an administrator.
    pub is_up: bool,
    /// Whether it carries frames: it has a signal, and the kernel has taken note of it.
    pub has_carrier: bool,
    /// The index of its bridge.
    pub master: Option<u32>,
    /// Whether its bridge lets no frames pass through it: spanning tree makes it wait,
    /// or has closed it.
    pub is_blocked: bool,
    /// The index of the link below it or, of a veth, of its peer; see `is_elsewhere`.
    pub parent: Option<u32>,
    /// Whether `parent` is an index of another namespace.
    pub is_elsewhere: bool,
    /// What it is.
    pub kind: LinkKind,
}

/// What a link is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// One end of a cable between two namespaces.
    Veth,
    /// A bridge.
    Bridge,
    /// A VLAN of its parent.
    Vlan {
        /// Its number.
        id: u16,
    },
    /// A macvlan of its parent.
    Macvlan,
    /// An ipvlan of its parent.
    Ipvlan,
    /// Something that floe does not make, by the kernel's name for it; a card has none.
    Other(String),
}

impl Netlink {
    /// All links.
    pub fn links(&mut self) -> Result<Vec<Link>, NetlinkError> {
        let request = || {
            Request::new(libc::RTM_GETLINK, 0, &header(0, 0, 0))
                .put_u32(libc::IFLA_EXT_MASK, WITHOUT_COUNTERS)
        };
        self.socket
            .list(request, "links", |bytes| Ok(Some(read(bytes)?)))
    }

    /// The link of a name.
    pub fn link(&mut self, name: &str) -> Result<Option<Link>, NetlinkError> {
        if !is_name(name) {
            return Ok(None);
        }
        let request = Request::new(libc::RTM_GETLINK, 0, &header(0, 0, 0))
            .put_name(libc::IFLA_IFNAME, name)
            .put_u32(libc::IFLA_EXT_MASK, WITHOUT_COUNTERS);
        found(
            self.socket
                .get(request, || format!("look up link {name}"), read),
        )
    }

    /// The link of an index.
    pub fn link_at(&mut self, index: u32) -> Result<Option<Link>, NetlinkError> {
        // To the kernel, 0 means that there is no index.
        if index == 0 {
            return Ok(None);
        }
        let request = Request::new(libc::RTM_GETLINK, 0, &header(index, 0, 0))
            .put_u32(libc::IFLA_EXT_MASK, WITHOUT_COUNTERS);
        found(
            self.socket
                .get(request, || format!("look up link {index}"), read),
        )
    }

    /// Waits until a link carries frames; whether it does before the deadline. The
    /// kernel opens the way through a link a moment after its other end came up, and
    /// drops without a word what is sent before.
    pub fn wait_for_carrier(
        &mut self,
        index: u32,
        deadline: Instant,
    ) -> Result<bool, NetlinkError> {
        let mut pause = Duration::from_micros(200);
        loop {
            let carries = self.link_at(index)?.is_some_and(|link| link.has_carrier);
            if carries || Instant::now() >= deadline {
                return Ok(carries);
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
    }

    /// The VLANs of the virtual functions of a card, by their numbers; 0 is none.
    pub fn function_vlans(&mut self, index: u32) -> Result<BTreeMap<u32, u16>, NetlinkError> {
        let request = Request::new(libc::RTM_GETLINK, 0, &header(index, 0, 0))
            .put_u32(libc::IFLA_EXT_MASK, WITH_FUNCTIONS | WITHOUT_COUNTERS);
        let what = || format!("look up functions of link {index}");
        self.socket.get(request, what, read_functions)
    }

    /// Removes a link; whether it was there.
    pub fn remove(&mut self, index: u32) -> Result<bool, NetlinkError> {
        if index == 0 {
            return Ok(false);
        }
        let request = Request::new(libc::RTM_DELLINK, 0, &header(index, 0, 0));
        let told = self.socket.tell(request, || format!("remove link {index}"));
        done_unless(told, &[libc::ENODEV])
    }
}

/// `struct ifinfomsg`: the flags of a link, and which of them count.
fn header(index: u32, flags: u32, change: u32) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&change.to_ne_bytes());
    header
}

/// Whether a link can have this name. The kernel would read a longer one in part.
fn is_name(name: &str) -> bool {
    (1..=NAME_LIMIT).contains(&name.len()) && !name.contains('\0')
}

fn found(answer: Result<Link, NetlinkError>) -> Result<Option<Link>, NetlinkError> {
    match answer {
        Ok(link) => Ok(Some(link)),
        Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
        Err(error) => Err(error),
    }
}

pub(super) fn read(bytes: &[u8]) -> Result<Link, NetlinkError> {
    let (header, rest) = body::<16>(bytes)?;
    let is_ethernet = u16_of(&header[2..])? == libc::ARPHRD_ETHER;
    let flags = u32_of(&header[8..])?;
    let has = |flag: i32| flags & flag.cast_unsigned() != 0;
    let mut link = Link {
        index: u32_of(&header[4..])?,
        name: String::new(),
        alias: None,
        mac: None,
        mtu: 0,
        is_up: has(libc::IFF_UP),
        has_carrier: has(libc::IFF_LOWER_UP) && has(libc::IFF_RUNNING),
        master: None,
        is_blocked: false,
        parent: None,
        is_elsewhere: false,
        kind: LinkKind::Other(String::new()),
    };
    attributes(rest, |kind, value| {
        match kind {
            libc::IFLA_IFNAME => link.name = text_of(value),
            libc::IFLA_IFALIAS => link.alias = Some(text_of(value)),
            libc::IFLA_ADDRESS if is_ethernet => link.mac = mac_of(value),
            libc::IFLA_MTU => link.mtu = u32_of(value)?,
            libc::IFLA_MASTER => link.master = Some(u32_of(value)?).filter(|at| *at != 0),
            libc::IFLA_LINK => link.parent = Some(u32_of(value)?).filter(|at| *at != 0),
            libc::IFLA_LINK_NETNSID => link.is_elsewhere = true,
            libc::IFLA_LINKINFO => {
                link.kind = read_kind(value)?;
                link.is_blocked = is_blocked(value)?;
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok(link)
}

pub(super) fn read_functions(bytes: &[u8]) -> Result<BTreeMap<u32, u16>, NetlinkError> {
    let (_, rest) = body::<16>(bytes)?;
    let mut vlans = BTreeMap::new();
    attributes(rest, |kind, list| {
        if kind != libc::IFLA_VFINFO_LIST {
            return Ok(());
        }
        attributes(list, |_, function| {
            attributes(function, |kind, value| {
                if kind == VF_VLAN {
                    let (number, rest) = body::<4>(value)?;
                    let vlan = u16::try_from(u32_of(rest)?).unwrap_or_default();
                    vlans.insert(u32::from_ne_bytes(*number), vlan);
                }
                Ok(())
            })
        })
    })?;
    Ok(vlans)
}

fn read_kind(info: &[u8]) -> Result<LinkKind, NetlinkError> {
    let (mut name, mut data) = (String::new(), [].as_slice());
    attributes(info, |kind, value| {
        match kind {
            libc::IFLA_INFO_KIND => name = text_of(value),
            libc::IFLA_INFO_DATA => data = value,
            _ => {}
        }
        Ok(())
    })?;
    Ok(match name.as_str() {
        "veth" => LinkKind::Veth,
        "bridge" => LinkKind::Bridge,
        "vlan" => LinkKind::Vlan {
            id: read_vlan(data)?,
        },
        "macvlan" => LinkKind::Macvlan,
        "ipvlan" => LinkKind::Ipvlan,
        _ => LinkKind::Other(name),
    })
}

/// Whether a link is a port of a bridge that passes nothing on.
fn is_blocked(info: &[u8]) -> Result<bool, NetlinkError> {
    let (mut is_port, mut data) = (false, [].as_slice());
    attributes(info, |kind, value| {
        match kind {
            libc::IFLA_INFO_SLAVE_KIND => is_port = text_of(value) == "bridge",
            libc::IFLA_INFO_SLAVE_DATA => data = value,
            _ => {}
        }
        Ok(())
    })?;
    let mut state = None;
    attributes(data, |kind, value| {
        if kind == PORT_STATE {
            state = value.first().copied();
        }
        Ok(())
    })?;
    Ok(is_port && state.is_some_and(|state| state != FORWARDING))
}

fn read_vlan(data: &[u8]) -> Result<u16, NetlinkError> {
    let mut id = 0;
    attributes(data, |kind, value| {
        if kind == VLAN_ID {
            id = u16_of(value)?;
        }
        Ok(())
    })?;
    Ok(id)
}

#[cfg(test)]
mod tests;
