//! Moving a host's addresses and routes between a device and its bridge, and the
//! journals of that: see `floe_core::node::moves`.
//!
//! Every step looks at what is there, so a move that was cut short anywhere is
//! finished, or undone, by the same call. An address is added at its new place before
//! it is removed from the old one: at no moment the host is without it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use floe_core::node::moves::{self, Move, MoveError, MovedAddress, MovedRoute};
use ipnet::IpNet;

use crate::{
    files,
    netlink::{Address, Link, LinkChange, Netlink, NetlinkError, Route},
};

/// Why a move cannot be made, undone or read.
#[derive(Debug, thiserror::Error)]
pub enum MovesError {
    /// The kernel refused a step.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// A link of the move is not there.
    #[error("there is no link {0}")]
    NoLink(String),
    /// A journal cannot be read or written.
    #[error("cannot use {}: {error}", path.display())]
    File {
        /// The journal.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A journal cannot be understood.
    #[error("{}: {error}", path.display())]
    Journal {
        /// The journal.
        path: PathBuf,
        /// What is wrong with it.
        error: MoveError,
    },
}

/// What would move from a device to a bridge now.
pub fn observe(netlink: &mut Netlink, device: &Link, bridge: &str) -> Result<Move, NetlinkError> {
    let addresses = netlink.addresses(Some(device.index))?;
    let addresses = addresses.iter().filter(|it| MovedAddress::moves(it.net));
    let addresses = addresses.map(|it| MovedAddress {
        net: it.net,
        scope: it.scope,
        no_prefix_route: it.no_prefix_route,
    });
    let addresses = addresses.collect();
    let routes = netlink.routes()?;
    let routes = routes
        .iter()
        .filter(|it| it.link == device.index && MovedRoute::moves(it.protocol, it.dst));
    let routes = routes.map(|it| MovedRoute {
        dst: it.dst,
        gateway: it.gateway,
        src: it.src,
        table: it.table,
        metric: it.metric,
        protocol: it.protocol,
        scope: it.scope,
        on_link: it.on_link,
    });
    Ok(Move {
        device: device.name.clone(),
        bridge: bridge.to_owned(),
        addresses,
        routes: routes.collect(),
        complete: false,
    })
}

/// Makes the move, or what is missing of it. Device and bridge are there, and the
/// bridge is up.
pub fn make(netlink: &mut Netlink, journal: &Move) -> Result<(), MovesError> {
    let device = link(netlink, &journal.device)?;
    let bridge = link(netlink, &journal.bridge)?;
    if device.master != Some(bridge.index) {
        netlink.change(device.index, &[LinkChange::Master(Some(bridge.index))])?;
    }
    carry(netlink, journal, Some(device.index), bridge.index)
}

/// Undoes the move, or what was made of it: the device leaves the bridge and has
/// everything again that [`Move::back`] says. The bridge stays, and may be gone already.
pub fn undo(netlink: &mut Netlink, journal: &Move) -> Result<(), MovesError> {
    let device = link(netlink, &journal.device)?;
    let bridge = netlink.link(&journal.bridge)?;
    let has = match &bridge {
        Some(bridge) => Some(observe(netlink, bridge, &journal.bridge)?),
        None => None,
    };
    let is_own = bridge
        .as_ref()
        .is_some_and(|it| it.alias.as_deref() == Some(moves::BRIDGE_ALIAS));
    let on_device = observe(netlink, &device, &journal.bridge)?;
    let back = journal.back(has.as_ref(), is_own, &on_device);
    if device.master.is_some() && device.master == bridge.as_ref().map(|it| it.index) {
        netlink.change(device.index, &[LinkChange::Master(None)])?;
    }
    if !device.is_up {
        netlink.change(device.index, &[LinkChange::Up(true)])?;
    }
    let from = bridge.map(|bridge| bridge.index);
    carry(netlink, &back, from, device.index)
}

/// Writes the journal of a move, before it begins.
pub fn write(state: &Path, journal: &Move) -> Result<(), MovesError> {
    let path = path_of(state, &journal.device);
    files::write(&path, journal.to_json().as_bytes())
        .map_err(|error| MovesError::File { path, error })
}

/// Reads the journal of a device's move, if there is one.
pub fn read(state: &Path, device: &str) -> Result<Option<Move>, MovesError> {
    read_file(path_of(state, device))
}

/// All journals, each read or with what is wrong with it.
pub fn all(state: &Path) -> Result<Vec<Result<Move, MovesError>>, MovesError> {
    let folder = state.join(moves::FOLDER);
    let failed = |error| MovesError::File {
        path: folder.clone(),
        error,
    };
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        // What is being written has another name until it is whole.
        if path.extension().is_some_and(|it| it == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths
        .into_iter()
        .filter_map(|path| read_file(path).transpose())
        .collect())
}

/// Forgets the move of a device, after it was undone; whether it was there.
pub fn forget(state: &Path, device: &str) -> Result<bool, MovesError> {
    let path = path_of(state, device);
    files::remove(&path).map_err(|error| MovesError::File { path, error })
}

fn read_file(path: PathBuf) -> Result<Option<Move>, MovesError> {
    match fs::read_to_string(&path) {
        Ok(text) => match Move::parse(&text) {
            Ok(journal) => Ok(Some(journal)),
            Err(error) => Err(MovesError::Journal { path, error }),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(MovesError::File { path, error }),
    }
}

fn path_of(state: &Path, device: &str) -> PathBuf {
    state.join(moves::FOLDER).join(moves::journal_of(device))
}

/// Brings addresses and routes to `to`, and takes them from `from`.
fn carry(
    netlink: &mut Netlink,
    journal: &Move,
    from: Option<u32>,
    to: u32,
) -> Result<(), MovesError> {
    for address in &journal.addresses {
        netlink.add_address(&Address {
            link: to,
            net: address.net,
            scope: address.scope,
            no_prefix_route: address.no_prefix_route,
            is_temporary: false,
        })?;
    }
    // Only now: with the first address of a network the kernel may remove the others.
    for address in &journal.addresses {
        if let Some(from) = from {
            netlink.remove_address(from, address.net)?;
        }
    }
    for route in journal.routes_in_order() {
        carry_route(netlink, &route, from, to)?;
    }
    Ok(())
}

fn carry_route(
    netlink: &mut Netlink,
    route: &MovedRoute,
    from: Option<u32>,
    to: u32,
) -> Result<(), MovesError> {
    let there = Route {
        dst: route.dst,
        gateway: route.gateway,
        link: to,
        src: route.src,
        table: route.table,
        metric: route.metric,
        protocol: route.protocol,
        scope: route.scope,
        on_link: route.on_link,
    };
    let old = from.map(|from| Route {
        link: from,
        ..there
    });
    match route.dst {
        // In one step. There is one route to a destination with a metric.
        IpNet::V4(_) => netlink.replace_route(&there)?,
        // Another device may have the same one, and it could be the one that is
        // replaced: so ours is added, if need be after the old one went.
        IpNet::V6(_) => {
            if !netlink.add_route(&there)?
                && let Some(old) = &old
            {
                netlink.remove_route(old)?;
                netlink.add_route(&there)?;
            }
        }
    }
    if let Some(old) = &old {
        netlink.remove_route(old)?;
    }
    Ok(())
}

fn link(netlink: &mut Netlink, name: &str) -> Result<Link, MovesError> {
    let link = netlink.link(name)?;
    link.ok_or_else(|| MovesError::NoLink(name.to_owned()))
}
