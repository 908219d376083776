//! Renews the time for which the kernel serves addresses, beside everything else that the
//! data plane does: on a busy node a listing of the rules can take longer than a deadline
//! lasts, and addresses must not fall silent for that.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_core::vip::{
    VipId,
    keeper::{Role, Serving},
    rules::Pulse,
};
use floe_net::{
    boottime::{self, Deadline},
    pulse::{self, PulseError},
};
use tracing::{debug, warn};

use crate::vips::plan::Order;

/// Shared by the task that renews and the data plane, which says what may be renewed.
#[derive(Clone, Debug, Default)]
pub struct Renewal(Arc<Mutex<Applied>>);

/// What the kernel has been given.
#[derive(Debug, Default)]
struct Applied {
    /// The addresses that it serves, by object; `None` while some of them are being taken away.
    served: Option<BTreeMap<VipId, Vec<IpAddr>>>,
    pulses: &'static [Pulse],
    deadline: Deadline,
}

impl Renewal {
    /// Ends renewals unless the order serves everything that the kernel has: a new deadline
    /// must not meet an address that this node no longer serves. Waits for a renewal that is
    /// under way.
    pub fn prepare(&self, order: &Order) {
        let mut applied = self.lock();
        if !applied.is_covered_by(&order.serving) {
            applied.served = None;
        }
    }

    /// Allows renewals of what the kernel has now.
    pub fn allow(&self, order: &Order, pulses: &'static [Pulse], deadline: &Deadline) {
        *self.lock() = Applied {
            served: Some(served(&order.serving)),
            pulses,
            deadline: deadline.clone(),
        };
    }

    /// Lets the kernel serve until the deadline of an order, if that order serves everything
    /// that the kernel has. Blocks.
    pub fn renew(&self, order: &Order) {
        let applied = self.lock();
        let until = order.serving.deadline.map(|it| it.0);
        let Some(until) = until.filter(|it| *it > boottime::now()) else {
            return;
        };
        if applied.pulses.is_empty() || !applied.is_covered_by(&order.serving) {
            return;
        }
        match pulse::keep(applied.pulses, until) {
            Ok(()) => applied.deadline.set(until),
            Err(error @ PulseError::Netlink(_)) => {
                // The data plane finds out what is missing, and reports it.
                debug!(reason = error.reason(), %error, "cannot renew shared addresses");
            }
            Err(error @ (PulseError::TooLate | PulseError::Slow)) => {
                let reason = error.reason();
                warn!(reason, %error, "shared addresses fall silent until the next renewal");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Applied> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Applied {
    fn is_covered_by(&self, serving: &Serving) -> bool {
        let wanted = served(serving);
        let covers = |(id, addresses): (&VipId, &Vec<IpAddr>)| {
            let wanted = wanted.get(id);
            wanted.is_some_and(|it| addresses.iter().all(|ip| it.contains(ip)))
        };
        self.served.as_ref().is_some_and(|it| it.iter().all(covers))
    }
}

/// The addresses that end with the deadline.
fn served(serving: &Serving) -> BTreeMap<VipId, Vec<IpAddr>> {
    let roles = serving.roles.iter();
    let timed = roles.filter(|(_, it)| matches!(it.role, Role::Holder(_) | Role::Prepared(_)));
    timed
        .map(|(id, it)| (id.clone(), it.addresses.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use floe_core::{
        lease::Moment,
        vip::{Candidate, Mode, keeper::Served},
    };

    use super::*;

    fn order(held: &[(&str, &[&str])]) -> Order {
        let roles = held.iter().map(|(name, addresses)| {
            let id = VipId {
                namespace: "shop".to_owned(),
                name: (*name).to_owned(),
            };
            let addresses = addresses.iter().map(|it| it.parse().unwrap()).collect();
            let role = Role::Holder(Candidate {
                pod: "a".to_owned(),
                uid: "u".to_owned(),
                node: "n1".to_owned(),
                node_address: "10.9.0.250".parse().unwrap(),
                addresses: Vec::new(),
                mode: Mode::Nat,
                ready_since: 0,
            });
            (id, Served { addresses, role })
        });
        Order {
            serving: Serving {
                number: 1,
                deadline: Some(Moment(Duration::from_secs(3))),
                roles: roles.collect(),
            },
            details: BTreeMap::new(),
            known: std::collections::BTreeSet::new(),
            nodes: std::collections::BTreeSet::new(),
        }
    }

    #[test]
    fn a_deadline_is_renewed_only_for_orders_that_take_nothing_away() {
        let renewal = Renewal::default();
        let may = |order: &Order| renewal.lock().is_covered_by(&order.serving);
        let one = order(&[("a", &["10.9.0.1", "10.9.0.2"])]);
        assert!(!may(&one), "the kernel has nothing yet");
        renewal.allow(&one, &[], &Deadline::default());
        let more = order(&[("a", &["10.9.0.1", "10.9.0.2"]), ("b", &["10.9.0.3"])]);
        assert!(may(&one) && may(&more));
        assert!(!may(&order(&[("a", &["10.9.0.1"])])));
        assert!(!may(&order(&[("b", &["10.9.0.1", "10.9.0.2"])])));
    }

    #[test]
    fn while_an_address_is_taken_away_nothing_is_renewed_until_it_is_gone() {
        let renewal = Renewal::default();
        let may = |order: &Order| renewal.lock().is_covered_by(&order.serving);
        let (both, less) = (
            order(&[("a", &["10.9.0.1"]), ("b", &["10.9.0.2"])]),
            order(&[("a", &["10.9.0.1"])]),
        );
        renewal.allow(&both, &[], &Deadline::default());
        renewal.prepare(&both);
        assert!(may(&both));
        renewal.prepare(&less);
        assert!(!may(&less) && !may(&both));
        renewal.allow(&less, &[], &Deadline::default());
        assert!(may(&less));
    }
}
