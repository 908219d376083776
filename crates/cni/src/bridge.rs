//! Bridges of the host, which all pods of a network share.
//!
//! A device that joins a bridge leaves its addresses without use, so the host's
//! addresses and routes move to the bridge of untagged pods. `floe_net::moves` does
//! it; here is decided when, and what becomes of it when it fails or was cut short.

mod listen;
mod ports;

use floe_core::{
    announce::Mac,
    cni::error::{CniError, Code},
    node::moves::{BRIDGE_ALIAS, Move},
};
use floe_net::{
    moves,
    netlink::{Link, LinkChange, LinkKind, Netlink, NewKind, NewLink},
};

use crate::{
    fail::{append, fail, kernel, link_gone, moving},
    host_side::up,
    request::Places,
};

/// The bridge of a VLAN device: the one that it is in, else the one of this name,
/// which is made if it is not there.
pub fn of_vlan(
    host: &mut Netlink,
    places: &Places,
    device: &Link,
    name: &str,
) -> Result<Link, CniError> {
    if let Some(bridge) = master(host, device)? {
        return up(host, bridge);
    }
    let _lock = places.lock()?;
    // Somebody may have made it meanwhile.
    let device = again(host, device)?;
    if let Some(bridge) = master(host, &device)? {
        return up(host, bridge);
    }
    ports::must_be_free(host, places, name, &device)?;
    let (bridge, _) = make(host, name, None, device.mtu)?;
    host.change(device.index, &[LinkChange::Master(Some(bridge.index))])
        .map_err(kernel)?;
    Ok(bridge)
}

/// The bridge of untagged pods, to which the host's addresses move.
///
/// # Guarantees
/// Either the host has its addresses and routes on the bridge, or, after an error,
/// where they were. A move that was cut short is finished.
pub fn of_host(
    host: &mut Netlink,
    places: &Places,
    device: &Link,
    name: &str,
) -> Result<Link, CniError> {
    // A bridge of the administrator, with whatever ports: nothing has to move.
    if device.kind == LinkKind::Bridge {
        return Ok(device.clone());
    }
    if let Some(bridge) = moved(host, places, device, name)? {
        return up(host, bridge);
    }
    let _lock = places.lock()?;
    let device = again(host, device)?;
    if let Some(bridge) = moved(host, places, &device, name)? {
        return up(host, bridge);
    }
    move_there(host, places, &device, name)
}

/// The bridge that a device is in already, for networks that may not make one.
pub fn existing(host: &mut Netlink, device: &Link) -> Result<Link, CniError> {
    if device.kind == LinkKind::Bridge {
        return Ok(device.clone());
    }
    master(host, device)?.ok_or_else(|| {
        let message = format!(
            "{} is in no bridge, and disable_default_bridge forbids making one",
            device.name
        );
        fail(Code::InvalidConfiguration, "NoBridge", message)
    })
}

/// The bridge of this name, if the device is in it and nothing is left to move.
fn moved(
    host: &mut Netlink,
    places: &Places,
    device: &Link,
    name: &str,
) -> Result<Option<Link>, CniError> {
    let Some(bridge) = master(host, device)?.filter(|it| it.name == name) else {
        return Ok(None);
    };
    let is_whole = match moves::read(&places.state, &device.name).map_err(moving)? {
        Some(journal) => journal.complete && journal.bridge == name,
        // Somebody else has made this bridge, and perhaps left something behind.
        None => has_nothing(&moves::observe(host, device, name).map_err(kernel)?),
    };
    Ok(is_whole.then_some(bridge))
}

fn move_there(
    host: &mut Netlink,
    places: &Places,
    device: &Link,
    name: &str,
) -> Result<Link, CniError> {
    if let Some(other) = master(host, device)?.filter(|it| it.name != name) {
        let (device, other) = (&device.name, &other.name);
        let message = format!("{device} is a port of {other}, which default_bridge_name is not");
        return Err(fail(Code::InvalidConfiguration, "NoBridge", message));
    }
    let mut journal = moves::observe(host, device, name).map_err(kernel)?;
    // With the bridge gone, as after a boot, an old journal has no meaning.
    let old = match host.link(name).map_err(kernel)? {
        Some(_) => moves::read(&places.state, &device.name).map_err(moving)?,
        None => None,
    };
    let old = old.filter(|old| !old.complete && old.bridge == name);
    let was_begun = old.is_some();
    if let Some(mut old) = old {
        old.join(&journal);
        journal = old;
    }
    if has_nothing(&journal) {
        // Compat: galaxy's words.
        let message = format!("No available address found on device {}", device.name);
        return Err(fail(Code::InvalidConfiguration, "NoHostAddress", message));
    }
    ports::must_be_free(host, places, name, device)?;
    moves::check(host, &journal).map_err(moving)?;
    moves::write(&places.state, &journal).map_err(moving)?;
    let (bridge, is_new) = match make(host, name, device.mac, device.mtu) {
        Ok(made) => made,
        Err(mut error) => {
            if !was_begun {
                forget(places, &device.name, &mut error);
            }
            return Err(error);
        }
    };
    let listens = if is_new || was_begun {
        listen::alike(&device.name, name)
    } else {
        Ok(())
    };
    let made = listens.and_then(|()| moves::make(host, &journal).map_err(moving));
    if let Err(mut error) = made {
        take_back(
            host,
            places,
            &journal,
            is_new.then_some(&bridge),
            &mut error,
        );
        return Err(error);
    }
    journal.complete = true;
    // If this fails the next call makes the move again, which changes nothing.
    moves::write(&places.state, &journal).map_err(moving)?;
    Ok(bridge)
}

/// Undoes a move that has failed. The journal stays if that fails too, so that the
/// next call or a clean-up can go on.
fn take_back(
    host: &mut Netlink,
    places: &Places,
    journal: &Move,
    made: Option<&Link>,
    error: &mut CniError,
) {
    if let Err(failed) = moves::undo(host, journal) {
        append(error, &moving(failed));
        return;
    }
    if let Some(bridge) = made
        && let Err(failed) = host.remove(bridge.index)
    {
        append(error, &kernel(failed));
    }
    forget(places, &journal.device, error);
}

fn forget(places: &Places, device: &str, error: &mut CniError) {
    if let Err(failed) = moves::forget(&places.state, device) {
        append(error, &moving(failed));
    }
}

fn has_nothing(journal: &Move) -> bool {
    journal.addresses.is_empty()
}

/// The bridge of this name, up, and whether it is new.
fn make(
    host: &mut Netlink,
    name: &str,
    mac: Option<Mac>,
    mtu: u32,
) -> Result<(Link, bool), CniError> {
    if let Some(link) = host.link(name).map_err(kernel)? {
        if link.kind != LinkKind::Bridge {
            let message = format!("{name} is there already, and is no bridge");
            return Err(fail(Code::Kernel, "LinkNameTaken", message));
        }
        return Ok((up(host, link)?, false));
    }
    let made = host.create(&NewLink {
        name,
        kind: NewKind::Bridge,
        alias: Some(BRIDGE_ALIAS),
        mac,
        mtu: Some(mtu),
        master: None,
        namespace: None,
        up: true,
    });
    made.map_err(kernel)?;
    let found = host.link(name).map_err(kernel)?;
    found
        .map(|link| (link, true))
        .ok_or_else(|| link_gone(name))
}

/// The bridge that a device is in.
fn master(host: &mut Netlink, device: &Link) -> Result<Option<Link>, CniError> {
    let Some(index) = device.master else {
        return Ok(None);
    };
    let found = host.link_at(index).map_err(kernel)?;
    match found {
        Some(link) if link.kind != LinkKind::Bridge => {
            let message = format!(
                "{} belongs to {}, which is no bridge",
                device.name, link.name
            );
            Err(fail(Code::InvalidConfiguration, "NoBridge", message))
        }
        found => Ok(found),
    }
}

fn again(host: &mut Netlink, link: &Link) -> Result<Link, CniError> {
    let found = host.link_at(link.index).map_err(kernel)?;
    found.ok_or_else(|| link_gone(&link.name))
}
