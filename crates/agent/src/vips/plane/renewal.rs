//! Renews the time for which the kernel serves addresses, beside everything else that the
//! data plane does: on a busy node a listing of the rules can take longer than a deadline
//! lasts, and addresses must not fall silent for that.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
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
    /// What it serves, or is about to; `None` while something is being taken away.
    served: Option<Timed>,
    pulses: &'static [Pulse],
    deadline: Deadline,
    /// The last renewal that the kernel may have got, and what its order serves.
    renewed: Option<(Duration, Timed)>,
}

/// What ends with a deadline, by object.
type Timed = BTreeMap<VipId, Share>;

/// The part of an order that concerns one object.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Share {
    addresses: Vec<IpAddr>,
    /// Whether the node also announces them, and is not merely prepared to serve them.
    is_held: bool,
}

impl Renewal {
    /// Ends renewals unless the order serves everything that the kernel has: a new deadline
    /// must not meet an address that this node no longer serves. Waits for a renewal that is
    /// under way. Must be called before anything of the order is applied.
    ///
    /// An address that this node hands over does not end them: no other node may serve it before
    /// the order is reported as applied.
    ///
    /// Returns until when the kernel has been allowed to serve all of the order already, which
    /// is later than the order's own deadline if that one has been overtaken.
    pub fn prepare(&self, order: &Order) -> Option<Duration> {
        let mut applied = self.lock();
        let mut wanted = timed(&order.serving);
        let until = applied.granted_for(&wanted);
        let covered = applied
            .served
            .take()
            .filter(|it| covers(&still_timed(&order.serving), it));
        // What is being added counts from here on: the kernel may have it although the order
        // is not reported as done.
        applied.served = covered.map(|before| {
            for (id, share) in before {
                wanted.entry(id).or_insert(share);
            }
            wanted
        });
        until
    }

    /// Ends renewals until an order has been applied.
    pub fn end(&self) {
        self.lock().served = None;
    }

    /// Until when the kernel has been allowed to serve all of an order by now: renewals go on
    /// while the order is being applied.
    pub fn granted_for(&self, order: &Order) -> Option<Duration> {
        self.lock().granted_for(&timed(&order.serving))
    }

    /// Until when the kernel may serve by a renewal.
    pub fn granted(&self) -> Option<Duration> {
        self.lock().renewed.as_ref().map(|(until, _)| *until)
    }

    /// Allows renewals of what the kernel has now.
    pub fn allow(&self, order: &Order, pulses: &'static [Pulse], deadline: &Deadline) {
        let mut applied = self.lock();
        applied.served = Some(timed(&order.serving));
        applied.pulses = pulses;
        applied.deadline = deadline.clone();
    }

    /// Lets the kernel serve until the deadline of an order, if that order serves everything
    /// that the kernel has. Blocks.
    pub fn renew(&self, order: &Order) {
        let mut applied = self.lock();
        let until = order.serving.deadline.map(|it| it.0);
        let Some(until) = until.filter(|it| *it > boottime::now()) else {
            return;
        };
        let allowed = still_timed(&order.serving);
        let is_covered = applied
            .served
            .as_ref()
            .is_some_and(|it| covers(&allowed, it));
        if applied.pulses.is_empty() || !is_covered {
            return;
        }
        // Before the kernel gets it: an error may hide that it did.
        applied.renewed = Some((until, timed(&order.serving)));
        match pulse::OF_NODE.keep(applied.pulses, until) {
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
    fn granted_for(&self, wanted: &Timed) -> Option<Duration> {
        let renewed = self.renewed.as_ref();
        let renewed = renewed.filter(|(_, it)| !wanted.is_empty() && covers(it, wanted));
        renewed.map(|(until, _)| *until)
    }
}

/// Whether one serves everything that another does, in the same role or a higher one.
fn covers(one: &Timed, other: &Timed) -> bool {
    other.iter().all(|(id, part)| {
        one.get(id).is_some_and(|it| {
            (it.is_held || !part.is_held)
                && part.addresses.iter().all(|ip| it.addresses.contains(ip))
        })
    })
}

/// What ends with the deadline of a serving.
fn timed(serving: &Serving) -> Timed {
    shares(serving, |role| match role {
        Role::Holder(_) => Some(true),
        Role::Prepared(_) => Some(false),
        Role::HandedTo(_) | Role::Away(_) => None,
    })
}

/// What may still end with a deadline while the kernel is given a serving.
fn still_timed(serving: &Serving) -> Timed {
    shares(serving, |role| match role {
        Role::Holder(_) | Role::HandedTo(_) => Some(true),
        Role::Prepared(_) => Some(false),
        Role::Away(_) => None,
    })
}

/// The objects of some roles, each with whether this node holds it.
fn shares(serving: &Serving, is_held: impl Fn(&Role) -> Option<bool>) -> Timed {
    let roles = serving.roles.iter();
    let parts = roles.filter_map(|(id, it)| {
        let is_held = is_held(&it.role)?;
        let addresses = it.addresses.clone();
        Some((id.clone(), Share { addresses, is_held }))
    });
    parts.collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use floe_core::{
        lease::Moment,
        vip::{Candidate, Mode, keeper::Served},
    };

    use super::*;

    /// The role of an address, by its pod.
    type Form = fn(Candidate) -> Role;

    fn id(ip: &str) -> VipId {
        VipId {
            namespace: "shop".to_owned(),
            name: ip.to_owned(),
        }
    }

    fn order(roles: &[(&str, Form)]) -> Order {
        let pod = Candidate {
            pod: "a".to_owned(),
            uid: "u".to_owned(),
            node: "n1".to_owned(),
            node_address: "10.9.0.250".parse().unwrap(),
            addresses: Vec::new(),
            mode: Mode::Nat,
            ready_since: 0,
        };
        let roles = roles.iter().map(|(ip, role)| {
            let addresses = vec![ip.parse().unwrap()];
            let role = role(pod.clone());
            (id(ip), Served { addresses, role })
        });
        Order {
            serving: Serving {
                number: 1,
                deadline: Some(Moment(Duration::from_secs(3))),
                roles: roles.collect(),
            },
            details: BTreeMap::new(),
            known: BTreeSet::new(),
            nodes: BTreeSet::new(),
        }
    }

    fn held(ips: &[&str]) -> Order {
        let roles: Vec<_> = ips.iter().map(|ip| (*ip, Role::Holder as _)).collect();
        order(&roles)
    }

    /// Whether a deadline of this order would be renewed.
    fn may(renewal: &Renewal, order: &Order) -> bool {
        let applied = renewal.lock();
        let served = applied.served.as_ref();
        served.is_some_and(|it| covers(&still_timed(&order.serving), it))
    }

    fn with(order: &Order) -> Renewal {
        let renewal = Renewal::default();
        renewal.allow(order, &[], &Deadline::default());
        renewal
    }

    #[test]
    fn a_deadline_is_renewed_only_for_orders_that_take_nothing_away() {
        let both = held(&["10.9.0.1", "10.9.0.2"]);
        assert!(
            !may(&Renewal::default(), &both),
            "the kernel has nothing yet"
        );
        let renewal = with(&both);
        assert!(may(&renewal, &both));
        assert!(may(&renewal, &held(&["10.9.0.1", "10.9.0.2", "10.9.0.3"])));
        assert!(!may(&renewal, &held(&["10.9.0.1"])));
    }

    #[test]
    fn a_holder_is_not_renewed_by_an_order_that_only_prepares_it() {
        let renewal = with(&held(&["10.9.0.1"]));
        let prepared = order(&[("10.9.0.1", Role::Prepared as _)]);
        assert!(!may(&renewal, &prepared));
        assert!(may(&with(&prepared), &held(&["10.9.0.1"])));
    }

    #[test]
    fn while_an_address_is_taken_away_nothing_is_renewed_until_it_is_gone() {
        let (both, less) = (held(&["10.9.0.1", "10.9.0.2"]), held(&["10.9.0.1"]));
        let renewal = with(&both);
        renewal.prepare(&less);
        assert!(!may(&renewal, &less) && !may(&renewal, &both));
        renewal.allow(&less, &[], &Deadline::default());
        assert!(may(&renewal, &less));
    }

    #[test]
    fn others_are_renewed_while_an_address_is_handed_over() {
        let to = |_| Role::HandedTo("10.9.0.251".parse().unwrap());
        let both = held(&["10.9.0.1", "10.9.0.2"]);
        let handing = order(&[("10.9.0.1", Role::Holder as Form), ("10.9.0.2", to as Form)]);
        let after = held(&["10.9.0.1"]);
        let renewal = with(&both);
        renewal.prepare(&handing);
        assert!(may(&renewal, &handing));
        // Another node may have it when the order is applied: from then on it must be gone.
        assert!(!may(&renewal, &after));
        renewal.allow(&handing, &[], &Deadline::default());
        assert!(may(&renewal, &handing) && may(&renewal, &after));
        assert!(
            !renewal
                .lock()
                .served
                .as_ref()
                .unwrap()
                .contains_key(&id("10.9.0.2"))
        );
    }

    #[test]
    fn an_order_that_cannot_be_applied_ends_renewals_until_one_is() {
        let one = held(&["10.9.0.1"]);
        let renewal = with(&one);
        renewal.prepare(&one);
        renewal.end();
        renewal.prepare(&one);
        assert!(!may(&renewal, &one));
        renewal.allow(&one, &[], &Deadline::default());
        assert!(may(&renewal, &one));
    }

    #[test]
    fn an_address_that_was_given_away_before_does_not_count() {
        let to = |_| Role::HandedTo("10.9.0.251".parse().unwrap());
        let forwarding = order(&[("10.9.0.1", Role::Holder as Form), ("10.9.0.2", to)]);
        let one = held(&["10.9.0.1"]);
        let renewal = with(&one);
        renewal.prepare(&forwarding);
        assert!(may(&renewal, &one));
    }

    #[test]
    fn an_address_counts_from_the_moment_in_which_it_is_added() {
        let (one, two) = (held(&["10.9.0.1"]), held(&["10.9.0.1", "10.9.0.2"]));
        let renewal = with(&one);
        // Its order is never reported as done, and another node takes the second address.
        renewal.prepare(&two);
        assert!(may(&renewal, &two));
        assert!(!may(&renewal, &one));
    }

    #[test]
    fn an_order_that_is_overtaken_keeps_the_later_deadline() {
        let one = held(&["10.9.0.1"]);
        let renewal = with(&one);
        assert_eq!(renewal.prepare(&one), None);
        let later = Duration::from_secs(9);
        renewal.lock().renewed = Some((later, timed(&one.serving)));
        assert_eq!(renewal.prepare(&one), Some(later));
        assert_eq!(renewal.granted(), Some(later));
        let more = held(&["10.9.0.1", "10.9.0.2"]);
        assert_eq!(renewal.prepare(&more), None, "it was not for all of them");
        assert_eq!(renewal.prepare(&held(&[])), None, "nothing is served");
    }
}
