//! Which addresses a pod gets on the node that was chosen for it.

use std::{collections::BTreeSet, net::IpAddr};

use ipnet::IpNet;
use jiff::Timestamp;

use crate::{
    ipam::{
        choice::Choice,
        ledger::{Ledger, Promise},
        slot::Fate,
    },
    schedule::{
        claimant::Claimant,
        plan::{Pins, Standing},
        refusal::Refusal,
    },
};

/// What binding a pod takes.
///
/// # Assumptions
/// There is one bind at a time for each holder key: the next pod of a name would
/// otherwise get addresses beside those that are still being written for the
/// first. The promise is made before anything is written, instead of an older one,
/// outlasts the writes, and is withdrawn in the step that enters the last record.
/// On a conflict the ledger learns what the store says and is asked again: what
/// was written stays the pod's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The addresses, one for each wish and in that order.
    pub take: Vec<Choice>,
    /// Addresses under the pod's keys that it does not get, to be given back once
    /// the pod is bound.
    pub give_back: Vec<GiveBack>,
    /// What to set aside while the addresses are written.
    pub promise: Option<Promise>,
}

/// An address that a pod no longer needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GiveBack {
    /// The address.
    pub ip: IpAddr,
    /// What becomes of it.
    pub fate: Fate,
}

/// Chooses the addresses of a pod on nodes of `subnet`: all of them or none.
pub fn bind(
    ledger: &Ledger,
    claimant: &Claimant,
    subnet: IpNet,
    until: Timestamp,
) -> Result<Grant, Refusal> {
    let standing = Standing::of(ledger, claimant)?;
    let plan = match standing.plan(subnet, Pins::Hold) {
        Err(refusal) if standing.can_release() => {
            standing.plan(subnet, Pins::Release).map_err(|_| refusal)?
        }
        plan => plan?,
    };
    let is_taken = |ip| plan.choices.iter().any(|choice| choice.ip() == ip);
    let give_back = standing
        .held()
        .iter()
        .filter(|record| !record.reserved && !is_taken(record.ip))
        .map(|record| GiveBack {
            ip: record.ip,
            fate: if claimant.shares_spares && !ledger.is_outside(record.ip) {
                Fate::Spare
            } else {
                Fate::Free
            },
        })
        .collect();
    let places = plan.places();
    let promise = (places > 0).then(|| {
        // One by one: a set of one or two is not worth sorting.
        let mut addresses = BTreeSet::new();
        addresses.extend(plan.taken());
        claimant.promise(places, addresses, until)
    });
    Ok(Grant {
        take: plan.choices,
        give_back,
        promise,
    })
}
