//! `galaxy-k8s-sriov`: a pod gets a virtual function of a card.
//!
//! The function is a link of the host that moves into the pod and back. Its card
//! puts it into the VLAN, so that the pod cannot leave it.

use std::{
    io,
    os::fd::AsFd,
    path::Path,
    time::{Duration, Instant},
};

use floe_core::{
    cni::{
        call::Command,
        config::{Attachment, NetConf},
        error::{CniError, Code},
        result::Outcome,
    },
    node::{
        names::{Alias, alias},
        nic::{Nic, Routing},
    },
};
use floe_net::{
    lock::Lock,
    netlink::{Link, LinkChange, Netlink},
    netns::Netns,
};

use self::{
    card::{Card, Function},
    lease::{Lease, Leased},
};
use crate::{
    add,
    addresses::{self, Addresses},
    check, del,
    fail::{append, fail, invalid, kernel, link_gone, system, unclean},
    plugin::{self, Options},
    pod::{self, Task},
    request::{Places, Request},
};

mod card;
mod lease;

/// How many functions are used of a card, unless configured.
const USUAL: u32 = 256;

/// How long a function may take to see the network.
const CARRIER: Duration = Duration::from_secs(30);

/// How long a function may take to come back from a namespace that has ended.
const RETURN: Duration = Duration::from_secs(5);

/// Does what a call asks for; what is to be printed. Clean-up needs nothing of the
/// configuration.
pub fn run(request: &Request<'_>) -> Result<String, CniError> {
    let plugin = || Sriov::parse(request.conf);
    match request.call.command {
        Command::Add => {
            let outcome = plugin()?.add(request)?;
            return Ok(outcome.to_text(request.conf.version));
        }
        Command::Del => del(request)?,
        Command::Gc => gc(request)?,
        Command::Check => {
            check::in_pod(request, Routing::Vlan)?;
            addresses::forward(request, "CHECK")?;
        }
        Command::Status => plugin()?.status(request)?,
        Command::Version => {}
    }
    Ok(String::new())
}

/// The plugin with its configuration.
#[derive(Debug, PartialEq, Eq)]
struct Sriov {
    options: Options,
    device: String,
    most: u32,
}

impl Sriov {
    fn parse(conf: &NetConf) -> Result<Self, CniError> {
        let device: Option<String> = conf.member("device")?;
        let Some(device) = device.filter(|it| !it.is_empty()) else {
            return Err(invalid("a device is needed to use sriov plugin"));
        };
        let most: Option<i64> = conf.member("vf_num")?;
        let most = most.and_then(|it| u32::try_from(it).ok());
        Ok(Self {
            options: Options::parse(conf)?,
            device,
            // Compat: zero and less is no number.
            most: most.filter(|it| *it > 0).unwrap_or(USUAL),
        })
    }

    fn add(&self, request: &Request<'_>) -> Result<Outcome, CniError> {
        let netns = add::open(request)?;
        let mut host = Netlink::open().map_err(kernel)?;
        let card = self.parent(&mut host)?;
        let addresses = Addresses::gather(request)?;
        let attached = self.attach(request, &netns, &mut host, &card, &addresses);
        attached.map_err(|mut error| {
            let returned = give_back(&mut host, request.places, &request.attachment());
            for failed in returned.err().into_iter().chain(addresses.undo(request)) {
                append(&mut error, &failed);
            }
            error
        })
    }

    fn status(&self, request: &Request<'_>) -> Result<(), CniError> {
        let mut host = Netlink::open().map_err(kernel)?;
        check::carrier(&self.parent(&mut host)?)?;
        addresses::forward(request, "STATUS")
    }

    fn parent(&self, host: &mut Netlink) -> Result<Link, CniError> {
        plugin::first_parent(host, std::slice::from_ref(&self.device))
    }

    fn attach(
        &self,
        request: &Request<'_>,
        netns: &Netns,
        host: &mut Netlink,
        card: &Link,
        addresses: &Addresses,
    ) -> Result<Outcome, CniError> {
        let nics = add::plan(request, netns, addresses, Routing::Vlan)?;
        let (leased, _turns) = self.lease(request, host, nics.len())?;
        let alias = alias(
            &request.conf.name,
            &request.call.container,
            &request.call.ifname,
        );
        for (nic, leased) in nics.iter().zip(&leased) {
            self.hand_over(host, card, netns, nic, leased, &alias)?;
        }
        let tasks: Vec<Task<'_>> = nics
            .iter()
            .map(|nic| Task {
                nic,
                alias: &alias,
                asks: true,
                new_mac: true,
                tells: true,
                is_routed: false,
                waits: Some(CARRIER),
            })
            .collect();
        let ready = netns
            .run(|| pod::configure(&tasks, self.options.window, self.options.arp))
            .map_err(system("enter the network namespace"))??;
        for leased in &leased {
            leased.function().spread_interrupts();
        }
        let mut outcome = add::outcome(request, addresses, &nics, &vec![None; nics.len()], &ready);
        for (interface, leased) in outcome.interfaces.iter_mut().zip(&leased) {
            interface.pci_id = Some(leased.pci.clone());
        }
        Ok(outcome)
    }

    /// Takes functions that nobody has, and writes down that this attachment has
    /// them. While the locks are held no other call takes them.
    fn lease(
        &self,
        request: &Request<'_>,
        host: &mut Netlink,
        count: usize,
    ) -> Result<(Vec<Leased>, Vec<Lock>), CniError> {
        let places = request.places;
        let functions = {
            let _alone = places.lock()?;
            Card::of(&self.device).functions(self.most)?
        };
        let mut taken = Vec::new();
        let mut turns = Vec::new();
        for function in functions {
            if taken.len() == count {
                break;
            }
            let Some((link, turn)) = free(places, host, &function)? else {
                continue;
            };
            turns.push(turn);
            taken.push(Leased {
                number: function.number,
                pci: function.pci,
                link: link.name,
                mac: link.mac.map(|mac| mac.0),
            });
        }
        if taken.len() < count {
            let message = format!("no free virtual function is left on device {}", self.device);
            return Err(fail(Code::TryAgainLater, "NoFreeFunction", message));
        }
        let lease = Lease {
            network: request.conf.name.clone(),
            kind: request.conf.kind.clone(),
            device: self.device.clone(),
            netns: request.call.netns.clone(),
            functions: taken.clone(),
        };
        lease::notes(places).write(&request.attachment(), &lease)?;
        Ok((taken, turns))
    }

    /// Puts a function into its VLAN and into the pod.
    fn hand_over(
        &self,
        host: &mut Netlink,
        card: &Link,
        netns: &Netns,
        nic: &Nic,
        leased: &Leased,
        alias: &str,
    ) -> Result<(), CniError> {
        let vlan = LinkChange::VfVlan {
            vf: leased.number,
            vlan: nic.vlan,
        };
        host.change(card.index, &[vlan]).map_err(kernel)?;
        let link = host.link(&leased.link).map_err(kernel)?;
        let link = link.ok_or_else(|| link_gone(&leased.link))?;
        let down = [LinkChange::Up(false), LinkChange::Alias(alias)];
        host.change(link.index, &down).map_err(kernel)?;
        if let Some(mtu) = self.options.mtu {
            let changes = [LinkChange::Mtu(mtu)];
            host.change(link.index, &changes).map_err(kernel)?;
        }
        let away = [
            LinkChange::Namespace(netns.as_fd()),
            LinkChange::Name(&nic.name),
        ];
        host.change(link.index, &away).map_err(kernel)
    }
}

/// DEL: the functions come back, also those of an ADD that was cut off.
fn del(request: &Request<'_>) -> Result<(), CniError> {
    let mut errors = Vec::new();
    match Netlink::open() {
        Ok(mut host) => {
            errors.extend(give_back(&mut host, request.places, &request.attachment()).err());
        }
        Err(error) => errors.push(kernel(error)),
    }
    errors.extend(addresses::forward(request, "DEL").err());
    unclean(errors)
}

/// GC: the functions of attachments that are not valid any more come back.
fn gc(request: &Request<'_>) -> Result<(), CniError> {
    let valid = del::valid(request)?;
    let mut host = Netlink::open().map_err(kernel)?;
    let mut errors = Vec::new();
    let notes = lease::notes(request.places);
    for attachment in notes.all()? {
        if valid.contains(&attachment) {
            continue;
        }
        let lease = notes.read(&attachment);
        let is_ours = |lease: &Lease| lease.network == request.conf.name;
        match lease {
            Ok(lease) if lease.as_ref().is_some_and(is_ours) => {
                errors.extend(give_back(&mut host, request.places, &attachment).err());
            }
            Ok(_) => {}
            Err(error) => errors.push(error),
        }
    }
    errors.extend(addresses::forward(request, "GC").err());
    unclean(errors)
}

/// The link of a function that nobody has, and the turn to use it.
fn free(
    places: &Places,
    host: &mut Netlink,
    function: &Function,
) -> Result<Option<(Link, Lock)>, CniError> {
    let path = places.run.join("functions").join(&function.pci);
    let turn = match Lock::take(&path, Instant::now()) {
        Ok(turn) => turn,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
        Err(error) => return Err(system(format_args!("lock {}", path.display()))(error)),
    };
    let Some(name) = function.link() else {
        return Ok(None);
    };
    let link = host.link(&name).map_err(kernel)?;
    Ok(link.map(|link| (link, turn)))
}

/// Takes functions out of the pod, and gives them back to the host as they were.
fn give_back(host: &mut Netlink, places: &Places, attachment: &Attachment) -> Result<(), CniError> {
    let notes = lease::notes(places);
    let Some(lease) = notes.read::<Lease>(attachment)? else {
        return Ok(());
    };
    let own = Alias::new(&lease.network, &attachment.container, &attachment.ifname);
    let mut errors = Vec::new();
    if let Err(error) = recall(&lease, &own) {
        errors.push(error);
    }
    for leased in &lease.functions {
        errors.extend(restore(host, &lease.device, leased, &own).err());
    }
    if errors.is_empty() {
        notes.remove(attachment)?;
    }
    unclean(errors)
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

/// Makes a function what it was, unless somebody else has it by now.
fn restore(host: &mut Netlink, device: &str, leased: &Leased, own: &Alias) -> Result<(), CniError> {
    // A namespace that has ended gives its links back a moment later.
    let name = leased.function().link_within(RETURN);
    let link = match &name {
        Some(name) => host.link(name).map_err(kernel)?,
        None => None,
    };
    let Some(link) = link else {
        // It is where nobody can reach it, and comes back by itself.
        return Ok(());
    };
    if link.alias.is_some() && !is_own(&link, own) {
        return Ok(());
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
    if let Some(mac) = leased.mac() {
        let changes = [LinkChange::Mac(mac)];
        host.change(link.index, &changes).map_err(kernel)?;
    }
    if link.name != leased.link && host.link(&leased.link).map_err(kernel)?.is_none() {
        let changes = [LinkChange::Name(&leased.link)];
        host.change(link.index, &changes).map_err(kernel)?;
    }
    Ok(())
}

fn is_own(link: &Link, own: &Alias) -> bool {
    del::alias_of(link).is_some_and(|it| it == *own)
}
