//! Links that are made and changed.

mod message;

use std::{
    collections::hash_map::RandomState,
    hash::{BuildHasher, Hasher},
    io,
    os::fd::BorrowedFd,
};

use floe_core::announce::Mac;
use nix::libc;

use self::message::{alteration, birth};
use super::{
    super::{Netlink, NetlinkError},
    is_name,
};
use crate::netns;

/// The longest alias that a link can have.
const ALIAS_LIMIT: usize = 255;

/// A link to make. The caller sees the whole link or, after an error, nothing of it.
///
/// The kernel does most of it in one step: kind, both ends of a veth in their
/// namespaces, hardware addresses, MTU, and of the first end also bridge and up. The
/// rest costs a second step, in another namespace on a thread of its own. Who works
/// there anyway is quicker with [`Netlink::change`]: alias and up beside other changes.
#[derive(Clone, Debug)]
pub struct NewLink<'a> {
    /// Its name.
    pub name: &'a str,
    /// What it is to be.
    pub kind: NewKind<'a>,
    /// Its alias.
    pub alias: Option<&'a str>,
    /// Its hardware address; the kernel takes a random one otherwise.
    pub mac: Option<Mac>,
    /// Its MTU; the kernel decides otherwise.
    pub mtu: Option<u32>,
    /// The bridge that it joins.
    pub master: Option<u32>,
    /// The namespace that it is born in, if not this one.
    pub namespace: Option<BorrowedFd<'a>>,
    /// Whether it is set up at once.
    pub up: bool,
}

/// What a new link is to be.
#[derive(Clone, Debug)]
pub enum NewKind<'a> {
    /// A veth with its peer.
    Veth {
        /// The other end, whose `kind` is ignored.
        peer: Box<NewLink<'a>>,
    },
    /// A bridge without spanning tree and forward delay.
    Bridge,
    /// A VLAN of the link with this index.
    Vlan {
        /// The parent.
        parent: u32,
        /// The number.
        id: u16,
    },
    /// A macvlan in bridge mode of the link with this index.
    Macvlan {
        /// The parent.
        parent: u32,
    },
    /// An ipvlan of the link with this index.
    Ipvlan {
        /// The parent.
        parent: u32,
        /// The mode.
        mode: IpvlanMode,
    },
}

/// The modes of ipvlan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpvlanMode {
    /// Switched.
    L2,
    /// Routed.
    L3,
    /// Routed, with connection tracking.
    L3s,
}

/// A change of a link.
#[derive(Clone, Copy, Debug)]
pub enum LinkChange<'a> {
    /// Another name.
    Name(&'a str),
    /// Another alias.
    Alias(&'a str),
    /// Up or down.
    Up(bool),
    /// Another hardware address.
    Mac(Mac),
    /// Another MTU.
    Mtu(u32),
    /// Join a bridge, or leave the one it is in.
    Master(Option<u32>),
    /// Go to another namespace, where it gets the name that is given beside.
    Namespace(BorrowedFd<'a>),
    /// Of a physical function: the VLAN of one of its virtual functions.
    VfVlan {
        /// The number of the virtual function.
        vf: u32,
        /// The VLAN; 0 is none.
        vlan: u16,
    },
}

impl Netlink {
    /// Makes a link. It is an error when there is one of that name.
    pub fn create(&mut self, new: &NewLink<'_>) -> Result<(), NetlinkError> {
        check(new)?;
        let peer = match &new.kind {
            NewKind::Veth { peer } => Some(peer),
            NewKind::Bridge
            | NewKind::Vlan { .. }
            | NewKind::Macvlan { .. }
            | NewKind::Ipvlan { .. } => None,
        };
        if let Some(peer) = peer {
            check(peer)?;
        } else if let Some(namespace) = new.namespace {
            return self.bear_elsewhere(new, namespace);
        }
        self.bear(new, new.name, new.up)?;
        let settled = self
            .settle(new, &[])
            .and_then(|()| peer.map_or(Ok(()), |peer| self.settle_peer(peer)));
        settled.map_err(|error| self.undo(new, error))
    }

    /// Changes a link, all at once.
    pub fn change(&mut self, index: u32, changes: &[LinkChange<'_>]) -> Result<(), NetlinkError> {
        for change in changes {
            if let LinkChange::Name(name) = change {
                check_name(name)?;
            }
            if let LinkChange::Alias(alias) = change {
                check_alias(alias)?;
            }
        }
        let request = alteration(index, changes);
        self.socket.tell(request, || format!("change link {index}"))
    }

    /// What the kernel does in one step.
    fn bear(&mut self, new: &NewLink<'_>, name: &str, up: bool) -> Result<(), NetlinkError> {
        let request = birth(new, name, up);
        self.socket
            .tell(request, || format!("make link {}", new.name))
    }

    /// What the kernel does not do for a peer in the first step. It could not be up
    /// before it had the other end.
    fn settle_peer(&mut self, peer: &NewLink<'_>) -> Result<(), NetlinkError> {
        let master = peer.master.map(|master| LinkChange::Master(Some(master)));
        let up = peer.up.then_some(LinkChange::Up(true));
        let more: Vec<_> = master.into_iter().chain(up).collect();
        self.settle(peer, &more)
    }

    /// What the kernel does not do in the first step.
    fn settle(&mut self, new: &NewLink<'_>, more: &[LinkChange<'_>]) -> Result<(), NetlinkError> {
        let alias = new.alias.map(LinkChange::Alias);
        let changes: Vec<_> = alias.into_iter().chain(more.iter().copied()).collect();
        if changes.is_empty() {
            return Ok(());
        }
        let what = || format!("finish link {}", new.name);
        match new.namespace {
            // The name is ours: it was made a moment ago.
            None => {
                let request = alteration(0, &changes).put_name(libc::IFLA_IFNAME, new.name);
                self.socket.tell(request, what)
            }
            Some(namespace) => inside(namespace, |netlink| {
                let request = alteration(0, &changes).put_name(libc::IFLA_IFNAME, new.name);
                netlink.socket.tell(request, what)
            }),
        }
    }

    /// Makes a link, with a parent here, in another namespace. Before Linux 6.13 the
    /// kernel refuses a name that somebody has here, as `eth0` often is, so the link is
    /// born with a name that nobody has.
    fn bear_elsewhere(
        &mut self,
        new: &NewLink<'_>,
        namespace: BorrowedFd<'_>,
    ) -> Result<(), NetlinkError> {
        let random = RandomState::new().build_hasher().finish();
        let born_as = format!("fl{:012x}", random & 0xffff_ffff_ffff);
        self.bear(new, &born_as, false)?;
        inside(namespace, |netlink| {
            let Some(link) = netlink.link(&born_as)? else {
                return Err(refusal(
                    new.name,
                    libc::ENODEV,
                    "it went as soon as it was made",
                ));
            };
            let changes: Vec<_> = std::iter::once(LinkChange::Name(new.name))
                .chain(new.alias.map(LinkChange::Alias))
                .chain(new.up.then_some(LinkChange::Up(true)))
                .collect();
            let request = alteration(link.index, &changes);
            let named = netlink
                .socket
                .tell(request, || format!("make link {}", new.name));
            if named.is_err() {
                // The first error tells more than one of the clean-up.
                let _ = netlink.remove(link.index);
            }
            named
        })
    }

    /// Removes what was made, and gives the error back.
    fn undo(&mut self, new: &NewLink<'_>, error: NetlinkError) -> NetlinkError {
        let remove = |netlink: &mut Self| match netlink.link(new.name)? {
            Some(link) => netlink.remove(link.index).map(drop),
            None => Ok(()),
        };
        // The first error tells more than one of the clean-up.
        let _ = match new.namespace {
            None => remove(self),
            Some(namespace) => inside(namespace, remove),
        };
        error
    }
}

/// Works in another namespace, on a thread and a connection of its own.
fn inside<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce(&mut Netlink) -> Result<T, NetlinkError> + Send,
) -> Result<T, NetlinkError> {
    netns::run_in(namespace, || work(&mut Netlink::open()?))?
}

fn check(new: &NewLink<'_>) -> Result<(), NetlinkError> {
    check_name(new.name)?;
    new.alias.map_or(Ok(()), check_alias)
}

fn check_name(name: &str) -> Result<(), NetlinkError> {
    if is_name(name) {
        return Ok(());
    }
    Err(refusal(name, libc::EINVAL, "not a name for a link"))
}

fn check_alias(alias: &str) -> Result<(), NetlinkError> {
    if alias.len() <= ALIAS_LIMIT && !alias.contains('\0') {
        return Ok(());
    }
    Err(refusal(alias, libc::EINVAL, "not an alias for a link"))
}

fn refusal(name: &str, errno: i32, words: &str) -> NetlinkError {
    NetlinkError::Refused {
        what: format!("make link {name}"),
        error: io::Error::from_raw_os_error(errno),
        words: Some(words.to_owned()),
    }
}

#[cfg(test)]
mod tests;
