//! On which nodes other pods may be stopped to make room for a pod.

use jiff::Timestamp;

use crate::{
    ipam::ledger::Ledger,
    schedule::{
        claimant::Claimant,
        filter::{Offer, filter},
    },
};

/// The candidates that stay: nodes on which the pod could run, once the victims
/// are gone.
///
/// Compat: all stay for a pod that keeps no address, and for one that is refused
/// whatever the node. Unlike galaxy's answer this one changes nothing.
pub fn preempt<'a>(ledger: &Ledger, claimant: &Claimant, candidates: &[Offer<'a>]) -> Vec<&'a str> {
    let all = || candidates.iter().map(|offer| offer.node).collect();
    if !claimant.policy.keeps() {
        return all();
    }
    // Nothing is promised here, so it does not matter how long that would last.
    match filter(ledger, claimant, candidates, Timestamp::MAX) {
        Ok(sorted) => sorted.fit,
        Err(_) => all(),
    }
}
