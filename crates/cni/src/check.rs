//! CHECK and STATUS: is a pod as it should be, and could another one be attached?

use std::net::IpAddr;

use floe_core::{
    cni::error::{CniError, Code},
    node::{
        names::Alias,
        nic::{Nic, Routing, plan},
    },
};
use floe_net::netlink::{Address, Link, LinkKind, Netlink, Route, Rule};

use crate::{
    add,
    addresses::{self, Addresses},
    del::alias_of,
    fail::{fail, kernel, system},
    plugin::{Plugin, parent_down},
    pod,
    request::Request,
};

/// Whether a pod is as ADD has left it.
pub fn check(plugin: &dyn Plugin, request: &Request<'_>) -> Result<(), CniError> {
    let seen = in_pod(request, plugin.routing())?;
    let mut host = Netlink::open().map_err(kernel)?;
    let links = host.links().map_err(kernel)?;
    let own = own(request);
    let veths = links
        .iter()
        .filter(|link| alias_of(link).is_some_and(|it| it == own));
    let veths: Vec<&Link> = veths.collect();
    if veths.len() < seen.veths || veths.iter().any(|veth| !veth.is_up) {
        return Err(wrong("the host's end of an interface is missing or down"));
    }
    check_host(&mut host, &veths, &seen.nics)?;
    addresses::forward(request, "CHECK")
}

/// Whether pods could be attached now.
pub fn status(plugin: &dyn Plugin, request: &Request<'_>) -> Result<(), CniError> {
    let mut host = Netlink::open().map_err(kernel)?;
    carrier(&plugin.parent(&mut host)?)?;
    addresses::forward(request, "STATUS")
}

/// Whether a link carries frames.
pub fn carrier(link: &Link) -> Result<(), CniError> {
    if link.has_carrier {
        return Ok(());
    }
    Err(parent_down(format!("device {} has no carrier", link.name)))
}

/// An attachment that is right in its pod.
pub struct Seen {
    /// Its interfaces.
    nics: Vec<Nic>,
    /// How many of them are veths.
    veths: usize,
}

/// Whether the pod's half is as ADD has left it.
pub fn in_pod(request: &Request<'_>, routing: Routing) -> Result<Seen, CniError> {
    let ifname = &request.call.ifname;
    let netns = add::open(request)?;
    let addresses = Addresses::recall(request)?;
    let mut nics = plan(&addresses.infos, ifname, routing);
    addresses.shape(&mut nics);
    let own = own(request);
    let seen = netns.run(|| Pod::look(&own));
    let pod = seen.map_err(system("enter the network namespace"))??;
    pod.check(&nics, ifname)?;
    let is_veth = |link: &&Link| link.kind == LinkKind::Veth;
    Ok(Seen {
        nics,
        veths: pod.links.iter().filter(is_veth).count(),
    })
}

fn own(request: &Request<'_>) -> Alias {
    let call = request.call;
    Alias::new(&request.conf.name, &call.container, &call.ifname)
}

/// What an attachment has in its pod.
struct Pod {
    links: Vec<Link>,
    addresses: Vec<Address>,
    routes: Vec<Route>,
    rules: Vec<Rule>,
}

impl Pod {
    fn look(own: &Alias) -> Result<Self, CniError> {
        let mut netlink = Netlink::open().map_err(kernel)?;
        let mut links = netlink.links().map_err(kernel)?;
        links.retain(|link| alias_of(link).is_some_and(|it| it == *own));
        Ok(Self {
            links,
            addresses: netlink.addresses(None).map_err(kernel)?,
            routes: netlink.routes().map_err(kernel)?,
            rules: netlink.rules().map_err(kernel)?,
        })
    }

    /// Interfaces are found by their addresses: the names of further ones depend on
    /// what else the pod had when they were made.
    fn check(&self, nics: &[Nic], ifname: &str) -> Result<(), CniError> {
        for (place, nic) in nics.iter().enumerate() {
            let link = self.check_addresses(nic)?;
            if place == 0 && link.name != ifname {
                let ip = nic.addresses[0].ip;
                return Err(wrong(format!("{ip} is on {}, not on {ifname}", link.name)));
            }
            if !link.is_up {
                return Err(wrong(format!("{} is down", link.name)));
            }
            if link.kind != LinkKind::Ipvlan && link.mac != Some(nic.mac) {
                let mac = nic.mac;
                return Err(wrong(format!("{} has not the MAC {mac}", link.name)));
            }
            for wanted in &nic.routes {
                let has = |it: &&Route| {
                    it.link == link.index && it.dst == wanted.dst && it.gateway == wanted.gateway
                };
                if !self.routes.iter().any(|it| has(&it)) {
                    let (name, dst) = (&link.name, wanted.dst);
                    return Err(wrong(format!("{name} has no route to {dst}")));
                }
            }
            for wanted in pod::rules(nic) {
                if !self.rules.iter().any(|it| it.from == wanted.from) {
                    return Err(wrong(format!("there is no rule from {}", wanted.from)));
                }
            }
        }
        Ok(())
    }

    /// The link that has all addresses of an interface.
    fn check_addresses(&self, nic: &Nic) -> Result<&Link, CniError> {
        let mut found: Option<&Link> = None;
        for info in &nic.addresses {
            let link = self.links.iter().find(|link| {
                let mut addresses = self.addresses.iter();
                addresses.any(|it| it.link == link.index && it.net == info.ip)
            });
            match (found, link) {
                (_, None) => {
                    let message = format!("no interface of this attachment has {}", info.ip);
                    return Err(wrong(message));
                }
                (Some(first), Some(other)) if first.index != other.index => {
                    let (ip, first, other) = (info.ip, &first.name, &other.name);
                    return Err(wrong(format!("{ip} is on {other}, not on {first}")));
                }
                (_, link) => found = link,
            }
        }
        found.ok_or_else(|| wrong("an interface has no address"))
    }
}

/// Veths that are in no bridge have the host's routes to their addresses.
fn check_host(host: &mut Netlink, veths: &[&Link], nics: &[Nic]) -> Result<(), CniError> {
    let is_bridged = |veth: &&Link| veth.master.is_some();
    if veths.is_empty() || veths.iter().any(is_bridged) {
        return Ok(());
    }
    let routes = host.routes().map_err(kernel)?;
    let leads = |ip: IpAddr| {
        let mut routes = routes.iter();
        routes.any(|it| it.dst == ip.into() && veths.iter().any(|veth| veth.index == it.link))
    };
    let mut ips = nics.iter().flat_map(pod::ips);
    match ips.find(|ip| !leads(*ip)) {
        Some(ip) => Err(wrong(format!("the host has no route to {ip}"))),
        None => Ok(()),
    }
}

fn wrong(message: impl Into<String>) -> CniError {
    fail(Code::CheckFailed, "CheckFailed", message.into())
}

#[cfg(test)]
mod tests;
