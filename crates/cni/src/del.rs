//! DEL and GC: a pod loses its interfaces, and nothing else.

use std::{io, path::Path};

use floe_core::{
    cni::{
        config::Attachment,
        error::{CniError, Code},
    },
    node::names::{Alias, HostVeth},
};
use floe_net::{
    netlink::{Link, LinkKind, Netlink},
    netns::Netns,
};

use crate::{
    addresses,
    fail::{kernel, system, unclean},
    pod, proxies,
    request::Request,
};

/// Detaches a pod. What is gone already is no error, and what fails keeps nothing
/// else from being removed.
pub fn del(request: &Request<'_>) -> Result<(), CniError> {
    let call = request.call;
    let own = Alias::new(&request.conf.name, &call.container, &call.ifname);
    let mut errors = Vec::new();
    match inside(request) {
        Ok(Some(netns)) => {
            let removed = netns.run(|| {
                let mut errors = Vec::new();
                match Netlink::open() {
                    Ok(mut netlink) => {
                        remove_all(&mut netlink, &mut errors, |link| {
                            is_own(link, &own) || is_galaxys_in_pod(link, &call.ifname)
                        });
                        errors.extend(pod::sweep_rules(&mut netlink).err());
                    }
                    Err(error) => errors.push(kernel(error)),
                }
                errors
            });
            match removed {
                Ok(failed) => errors.extend(failed),
                Err(error) => errors.push(system("enter the network namespace")(error)),
            }
        }
        Ok(None) => {}
        Err(error) => errors.push(error),
    }
    match Netlink::open() {
        Ok(mut host) => {
            let attachment = request.attachment();
            errors.extend(proxies::withdraw(&mut host, request.places, &attachment).err());
            remove_all(&mut host, &mut errors, |link| {
                is_own(link, &own) || is_galaxys_on_host(link, &call.container)
            });
        }
        Err(error) => errors.push(kernel(error)),
    }
    errors.extend(addresses::forward(request, "DEL").err());
    unclean(errors)
}

/// Removes what belongs to attachments of this network that are not valid any more.
pub fn gc(request: &Request<'_>) -> Result<(), CniError> {
    let network = &request.conf.name;
    let valid = valid(request)?;
    let is_valid = |alias: &Alias| {
        let mut valid = valid.iter();
        valid.any(|it| *alias == Alias::new(network, &it.container, &it.ifname))
    };
    let mut errors = Vec::new();
    let mut host = Netlink::open().map_err(kernel)?;
    remove_all(&mut host, &mut errors, |link| {
        alias_of(link).is_some_and(|alias| alias.is_of_network(network) && !is_valid(&alias))
    });
    match proxies::of_network(request.places, network) {
        Ok(written) => {
            for stale in written.iter().filter(|it| !valid.contains(it)) {
                errors.extend(proxies::withdraw(&mut host, request.places, stale).err());
            }
        }
        Err(error) => errors.push(error),
    }
    errors.extend(addresses::forward(request, "GC").err());
    unclean(errors)
}

/// The attachments that a GC leaves alone.
pub fn valid<'a>(request: &Request<'a>) -> Result<&'a [Attachment], CniError> {
    // Without the list everything would go.
    request.conf.valid_attachments.as_deref().ok_or_else(|| {
        let message = "GC needs cni.dev/valid-attachments";
        CniError::of(Code::InvalidConfiguration, message)
    })
}

/// Whose a link is.
pub fn alias_of(link: &Link) -> Option<Alias> {
    Alias::parse(link.alias.as_deref()?)
}

/// The pod's namespace, if it is still there.
fn inside(request: &Request<'_>) -> Result<Option<Netns>, CniError> {
    let path = &request.call.netns;
    if path.is_empty() {
        return Ok(None);
    }
    let netns = match Netns::open(Path::new(path)) {
        Ok(netns) => netns,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(system(format_args!("open {path:?}"))(error)),
    };
    let current = Netns::current().map_err(system("open the host's network namespace"))?;
    let is_same = netns.is_same(&current);
    if is_same.map_err(system("compare network namespaces"))? {
        // No pod has it, and links without an alias could be the host's own.
        return Ok(None);
    }
    Ok(Some(netns))
}

fn is_own(link: &Link, own: &Alias) -> bool {
    alias_of(link).is_some_and(|alias| alias == *own)
}

/// Compat: links that galaxy made have no alias, only its names.
fn is_galaxys_on_host(link: &Link, container: &str) -> bool {
    link.alias.is_none()
        && link.kind == LinkKind::Veth
        && HostVeth::parse(&link.name)
            .is_some_and(|veth| veth.number().is_some() && veth.is_of(container))
}

/// Compat: the same inside of the pod.
fn is_galaxys_in_pod(link: &Link, ifname: &str) -> bool {
    link.alias.is_none()
        && link.name == ifname
        && matches!(
            link.kind,
            LinkKind::Veth | LinkKind::Macvlan | LinkKind::Ipvlan
        )
}

fn remove_all(netlink: &mut Netlink, errors: &mut Vec<CniError>, goes: impl Fn(&Link) -> bool) {
    match netlink.links() {
        Ok(links) => {
            for link in links.iter().filter(|link| goes(link)) {
                errors.extend(netlink.remove(link.index).err().map(kernel));
            }
        }
        Err(error) => errors.push(kernel(error)),
    }
}

#[cfg(test)]
mod tests;
