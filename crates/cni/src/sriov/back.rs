//! Functions come back: out of the pod, and as they were.

use std::{io, os::fd::AsFd, path::Path, time::Duration};

use floe_core::{
    cni::{
        config::Attachment,
        error::{CniError, Code},
    },
    node::names::Alias,
};
use floe_net::{
    lock::Lock,
    netlink::{Link, LinkChange, Netlink},
    netns::Netns,
};

use super::lease::{self, Lease, Leased};
use crate::{
    del,
    fail::{kernel, system, unclean},
    request::Places,
};

/// How long a function may take to come back from a namespace that has ended, and
/// another call to be done with it.
const RETURN: Duration = Duration::from_secs(5);

/// Takes functions out of the pod, and gives them back to the host as they were. `held`
/// are the turns of a call that has them all.
///
/// One that does not come back in time is where nobody can reach it. It stays noted,
/// for the next DEL or the next pod that gets it.
pub fn give_back(
    host: &mut Netlink,
    places: &Places,
    attachment: &Attachment,
    held: Vec<Lock>,
) -> Result<(), CniError> {
    let notes = lease::notes(places);
    let Some(known) = notes.read::<Lease>(attachment)? else {
        return Ok(());
    };
    // A function that is out of its pod looks free to others, so nothing is touched
    // before its turn.
    let _turns = if held.is_empty() {
        turns(places, attachment, &known)?
    } else {
        held
    };
    // Other calls may have returned them meanwhile, or have them now.
    let Some(lease) = notes.read::<Lease>(attachment)? else {
        return Ok(());
    };
    let own = Alias::new(&lease.network, &attachment.container, &attachment.ifname);
    let mut errors = Vec::new();
    errors.extend(recall(&lease, &own).err());
    let mut returned = Vec::new();
    for leased in &lease.functions {
        match restore(host, &lease.device, leased, &own) {
            Ok(true) => returned.push(&*leased.pci),
            Ok(false) => {}
            Err(error) => errors.push(error),
        }
    }
    errors.extend(lease::forget(places, attachment, &returned).err());
    unclean(errors)
}

/// The turns for all functions that are still noted.
fn turns(places: &Places, attachment: &Attachment, known: &Lease) -> Result<Vec<Lock>, CniError> {
    let mut turns = Vec::new();
    for leased in &known.functions {
        match lease::turn(places, &leased.pci, RETURN) {
            Ok(turn) => turns.push(turn),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let now: Option<Lease> = lease::notes(places).read(attachment)?;
                if now.is_some_and(|it| it.has(&leased.pci)) {
                    return Err(CniError::of(Code::TryAgainLater, error.to_string()));
                }
            }
            Err(error) => return Err(system(format_args!("lock {}", leased.pci))(error)),
        }
    }
    Ok(turns)
}

/// Moves the functions out of the pod, if it is still there.
fn recall(lease: &Lease, own: &Alias) -> Result<(), CniError> {
    let path = &lease.netns;
    let netns = match Netns::open(Path::new(path)) {
        Ok(netns) => netns,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system(format_args!("open {path:?}"))(error)),
    };
    let host = Netns::current().map_err(system("open the host's network namespace"))?;
    let is_same = netns.is_same(&host);
    if is_same.map_err(system("compare network namespaces"))? {
        return Ok(());
    }
    let moved = netns.run(|| {
        let mut netlink = Netlink::open().map_err(kernel)?;
        let links = netlink.links().map_err(kernel)?;
        let mut ours = links.iter().filter(|link| is_own(link, own));
        ours.try_for_each(|link| {
            let down = [LinkChange::Up(false)];
            netlink.change(link.index, &down).map_err(kernel)?;
            // Under a name that no link of the host has.
            let name = format!("dev{}", link.index);
            let home = [LinkChange::Namespace(host.as_fd()), LinkChange::Name(&name)];
            netlink.change(link.index, &home).map_err(kernel)
        })
    });
    moved.map_err(system("enter the network namespace"))?
}

/// Makes a function what it was, unless somebody else has it by now; whether that is
/// all that can be done.
fn restore(
    host: &mut Netlink,
    device: &str,
    leased: &Leased,
    own: &Alias,
) -> Result<bool, CniError> {
    let function = leased.function();
    // A namespace that has ended gives its links back a moment later.
    let Some(name) = function.link_within(RETURN) else {
        return Ok(!function.is_there());
    };
    let Some(link) = host.link(&name).map_err(kernel)? else {
        return Ok(false);
    };
    if link.alias.is_some() && !is_own(&link, own) {
        return Ok(true);
    }
    if let Some(card) = host.link(device).map_err(kernel)? {
        let vlan = LinkChange::VfVlan {
            vf: leased.number,
            vlan: 0,
        };
        host.change(card.index, &[vlan]).map_err(kernel)?;
    }
    let down = [LinkChange::Up(false), LinkChange::Alias("")];
    host.change(link.index, &down).map_err(kernel)?;
    let mac = leased.mac().map(LinkChange::Mac);
    let mtu = leased.mtu.map(LinkChange::Mtu);
    for change in mac.into_iter().chain(mtu) {
        host.change(link.index, &[change]).map_err(kernel)?;
    }
    if link.name != leased.link && host.link(&leased.link).map_err(kernel)?.is_none() {
        let changes = [LinkChange::Name(&leased.link)];
        host.change(link.index, &changes).map_err(kernel)?;
    }
    Ok(true)
}

fn is_own(link: &Link, own: &Alias) -> bool {
    del::alias_of(link).is_some_and(|it| it == *own)
}
