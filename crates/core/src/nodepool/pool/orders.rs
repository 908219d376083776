//! What becomes of what was asked of the cloud.

use std::{net::IpAddr, time::Duration};

use jiff::Timestamp;

use super::{
    Pool,
    address::{Address, Order, Place, Shown, Stage},
    agenda::Agenda,
    call::{Answer, Call},
    memory::{Move, Pending},
    spec::Server,
    view::Trouble,
};
use crate::nodepool::{
    cloud::{Class, Progress, Refusal, Taken},
    retry::{Pace, Tries, after},
};

/// After this time an order under way is looked for in lists: its name may have been
/// forgotten.
const FORGOTTEN: Duration = Duration::from_hours(1);

impl Pool {
    /// Asks how far orders are.
    pub(super) fn check(&mut self, agenda: &mut Agenda) -> Vec<Call> {
        let is_open = self.account.is_open(agenda);
        let changed = self.tick(agenda.now);
        let mut calls = Vec::new();
        for (ip, address) in &mut self.addresses {
            let Some(order) = &mut address.order else {
                continue;
            };
            let Stage::Pending {
                handle,
                since,
                checking,
                looks,
            } = &mut order.stage
            else {
                continue;
            };
            let began = *since.get_or_insert(agenda.now);
            if *checking {
                continue;
            }
            if handle.is_empty() || agenda.due(after(began, FORGOTTEN)) {
                order.stage = Stage::Unclear {
                    since: agenda.now,
                    answer: None,
                    undone: false,
                };
                address.changed = changed;
                let server = order.target.clone();
                self.memory.pending.insert(*ip, nameless(server));
                self.account.look_at_once();
            } else if agenda.is_over(looks.next) && is_open {
                *checking = true;
                calls.push(Call::Check {
                    ip: *ip,
                    handle: handle.clone(),
                });
            }
        }
        calls
    }

    /// The answer to an order. One that nobody waits for any more is not heard.
    pub(super) fn ordered(
        &mut self,
        ip: IpAddr,
        target: Option<&Server>,
        answer: Answer,
        now: Timestamp,
    ) {
        let address = self.addresses.get_mut(&ip);
        let order = address.and_then(|it| it.order.as_mut());
        let Some(order) = order.filter(|it| it.is_called() && it.target.as_ref() == target) else {
            return;
        };
        match answer {
            Answer::Taken(Taken::Done) | Answer::Done => {
                self.accepted(ip, now);
                self.done(ip, false, now);
            }
            Answer::Taken(Taken::Pending(handle)) => {
                let mut looks = Tries::default();
                looks.again(Pace::Fast, now);
                order.stage = Stage::Pending {
                    handle: handle.clone(),
                    since: Some(now),
                    checking: false,
                    looks,
                };
                let server = order.target.clone();
                self.memory.pending.insert(ip, Pending { server, handle });
                self.accepted(ip, now);
            }
            Answer::Refused(refusal) if refusal.class == Class::Unclear => {
                self.unclear(ip, Some(refusal).filter(|it| it.answered), now);
            }
            Answer::Refused(refusal) => self.failed(ip, &refusal, now),
            Answer::Listed(_) | Answer::Progress(_) | Answer::Bought(_) => {
                debug_assert!(false, "no answer to an order: {answer:?}");
            }
        }
    }

    /// How far an order is.
    pub(super) fn checked(&mut self, ip: IpAddr, of: &str, answer: Answer, now: Timestamp) {
        let address = self.addresses.get_mut(&ip);
        let order = address.and_then(|it| it.order.as_mut());
        let Some(Order {
            stage:
                Stage::Pending {
                    handle,
                    checking,
                    looks,
                    ..
                },
            ..
        }) = order
        else {
            return;
        };
        if handle != of || !*checking {
            return;
        }
        *checking = false;
        match answer {
            Answer::Progress(Progress::Pending) => {
                looks.again(Pace::Fast, now);
            }
            Answer::Progress(Progress::Done) | Answer::Done => self.done(ip, false, now),
            Answer::Progress(Progress::Failed(words)) => {
                self.failed(ip, &Refusal::new(Class::Unavailable, words), now);
            }
            Answer::Refused(refusal) => match refusal.class {
                // The cloud does not know this order (any more).
                Class::AddressUnknown
                | Class::ServerUnknown
                | Class::ServerTaken
                | Class::HeldElsewhere
                | Class::ZoneUnknown
                | Class::Invalid => self.unclear(ip, None, now),
                Class::Quota
                | Class::RateLimited
                | Class::Busy
                | Class::Unauthorized
                | Class::Unavailable
                | Class::Unclear
                | Class::NotStored
                | Class::NotPermitted => {
                    // The order goes on, whatever is wrong with the question.
                    let asked = refusal.retry_after;
                    let soon = Refusal::new(Class::Unavailable, "").after(asked);
                    looks.refused(&soon, now);
                }
            },
            Answer::Listed(_) | Answer::Taken(_) | Answer::Bought(_) => {
                debug_assert!(false, "no answer to a check: {answer:?}");
            }
        }
    }

    /// The cloud has taken an order.
    pub(super) fn accepted(&mut self, ip: IpAddr, now: Timestamp) {
        let changed = self.tick(now);
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        address.changed = changed;
        address.tries = Tries::default();
        address.trouble = None;
        address.refused_by.clear();
        let target = address.order.as_ref().and_then(|it| it.target.as_ref());
        if let Some(server) = target {
            address.assignments += 1;
            self.assigned = Some(now);
            self.turns.succeeded(server);
            self.unknown_servers.remove(server);
        }
    }

    /// An order is done; `seen` when a list says so.
    pub(super) fn done(&mut self, ip: IpAddr, seen: bool, now: Timestamp) {
        self.memory.pending.remove(&ip);
        let changed = self.tick(now);
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        let Some(order) = address.order.take() else {
            return;
        };
        address.changed = changed;
        address.missed = 0;
        address.place = Place::of(order.target.as_ref());
        if !seen {
            let stage = Stage::Settling {
                since: now,
                doubted: false,
            };
            address.order = Some(Order {
                stage,
                ..order.clone()
            });
            self.account.look_soon(now);
        }
        let Some(server) = order.target else {
            address.origin = Some(order.origin);
            return;
        };
        address.origin = None;
        if self.ips.contains(&ip) {
            let last = Move {
                at: now,
                from: order.origin.from,
                to: self.name_of(&server),
                reason: order.origin.reason.to_owned(),
            };
            self.memory.moves.insert(ip, last);
        }
    }

    /// There is no answer to an order, or none any more; or the cloud has answered that it failed,
    /// which does not tell whether it was done. Then the same order is given again when its
    /// time has come and a list shows that it is not done: it could do no harm twice.
    fn unclear(&mut self, ip: IpAddr, answer: Option<Refusal>, now: Timestamp) {
        let changed = self.tick(now);
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        if let Some(order) = &mut address.order {
            let since = *order.unclear_since.get_or_insert(now);
            order.stage = Stage::Unclear {
                since,
                answer: answer.clone(),
                undone: false,
            };
            let server = order.target.clone();
            self.memory.pending.insert(ip, nameless(server));
            // It may have been done: the next one keeps its distance.
            let is_assignment = order.target.is_some();
            if is_assignment {
                self.assigned = Some(now);
            }
            if let Some(refusal) = answer {
                if is_assignment {
                    address.assignment_errors += 1;
                }
                let until = address.tries.refused(&refusal, now);
                let what = what_failed(is_assignment);
                let reason = Class::Unavailable.reason();
                address.show(reason, format!("{what}: {refusal}"), until);
            }
        }
        address.changed = changed;
        self.account.look_soon(now);
        self.account.look_at_once();
    }

    /// Gives orders again of which the cloud said that they failed, and of which a list shows that
    /// they are not done.
    pub(super) fn repeat(&mut self, agenda: &mut Agenda) -> Vec<Call> {
        let mut calls = Vec::new();
        if !self.account.is_open(agenda) {
            return calls;
        }
        let undone = self.addresses.iter().filter(|(_, it)| {
            let order = it.order.as_ref();
            order.is_some_and(|it| matches!(it.stage, Stage::Unclear { undone: true, .. }))
        });
        let undone: Vec<IpAddr> = undone.map(|(ip, _)| *ip).collect();
        for ip in undone {
            let Some(address) = self.addresses.get(&ip) else {
                continue;
            };
            let Some(order) = &address.order else {
                continue;
            };
            let target = order.target.clone();
            // For another node the end of this order has to be known first.
            let fits = target.as_ref().is_none_or(|it| self.turns.fits(it));
            let is_alone = !self.spec.capabilities.displaces || self.is_room_known(agenda.now);
            if !fits || !is_alone || !agenda.is_over(address.tries.next) {
                continue;
            }
            if target.is_some() && !self.has_cooled_off(agenda) {
                continue;
            }
            if let Some(order) = self.addresses.get_mut(&ip).and_then(|it| it.order.as_mut()) {
                order.stage = Stage::Called;
            }
            calls.push(match target {
                Some(server) => Call::Assign { ip, server },
                None => Call::Detach { ip },
            });
        }
        calls
    }

    /// An order whose end was not known was not done. One of which the cloud has said that it
    /// failed was counted then, and its wait goes on.
    pub(super) fn not_done(&mut self, ip: IpAddr, now: Timestamp) {
        let address = self.addresses.get_mut(&ip);
        let order = address.as_ref().and_then(|it| it.order.as_ref());
        let stage = order.map(|it| &it.stage);
        let Some(Stage::Unclear {
            answer: Some(_), ..
        }) = stage
        else {
            let refusal = Refusal::new(Class::Unclear, "no answer from the provider");
            self.failed(ip, &refusal, now);
            return;
        };
        let order = address.and_then(|it| it.order.take());
        self.memory.pending.remove(&ip);
        if let Some(server) = order.and_then(|it| it.target) {
            self.turns.failed(&server);
        }
        let changed = self.tick(now);
        if let Some(address) = self.addresses.get_mut(&ip) {
            address.changed = changed;
        }
    }

    /// An order was refused, or has failed. What happens next depends on whose fault it is.
    pub(super) fn failed(&mut self, ip: IpAddr, refusal: &Refusal, now: Timestamp) {
        self.memory.pending.remove(&ip);
        let changed = self.tick(now);
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        let Some(order) = address.order.take() else {
            return;
        };
        address.changed = changed;
        let what = what_failed(order.target.is_some());
        if order.target.is_some() {
            address.assignment_errors += 1;
        }
        let until = match refusal.class {
            Class::ServerTaken | Class::ServerUnknown => {
                self.account.look_at_once();
                let place = address.place.server();
                let server = order.target.as_ref().or(place).cloned();
                let server = server.unwrap_or_default();
                if refusal.class == Class::ServerUnknown {
                    self.unknown_servers.insert(server.clone());
                }
                if order.target.is_some() {
                    self.turns.refused(&server, refusal, now)
                } else {
                    address.tries.refused(refusal, now)
                }
            }
            // Everybody waits, and this is nobody's fault.
            Class::RateLimited => self.account.held_until(now),
            Class::AddressUnknown | Class::HeldElsewhere | Class::Busy => {
                self.account.look_at_once();
                address.tries.refused(refusal, now)
            }
            // Nothing tells whether the address or the server is to blame: another server that fits
            // may get it, and this one another address.
            Class::Invalid if order.target.is_some() => {
                let server = order.target.clone().unwrap_or_default();
                self.turns.failed(&server);
                let tries = address.refused_by.entry(server).or_default();
                tries.refused(refusal, now);
                address.tries.again(Pace::Fast, now)
            }
            Class::ZoneUnknown
            | Class::Quota
            | Class::Unauthorized
            | Class::Invalid
            | Class::Unavailable
            | Class::Unclear
            | Class::NotStored
            | Class::NotPermitted => {
                if let Some(server) = &order.target {
                    self.turns.failed(server);
                }
                if address.place == Place::Unknown {
                    self.account.look_at_once();
                }
                address.tries.refused(refusal, now)
            }
        };
        address.show(refusal.class.reason(), format!("{what}: {refusal}"), until);
    }
}

/// The words of FLIPOP's status.
fn what_failed(is_assignment: bool) -> &'static str {
    if is_assignment {
        "assigning IP to node"
    } else {
        "detaching IP from node"
    }
}

/// An order without an answer, as the next process has to know it.
fn nameless(server: Option<Server>) -> Pending {
    Pending {
        server,
        handle: String::new(),
    }
}

impl Address {
    pub(super) fn show(&mut self, reason: &'static str, message: String, until: Timestamp) {
        let trouble = Trouble { reason, message };
        self.trouble = Some(Shown { trouble, until });
    }
}
