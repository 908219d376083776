//! Taking an address off a pod that has lost it, while the pod stays as it is.
//!
//! The pod then no longer answers for the address, and the host no longer answers
//! or routes for it. Nothing else of the pod changes: what the runtime tears down
//! later is still there.

use std::{
    collections::BTreeSet,
    io,
    net::IpAddr,
    path::{Path, PathBuf},
};

use floe_core::node::names::{Alias, HostVeth};
use ipnet::IpNet;

use crate::{
    netlink::{Link, LinkChange, LinkKind, Netlink, NetlinkError},
    netns::Netns,
};

/// Where an address is to be taken off.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The address.
    pub ip: IpAddr,
    /// The container that has it.
    pub container: String,
    /// The namespace of the container; unknown in what galaxy attached.
    pub netns: Option<PathBuf>,
}

/// What was taken off, one sentence for each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removed(pub Vec<String>);

/// Why an address could not be taken off wholly.
#[derive(Debug, thiserror::Error)]
pub enum TakeOffError {
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The namespace cannot be entered.
    #[error("cannot enter {}: {error}", path.display())]
    Namespace {
        /// Its path.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// The namespace is not known, and there is no cable that could be pulled.
    #[error("the namespace of {0} is not known, and no link of the host leads there")]
    OutOfReach(String),
}

/// Takes an address off, in this thread's namespace as the host. What is not there is
/// no error, so it may be called again and again. All steps are tried: what was
/// removed and what failed both come back.
pub fn take_off(target: &Target) -> (Removed, Vec<TakeOffError>) {
    let mut removed = Removed::default();
    let mut failed = Vec::new();
    // First the pod, which answers; what the host still routes there ends in silence.
    if let Some(path) = &target.netns {
        match in_namespace(target.ip, path) {
            Ok(done) => removed.0.extend(done),
            Err(error) => failed.push(error),
        }
    }
    if let Err(error) = on_host(target, &mut removed.0, &mut failed) {
        failed.push(error.into());
    }
    (removed, failed)
}

/// The addresses that are configured in a namespace; `None` if the namespace is gone.
pub fn addresses_in(path: &Path) -> io::Result<Option<BTreeSet<IpAddr>>> {
    let namespace = match Netns::open(path) {
        Ok(namespace) => namespace,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let all = namespace.run(|| Netlink::open()?.addresses(None))?;
    let all = all.map_err(io::Error::other)?;
    Ok(Some(
        all.iter().map(|it| it.net.addr().to_canonical()).collect(),
    ))
}

/// A namespace that is gone took all that was in it along.
fn in_namespace(ip: IpAddr, path: &Path) -> Result<Vec<String>, TakeOffError> {
    let failed = |error| TakeOffError::Namespace {
        path: path.to_path_buf(),
        error,
    };
    let namespace = match Netns::open(path) {
        Ok(namespace) => namespace,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    // A path that leads to the host's own namespace is not a pod's: a node that
    // loses its own address is worse than anything that could be mended here.
    let host = Netns::current().map_err(failed)?;
    if namespace.is_same(&host).map_err(failed)? {
        let error = io::Error::other("it is the namespace of the host");
        return Err(failed(error));
    }
    let done = namespace.run(|| from_links(ip)).map_err(failed)?;
    Ok(done?)
}

fn from_links(ip: IpAddr) -> Result<Vec<String>, NetlinkError> {
    let mut netlink = Netlink::open()?;
    let mut done = Vec::new();
    for address in netlink.addresses(None)? {
        if address.net.addr() == ip && netlink.remove_address(address.link, address.net)? {
            let link = netlink.link_at(address.link)?;
            let name = link.map_or_else(|| "?".to_owned(), |link| link.name);
            done.push(format!("address {} of {name} in the pod", address.net));
        }
    }
    Ok(done)
}

/// An error is one after which nothing more can be tried.
fn on_host(
    target: &Target,
    done: &mut Vec<String>,
    failed: &mut Vec<TakeOffError>,
) -> Result<(), NetlinkError> {
    let mut netlink = Netlink::open()?;
    let links = netlink.links()?;
    let name_of = |index: u32| {
        let link = links.iter().find(|link| link.index == index);
        link.map_or_else(|| "?".to_owned(), |link| link.name.clone())
    };
    let ours: Vec<&Link> = links
        .iter()
        .filter(|link| is_of(link, &target.container))
        .collect();
    let is_ours = |link: u32| ours.iter().any(|it| it.index == link);
    let whole = IpNet::from(target.ip);
    let routes = netlink.routes()?;
    let (own, others): (Vec<_>, Vec<_>) = routes
        .iter()
        .filter(|route| route.dst == whole)
        .partition(|route| is_ours(route.link));
    // Proxy entries name no pod. They are this pod's unless the host routes the address
    // to another one by now. Whether it still routes it to this one does not matter: a
    // link that goes down takes its IPv6 routes along.
    if !ours.is_empty() && others.is_empty() {
        for entry in netlink.neighbours()? {
            if !entry.is_proxy || entry.ip != target.ip {
                continue;
            }
            match netlink.remove_neighbour(&entry) {
                Ok(true) => done.push(format!("proxy entry {whole} of {}", name_of(entry.link))),
                Ok(false) => {}
                Err(error) => failed.push(error.into()),
            }
        }
    }
    for route in own {
        match netlink.remove_route(route) {
            Ok(true) => done.push(format!("route {whole} through {}", name_of(route.link))),
            Ok(false) => {}
            Err(error) => failed.push(error.into()),
        }
    }
    if target.netns.is_none() {
        if ours.is_empty() {
            failed.push(TakeOffError::OutOfReach(target.container.clone()));
        }
        // The pod itself cannot be told, so its cable is pulled: it was replaced, and
        // silence is better than two that answer.
        for link in ours.iter().filter(|link| link.is_up) {
            match netlink.change(link.index, &[LinkChange::Up(false)]) {
                Ok(()) => done.push(format!("link {} set down", link.name)),
                Err(error) => failed.push(error.into()),
            }
        }
    }
    Ok(())
}

/// Whether a link of the host belongs to a container: by its alias or, if galaxy made
/// it, by its name.
fn is_of(link: &Link, container: &str) -> bool {
    match &link.alias {
        Some(alias) => Alias::parse(alias).is_some_and(|alias| alias.is_of_container(container)),
        None => {
            link.kind == LinkKind::Veth
                && HostVeth::parse(&link.name).is_some_and(|veth| veth.is_of(container))
        }
    }
}
