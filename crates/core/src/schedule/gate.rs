//! Addresses for a pod that the scheduler does not look at yet.
//!
//! Where the scheduler cannot be told to ask floe, a pod that wants addresses is made
//! with a scheduling gate. It gets its addresses first, and with them the subnets
//! whose nodes can carry them; then the gate is taken off, and a scheduler that has
//! never heard of floe chooses among these nodes.
//!
//! - [`admit`]: which addresses a gated pod gets, and where it can then run.
//! - [`needs`]: which nodes the pod itself would accept.
//! - [`patch`]: what is written into the pod to let it go.
//! - [`missed`]: pods that never were at the gate.
//!
//! The decision is that of [`filter`](super::filter) and [`bind`](mod@super::bind), so a
//! pod gets the same addresses and the same refusals on either way.

use std::{cmp::Reverse, collections::BTreeMap};

use ipnet::IpNet;
use jiff::Timestamp;

use crate::{
    addr::name,
    config::Topology,
    ipam::ledger::Ledger,
    schedule::{
        bind::{Grant, bind},
        claimant::Claimant,
        filter::{Offer, filter},
        refusal::Refusal,
        score::score,
    },
};

pub mod missed;
pub mod needs;
pub mod patch;

#[cfg(test)]
mod tests;

/// The scheduling gate of pods that wait for their addresses.
pub const GATE: &str = "floe.dev/ip";

/// The label of nodes that says in which node subnet they are.
pub const NODE_SUBNET: &str = "floe.dev/node-subnet";

/// The condition of a pod that says whether it has its addresses, and why not.
pub const ASSIGNED: &str = "floe.dev/AddressAssigned";

/// Nodes do not offer more than this: more pods than that run on no node.
const MOST_OFFERED: u64 = 1_000_000;

/// What a gated pod gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Its addresses, as a bind to a node of any of the subnets would give them.
    pub grant: Grant,
    /// The node subnets that can carry all of them; never none.
    pub subnets: Vec<IpNet>,
}

/// Chooses the addresses of a gated pod among those that some of these nodes can
/// carry, all of them or none. The nodes are those that the pod itself accepts.
///
/// Among several subnets the one goes first that the extender would have preferred, then
/// the one with the fewest addresses in use for each of its nodes: no scheduler has a say
/// in it any more.
pub fn admit(
    ledger: &Ledger,
    claimant: &Claimant,
    offers: &[Offer<'_>],
    until: Timestamp,
) -> Result<Admission, Refusal> {
    let sorted = filter(ledger, claimant, offers, until)?;
    if sorted.fit.is_empty() {
        return Err(match sorted.most_telling() {
            Some(refusal) => refusal.into(),
            None => Refusal::NoNodeFits,
        });
    }
    let mut fit = sorted.fit.iter().peekable();
    // They are in the order of the offers.
    let fitting: Vec<Offer<'_>> = offers
        .iter()
        .filter(|offer| fit.next_if(|node| **node == offer.node).is_some())
        .copied()
        .collect();
    let subnet = best_subnet(ledger, claimant, &fitting).ok_or(Refusal::NoNodeFits)?;
    let grant = bind(ledger, claimant, subnet, until)?;
    let carries_all = |subnet: IpNet| {
        let mut taken = grant.take.iter();
        taken.all(|choice| ledger.carries(subnet, choice.ip()))
    };
    let subnets = ledger.topology().node_subnets().map(|(subnet, _)| subnet);
    Ok(Admission {
        subnets: subnets.filter(|subnet| carries_all(*subnet)).collect(),
        grant,
    })
}

fn best_subnet(ledger: &Ledger, claimant: &Claimant, fitting: &[Offer<'_>]) -> Option<IpNet> {
    let scores = score(ledger, claimant, fitting);
    let mut sites: BTreeMap<IpNet, (u8, u128)> = BTreeMap::new();
    for (offer, (_, score)) in fitting.iter().zip(scores) {
        let subnet = ledger.topology().node_subnet(offer.address?)?;
        let (_, nodes) = sites.entry(subnet).or_insert((score, 0));
        *nodes += 1;
    }
    let rank = |(subnet, (score, nodes)): &(IpNet, (u8, u128))| {
        // In thousandths, so that few on many nodes are told apart.
        let crowd = used(ledger, *subnet).saturating_mul(1000) / nodes;
        (Reverse(*score), crowd, *subnet)
    };
    let best = sites.into_iter().min_by_key(rank);
    best.map(|(subnet, _)| subnet)
}

/// The value of the label [`NODE_SUBNET`] for nodes of a subnet. A value can have
/// neither slash nor colon.
pub fn subnet_value(subnet: IpNet) -> String {
    format!("{}_{}", name::name(subnet.network()), subnet.prefix_len())
}

/// How many pods with addresses a node of a subnet may have at once, as far as the
/// resource is concerned: as many as there are addresses for it, taken or not, and not
/// more than `cap`. How many really are free only floe knows; this is for schedulers that
/// do not run a pod where its resource is not.
pub fn capacity(topology: &Topology, subnet: IpNet, cap: Option<u64>) -> u64 {
    let usable = u64::try_from(usable(topology, subnet)).unwrap_or(u64::MAX);
    usable.min(cap.unwrap_or(MOST_OFFERED))
}

/// An amount in the words of the API server, which writes 2000 as `2k`.
pub fn quantity(mut amount: u64) -> String {
    let mut suffixes = ["", "k", "M", "G", "T", "P", "E"].into_iter();
    let mut suffix = suffixes.next().unwrap_or_default();
    while amount > 0
        && amount.is_multiple_of(1000)
        && let Some(next) = suffixes.next()
    {
        (amount, suffix) = (amount / 1000, next);
    }
    format!("{amount}{suffix}")
}

/// How many of the addresses that nodes of a subnet can carry are not free.
fn used(ledger: &Ledger, subnet: IpNet) -> u128 {
    let topology = ledger.topology();
    let entries = topology.entries_of(subnet).iter();
    let used = entries.map(|entry| {
        let all = topology.entry(*entry).addresses().len();
        all.saturating_sub(ledger.free_count(*entry))
    });
    used.fold(0, u128::saturating_add)
}

/// All addresses that nodes of a subnet can carry.
fn usable(topology: &Topology, subnet: IpNet) -> u128 {
    let entries = topology.entries_of(subnet).iter();
    entries
        .map(|entry| topology.entry(*entry).addresses().len())
        .fold(0, u128::saturating_add)
}
