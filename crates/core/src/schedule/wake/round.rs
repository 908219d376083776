//! For how many of the waiting pods there is room.

use std::collections::{BTreeMap, BTreeSet};

use ipnet::IpNet;
use jiff::Timestamp;

use crate::{
    config::EntryId,
    ipam::{
        choice::{Choice, Wish},
        ledger::{Ledger, Promise},
    },
    schedule::{
        bind::bind,
        claimant::Claimant,
        filter::{Offer, filter},
    },
};

/// A pod in the line.
#[derive(Clone, Copy, Debug)]
pub struct Candidate<'a> {
    /// The pod. It should yield to nobody: the line has the order.
    pub claimant: &'a Claimant,
    /// Whether what it would get is set aside for it, so that those behind it do
    /// not get it as well.
    pub reserves: bool,
}

/// The places in the line of those for whom there is room: each one could run on
/// some of the offered nodes, beside all before it.
///
/// The ledger is the same before and after. Where pods ask for ranges, more than
/// one may count on the same new address: to wake one in vain costs little, and to
/// let one sleep costs minutes.
pub fn round(ledger: &mut Ledger, line: &[Candidate<'_>], offers: &[Offer<'_>]) -> Vec<usize> {
    let sites = one_node_each(ledger, offers);
    let mut trial = Trial {
        ledger,
        spoken_for: BTreeMap::new(),
        before: BTreeMap::new(),
    };
    let mut misfits: Vec<&Claimant> = Vec::new();
    let mut served = Vec::new();
    for (place, candidate) in line.iter().enumerate() {
        let claimant = candidate.claimant;
        let is_blank = trial.is_blank(claimant);
        if is_blank && misfits.iter().any(|other| alike(other, claimant)) {
            continue;
        }
        match trial.needs(claimant, &sites) {
            Some(needs) => {
                served.push(place);
                if candidate.reserves {
                    trial.set_aside(claimant, needs);
                }
            }
            None if is_blank => misfits.push(claimant),
            None => {}
        }
    }
    trial.undo();
    served
}

/// Whether a pod could run on some of these nodes now.
pub fn fits(ledger: &Ledger, claimant: &Claimant, offers: &[Offer<'_>]) -> bool {
    let sorted = filter(ledger, claimant, offers, Timestamp::MAX);
    sorted.is_ok_and(|sorted| !sorted.fit.is_empty())
}

/// One node of each subnet: all others of a subnet have the same answer. Nodes
/// that are in none are left out.
pub fn one_node_each<'a>(ledger: &Ledger, offers: &[Offer<'a>]) -> Vec<Offer<'a>> {
    let mut seen = BTreeSet::new();
    let new =
        |offer: &&Offer<'_>| subnet_of(ledger, offer).is_some_and(|subnet| seen.insert(subnet));
    offers.iter().filter(new).copied().collect()
}

/// A ledger in which things are tried out.
struct Trial<'a> {
    ledger: &'a mut Ledger,
    /// How many free addresses of an entry are for pods before. They are only
    /// counted: setting them aside would change the order of the free ones.
    spoken_for: BTreeMap<EntryId, u128>,
    /// What was promised before, to those who were promised something here.
    before: BTreeMap<String, Option<Promise>>,
}

/// What a pod would get.
struct Needs {
    promise: Option<Promise>,
    new: BTreeMap<EntryId, u128>,
}

impl Trial<'_> {
    /// Whether the pod has nothing that others of its workload have not.
    fn is_blank(&self, claimant: &Claimant) -> bool {
        let is_unpromised = self.ledger.promise_to(&claimant.uid).is_none();
        is_unpromised && claimant.held(self.ledger).is_empty()
    }

    fn needs(&self, claimant: &Claimant, sites: &[Offer<'_>]) -> Option<Needs> {
        let sorted = filter(self.ledger, claimant, sites, Timestamp::MAX).ok()?;
        let fit: BTreeSet<&str> = sorted.fit.into_iter().collect();
        let mut subnets = sites
            .iter()
            .filter(|site| fit.contains(site.node))
            .filter_map(|site| subnet_of(self.ledger, site));
        let new = subnets.find_map(|subnet| self.new_addresses(claimant, subnet))?;
        Some(Needs {
            promise: sorted.promise,
            new,
        })
    }

    /// How many new addresses of which entry it takes, if there are enough.
    fn new_addresses(&self, claimant: &Claimant, subnet: IpNet) -> Option<BTreeMap<EntryId, u128>> {
        let grant = bind(self.ledger, claimant, subnet, Timestamp::MAX).ok()?;
        let mut new: BTreeMap<EntryId, u128> = BTreeMap::new();
        let mut demanding = BTreeSet::new();
        for (wish, choice) in claimant.wishes.iter().zip(&grant.take) {
            if let Choice::New(ip) = choice
                && let Some(entry) = self.ledger.topology().entry_of(*ip)
            {
                *new.entry(entry).or_default() += 1;
                if matches!(wish, Wish::Any(_)) {
                    demanding.insert(entry);
                }
            }
        }
        let is_enough = |entry: &EntryId| {
            let spoken_for = self.spoken_for.get(entry).copied().unwrap_or(0);
            let needed = new.get(entry).copied().unwrap_or(0);
            self.ledger.free_count(*entry) >= spoken_for.saturating_add(needed)
        };
        demanding.iter().all(is_enough).then_some(new)
    }

    fn set_aside(&mut self, claimant: &Claimant, needs: Needs) {
        for (entry, count) in needs.new {
            *self.spoken_for.entry(entry).or_default() += count;
        }
        if let Some(promise) = needs.promise {
            let uid = &claimant.uid;
            let before = self.ledger.promise_to(uid).cloned();
            self.before.entry(uid.clone()).or_insert(before);
            self.ledger.promise(uid, promise);
        }
    }

    fn undo(self) {
        for uid in self.before.keys() {
            self.ledger.withdraw(uid);
        }
        for (uid, promise) in self.before {
            if let Some(promise) = promise {
                self.ledger.promise(&uid, promise);
            }
        }
    }
}

/// Whether what two pods without anything of their own ask for is the same: then
/// one fits where the other does.
fn alike(a: &Claimant, b: &Claimant) -> bool {
    let same_group = !a.shares_spares
        || (a.group_key == b.group_key && a.app_prefix == b.app_prefix && a.limits == b.limits);
    a.shares_spares == b.shares_spares
        && same_group
        && a.policy == b.policy
        && a.unsupported.is_some() == b.unsupported.is_some()
        && a.yields_to == b.yields_to
        && a.wishes == b.wishes
}

fn subnet_of(ledger: &Ledger, offer: &Offer<'_>) -> Option<IpNet> {
    ledger.topology().node_subnet(offer.address?)
}
