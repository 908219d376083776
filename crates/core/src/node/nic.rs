//! The interfaces of a pod, planned from its addresses.

use std::{
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::names;
use crate::{announce::Mac, ipam::args::IpInfo};

/// An interface to make in a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its name in the pod.
    pub name: String,
    /// The number that ends the names of its devices on the host.
    pub number: usize,
    /// The VLAN; 0 is untagged.
    pub vlan: u16,
    /// The hardware address that moves with its first address.
    pub mac: Mac,
    /// Its addresses: one of each family at most.
    pub addresses: Vec<IpInfo>,
    /// Routes in the main table, to be added in this order, after the addresses.
    /// The subnets of the addresses are not among them: the kernel adds those.
    pub routes: Vec<NicRoute>,
    /// Routes in the interface's own table, for what is sent from its addresses.
    /// `None` when the pod has no other interface.
    pub own_table: Option<OwnTable>,
}

/// A route through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicRoute {
    /// Where to.
    pub dst: IpNet,
    /// The next hop; without it the destination is on the link.
    pub gateway: Option<IpAddr>,
}

/// The routing table that traffic from an interface's addresses uses, so that each
/// address answers through its own interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTable {
    /// The number of the table.
    pub table: u32,
    /// The priority of the rules that lead to it, one from each address.
    pub priority: u32,
    /// Its routes, to be added in this order.
    pub routes: Vec<NicRoute>,
}

/// Which routes a further address gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Routing {
    /// galaxy-k8s-vlan: of exactly two, the first leaves the default route to the
    /// second and takes the private networks.
    Vlan,
    /// galaxy-underlay-veth: only the first has a default route, the others reach
    /// their own subnet.
    Underlay,
}

/// What other attachments of the same container have already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// Names of interfaces in the pod.
    pub names: BTreeSet<String>,
    /// Numbers of devices on the host, see [`names::HostVeth::number`], and of
    /// routing tables in the pod, see [`Nic::number`].
    pub numbers: BTreeSet<usize>,
}

/// The interfaces for these addresses, the first one named `ifname`; see
/// [`plan_beside`].
pub fn plan(addresses: &[IpInfo], ifname: &str, routing: Routing) -> Vec<Nic> {
    plan_beside(addresses, ifname, routing, &InUse::default())
}

/// The interfaces for these addresses, in a pod that may have others.
///
/// - The first address is on `ifname`. A further one joins the first interface of
///   its VLAN that has no address of its family; otherwise it gets its own
///   interface: `eth1`, `eth2`, and so on, whatever is free.
/// - The number of an interface is the one that ends its name, or the next that is
///   free. So the devices of two networks of one pod do not collide.
/// - With several interfaces in the pod, each that is made here has its own routing
///   table. The main one leads to whoever came first.
/// - In the main table the first address of each family has the default route,
///   except with [`Routing::Vlan`] and exactly two IPv4 addresses: there the second
///   has it, and the first has the private networks.
///
/// An unspecified gateway, and one of another family, is none. An address that is
/// named twice counts once.
///
/// # Guarantees
/// Names, numbers and hardware addresses are unique. Every address is on exactly one
/// interface, and no family has two default routes in the main table.
pub fn plan_beside(
    addresses: &[IpInfo],
    ifname: &str,
    routing: Routing,
    in_use: &InUse,
) -> Vec<Nic> {
    let mut nics: Vec<Nic> = Vec::new();
    let mut in_use = in_use.clone();
    let is_alone = in_use.names.iter().all(|name| name == LOOPBACK);
    for info in once_each(addresses) {
        let room = nics.iter_mut().find(|nic| has_room(nic, &info));
        if let Some(nic) = room {
            nic.addresses.push(info);
            continue;
        }
        let name = if nics.is_empty() {
            ifname.to_owned()
        } else {
            free_name(&in_use.names)
        };
        let number = free_number(&name, &in_use.numbers);
        in_use.names.insert(name.clone());
        in_use.numbers.insert(number);
        nics.push(Nic {
            name,
            number,
            vlan: info.vlan,
            mac: free_mac(&info, &nics),
            addresses: vec![info],
            routes: Vec::new(),
            own_table: None,
        });
    }
    for (info, routes) in main_routes(&once_each(addresses), routing) {
        if let Some(nic) = nics.iter_mut().find(|nic| nic.addresses.contains(&info)) {
            nic.routes.extend(routes);
        }
    }
    if nics.len() > 1 || !is_alone {
        for nic in &mut nics {
            nic.own_table = Some(own_table(nic.number, &nic.addresses));
        }
    }
    nics
}

/// The interface that every pod has.
const LOOPBACK: &str = "lo";

/// The number of the first own table, and the priority of its rules.
const FIRST_TABLE: u32 = 1000;

/// The highest number that the name of an interface can ask for.
const MAX_ASKED: usize = 99;

/// Where the first of two IPv4 addresses leads.
const PRIVATE: [IpNet; 3] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(10, 0, 0, 0), 8)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 16, 0, 0), 12)),
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(192, 168, 0, 0), 16)),
];

/// The addresses without repetitions.
fn once_each(addresses: &[IpInfo]) -> Vec<IpInfo> {
    let mut seen = BTreeSet::new();
    let mut kept = addresses.to_vec();
    kept.retain(|info| seen.insert(info.ip.addr()));
    kept
}

fn has_room(nic: &Nic, info: &IpInfo) -> bool {
    nic.vlan == info.vlan && !nic.addresses.iter().any(|other| same_family(other, info))
}

fn same_family(one: &IpInfo, other: &IpInfo) -> bool {
    one.ip.addr().is_ipv4() == other.ip.addr().is_ipv4()
}

/// The first of `eth1`, `eth2`, ... that is free.
fn free_name(taken: &BTreeSet<String>) -> String {
    // One more than there are taken ones: one of them is free.
    (1..=taken.len() + 1)
        .map(|number| format!("eth{number}"))
        .find(|name| !taken.contains(name))
        .unwrap_or_default()
}

/// The number that ends the name, or the next one that is free.
fn free_number(name: &str, taken: &BTreeSet<usize>) -> usize {
    let text = name.trim_end_matches(|last: char| last.is_ascii_digit());
    let asked = name[text.len()..].parse().ok();
    let first = asked.filter(|asked| *asked <= MAX_ASKED).unwrap_or(0);
    (first..=first + taken.len())
        .find(|number| !taken.contains(number))
        .unwrap_or(first)
}

/// The hardware address of the address. Two IPv6 addresses can end alike; the
/// second of them gets one that differs in its first byte, by 4, which leaves it
/// one for a single host and of local meaning.
fn free_mac(info: &IpInfo, nics: &[Nic]) -> Mac {
    let mut mac = names::mac_of(info.ip.addr());
    for _ in nics {
        if nics.iter().any(|nic| nic.mac == mac) {
            mac.0[0] = mac.0[0].wrapping_add(4);
        }
    }
    mac
}

/// Which address brings which routes into the main table.
fn main_routes(addresses: &[IpInfo], routing: Routing) -> Vec<(IpInfo, Vec<NicRoute>)> {
    let of_family = |v4: bool| {
        addresses
            .iter()
            .filter(move |info| info.ip.addr().is_ipv4() == v4)
    };
    let with_default = |info: &IpInfo| (*info, via(info, &[default_of(info)]));
    let v4: Vec<&IpInfo> = of_family(true).collect();
    let mut all = Vec::new();
    match v4[..] {
        // Compat: galaxy's rule for two addresses.
        [first, second] if routing == Routing::Vlan && gateway(second).is_some() => {
            all.push((*first, via(first, &PRIVATE)));
            all.push(with_default(second));
        }
        _ => all.extend(
            of_family(true)
                .find(|info| gateway(info).is_some())
                .map(with_default),
        ),
    }
    all.extend(
        of_family(false)
            .find(|info| gateway(info).is_some())
            .map(with_default),
    );
    all
}

fn own_table(number: usize, addresses: &[IpInfo]) -> OwnTable {
    let number = u32::try_from(number).unwrap_or(u32::MAX);
    let table = FIRST_TABLE.saturating_add(number);
    let mut routes = Vec::new();
    for info in addresses {
        if info.ip.prefix_len() < info.ip.max_prefix_len() {
            routes.push(NicRoute {
                dst: info.ip.trunc(),
                gateway: None,
            });
        }
        routes.extend(via(info, &[default_of(info)]));
    }
    OwnTable {
        table,
        priority: table,
        routes,
    }
}

/// Routes to these networks through the address's gateway. A gateway outside the
/// subnet has to be made reachable first, or the kernel refuses it.
fn via(info: &IpInfo, networks: &[IpNet]) -> Vec<NicRoute> {
    let Some(gateway) = gateway(info) else {
        return Vec::new();
    };
    let near = match gateway {
        IpAddr::V4(_) => false,
        IpAddr::V6(gateway) => gateway.is_unicast_link_local(),
    };
    let mut routes = Vec::new();
    if !near && !info.ip.contains(&gateway) {
        routes.push(NicRoute {
            dst: IpNet::from(gateway),
            gateway: None,
        });
    }
    routes.extend(networks.iter().map(|dst| NicRoute {
        dst: *dst,
        gateway: Some(gateway),
    }));
    routes
}

/// The gateway of an address, if it has one that can be used.
fn gateway(info: &IpInfo) -> Option<IpAddr> {
    let usable =
        !info.gateway.is_unspecified() && info.gateway.is_ipv4() == info.ip.addr().is_ipv4();
    usable.then_some(info.gateway)
}

/// Everywhere, in the family of an address.
fn default_of(info: &IpInfo) -> IpNet {
    match info.ip {
        IpNet::V4(_) => IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0)),
        IpNet::V6(_) => IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0)),
    }
}

#[cfg(test)]
mod tests;
