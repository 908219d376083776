//! What follows from what has changed, for each address and each node.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::Timestamp;

use super::{
    Pool,
    address::{Address, Place, Standing, family},
};

impl Pool {
    /// Draws the conclusions of what has changed: what each address is good for, since when
    /// a node does not fit, and who has lost an address.
    pub(super) fn refresh(&mut self, now: Timestamp) {
        self.is_concluded = true;
        let used: BTreeSet<IpAddr> = self.enabled().iter().copied().collect();
        if !self.spec.reclaims {
            let known: BTreeSet<&IpAddr> = self.ips.iter().collect();
            self.addresses
                .retain(|ip, it| known.contains(ip) || it.under_way().is_some());
        }
        // Who fits now begins anew, wherever the addresses are.
        let since = &mut self.memory.unfit_since;
        since.retain(|server, _| !self.turns.fits(server));
        if self.nodes.is_none() || self.account.heard.is_none() {
            return;
        }
        let mut held = BTreeSet::new();
        let mut unfit = BTreeSet::new();
        for ip in &used {
            if let Some(server) = self.addresses.get(ip).and_then(Address::held_by) {
                held.insert((server.clone(), family(*ip)));
            }
            let place = self.addresses.get(ip).and_then(|it| it.place.server());
            unfit.extend(place.filter(|it| !self.turns.fits(it)).cloned());
        }
        // In the order of the specification, as free and parked ones are used in an order.
        for ip in &self.ips[..self.enabled] {
            let Some(address) = self.addresses.get_mut(ip) else {
                continue;
            };
            let standing = match &address.place {
                _ if address.under_way().is_some() => Standing::Unusable,
                Place::Unknown | Place::Missing => Standing::Unusable,
                Place::Nowhere => Standing::Free,
                Place::On(server) if self.turns.fits(server) => Standing::Placed,
                Place::On(_) => Standing::Parked,
            };
            if standing != address.standing {
                address.standing = standing;
                self.steps += 1;
                address.step = self.steps;
            }
        }
        let mut lost: Vec<_> = self
            .held
            .difference(&held)
            .map(|(server, _)| (self.name_of(server), server.clone()))
            .collect();
        lost.sort_unstable();
        for (_, server) in lost.into_iter().rev() {
            self.turns.put_first(&server);
        }
        self.held = held;
        let since = &mut self.memory.unfit_since;
        since.retain(|server, _| unfit.contains(server));
        for server in unfit {
            since.entry(server).or_insert(now);
        }
    }

    /// Whether the fitness of a server means something for an address.
    pub(super) fn has_to_do_with(&self, server: &str) -> bool {
        let mut places = self.addresses.values().filter_map(|it| it.place.server());
        places.any(|it| it == server) || self.memory.unfit_since.contains_key(server)
    }
}
