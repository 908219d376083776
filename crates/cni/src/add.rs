//! ADD: a pod gets its interfaces.
//!
//! Nothing is left behind by one that fails, but what pods share: bridges, VLAN
//! devices, the host's moved addresses and sysctls.

use std::{collections::BTreeSet, io, os::fd::AsFd, path::Path};

use floe_core::{
    cni::{
        error::{CniError, Code},
        result::Outcome,
    },
    node::{
        names::{alias, host_veth},
        nic::{InUse, Nic, Routing, plan_beside},
    },
};
use floe_net::{
    announce,
    netlink::{Link, Netlink, NetlinkError, NewKind, NewLink},
    netns::Netns,
};

use crate::{
    addresses::Addresses,
    ask::{self, Question},
    fail::{append, fail, kernel, link_gone, system, unmade},
    host_side,
    plugin::{Plugin, Side},
    pod::{self, Ready, Task},
    proxies::{self, Proxies},
    reach,
    request::Request,
};

pub use self::{high_mac::high_mac, outcome::outcome};

mod high_mac;
mod outcome;

/// Attaches a pod.
pub fn add(plugin: &dyn Plugin, request: &Request<'_>) -> Result<Outcome, CniError> {
    let netns = open(request)?;
    let mut host = Netlink::open().map_err(kernel)?;
    // Before anything is taken from an IPAM plugin.
    plugin.parent(&mut host)?;
    let addresses = Addresses::gather(request)?;
    let mut attempt = Attempt {
        plugin,
        request,
        netns: &netns,
        host: &mut host,
        alias: alias(
            &request.conf.name,
            &request.call.container,
            &request.call.ifname,
        ),
        made: Made::default(),
    };
    attempt.attach(&addresses).map_err(|mut error| {
        for failed in attempt.undo(&addresses) {
            append(&mut error, &failed);
        }
        error
    })
}

/// The namespace of the pod, which must not be the host's.
pub fn open(request: &Request<'_>) -> Result<Netns, CniError> {
    let path = &request.call.netns;
    let netns = Netns::open(Path::new(path)).map_err(|error| {
        let message = format!("cannot open the network namespace {path:?}: {error}");
        fail(Code::UnknownContainer, "NetnsNotFound", message)
    })?;
    let current = Netns::current().map_err(system("open the host's network namespace"))?;
    let is_same = netns.is_same(&current);
    if is_same.map_err(system("compare network namespaces"))? {
        let message = format!("{path:?} is the network namespace of the host");
        return Err(fail(Code::InvalidEnvironment, "HostNetns", message));
    }
    Ok(netns)
}

/// The interfaces for these addresses, beside what the pod has already.
pub fn plan(
    request: &Request<'_>,
    netns: &Netns,
    addresses: &Addresses,
    routing: Routing,
) -> Result<Vec<Nic>, CniError> {
    let ifname = &request.call.ifname;
    // A pod with one address that gets its first interface: the usual one.
    let is_plain = addresses.infos.len() == 1 && ifname == "eth0";
    let in_use = if is_plain {
        InUse::default()
    } else {
        let seen = netns.run(in_use);
        seen.map_err(system("enter the network namespace"))??
    };
    let mut nics = plan_beside(&addresses.infos, ifname, routing, &in_use);
    addresses.shape(&mut nics);
    Ok(nics)
}

struct Attempt<'a> {
    plugin: &'a dyn Plugin,
    request: &'a Request<'a>,
    netns: &'a Netns,
    host: &'a mut Netlink,
    alias: String,
    made: Made,
}

/// What this call has made, by name.
#[derive(Default)]
struct Made {
    on_host: Vec<String>,
    in_pod: Vec<String>,
    proxies: bool,
}

impl Attempt<'_> {
    fn attach(&mut self, addresses: &Addresses) -> Result<Outcome, CniError> {
        let nics = plan(self.request, self.netns, addresses, self.plugin.routing())?;
        let places = self.request.places;
        let sides = self.plugin.sides(self.host, places, &nics)?;
        self.ask_on_host(&nics, &sides)?;
        let veths = self.make_links(&nics, &sides)?;
        let ready = self.configure(&nics, &sides, &veths)?;
        self.lead(&nics, &sides, &veths)?;
        self.tell_on_host(&nics, &sides)?;
        Ok(outcome(self.request, addresses, &nics, &veths, &ready))
    }

    /// Asks on the host's devices about addresses whose interfaces cannot. The others
    /// are asked about later, by the pod.
    fn ask_on_host(&mut self, nics: &[Nic], sides: &[Side]) -> Result<(), CniError> {
        let Some(window) = self.plugin.options().window else {
            return Ok(());
        };
        for side in sides {
            reach::network(self.host, side)?;
        }
        let of_host = ask::addresses_of_host(self.host, nics)?;
        let mut questions: Vec<Question> = Vec::new();
        for (nic, side) in nics.iter().zip(sides).filter(|it| !it.1.asks_in_pod()) {
            let (link, ips) = (side.link(), pod::ips(nic));
            if let Some(same) = questions.iter_mut().find(|it| it.link == link.index) {
                same.addresses.extend(ips);
                continue;
            }
            let askers = of_host.iter().filter(|it| it.link == link.index);
            questions.push(Question {
                link: link.index,
                own: link.mac.unwrap_or_default(),
                askers: askers.map(|it| it.net.addr()).collect(),
                addresses: ips,
            });
        }
        ask::ask(&questions, window)
    }

    /// Makes the links of all interfaces, in their place and with their names; the
    /// host's ends of those that have one.
    fn make_links(&mut self, nics: &[Nic], sides: &[Side]) -> Result<Vec<Option<Link>>, CniError> {
        let mut veths = Vec::new();
        for (nic, side) in nics.iter().zip(sides) {
            let host_name = self.host_name(nic);
            let in_pod = NewLink {
                name: &nic.name,
                kind: kind_of(side),
                alias: None,
                mac: (side.has_own_mac() && !side.gets_mac_later(self.plugin.options()))
                    .then_some(nic.mac),
                mtu: side.mtu(self.plugin.options()),
                master: None,
                namespace: Some(self.netns.as_fd()),
                up: false,
            };
            if !side.is_veth() {
                let made = self.host.create(&in_pod);
                made.map_err(taken(nic, None, module_of(side)))?;
                self.made.in_pod.push(nic.name.clone());
                veths.push(None);
                continue;
            }
            let on_host = NewLink {
                name: &host_name,
                mtu: in_pod.mtu,
                kind: NewKind::Veth {
                    peer: Box::new(in_pod),
                },
                alias: Some(&self.alias),
                mac: Some(high_mac()),
                master: match side {
                    Side::Bridged { bridge, .. } => Some(bridge.index),
                    Side::Routed { .. } | Side::Macvlan(_) | Side::Ipvlan(..) => None,
                },
                namespace: None,
                up: true,
            };
            let made = self.host.create(&on_host);
            made.map_err(taken(nic, Some(&host_name), None))?;
            self.made.on_host.push(host_name.clone());
            if matches!(side, Side::Routed { .. }) {
                host_side::skip_kernel_detection(&host_name)?;
            }
            let made = self.host.link(&host_name).map_err(kernel)?;
            veths.push(Some(made.ok_or_else(|| link_gone(&host_name))?));
        }
        Ok(veths)
    }

    fn configure(
        &mut self,
        nics: &[Nic],
        sides: &[Side],
        veths: &[Option<Link>],
    ) -> Result<Vec<Ready>, CniError> {
        let Self { alias, host, .. } = self;
        let options = self.plugin.options();
        let tasks: Vec<Task<'_>> = nics
            .iter()
            .zip(sides.iter().zip(veths))
            .map(|(nic, (side, veth))| Task {
                nic,
                host_end: veth.as_ref(),
                alias,
                asks: side.asks_in_pod(),
                new_mac: side.gets_mac_later(options),
                tells: side.tells_in_pod(),
                is_routed: matches!(side, Side::Routed { .. }),
                waits: reach::CARRIER,
            })
            .collect();
        self.netns
            .run(|| pod::configure(host, &tasks, options.window, options.arp))
            .map_err(system("enter the network namespace"))?
    }

    /// Makes the host lead traffic to interfaces that it routes to.
    fn lead(
        &mut self,
        nics: &[Nic],
        sides: &[Side],
        veths: &[Option<Link>],
    ) -> Result<(), CniError> {
        let mut proxies = Proxies::new(self.request);
        for (nic, side) in nics.iter().zip(sides) {
            if let Side::Routed { device, .. } = side {
                for ip in pod::ips(nic) {
                    proxies.add(&device.name, ip);
                }
            }
        }
        self.made.proxies = proxies.write(self.request)?;
        for (nic, (side, veth)) in nics.iter().zip(sides.iter().zip(veths)) {
            if let (Side::Routed { device, src, .. }, Some(veth)) = (side, veth) {
                host_side::lead(self.host, veth, device, *src, &nic.addresses)?;
            }
        }
        Ok(())
    }

    /// Announces on the host's devices what no pod can announce there.
    fn tell_on_host(&mut self, nics: &[Nic], sides: &[Side]) -> Result<(), CniError> {
        let arp = self.plugin.options().arp;
        for (nic, side) in nics.iter().zip(sides).filter(|it| !it.1.is_on_segment()) {
            let link = side.link();
            if let Some(mac) = link.mac {
                reach::carrier(self.host, link)?;
                announce::tell(link.index, mac, &pod::ips(nic), arp)
                    .map_err(system(format_args!("announce on {}", link.name)))?;
            }
        }
        Ok(())
    }

    fn host_name(&self, nic: &Nic) -> String {
        let suffix = self.plugin.suffix(nic.number);
        host_veth(&self.request.call.container, &suffix)
    }

    /// Removes what was made, as far as possible; what could not be.
    fn undo(&mut self, addresses: &Addresses) -> Vec<CniError> {
        let mut errors = Vec::new();
        for name in &self.made.on_host {
            errors.extend(remove(self.host, name).err());
        }
        if !self.made.in_pod.is_empty() || !self.made.on_host.is_empty() {
            let inside = self.netns.run(|| {
                let mut netlink = Netlink::open().map_err(kernel)?;
                let names = self.made.in_pod.iter();
                let failed = names.filter_map(|name| remove(&mut netlink, name).err());
                let mut failed: Vec<_> = failed.collect();
                failed.extend(pod::sweep_rules(&mut netlink).err());
                Ok(failed)
            });
            match inside.map_err(system("enter the network namespace")) {
                Ok(Ok(failed)) => errors.extend(failed),
                Ok(Err(error)) | Err(error) => errors.push(error),
            }
        }
        if self.made.proxies {
            let own = self.request.attachment();
            errors.extend(proxies::withdraw(self.host, self.request.places, &own).err());
        }
        errors.extend(addresses.undo(self.request));
        errors
    }
}

/// What other attachments of the pod have already: seen from inside.
fn in_use() -> Result<InUse, CniError> {
    let mut netlink = Netlink::open().map_err(kernel)?;
    let links = netlink.links().map_err(kernel)?;
    let rules = netlink.rules().map_err(kernel)?;
    let ours = links.iter().filter(|it| it.alias.is_some());
    let by_name = ours.filter_map(|link| number_of(&link.name));
    let by_rule = rules.iter().filter_map(|rule| {
        let is_own = rule.priority == rule.table && pod::OWN_TABLES.contains(&rule.table);
        let number = rule.table.checked_sub(*pod::OWN_TABLES.start())?;
        usize::try_from(number).ok().filter(|_| is_own)
    });
    let numbers: BTreeSet<usize> = by_name.chain(by_rule).collect();
    Ok(InUse {
        names: links.iter().map(|link| link.name.clone()).collect(),
        numbers,
    })
}

/// The number that ends a name.
fn number_of(name: &str) -> Option<usize> {
    let text = name.trim_end_matches(|last: char| last.is_ascii_digit());
    name[text.len()..].parse().ok()
}

fn kind_of(side: &Side) -> NewKind<'static> {
    match side {
        Side::Macvlan(parent) => NewKind::Macvlan {
            parent: parent.index,
        },
        Side::Ipvlan(parent, mode) => NewKind::Ipvlan {
            parent: parent.index,
            mode: *mode,
        },
        // The kind of a peer is that of its other end.
        Side::Bridged { .. } | Side::Routed { .. } => NewKind::Bridge,
    }
}

/// The module that brings links of a kind, where a kernel can well be without it.
fn module_of(side: &Side) -> Option<&'static str> {
    match side {
        Side::Macvlan(_) => Some("macvlan"),
        Side::Ipvlan(..) => Some("ipvlan"),
        Side::Bridged { .. } | Side::Routed { .. } => None,
    }
}

/// Says more about a name that is in use than the kernel does.
fn taken<'a>(
    nic: &'a Nic,
    host_name: Option<&'a str>,
    module: Option<&'static str>,
) -> impl FnOnce(NetlinkError) -> CniError + 'a {
    move |error| {
        if error.kind() != Some(io::ErrorKind::AlreadyExists) {
            return unmade(module)(error);
        }
        let on_host = host_name.map(|name| format!(", or {name} on the host"));
        let on_host = on_host.unwrap_or_default();
        let message = format!("there is already {} in the pod{on_host}", nic.name);
        fail(Code::Kernel, "LinkNameTaken", message)
    }
}

fn remove(netlink: &mut Netlink, name: &str) -> Result<(), CniError> {
    match netlink.link(name).map_err(kernel)? {
        Some(link) => netlink.remove(link.index).map(drop).map_err(kernel),
        None => Ok(()),
    }
}
