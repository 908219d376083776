//! `galaxy-k8s-sriov`: a pod gets a virtual function of a card.
//!
//! The function is a link of the host that moves into the pod and back. Its card
//! puts it into the VLAN, so that the pod cannot leave it.

use std::{io, os::fd::AsFd, time::Duration};

use floe_core::{
    cni::{
        call::Command,
        config::NetConf,
        error::{CniError, Code},
        result::Outcome,
    },
    node::{
        names::alias,
        nic::{Nic, Routing},
    },
};
use floe_net::{
    lock::Lock,
    netlink::{Link, LinkChange, Netlink},
    netns::Netns,
};

use self::{
    back::give_back,
    card::{Card, Function},
    lease::{Lease, Leased},
};
use crate::{
    add,
    addresses::{self, Addresses},
    ask,
    check::{self, Found},
    del,
    fail::{append, fail, invalid, kernel, link_gone, system, unclean},
    plugin::{self, Options},
    pod::{self, Task},
    request::{Places, Request},
};

mod back;
mod card;
mod lease;

/// How many functions are used of a card, unless configured.
const USUAL: u32 = 256;

/// How long a function may take to see the network.
const CARRIER: Duration = Duration::from_secs(30);

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
            let found = check::in_pod(request, Routing::Vlan, |_| false)?;
            check_card(request, &found)?;
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
        let attachment = request.attachment();
        if lease::notes(request.places).has(&attachment) {
            // They are at work in a pod, or DEL has to bring them back.
            let message = "this attachment has virtual functions already";
            return Err(fail(Code::Kernel, "LinkNameTaken", message));
        }
        let addresses = Addresses::gather(request)?;
        let mut turns = Vec::new();
        let attached = self.attach(request, &netns, &mut host, &card, &addresses, &mut turns);
        attached.map_err(|mut error| {
            // Without a turn this call has taken nothing.
            let returned = if turns.is_empty() {
                Ok(())
            } else {
                give_back(&mut host, request.places, &attachment, turns)
            };
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
        turns: &mut Vec<Lock>,
    ) -> Result<Outcome, CniError> {
        let nics = add::plan(request, netns, addresses, Routing::Vlan)?;
        if self.options.window.is_some() {
            ask::addresses_of_host(host, &nics)?;
        }
        let leased;
        (leased, *turns) = self.lease(request, host, nics.len())?;
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
                host_end: None,
                alias: &alias,
                asks: true,
                new_mac: true,
                tells: true,
                is_routed: false,
                waits: CARRIER,
            })
            .collect();
        let ready = netns
            .run(|| pod::configure(host, &tasks, self.options.window, self.options.arp))
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
            let _alone = places.lock_card(&self.device)?;
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
                mtu: Some(link.mtu),
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
            functions: taken,
        };
        let lease = lease.replace_others(places, &request.attachment())?;
        Ok((lease.functions, turns))
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
        // One that came back late is not called as it was.
        let name = leased.function().link();
        let name = name.ok_or_else(|| link_gone(&leased.link))?;
        let link = host.link(&name).map_err(kernel)?;
        let link = link.ok_or_else(|| link_gone(&name))?;
        let down = [LinkChange::Up(false), LinkChange::Alias(alias)];
        host.change(link.index, &down).map_err(kernel)?;
        if self.options.window.is_some() {
            // One that came back by itself may still have that of a pod.
            let changes = [LinkChange::Mac(add::high_mac())];
            host.change(link.index, &changes).map_err(kernel)?;
        }
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
            let attachment = request.attachment();
            errors.extend(give_back(&mut host, request.places, &attachment, Vec::new()).err());
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
                let places = request.places;
                errors.extend(give_back(&mut host, places, &attachment, Vec::new()).err());
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
    let turn = match lease::turn(places, &function.pci, Duration::ZERO) {
        Ok(turn) => turn,
        Err(error) if error.kind() == io::ErrorKind::TimedOut => return Ok(None),
        Err(error) => return Err(system(format_args!("lock {}", function.pci))(error)),
    };
    let Some(name) = function.link() else {
        return Ok(None);
    };
    let link = host.link(&name).map_err(kernel)?;
    Ok(link.map(|link| (link, turn)))
}

/// CHECK of what only the card knows.
fn check_card(request: &Request<'_>, found: &[Found]) -> Result<(), CniError> {
    let lease: Option<Lease> = lease::notes(request.places).read(&request.attachment())?;
    let lease = lease.filter(|it| it.functions.len() == found.len());
    let lease = lease.ok_or_else(|| check::wrong("its virtual functions are not noted"))?;
    let mut host = Netlink::open().map_err(kernel)?;
    let card = host.link(&lease.device).map_err(kernel)?;
    let card = card.ok_or_else(|| check::wrong(format!("there is no {}", lease.device)))?;
    let vlans = host.function_vlans(card.index).map_err(kernel)?;
    for (leased, found) in lease.functions.iter().zip(found) {
        let (number, wanted) = (leased.number, found.nic.vlan);
        if vlans.get(&number) != Some(&wanted) {
            let message = format!("function {number} of {} is not in VLAN {wanted}", card.name);
            return Err(check::wrong(message));
        }
    }
    Ok(())
}
