//! Which node is served next, and with which address.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use jiff::Timestamp;

use super::{
    Pool,
    address::{Address, Order, Origin, Stage, Standing, family},
    agenda::Agenda,
    call::Call,
    spec::Server,
};
use crate::{ipam::families::Family, nodepool::retry::after};

/// Where a second address pushes the first off, a list may be this old when one is assigned.
const FRESH: Duration = Duration::from_secs(5);

/// An address that a node may get, in the order of use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Use {
    /// It is on no server; the last one that came is used first.
    Free(std::cmp::Reverse<u64>),
    /// It is on a server that does not fit; the first one is used first.
    Parked(u64),
    /// Its node has another one too.
    Surplus(std::cmp::Reverse<usize>),
}

impl Pool {
    /// Gives waiting nodes what there is.
    pub(super) fn plan(&mut self, agenda: &mut Agenda) -> Vec<Call> {
        let mut calls = Vec::new();
        if self.nodes.is_none() || self.account.heard.is_none() || !self.account.is_open(agenda) {
            return calls;
        }
        // Where addresses push each other off, one that is on its way to nobody knows where
        // may go to any server.
        let mut own = self.addresses.values();
        let is_stray = own.any(|it| it.busy && it.order.is_none());
        if self.spec.capabilities.displaces && is_stray {
            return calls;
        }
        self.is_spent = true;
        for family in [Family::V4, Family::V6] {
            let usable = self.usable(family, agenda);
            if usable.is_empty() {
                continue;
            }
            self.is_spent = false;
            let refused = usable.iter().map(|(_, ip)| self.refusals_of(*ip));
            let count = usable.len() + refused.max().unwrap_or_default();
            let mut servers = self.to_serve(family, count, agenda);
            for (_, ip) in usable {
                let mut accepted = servers.iter();
                let accepted = accepted.position(|it| !self.is_refused(ip, it, agenda));
                let Some(server) = accepted.map(|position| servers.remove(position)) else {
                    continue;
                };
                if !self.has_cooled_off(agenda) {
                    return calls;
                }
                if self.spec.capabilities.displaces && !self.is_room_known(agenda.now) {
                    self.account.look_at_once();
                    return calls;
                }
                calls.extend(self.order(ip, &server));
            }
        }
        calls
    }

    /// Fitting nodes without an address of this family, in the order of service.
    pub(super) fn waiting(&self, family: Family) -> impl Iterator<Item = &Server> {
        let served = self.served(family);
        self.turns
            .in_order()
            .filter(move |server| !served.contains(server))
    }

    /// Whether a server has as many addresses as it can have, or one that would be lost.
    pub(super) fn is_full(&self, server: &str, kind: Family) -> bool {
        let capabilities = self.spec.capabilities;
        let limit = if capabilities.displaces {
            Some(1)
        } else {
            capabilities.per_server
        };
        let Some(limit) = limit else {
            return false;
        };
        let own = self.addresses.iter();
        let own = own.filter(|(ip, it)| family(**ip) == kind && it.weighs_on(server));
        let others = self.account.listed.on(server).iter();
        let others = others.filter(|ip| family(**ip) == kind && !self.addresses.contains_key(*ip));
        own.count() + others.count() >= limit
    }

    /// When a server that does not fit has had its grace.
    fn grace_ends(&self, server: &str) -> Timestamp {
        let since = self.memory.unfit_since.get(server);
        let since = since.copied().unwrap_or(Timestamp::MIN);
        let node = self.nodes.as_ref().and_then(|it| it.get(server));
        let grace = &self.spec.grace;
        let wait = match node.map(|it| it.unfit) {
            _ if self.unknown_servers.contains(server) => Duration::ZERO,
            Some(Some(cause)) => grace.of(cause),
            Some(None) => Duration::ZERO,
            None => grace.node_gone,
        };
        after(since, wait)
    }

    /// The servers that have an address of this family, or will have it.
    fn served(&self, kind: Family) -> BTreeSet<&Server> {
        let enabled = self.enabled().iter().filter(|ip| family(**ip) == kind);
        let seats = enabled.filter_map(|ip| self.addresses.get(ip).and_then(Address::seat));
        seats.collect()
    }

    /// The addresses that could be ordered now.
    fn usable(&self, kind: Family, agenda: &mut Agenda) -> Vec<(Use, IpAddr)> {
        let mut usable = Vec::new();
        for (index, ip) in self.enabled().iter().enumerate() {
            let Some(address) = self.addresses.get(ip) else {
                continue;
            };
            if family(*ip) != kind || !address.is_quiet() || address.foreign {
                continue;
            }
            let usage = match (address.standing, address.place.server()) {
                (Standing::Free, _) if self.awaits_purchase(agenda) => continue,
                (Standing::Free, _) => Use::Free(std::cmp::Reverse(address.step)),
                (Standing::Parked, Some(server)) => {
                    if !agenda.due(self.grace_ends(server)) {
                        continue;
                    }
                    Use::Parked(address.step)
                }
                (Standing::Placed, Some(server)) if self.is_surplus(index, server, kind) => {
                    Use::Surplus(std::cmp::Reverse(index))
                }
                (Standing::Unusable | Standing::Placed | Standing::Parked, _) => continue,
            };
            if agenda.is_over(address.tries.next) {
                usable.push((usage, *ip));
            }
        }
        usable.sort_unstable();
        usable
    }

    /// Whether an earlier one of the list is on the same node. One that is only on its way
    /// there may never arrive.
    fn is_surplus(&self, index: usize, server: &str, kind: Family) -> bool {
        let mut earlier = self.enabled()[..index].iter();
        earlier.any(|ip| {
            let holder = self.addresses.get(ip).and_then(Address::held_by);
            family(*ip) == kind && holder.is_some_and(|it| it == server)
        })
    }

    /// For how many servers the cloud has refused an address.
    fn refusals_of(&self, ip: IpAddr) -> usize {
        let address = self.addresses.get(&ip);
        address.map_or(0, |it| it.refused_by.len())
    }

    /// Whether the cloud has just refused this address for this server.
    fn is_refused(&self, ip: IpAddr, server: &str, agenda: &mut Agenda) -> bool {
        let tries = self.addresses.get(&ip);
        let tries = tries.and_then(|it| it.refused_by.get(server));
        tries.is_some_and(|it| !agenda.is_over(it.next))
    }

    /// The nodes that could get one of so many addresses now.
    fn to_serve(&self, kind: Family, count: usize, agenda: &mut Agenda) -> Vec<Server> {
        // What is being taken off a server is for those who have waited longest.
        let coming = self.enabled().iter().filter(|ip| {
            let order = self.addresses.get(ip).and_then(Address::under_way);
            family(**ip) == kind && order.is_some_and(|it| it.target.is_none())
        });
        self.waiting(kind)
            .skip(coming.count())
            .filter(|server| !self.is_full(server, kind))
            .filter(|server| agenda.is_over(self.turns.wait_of(server)))
            .take(count)
            .cloned()
            .collect()
    }

    pub(super) fn has_cooled_off(&self, agenda: &mut Agenda) -> bool {
        let cool_off = self.spec.cool_off;
        if cool_off.is_zero() {
            return true;
        }
        let mut orders = self.addresses.values().filter_map(Address::under_way);
        let last = self.assigned.map(|at| after(at, cool_off));
        agenda.is_over(last) && !orders.any(Order::is_called)
    }

    /// Whether one may believe that a server without an address will have none.
    pub(super) fn is_room_known(&self, now: Timestamp) -> bool {
        let heard = self.account.heard;
        heard.is_some_and(|at| after(at, FRESH) >= now)
    }

    /// Orders an address for a node: off its server first, where the cloud asks for that.
    fn order(&mut self, ip: IpAddr, server: &str) -> Option<Call> {
        let origin = self.origin(ip);
        let address = self.addresses.get_mut(&ip)?;
        let must_leave = address.place.server().is_some() && !self.spec.capabilities.steals;
        let target = (!must_leave).then(|| server.to_owned());
        address.order = Some(Order {
            target: target.clone(),
            stage: Stage::Called,
            origin,
            unclear_since: None,
        });
        Some(match target {
            Some(server) => Call::Assign { ip, server },
            None => Call::Detach { ip },
        })
    }

    /// Where an address comes from, and why it leaves.
    fn origin(&self, ip: IpAddr) -> Origin {
        let address = self.addresses.get(&ip);
        let Some(server) = address.and_then(|it| it.place.server()) else {
            let taken = address.and_then(|it| it.origin.clone());
            return taken.unwrap_or(Origin {
                from: String::new(),
                reason: "Unassigned",
            });
        };
        let node = self.nodes.as_ref().and_then(|it| it.get(server));
        let reason = match node.map(|it| it.unfit) {
            Some(Some(cause)) => cause.reason(),
            Some(None) => "Surplus",
            None => "NodeGone",
        };
        Origin {
            from: self.name_of(server),
            reason,
        }
    }

    /// Takes an address off its server, for nobody.
    pub(super) fn take_off(&mut self, ip: IpAddr) -> Option<Call> {
        let origin = self.origin(ip);
        self.addresses.get_mut(&ip)?.order = Some(Order {
            target: None,
            stage: Stage::Called,
            origin,
            unclear_since: None,
        });
        Some(Call::Detach { ip })
    }
}
