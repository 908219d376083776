//! Who shall hold an address, of those that can.
//!
//! - [`fitness()`]: whether a pod can hold an address at all. Only those that can are
//!   candidates; everything else here looks at candidates only.
//! - [`rank()`] and [`plan()`]: who is first for an address that nobody holds.
//! - [`judge()`]: whether a holder stays.
//!
//! Everybody who asks the same gets the same answer, in whatever order the facts came:
//! so agents that see the same agree without a word. Where they do not see the same, the
//! API server lets only one of them write.

use std::collections::BTreeMap;

use super::{Candidate, VipId};

pub use fitness::{Facts, Fitness, Phase, Readiness, Unfit, fitness};
pub use stay::{Failover, Health, Holder, MoveReason, Stay, Verdict, judge};

mod fitness;
mod stay;

/// How many addresses each pod holds, by its uid. Those that hold none may be missing.
pub type Load = BTreeMap<String, usize>;

/// An address that nobody holds, or whose holder is to be replaced.
#[derive(Clone, Debug)]
pub struct Vacant<'a> {
    /// Those who can hold it. Whoever knows that one of them cannot leaves it out: a pod
    /// of a silent node, one that has turned unready since the list was made.
    pub candidates: Vec<&'a Candidate>,
    /// Pods that come first, in this order.
    pub preferred: &'a [String],
}

/// How many addresses each pod holds, from the uids of all holders.
pub fn load<'a>(holders: impl IntoIterator<Item = &'a str>) -> Load {
    let mut load = Load::new();
    for uid in holders {
        *load.entry(uid.to_owned()).or_default() += 1;
    }
    load
}

/// The candidates for one address, best first: preferred pods in their order, then who
/// holds the fewest, then who is ready for longest, then by name.
///
/// # Guarantees
/// All of the candidates and nobody else, in an order that does not depend on the order in
/// which they came.
pub fn rank<'a>(
    candidates: impl IntoIterator<Item = &'a Candidate>,
    preferred: &[String],
    load: &Load,
) -> Vec<&'a Candidate> {
    let mut ranked: Vec<&Candidate> = candidates.into_iter().collect();
    ranked.sort_by_cached_key(|&it| {
        let held = load.get(&it.uid).copied().unwrap_or_default();
        let place = place(preferred, &it.pod);
        // The whole candidate at the end: one name can be there with two uids, while a
        // pod is replaced.
        (place, held, it.ready_since, it)
    });
    ranked
}

/// The candidates for many addresses, each best first, such that the best of all of them
/// are spread evenly: in the order of their ids, each counts as held by its best one when
/// the next is ranked.
///
/// Used for first holders, and for the addresses of a node that fell silent. The load is
/// that of the others, without the addresses in question.
///
/// # Guarantees
/// As [`rank()`]. Without preferred pods, among pods that are candidates for all of the
/// addresses no one gets two more than another that held as many before.
pub fn plan<'a>(
    vacant: &BTreeMap<&'a VipId, Vacant<'a>>,
    load: &Load,
) -> BTreeMap<&'a VipId, Vec<&'a Candidate>> {
    let mut load = load.clone();
    let mut plan = BTreeMap::new();
    for (&id, one) in vacant {
        let ranked = rank(one.candidates.iter().copied(), one.preferred, &load);
        if let Some(best) = ranked.first() {
            *load.entry(best.uid.clone()).or_default() += 1;
        }
        plan.insert(id, ranked);
    }
    plan
}

/// The place of a pod among the preferred ones; all others share the one behind them.
fn place(preferred: &[String], pod: &str) -> usize {
    let place = preferred.iter().position(|name| name == pod);
    place.unwrap_or(preferred.len())
}

#[cfg(test)]
mod tests;
