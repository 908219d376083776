//! VLAN devices of the host, which all pods of a VLAN share.

use floe_core::{
    cni::error::{CniError, Code},
    node::moves::VLAN_ALIAS,
};
use floe_net::netlink::{Link, LinkKind, Netlink, NewKind, NewLink};

use crate::{
    fail::{fail, kernel, link_gone, unmade},
    host_side::up,
    request::Places,
};

/// The VLAN device of `parent` with this id, which is made if it is not there, and up.
/// `prefix` and the id are its name then.
pub fn ensure(
    host: &mut Netlink,
    places: &Places,
    parent: &Link,
    id: u16,
    prefix: &str,
) -> Result<Link, CniError> {
    let name = format!("{prefix}{id}");
    if let Some(link) = of_parent(host, parent, id, &name)? {
        return up(host, link);
    }
    let _lock = places.lock()?;
    // Somebody may have made it meanwhile.
    if let Some(link) = of_parent(host, parent, id, &name)? {
        return up(host, link);
    }
    let made = host.create(&NewLink {
        name: &name,
        kind: NewKind::Vlan {
            parent: parent.index,
            id,
        },
        alias: Some(VLAN_ALIAS),
        mac: None,
        mtu: None,
        master: None,
        namespace: None,
        up: true,
    });
    made.map_err(unmade(Some("8021q")))?;
    let found = host.link(&name).map_err(kernel)?;
    found.ok_or_else(|| link_gone(&name))
}

/// The only VLAN device of the host with this id, up.
pub fn only(host: &mut Netlink, id: u16) -> Result<Link, CniError> {
    let links = host.links().map_err(kernel)?;
    let found = links
        .into_iter()
        .filter(|link| link.kind == LinkKind::Vlan { id });
    let mut found: Vec<_> = found.collect();
    // Compat: galaxy's words.
    let message = match (found.len(), found.pop()) {
        (1, Some(link)) => return up(host, link),
        (0, _) => format!("no vlan device with vlanID {id}"),
        (count, _) => format!("found {count} device with same vlanID {id}"),
    };
    Err(fail(Code::NotAvailable, "NoVlanDevice", message))
}

fn of_parent(
    host: &mut Netlink,
    parent: &Link,
    id: u16,
    name: &str,
) -> Result<Option<Link>, CniError> {
    let is_it = |link: &Link| {
        link.kind == LinkKind::Vlan { id }
            && link.parent == Some(parent.index)
            && !link.is_elsewhere
    };
    // Nearly always it has the usual name, and then there is no need to see all links.
    let named = host.link(name).map_err(kernel)?;
    if named.as_ref().is_some_and(is_it) {
        return Ok(named);
    }
    let links = host.links().map_err(kernel)?;
    let found = links.into_iter().find(is_it);
    if found.is_none() && named.is_some() {
        let message = format!(
            "{name} is there already, and is not the VLAN {id} of {}",
            parent.name
        );
        return Err(fail(Code::Kernel, "LinkNameTaken", message));
    }
    Ok(found)
}
