//! Moving a host's addresses and routes between a device and its bridge, and the
//! journals of that: see `floe_core::node::moves`.
//!
//! Every step looks at what is there, so a move that was cut short anywhere is
//! finished, or undone, by the same call. Everything is added at its new place before
//! anything is removed from the old one: at no moment the host is without an address or
//! a route that it had.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use floe_core::node::moves::{self, Move, MoveError, MovedAddress, Unmovable};

use crate::{
    files,
    netlink::{Link, LinkChange, LinkKind, Netlink, NetlinkError},
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
    /// Something could not come along, so nothing was touched.
    #[error(transparent)]
    Unmovable(#[from] Unmovable),
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

impl MovesError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Netlink(_) | Self::NoLink(_) | Self::File { .. } => "MoveFailed",
            Self::Unmovable(unmovable) => unmovable.reason(),
            Self::Journal { error, .. } => error.reason(),
        }
    }
}

/// What would move from a device to a bridge now.
pub fn observe(netlink: &mut Netlink, device: &Link, bridge: &str) -> Result<Move, NetlinkError> {
    let mut addresses = netlink.moving_addresses(device.index)?;
    addresses.retain(|it| MovedAddress::moves(it.net));
    let routes = netlink.moving_routes(device.index, None)?.into_iter();
    let routes = routes.map(|it| it.route).filter(|it| it.moves(&addresses));
    Ok(Move {
        device: device.name.clone(),
        bridge: bridge.to_owned(),
        routes: routes.collect(),
        addresses,
        complete: false,
    })
}

/// Whether all of a move can be made, before anything of it is: each route could be
/// said to the kernel again, and would find its next hop.
pub fn check(netlink: &mut Netlink, journal: &Move) -> Result<(), MovesError> {
    let device = link(netlink, &journal.device)?;
    let bridge = netlink.link(&journal.bridge)?;
    can_leave(netlink, journal, &device, bridge.as_ref())
}

/// Finishes a move that was cut short, and marks it in its journal; whether there was
/// anything to finish. With one of its links gone, as after a boot, or the device in
/// another bridge, there is not.
pub fn finish(netlink: &mut Netlink, state: &Path, journal: &Move) -> Result<bool, MovesError> {
    if journal.complete {
        return Ok(false);
    }
    let device = netlink.link(&journal.device)?;
    let bridge = netlink.link(&journal.bridge)?;
    let (Some(device), Some(bridge)) = (device, bridge) else {
        return Ok(false);
    };
    let is_begun = match device.master {
        Some(master) => master == bridge.index,
        // Nobody else makes one for this.
        None => is_own(&bridge),
    };
    if !is_begun || bridge.kind != LinkKind::Bridge {
        return Ok(false);
    }
    let mut whole = journal.clone();
    whole.join(&observe(netlink, &device, &bridge.name)?);
    check(netlink, &whole)?;
    write(state, &whole)?;
    if !bridge.is_up {
        netlink.change(bridge.index, &[LinkChange::Up(true)])?;
    }
    make(netlink, &whole)?;
    whole.complete = true;
    write(state, &whole)?;
    Ok(true)
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
    let on_device = observe(netlink, &device, &journal.bridge)?;
    let back = journal.back(
        has.as_ref(),
        bridge.as_ref().is_some_and(is_own),
        &on_device,
    );
    // The way back from a move that failed is always taken as far as it goes.
    if let Some(bridge) = bridge.as_ref().filter(|_| journal.complete) {
        can_leave(netlink, &back, bridge, Some(&device))?;
    }
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

/// Whether everything of a move that a link has can come along to the other one.
fn can_leave(
    netlink: &mut Netlink,
    journal: &Move,
    from: &Link,
    to: Option<&Link>,
) -> Result<(), MovesError> {
    let to = to.map(|it| it.index);
    for moving in netlink.moving_routes(from.index, to)? {
        if let Some(unmovable) = moving.unmovable
            && journal.routes.iter().any(|it| it.is_same(&moving.route))
        {
            return Err(unmovable.into());
        }
    }
    journal.unmovable().map_or(Ok(()), |it| Err(it.into()))
}

/// Brings addresses and routes to `to`, and then takes them from `from`.
fn carry(
    netlink: &mut Netlink,
    journal: &Move,
    from: Option<u32>,
    to: u32,
) -> Result<(), MovesError> {
    for address in &journal.addresses {
        netlink.add_moved_address(to, address)?;
    }
    let routes = journal.routes_in_order();
    for route in &routes {
        netlink.add_moved_route(to, route)?;
    }
    let Some(from) = from else {
        return Ok(());
    };
    for route in &routes {
        netlink.remove_moved_route(from, route)?;
    }
    // Last: with its last address the kernel takes all routes of a link, and with the
    // first of a network it may take the others.
    for address in &journal.addresses {
        netlink.remove_moved_address(from, address)?;
    }
    Ok(())
}

fn is_own(bridge: &Link) -> bool {
    bridge.alias.as_deref() == Some(moves::BRIDGE_ALIAS)
}

fn link(netlink: &mut Netlink, name: &str) -> Result<Link, MovesError> {
    let link = netlink.link(name)?;
    link.ok_or_else(|| MovesError::NoLink(name.to_owned()))
}
