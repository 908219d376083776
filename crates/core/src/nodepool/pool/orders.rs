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
                order.stage = Stage::Unclear { since: agenda.now };
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
                self.unclear(ip, now);
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
                | Class::Invalid => self.unclear(ip, now),
                Class::Quota
                | Class::RateLimited
                | Class::Busy
                | Class::Unauthorized
                | Class::Unavailable
                | Class::Unclear => {
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

    /// There is no answer to an order, or none any more.
    fn unclear(&mut self, ip: IpAddr, now: Timestamp) {
        let changed = self.tick(now);
        let Some(address) = self.addresses.get_mut(&ip) else {
            return;
        };
        if let Some(order) = &mut address.order {
            order.stage = Stage::Unclear { since: now };
            let server = order.target.clone();
            self.memory.pending.insert(ip, nameless(server));
            // It may have been done: the next one keeps its distance.
            if order.target.is_some() {
                self.assigned = Some(now);
            }
        }
        address.changed = changed;
        self.account.look_soon(now);
        self.account.look_at_once();
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
        let what = match &order.target {
            Some(_) => {
                address.assignment_errors += 1;
                "assigning IP to node"
            }
            None => "detaching IP from node",
        };
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
            Class::ZoneUnknown
            | Class::Quota
            | Class::Unauthorized
            | Class::Invalid
            | Class::Unavailable
            | Class::Unclear => {
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
