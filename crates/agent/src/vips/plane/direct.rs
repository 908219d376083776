//! Addresses that pods have themselves, for as long as this node may serve them.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    net::IpAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use floe_core::vip::{
    VipId,
    rules::{POD_PULSES, POD_TICKET, RuleRefusal},
};
use floe_net::{
    announce::{self, ArpForm},
    boottime::{self, Deadline},
    netlink::{Netlink, NetlinkError},
    netns::Netns,
    nft::NftError,
    pulse::{self, PulseError},
};
use ipnet::IpNet;
use tracing::debug;

use crate::vips::plan::{Loan, Room};
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
        let link = netlink.link_at(address.link)?;
        let its = there
            .iter()
            .filter(|it| it.link == address.link && it.scope == 0);
        let wide = its.map(|it| it.net.trunc()).filter(wide);
        let mut subnets: Vec<IpNet> = wide.collect();
        subnets.sort();
        Ok(link.map(|link| (link, subnets)))
    })??;
    Ok(found.and_then(|(link, subnets)| {
        Some(Room {
            netns: path.to_owned(),
            link: link.index,
            name: link.name,
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
pub type Failures = BTreeMap<VipId, RoomError>;

impl Loans {
    /// Takes back all but these. All are tried, and tried again with the next order. Returns
    /// those that a pod may still have: none is left when its time has run out.
    pub fn end_others(&mut self, wanted: &[Loan]) -> Failures {
        let now = boottime::now();
        let mut failures = Failures::new();
        self.close_others(wanted);
        self.lent.retain_mut(|lent| {
            if wanted.contains(&lent.loan) {
                return true;
            }
            if let Some(over) = lent.over.take() {
                over.store(true, Ordering::SeqCst);
            }
            match take_back(&lent.loan) {
                Err(error) if now < lent.until => {
                    failures.insert(lent.loan.id.clone(), error);
                    true
                }
                Ok(()) | Err(_) => false,
            }
        });
        failures
    }

    /// Lends these until the deadline, and tells the link of those that are new. Returns
    /// those that a pod did not get.
    pub fn lend<'a>(
        &mut self,
        wanted: impl IntoIterator<Item = &'a Loan>,
        deadline: &Deadline,
    ) -> Failures {
        let mut failures = Failures::new();
        for loan in wanted {
            let Some(left) = deadline.left() else { break };
            let until = boottime::now() + left + LATE;
            // Noted first: what fails half-way is taken back all the same.
            let known = self.lent.iter().position(|it| it.loan == *loan);
            let index = known.unwrap_or_else(|| {
                self.lent.push(Lent {
                    loan: loan.clone(),
                    until,
                    over: None,
                });
                self.lent.len() - 1
            });
            let noted = &mut self.lent[index];
            noted.until = until;
            let guarded = self.guards.add(loan);
            match guarded.and_then(|()| lend(loan, deadline)) {
                Ok(true) if noted.over.is_none() => {
                    let over = Arc::<AtomicBool>::default();
                    tell(loan.clone(), deadline.clone(), Arc::clone(&over));
                    noted.over = Some(over);
                }
                Ok(_) => {}
                Err(error) => {
                    // It may be gone, with whatever else is there.
                    self.guards.doubt(&loan.room.netns);
                    failures.insert(loan.id.clone(), error);
                }
            }
        }
        failures
    }

    /// Writes the guards for these into the namespaces of their pods, so that lending them
    /// later takes no longer than a message to the kernel. Returns those that failed.
    pub fn prepare(&mut self, wanted: &[Loan]) -> Failures {
        let mut failures = Failures::new();
        for loan in wanted {
            if let Err(error) = self.guards.add(loan) {
                failures.insert(loan.id.clone(), error);
            }
        }
        failures
    }

    /// Takes away guards of what is neither lent nor prepared.
    pub fn tidy(&mut self, prepared: &[Loan]) {
        let lent = self.lent.iter().map(|it| &it.loan);
        self.guards.keep_only(lent.chain(prepared));
    }

    /// Ends at once what pods send in the name of addresses, where none of them is wanted.
    fn close_others(&self, wanted: &[Loan]) {
        let is_wanted = |netns: &Path| wanted.iter().any(|it| it.room.netns == netns);
        let spaces: BTreeSet<&Path> = self.lent.iter().map(|it| &*it.loan.room.netns).collect();
        for netns in spaces.into_iter().filter(|it| !is_wanted(it)) {
            if let Err(error) = close(netns) {
                debug!(%error, "cannot close the guard of a pod; its time runs out");
            }
        }
    }
}

/// Lets the pod answer until the deadline, and gives it the address for as long. What the
/// pod sends is dropped when the deadline has passed, however late the kernel reads that it
/// has the address.
fn lend(loan: &Loan, deadline: &Deadline) -> Result<bool, RoomError> {
    let (netns, left) = (enter(&loan.room.netns)?, deadline.left());
    let (Some(netns), Some(left)) = (netns, left) else {
        return Ok(false);
    };
    let until = boottime::now() + left;
    netns.run(|| {
        match pulse::keep(&POD_TICKET, &POD_PULSES, until) {
            // It has the address by an earlier renewal, or not at all.
            Err(PulseError::TooLate) => return Ok(false),
            kept => kept?,
        }
        let lent = Netlink::open()?.lend_address(loan.room.link, loan.ip, left)?;
        Ok(lent)
    })?
}

/// Ends what the guard of a pod allows.
fn close(path: &Path) -> Result<(), RoomError> {
    if let Some(netns) = enter(path)? {
        netns.run(|| pulse::end(&POD_PULSES))??;
    }
    Ok(())
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
