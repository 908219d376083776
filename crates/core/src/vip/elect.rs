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
#[derive(Clone, Debug, Default)]
pub struct Vacant<'a> {
    /// Those who can hold it. Whoever knows that one of them cannot leaves it out: a pod
    /// of a silent node, one that has turned unready since the list was made.
    pub candidates: Vec<&'a Candidate>,
    /// Pods that come first, in this order.
    pub preferred: &'a [String],
    /// The uid of the pod that came first in an earlier plan. It does so again, unless a
    /// preferred one comes before it by now: whoever carries out a plan must not find
    /// that what others do for their part of it has changed its own.
    pub first: Option<&'a str>,
    /// Its place among all, which is the same for everybody: what comes later changes nothing
    /// for what came before.
    pub turn: i64,
}

impl<'a> Vacant<'a> {
    /// The pod that came first before and does so again.
    fn again(&self) -> Option<&'a Candidate> {
        let first = self.first?;
        let mut candidates = self.candidates.iter();
        let again = candidates.find(|it| it.uid == first)?;
        let place_of = |it: &&Candidate| place(self.preferred, &it.pod);
        let best = self.candidates.iter().map(place_of).min();
        (best == Some(place_of(again))).then_some(again)
    }
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
/// are spread evenly: those that were planned before keep their first one, and count as held
/// by it; of the others, in the order of their turns and then of their ids, each counts as
/// held by its best one when the next is ranked.
///
/// Used for first holders, and for the addresses of a node that fell silent. The load is
/// that of the others, without the addresses in question.
///
/// # Guarantees
/// As [`rank()`]. Without preferred pods and earlier plans, among pods that are candidates
/// for all of the addresses no one gets two more than another that held as many before. That
/// some have got what was planned for them, and that others have become vacant, changes
/// nothing for those that were planned before.
pub fn plan<'a>(
    vacant: &BTreeMap<&'a VipId, Vacant<'a>>,
    load: &Load,
) -> BTreeMap<&'a VipId, Vec<&'a Candidate>> {
    let mut load = load.clone();
    let mut plan = BTreeMap::new();
    let mut again = Vec::new();
    let mut new = Vec::new();
    for (&id, one) in vacant {
        match one.again() {
            Some(first) => {
                *load.entry(first.uid.clone()).or_default() += 1;
                again.push((id, one, first));
            }
            None => new.push((id, one)),
        }
    }
    new.sort_by_key(|(_, one)| one.turn);
    for (id, one) in new {
        let ranked = rank(one.candidates.iter().copied(), one.preferred, &load);
        if let Some(best) = ranked.first() {
            *load.entry(best.uid.clone()).or_default() += 1;
        }
        plan.insert(id, ranked);
    }
    for (id, one, first) in again {
        let others = one.candidates.iter().copied().filter(|it| *it != first);
        let others = rank(others, one.preferred, &load);
        plan.insert(id, [first].into_iter().chain(others).collect());
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
