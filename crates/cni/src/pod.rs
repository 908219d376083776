//! The pod's half: an interface that was born in its namespace gets what it needs.
//!
//! Everything here runs on a thread inside the namespace, with one connection to the
//! kernel.

use std::{
    net::IpAddr,
    ops::RangeInclusive,
    time::{Duration, Instant},
};

use floe_core::{
    announce::Mac,
    cni::error::{CniError, Code},
    ipam::args::IpInfo,
    node::nic::{Nic, NicRoute},
};
use floe_net::{
    announce::{self, ArpForm},
    netlink::{Address, Link, LinkChange, Netlink, NetlinkError, Route, Rule},
};
use ipnet::IpNet;
use nix::libc;

use crate::{
    ask::{self, Question},
    fail::{kernel, link_gone, system},
    host_side::{self, set, set_if_there},
    plugin::parent_down,
    reach,
};

const SCOPE_LINK: u8 = 253;
const SCOPE_WORLD: u8 = 0;
/// The table that every packet without a rule of its own takes.
pub const TABLE_MAIN: u32 = 254;
const PROTOCOL_BOOT: u8 = 3;

/// The tables that interfaces of a pod have for themselves; each has the number of
/// its interface behind the first one.
pub const OWN_TABLES: RangeInclusive<u32> = 1000..=1999;

/// What is to be done with one interface.
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate fact"
)]
pub struct Task<'a> {
    /// The interface.
    pub nic: &'a Nic,
    /// Its other end on the host, if it is a veth.
    pub host_end: Option<&'a Link>,
    /// Its alias.
    pub alias: &'a str,
    /// Whether it asks if somebody uses its addresses.
    pub asks: bool,
    /// Whether it gets the hardware address that belongs to its address only now:
    /// while it asks, it has a random one, see `floe_core::announce::probe`.
    pub new_mac: bool,
    /// Whether it announces its addresses.
    pub tells: bool,
    /// Whether everything of IPv6 goes through the gateway, because nobody else is
    /// seen through this interface.
    pub is_routed: bool,
    /// How long it may take to carry frames, if it has something to say.
    pub waits: Duration,
}

/// What an interface has become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ready {
    /// Its hardware address.
    pub mac: Option<Mac>,
    /// Its MTU.
    pub mtu: u32,
    /// Its routes of the main table, without those that another interface has already.
    pub routes: Vec<NicRoute>,
}

/// Sets up the interfaces of a pod. On an error they stay as they are. `host` is a
/// connection about the host's namespace.
pub fn configure(
    host: &mut Netlink,
    tasks: &[Task<'_>],
    window: Option<Duration>,
    arp: ArpForm,
) -> Result<Vec<Ready>, CniError> {
    let mut netlink = Netlink::open().map_err(kernel)?;
    let mut links = Vec::new();
    for task in tasks {
        let found = netlink.link(&task.nic.name).map_err(kernel)?;
        let link = found.ok_or_else(|| link_gone(&task.nic.name))?;
        prepare(task)?;
        let changes = [LinkChange::Alias(task.alias), LinkChange::Up(true)];
        netlink.change(link.index, &changes).map_err(kernel)?;
        links.push(link);
    }
    for (task, link) in tasks.iter().zip(&links) {
        if task.tells || (task.asks && window.is_some()) {
            open(&mut netlink, host, task, link)?;
        }
    }
    if let Some(window) = window {
        ask::ask(&questions(tasks, &links), window)?;
    }
    let mut ready = Vec::new();
    for (task, link) in tasks.iter().zip(&links) {
        ready.push(settle(&mut netlink, task, link)?);
    }
    for (task, (link, ready)) in tasks.iter().zip(links.iter().zip(&ready)) {
        if let (true, Some(mac)) = (task.tells, ready.mac) {
            announce::tell(link.index, mac, &ips(task.nic), arp)
                .map_err(system(format_args!("announce {}", task.nic.name)))?;
        }
    }
    Ok(ready)
}

/// The addresses of an interface.
pub fn ips(nic: &Nic) -> Vec<IpAddr> {
    nic.addresses.iter().map(|it| it.ip.addr()).collect()
}

/// The routes that an interface has in a table.
pub fn routes(nic: &Nic, link: u32, is_routed: bool) -> Vec<Route> {
    let main = nic.routes.iter().map(|it| (TABLE_MAIN, it));
    let own = nic.own_table.iter();
    let own = own.flat_map(|own| own.routes.iter().map(|it| (own.table, it)));
    let mut routes = Vec::new();
    if is_routed {
        let v6 = nic.addresses.iter().filter(|it| it.ip.addr().is_ipv6());
        let own_table = nic.own_table.as_ref().map(|own| own.table);
        for info in v6.filter(|it| !it.gateway.is_unspecified()) {
            for table in [Some(TABLE_MAIN), own_table].into_iter().flatten() {
                let gateway = NicRoute {
                    dst: IpNet::from(info.gateway),
                    gateway: None,
                };
                routes.push(route(nic, link, table, &gateway));
            }
        }
    }
    for (table, it) in main.chain(own) {
        let mut it = *it;
        // Nobody but the gateway is seen there.
        if is_routed && it.gateway.is_none() && it.dst.addr().is_ipv6() {
            it.gateway = own_of(nic, &it.dst).map(|info| info.gateway);
        }
        routes.push(route(nic, link, table, &it));
    }
    routes
}

/// The rules that lead to an interface's own table.
pub fn rules(nic: &Nic) -> Vec<Rule> {
    let Some(own) = &nic.own_table else {
        return Vec::new();
    };
    let rules = nic.addresses.iter().map(|info| Rule {
        priority: own.priority,
        from: IpNet::from(info.ip.addr()),
        table: own.table,
    });
    rules.collect()
}

/// Removes the rules of interfaces that are gone. Their routes went with them, so a
/// rule is one of these when its table is empty.
pub fn sweep_rules(netlink: &mut Netlink) -> Result<(), CniError> {
    let mut rules = netlink.rules().map_err(kernel)?;
    rules.retain(|rule| rule.priority == rule.table && OWN_TABLES.contains(&rule.table));
    if rules.is_empty() {
        return Ok(());
    }
    let routes = netlink.routes().map_err(kernel)?;
    for rule in rules {
        if !routes.iter().any(|route| route.table == rule.table) {
            netlink.remove_rule(&rule).map_err(kernel)?;
        }
    }
    Ok(())
}

/// Sysctls that must be set before the interface is up.
fn prepare(task: &Task<'_>) -> Result<(), CniError> {
    let name = &task.nic.name;
    let has_others = task.nic.own_table.is_some();
    for name in ["all", name] {
        set(&format!("net/ipv4/conf/{name}/rp_filter"), "0")?;
        if has_others {
            // Each interface answers for its own addresses, and only with them.
            set(&format!("net/ipv4/conf/{name}/arp_ignore"), "1")?;
            set(&format!("net/ipv4/conf/{name}/arp_announce"), "2")?;
        }
    }
    if task.nic.addresses.iter().any(|it| it.ip.addr().is_ipv6()) {
        set(&format!("net/ipv6/conf/{name}/disable_ipv6"), "0")?;
    }
    // A kernel without IPv6 has none of these.
    set_if_there(&format!("net/ipv6/conf/{name}/accept_ra"), "0")?;
    if task.is_routed {
        host_side::skip_kernel_detection(name)?;
    }
    if task.new_mac {
        // The link-local address comes from the hardware address: not from this one.
        set_if_there(&format!("net/ipv6/conf/{name}/addr_gen_mode"), "1")?;
    }
    Ok(())
}

/// Waits until what an interface sends is not lost on its way to the host.
fn open(
    netlink: &mut Netlink,
    host: &mut Netlink,
    task: &Task<'_>,
    link: &Link,
) -> Result<(), CniError> {
    let deadline = Instant::now() + task.waits;
    let carries = netlink.wait_for_carrier(link.index, deadline);
    if !carries.map_err(kernel)? {
        return Err(parent_down(format!("{} has no carrier", link.name)));
    }
    task.host_end.map_or(Ok(()), |end| reach::end(host, end))
}

fn questions(tasks: &[Task<'_>], links: &[Link]) -> Vec<Question> {
    let pairs = tasks.iter().zip(links).filter(|(task, _)| task.asks);
    let questions = pairs.map(|(task, link)| Question {
        link: link.index,
        own: link.mac.unwrap_or_default(),
        askers: Vec::new(),
        addresses: ips(task.nic),
    });
    questions.collect()
}

/// Gives an interface its hardware address, addresses and routes.
fn settle(netlink: &mut Netlink, task: &Task<'_>, link: &Link) -> Result<Ready, CniError> {
    let nic = task.nic;
    let mut mac = link.mac;
    if task.new_mac {
        let changes = [LinkChange::Mac(nic.mac)];
        netlink.change(link.index, &changes).map_err(kernel)?;
        mac = Some(nic.mac);
        set_if_there(&format!("net/ipv6/conf/{}/addr_gen_mode", nic.name), "0")?;
    }
    for info in &nic.addresses {
        let added = netlink.add_address(&Address {
            link: link.index,
            net: info.ip,
            scope: SCOPE_WORLD,
            no_prefix_route: task.is_routed && info.ip.addr().is_ipv6(),
            is_temporary: false,
        });
        added.map_err(|error| unadded(info, error))?;
    }
    let mut elsewhere = Vec::new();
    for route in routes(nic, link.index, task.is_routed) {
        // One that is there already is as good. It belongs to another interface.
        let is_new = netlink.add_route(&route).map_err(kernel)?;
        if !is_new && route.table == TABLE_MAIN {
            elsewhere.push(route.dst);
        }
    }
    for rule in rules(nic) {
        netlink.add_rule(&rule).map_err(kernel)?;
    }
    let own = nic.routes.iter().filter(|it| !elsewhere.contains(&it.dst));
    Ok(Ready {
        mac,
        mtu: link.mtu,
        routes: own.copied().collect(),
    })
}

/// The kernel itself keeps two ipvlans of one device from having the same address.
fn unadded(info: &IpInfo, error: NetlinkError) -> CniError {
    if error.errno() != Some(libc::EADDRINUSE) {
        return kernel(error);
    }
    let message = format!(
        "{} is already in use: another pod of this host has it",
        info.ip.addr()
    );
    CniError::of(Code::AddressConflict, message)
}

fn route(nic: &Nic, link: u32, table: u32, it: &NicRoute) -> Route {
    let is_v4 = it.dst.addr().is_ipv4();
    let is_far = |gateway: IpAddr| {
        let is_local = matches!(gateway, IpAddr::V6(ip) if ip.is_unicast_link_local());
        let mut nets = nic.addresses.iter().map(|info| info.ip);
        !is_local && !nets.any(|net| net.contains(&gateway))
    };
    Route {
        dst: it.dst,
        gateway: it.gateway,
        link,
        src: None,
        table,
        metric: 0,
        protocol: PROTOCOL_BOOT,
        scope: if is_v4 && it.gateway.is_none() {
            SCOPE_LINK
        } else {
            SCOPE_WORLD
        },
        // A gateway outside of the network of the address, as in clouds.
        on_link: it.gateway.is_some_and(is_far),
    }
}

/// The address whose network this is.
fn own_of<'a>(nic: &'a Nic, dst: &IpNet) -> Option<&'a IpInfo> {
    nic.addresses.iter().find(|it| it.ip.trunc() == *dst)
}

#[cfg(test)]
mod tests;
