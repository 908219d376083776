//! Which of the offered nodes can run a pod, and what is promised to it meanwhile.

use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;

use crate::{
    ipam::ledger::{Ledger, Promise, SpareRank},
    schedule::{
        claimant::Claimant,
        plan::{Pins, Plan, Standing},
        refusal::{NodeRefusal, Refusal},
    },
};

/// A node that the scheduler offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer<'a> {
    /// Its name.
    pub node: &'a str,
    /// Its internal address, if it has one.
    pub address: Option<IpAddr>,
}

/// The offered nodes, sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sorted<'a> {
    /// Nodes on which the pod can run, in the order in which they were offered.
    pub fit: Vec<&'a str>,
    /// The others, and why not.
    pub unfit: Vec<(&'a str, NodeRefusal)>,
    /// What to set aside for the pod until it is bound. Without it, nothing is to
    /// be set aside, and an older promise is to be withdrawn. While the pod is
    /// being bound, the promise of its bind stays instead.
    pub promise: Option<Promise>,
}

impl Sorted<'_> {
    /// If no node will do, the refusal that tells most about what the pod waits for.
    pub fn most_telling(&self) -> Option<NodeRefusal> {
        if !self.fit.is_empty() {
            return None;
        }
        let refusals = self.unfit.iter().map(|(_, refusal)| *refusal);
        refusals.min_by_key(|refusal| match refusal {
            NodeRefusal::KeptElsewhere { .. } => 0,
            NodeRefusal::SpareElsewhere { .. } => 1,
            NodeRefusal::RangeNotConfigured { .. } => 2,
            NodeRefusal::NoAddressLeft => 3,
            NodeRefusal::NotConfigured { .. } => 4,
            NodeRefusal::UnknownNode => 5,
            NodeRefusal::NoSuchNode => 6,
        })
    }
}

/// Sorts the offered nodes. A pod without wishes can run on all of them.
///
/// The next pod is filtered before this one is bound. So a pod whose group shares
/// spares gets a promise, which lasts until `until`: its place in the limits, and
/// the spares that it will get. They are chosen among those that some offered
/// node can carry, so that a promise never leads nowhere; where there are none, a
/// new address does, if the limits leave room for both.
pub fn filter<'a>(
    ledger: &Ledger,
    claimant: &Claimant,
    offers: &[Offer<'a>],
    until: Timestamp,
) -> Result<Sorted<'a>, Refusal> {
    if claimant.wishes.is_empty() {
        return Ok(Sorted {
            fit: offers.iter().map(|offer| offer.node).collect(),
            unfit: Vec::new(),
            promise: None,
        });
    }
    let standing = Standing::of(ledger, claimant)?;
    let sites = Sites::of(ledger, offers);
    let plans = plans(&standing, &sites.subnets);
    let spares = best_spares(&plans);
    let refusals: Vec<Option<NodeRefusal>> = sites
        .subnets
        .iter()
        .zip(&plans)
        .map(|(subnet, plan)| why_not(ledger, *subnet, plan, spares))
        .collect();

    let mut fit = Vec::with_capacity(offers.len());
    let mut unfit = Vec::new();
    for (offer, site) in offers.iter().zip(&sites.by_offer) {
        match site.map_or_else(Some, |site| refusals[site]) {
            None => fit.push(offer.node),
            Some(refusal) => unfit.push((offer.node, refusal)),
        }
    }
    let fitting = plans.iter().zip(&refusals);
    let places = fitting
        .filter(|(_, refusal)| refusal.is_none())
        .filter_map(|(plan, _)| plan.as_ref().ok().map(Plan::places))
        .max()
        .unwrap_or(0);
    let promise = (claimant.shares_spares && places > 0).then(|| {
        let addresses = spares.iter().map(|(_, ip)| *ip).collect();
        claimant.promise(places, addresses, until)
    });
    Ok(Sorted {
        fit,
        unfit,
        promise,
    })
}

/// The subnets of the offered nodes.
pub(super) struct Sites {
    /// Each one once.
    pub subnets: Vec<IpNet>,
    /// For each offer, the place of its subnet.
    pub by_offer: Vec<Result<usize, NodeRefusal>>,
}

impl Sites {
    pub fn of(ledger: &Ledger, offers: &[Offer<'_>]) -> Self {
        let topology = ledger.topology();
        let all: Vec<IpNet> = topology.node_subnets().map(|(net, _)| net).collect();
        // By the place in the topology: there are thousands of offers.
        let mut places: Vec<Option<usize>> = vec![None; all.len()];
        let mut subnets = Vec::new();
        let mut site = |offer: &Offer<'_>| {
            let address = offer.address.ok_or(NodeRefusal::UnknownNode)?;
            let known = topology.place_of_node(address);
            let known = known.ok_or(NodeRefusal::NotConfigured { address })?;
            Ok(*places[known].get_or_insert_with(|| {
                subnets.push(all[known]);
                subnets.len() - 1
            }))
        };
        let by_offer = offers.iter().map(&mut site).collect();
        Self { subnets, by_offer }
    }
}

/// A plan for each subnet. What the pod holds decides where it can run; only when
/// that is nowhere, and nobody relies on it yet, the pod may get other addresses.
fn plans(standing: &Standing<'_>, subnets: &[IpNet]) -> Vec<Result<Plan, NodeRefusal>> {
    let all = |pins: Pins| -> Vec<Result<Plan, NodeRefusal>> {
        let subnets = subnets.iter();
        subnets.map(|subnet| standing.plan(*subnet, pins)).collect()
    };
    let held = all(Pins::Hold);
    if held.iter().any(Result::is_ok) || !standing.can_release() {
        return held;
    }
    let released = all(Pins::Release);
    if released.iter().any(Result::is_ok) {
        released
    } else {
        held
    }
}

/// The spares of the plan that uses the most, and of several such plans the one
/// with the most recent ones.
fn best_spares(plans: &[Result<Plan, NodeRefusal>]) -> &[SpareRank] {
    plans
        .iter()
        .flatten()
        .map(|plan| plan.spares.as_slice())
        .max_by(|a, b| a.len().cmp(&b.len()).then_with(|| b.cmp(a)))
        .unwrap_or_default()
}

/// Why nodes of a subnet will not do. The chosen spares decide where the pod can
/// run.
fn why_not(
    ledger: &Ledger,
    subnet: IpNet,
    plan: &Result<Plan, NodeRefusal>,
    spares: &[SpareRank],
) -> Option<NodeRefusal> {
    let mut chosen = spares.iter().map(|(_, ip)| *ip);
    let elsewhere = chosen.find(|ip| !ledger.carries(subnet, *ip));
    match (plan, elsewhere) {
        (Ok(plan), _) if plan.spares == spares => None,
        (Ok(_) | Err(NodeRefusal::NoAddressLeft), Some(ip)) => {
            Some(NodeRefusal::SpareElsewhere { ip })
        }
        // It can carry them, but not as part of its best plan.
        (Ok(_), None) => Some(NodeRefusal::NoAddressLeft),
        (Err(refusal), _) => Some(*refusal),
    }
}
