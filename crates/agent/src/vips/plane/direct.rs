//! Addresses that pods have themselves, for as long as this node may serve them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use floe_core::vip::{
    VipId,
    rules::{POD_PULSES, RuleRefusal},
};
use floe_net::{
    announce::{self, ArpForm},
    boottime::{self, Deadline},
    netlink::{LOOPBACK, Netlink, NetlinkError},
    netns::Netns,
    nft::NftError,
    pulse::{self, PulseError},
};
use ipnet::IpNet;
use nix::libc;
use tracing::{debug, warn};

use crate::vips::plan::{Guarded, Links, Loan, Room};
use guards::Guards;

mod guards;

/// How long after each other an address is told. Nobody acknowledges it.
const REPEATS: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
    Duration::from_millis(1500),
];

/// How much longer than it was lent for an address may stay: the kernel looks once in a
/// second, and a little late.
const LATE: Duration = Duration::from_secs(2);

/// Why a pod's network could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// The namespace cannot be entered.
    #[error("cannot enter the namespace of a pod: {0}")]
    Namespace(#[from] io::Error),
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The rules that end the address in time cannot be written there.
    #[error(transparent)]
    Guard(#[from] NftError),
    /// They do not allow the address.
    #[error(transparent)]
    Pulse(#[from] PulseError),
    /// The link has a name that no rule can have.
    #[error(transparent)]
    Link(#[from] RuleRefusal),
}

/// The link of a pod for these addresses: the one whose subnet has one of them, else the
/// one with the pod's own address.
pub fn find(path: &Path, own: &[IpAddr], addresses: &[IpAddr]) -> Result<Option<Room>, RoomError> {
    let Some(netns) = enter(path)? else {
        return Ok(None);
    };
    let found = netns.run(|| -> Result<_, NetlinkError> {
        let mut netlink = Netlink::open()?;
        let there = netlink.addresses(None)?;
        let wide = |net: &IpNet| net.prefix_len() < net.max_prefix_len();
        let near = there.iter().find(|it| {
            wide(&it.net) && it.scope == 0 && addresses.iter().any(|ip| it.net.contains(ip))
        });
        let has = || there.iter().find(|it| own.contains(&it.net.addr()));
        let Some(address) = near.or_else(has) else {
            return Ok(None);
        };
        let all = netlink.links()?;
        let others = all.iter().filter(|it| it.index != LOOPBACK);
        let links: Links = others.map(|it| (it.name.clone(), it.index)).collect();
        let link = all.into_iter().find(|it| it.index == address.link);
        let its = there
            .iter()
            .filter(|it| it.link == address.link && it.scope == 0);
        let wide = its.map(|it| it.net.trunc()).filter(wide);
        let mut subnets: Vec<IpNet> = wide.collect();
        subnets.sort();
        Ok(link.map(|link| (link, links, subnets)))
    })??;
    Ok(found.and_then(|(link, links, subnets)| {
        Some(Room {
            netns: path.to_owned(),
            link: link.index,
            links,
            mac: link.mac?,
            lower: link.parent.filter(|_| link.is_elsewhere),
            nets: subnets,
        })
    }))
}

/// Addresses that are lent.
#[derive(Debug, Default)]
pub struct Loans {
    lent: Vec<Lent>,
    guards: Guards,
}

#[derive(Debug)]
struct Lent {
    loan: Loan,
    /// When the kernel of itself has taken it back at the latest, on the clock of
    /// [`boottime`].
    until: Duration,
    /// Whether nobody is to be told of it any more; nothing: nobody is told.
    over: Option<Arc<AtomicBool>>,
}

/// Objects, each with why a pod's network could not be changed for it.
pub type Failures = BTreeMap<VipId, String>;

impl Loans {
    /// Takes back all but these. All are tried, and tried again with the next order. Returns
    /// those that a pod may still have: none is left when its time has run out.
    pub fn end_others(&mut self, wanted: &[Loan]) -> Failures {
        let now = boottime::now();
        let mut failures = Failures::new();
        // Before the addresses are removed, which does not stop open sockets.
        let open = self.guards.narrow(|netns, ip| {
            let mut loans = wanted.iter();
            loans.any(|it| it.room.netns == netns && it.ip == ip)
        });
        self.lent.retain_mut(|lent| {
            if wanted.contains(&lent.loan) {
                return true;
            }
            if let Some(over) = lent.over.take() {
                over.store(true, Ordering::SeqCst);
            }
            let taken = take_back(&lent.loan).map_err(|error| error.to_string());
            let closed = match open.get(&lent.loan.room.netns) {
                Some(error) => Err(error.to_string()),
                None => Ok(()),
            };
            match taken.and(closed) {
                Err(error) if now < lent.until => {
                    failures.insert(lent.loan.id.clone(), error);
                    true
                }
                Ok(()) | Err(_) => false,
            }
        });
        failures
    }

    /// Lends these until the deadline, and tells the link of those that are new. Their pods, and
    /// those that are prepared, are guarded first. Returns what pods did not get.
    pub fn lend(
        &mut self,
        wanted: &[&Loan],
        guarded: &BTreeMap<PathBuf, Guarded>,
        deadline: &Deadline,
    ) -> Failures {
        let mut failures = Failures::new();
        for (netns, guarded) in guarded {
            let its = wanted.iter().copied().filter(|it| it.room.netns == *netns);
            let its: Vec<&Loan> = its.collect();
            match self.open(netns, guarded, &its, deadline) {
                Ok(true) => {}
                // What it has by an earlier renewal ends by itself.
                Ok(false) => continue,
                Err(error) => {
                    self.guards.doubt(netns);
                    let ids = guarded.ids.iter().cloned();
                    failures.extend(ids.map(|id| (id, error.to_string())));
                    continue;
                }
            }
            for loan in its {
                let Some(left) = deadline.left() else { break };
                if let Err(error) = self.lend_one(loan, left, deadline) {
                    self.guards.doubt(netns);
                    failures.insert(loan.id.clone(), error.to_string());
                }
            }
        }
        failures
    }

    /// Forgets namespaces that are gone.
    pub fn tidy(&mut self) {
        self.guards.tidy();
    }

    /// Lets a pod speak for addresses until the deadline, also if it gets them late. Returns
    /// whether it may.
    fn open(
        &mut self,
        path: &Path,
        guarded: &Guarded,
        loans: &[&Loan],
        deadline: &Deadline,
    ) -> Result<bool, RoomError> {
        let lent: BTreeSet<IpAddr> = loans.iter().map(|it| it.ip).collect();
        let until = deadline.get();
        if !lent.is_empty() && until <= boottime::now() {
            return Ok(false);
        }
        for is_last in [false, true] {
            self.guards.put(path, &guarded.links, lent.clone())?;
            let Some(netns) = enter(path)?.filter(|_| !lent.is_empty()) else {
                return Ok(false);
            };
            match netns.run(|| pulse::OF_PODS.keep(&POD_PULSES, until))? {
                Ok(()) => return Ok(true),
                Err(error @ PulseError::TooLate) => {
                    let reason = error.reason();
                    warn!(reason, %error, "a pod falls silent until the next renewal");
                    return Ok(false);
                }
                // The namespace may have been replaced, or the rules removed by another program.
                Err(PulseError::Netlink(error))
                    if !is_last && error.errno() == Some(libc::ENOENT) =>
                {
                    self.guards.doubt(path);
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(false)
    }

    fn lend_one(
        &mut self,
        loan: &Loan,
        left: Duration,
        deadline: &Deadline,
    ) -> Result<(), RoomError> {
        let until = || boottime::now() + left + LATE;
        // Noted first: what fails half-way is taken back all the same.
        let known = self.lent.iter().position(|it| it.loan == *loan);
        let index = known.unwrap_or_else(|| {
            self.lent.push(Lent {
                loan: loan.clone(),
                until: until(),
                over: None,
            });
            self.lent.len() - 1
        });
        let Some(netns) = enter(&loan.room.netns)? else {
            return Ok(());
        };
        let link = loan.room.link;
        let outcome = netns.run(|| Netlink::open()?.lend_address(link, loan.ip, left))?;
        let noted = &mut self.lent[index];
        // The kernel counts from when it read the message, which may have been late.
        noted.until = until();
        if outcome? && noted.over.is_none() {
            let over = Arc::<AtomicBool>::default();
            tell(loan.clone(), deadline.clone(), Arc::clone(&over));
            noted.over = Some(over);
        }
        Ok(())
    }
}

fn take_back(loan: &Loan) -> Result<(), RoomError> {
    let Some(netns) = enter(&loan.room.netns)? else {
        return Ok(());
    };
    let (link, net) = (loan.room.link, IpNet::from(loan.ip));
    netns.run(|| Netlink::open()?.remove_address(link, net))??;
    Ok(())
}

/// Tells the link some times, as long as the deadline has not passed.
fn tell(loan: Loan, deadline: Deadline, over: Arc<AtomicBool>) {
    let work = move || {
        let Ok(Some(netns)) = enter(&loan.room.netns) else {
            return;
        };
        for after in REPEATS {
            thread::sleep(after);
            if over.load(Ordering::SeqCst) || deadline.left().is_none() {
                return;
            }
            let Room { link, mac, .. } = loan.room;
            let told = netns.run(|| announce::tell(link, mac, &[loan.ip], ArpForm::Request));
            if let Err(error) = told.flatten() {
                debug!(%error, ip = %loan.ip, "cannot tell an address of a pod");
            }
        }
    };
    let started = thread::Builder::new().name("tells".to_owned()).spawn(work);
    if let Err(error) = started {
        debug!(%error, "cannot tell an address of a pod");
    }
}

/// A pod's namespace; one that is gone took all that was in it along.
fn enter(path: &Path) -> Result<Option<Netns>, RoomError> {
    let netns = match Netns::open(path) {
        Ok(netns) => netns,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    // The host's own links are not a pod's.
    if netns.is_same(&Netns::current()?)? {
        return Err(io::Error::other("it is the namespace of the host").into());
    }
    Ok(Some(netns))
}

#[cfg(test)]
mod tests;
