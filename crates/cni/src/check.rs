//! CHECK and STATUS: is a pod as it should be, and could another one be attached?

use floe_core::{
    cni::error::{CniError, Code},
    node::{
        names::Alias,
        nic::{InUse, Nic, Routing, plan_beside},
    },
};
use floe_net::netlink::{Address, Link, LinkKind, Neighbour, Netlink, Route, Rule};

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
    let is_routed = |nic: &Nic| plugin.is_routed(nic.vlan);
    let found = in_pod(request, plugin.routing(), is_routed)?;
    let mut host = Netlink::open().map_err(kernel)?;
    let seen = Host::look(&mut host)?;
    let own = own(request);
    for it in &found {
        if let Some(end) = it.host_end {
            seen.check(&own, end, &it.nic, is_routed(&it.nic))?;
        }
    }
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

/// An interface that is right in its pod.
pub struct Found {
    /// The interface.
    pub nic: Nic,
    /// The index of its other end on the host, if it is a veth.
    host_end: Option<u32>,
}

/// Whether the pod's half is as ADD has left it.
pub fn in_pod(
    request: &Request<'_>,
    routing: Routing,
    is_routed: impl Fn(&Nic) -> bool,
) -> Result<Vec<Found>, CniError> {
    let ifname = &request.call.ifname;
    let netns = add::open(request)?;
    let addresses = Addresses::recall(request)?;
    let mut nics = plan_beside(&addresses.infos, ifname, routing, &others());
    addresses.shape(&mut nics);
    let own = own(request);
    let seen = netns.run(|| Pod::look(&own));
    let pod = seen.map_err(system("enter the network namespace"))??;
    let ends = pod.check(&nics, ifname, is_routed)?;
    let found = nics.into_iter().zip(ends);
    Ok(found
        .map(|(nic, host_end)| Found { nic, host_end })
        .collect())
}

/// Whether an interface has a table of its own depends on what else the pod had when it
/// was made. With one planned for each, what is found can be compared.
fn others() -> InUse {
    InUse {
        names: ["another".to_owned()].into(),
        ..InUse::default()
    }
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
    /// what else the pod had when they were made. The other ends of those that are veths.
    fn check(
        &self,
        nics: &[Nic],
        ifname: &str,
        is_routed: impl Fn(&Nic) -> bool,
    ) -> Result<Vec<Option<u32>>, CniError> {
        let mut ends = Vec::new();
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
            let wanted = pod::routes(nic, link.index, is_routed(nic));
            let is_first = self.check_main_routes(link, &wanted)?;
            if nics.len() > 1 || !is_first {
                self.check_own_table(link, nic, &wanted)?;
            }
            let is_veth = link.kind == LinkKind::Veth;
            ends.push(link.parent.filter(|_| is_veth && link.is_elsewhere));
        }
        Ok(ends)
    }

    /// Whether the main table leads where it should, and, if it does, all the way through
    /// this link: who came first to a pod has a route that several want.
    fn check_main_routes(&self, link: &Link, wanted: &[Route]) -> Result<bool, CniError> {
        let mut is_first = true;
        for wanted in wanted.iter().filter(|it| it.table == pod::TABLE_MAIN) {
            if self.routes.iter().any(|it| is_same(it, wanted)) {
                continue;
            }
            let is_led = |it: &Route| it.table == wanted.table && it.dst == wanted.dst;
            let mut others = self.routes.iter().filter(|it| it.link != link.index);
            if !others.any(is_led) {
                let (name, dst) = (&link.name, wanted.dst);
                return Err(wrong(format!("{name} has no route to {dst}")));
            }
            is_first = false;
        }
        Ok(is_first)
    }

    /// Whether what is sent from the addresses of an interface leaves through it.
    fn check_own_table(&self, link: &Link, nic: &Nic, wanted: &[Route]) -> Result<(), CniError> {
        for rule in pod::rules(nic) {
            let is_it = |it: &&Rule| {
                it.from == rule.from
                    && it.priority == it.table
                    && pod::OWN_TABLES.contains(&it.table)
            };
            let Some(found) = self.rules.iter().find(is_it) else {
                return Err(wrong(format!("there is no rule from {}", rule.from)));
            };
            let is_v4 = rule.from.addr().is_ipv4();
            let of_rule = |it: &&Route| it.table == rule.table && it.dst.addr().is_ipv4() == is_v4;
            for wanted in wanted.iter().filter(of_rule) {
                let (name, dst, table) = (&link.name, wanted.dst, found.table);
                let wanted = Route { table, ..*wanted };
                if !self.routes.iter().any(|it| is_same(it, &wanted)) {
                    let message = format!("{name} has no route to {dst} in table {table}");
                    return Err(wrong(message));
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

/// What the host has of its pods.
struct Host {
    links: Vec<Link>,
    routes: Vec<Route>,
    proxies: Vec<Neighbour>,
}

impl Host {
    fn look(host: &mut Netlink) -> Result<Self, CniError> {
        let mut proxies = host.neighbours().map_err(kernel)?;
        proxies.retain(|it| it.is_proxy);
        Ok(Self {
            links: host.links().map_err(kernel)?,
            routes: host.routes().map_err(kernel)?,
            proxies,
        })
    }

    /// Whether the host's end of a veth is in its bridge or, if the host routes to it, all
    /// that leads there.
    fn check(&self, own: &Alias, end: u32, nic: &Nic, is_routed: bool) -> Result<(), CniError> {
        let is_it = |it: &&Link| it.index == end && alias_of(it).is_some_and(|it| it == *own);
        let veth = self.links.iter().find(is_it).filter(|it| it.is_up);
        let Some(veth) = veth else {
            return Err(wrong("the host's end of an interface is missing or down"));
        };
        if !is_routed {
            let message = || wrong(format!("{} is in no bridge", veth.name));
            return veth.master.map(drop).ok_or_else(message);
        }
        for info in &nic.addresses {
            let ip = info.ip.addr();
            let leads = |it: &Route| it.link == end && it.dst == ip.into();
            if !self.routes.iter().any(leads) {
                return Err(wrong(format!("the host has no route to {ip}")));
            }
            if ip.is_ipv4() {
                continue;
            }
            // On its device for the pod, and towards the pod for the gateway.
            if !self.proxies.iter().any(|it| it.ip == ip && it.link != end) {
                return Err(wrong(format!("the host does not answer for {ip}")));
            }
            let gateway = info.gateway;
            let answers = |it: &Neighbour| it.ip == gateway && it.link == end;
            if !gateway.is_unspecified() && !self.proxies.iter().any(answers) {
                let message = format!("the host does not answer for the gateway {gateway}");
                return Err(wrong(message));
            }
        }
        Ok(())
    }
}

fn is_same(found: &Route, wanted: &Route) -> bool {
    let key = |it: &Route| (it.link, it.table, it.dst, it.gateway);
    key(found) == key(wanted)
}

/// A pod that is not as it should be.
pub fn wrong(message: impl Into<String>) -> CniError {
    fail(Code::CheckFailed, "CheckFailed", message.into())
}

#[cfg(test)]
mod tests;
