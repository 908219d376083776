//! Which of the nodes that can run a pod it should rather run on.

use ipnet::IpNet;

use crate::{
    ipam::{
        choice::{Choice, Wish, family_of_entry},
        ledger::Ledger,
    },
    schedule::{
        claimant::Claimant,
        filter::{Offer, Sites},
        plan::{Pins, Standing},
    },
};

/// The best score, as the extender protocol has it.
pub const BEST: u8 = 10;

/// Scores nodes from 0 to [`BEST`].
///
/// Nodes that can carry an address which the pod or its group already has are
/// best. Among the others, those of a subnet with more free addresses are better,
/// so that no subnet runs dry before the rest. Nodes on which the pod cannot run
/// have 0.
pub fn score<'a>(ledger: &Ledger, claimant: &Claimant, offers: &[Offer<'a>]) -> Vec<(&'a str, u8)> {
    let sites = Sites::of(ledger, offers);
    let scores = match Standing::of(ledger, claimant) {
        Ok(standing) => scores(ledger, claimant, &standing, &sites.subnets),
        Err(_) => vec![0; sites.subnets.len()],
    };
    let nodes = offers.iter().zip(&sites.by_offer);
    nodes
        .map(|(offer, site)| (offer.node, site.map_or(0, |site| scores[site])))
        .collect()
}

fn scores(
    ledger: &Ledger,
    claimant: &Claimant,
    standing: &Standing<'_>,
    subnets: &[IpNet],
) -> Vec<u8> {
    let free: Vec<u128> = subnets
        .iter()
        .map(|subnet| free_addresses(ledger, claimant, *subnet))
        .collect();
    let most = free.iter().copied().max().unwrap_or_default();
    let pins = if standing.can_release() {
        Pins::Release
    } else {
        Pins::Hold
    };
    let subnets = subnets.iter().zip(free);
    subnets
        .map(|(subnet, free)| match standing.plan(*subnet, pins) {
            Err(_) => 0,
            Ok(plan) if plan.choices.iter().any(|it| !matches!(it, Choice::New(_))) => BEST,
            Ok(_) => share(free, most),
        })
        .collect()
}

/// How many free addresses there are for the wish that has the fewest.
fn free_addresses(ledger: &Ledger, claimant: &Claimant, subnet: IpNet) -> u128 {
    let entries = ledger.topology().entries_of(subnet);
    let of_wish = |wish: &Wish| {
        let usable = entries.iter().filter(|entry| match wish {
            Wish::Any(family) => family_of_entry(ledger, **entry) == *family,
            // Whole entries: counting inside the ranges would cost more than it
            // could tell.
            Wish::OutOf(ranges) => {
                let mut ranges = ranges.iter();
                ranges.any(|range| ledger.free_within(**entry, *range).next().is_some())
            }
        });
        usable
            .map(|entry| ledger.free_count(*entry))
            .fold(0, u128::saturating_add)
    };
    claimant.wishes.iter().map(of_wish).min().unwrap_or(0)
}

/// A share of the most, in whole steps below [`BEST`].
fn share(free: u128, most: u128) -> u8 {
    if most == 0 {
        return 0;
    }
    let steps = u128::from(BEST) - 1;
    // IPv6 has numbers that cannot be multiplied; there, steps are not exact.
    let share = match free.checked_mul(steps) {
        Some(product) => product / most,
        None => free / (most / steps),
    };
    u8::try_from(share).unwrap_or(BEST).min(BEST - 1)
}
