//! The own lease: until when this node may serve at all.
//!
//! A term begins when the API server has accepted a lease with a new number, and lasts
//! while renewals are accepted or all peers promise. Once its deadline has passed it is
//! over, whatever is heard later.
//!
//! No deadline ever lies further ahead than a lease lasts, also by promises. For whoever is
//! named as a peer from now on has promised nothing, and waits only that long.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    act::Act,
    agenda::{Agenda, before},
    event::{LeaseAnswer, ReadAnswer},
    view::LeaseView,
};
use crate::{lease::Moment, vip::Timing};

#[derive(Debug)]
pub(super) struct Tenure {
    me: String,
    timing: Timing,
    known: Known,
    busy: Option<Busy>,
    /// No read or write before this.
    pause: Option<Moment>,
    term: Option<Term>,
    /// No term up to this one may begin any more.
    highest: i64,
    tickets: u64,
}

/// What the lease is, for all that is known.
#[derive(Debug)]
enum Known {
    /// It has to be read first.
    Nothing,
    /// There is none.
    Absent,
    /// It has this version.
    Version(String),
}

#[derive(Debug)]
enum Busy {
    Reading,
    Writing(Attempt),
}

#[derive(Debug)]
struct Attempt {
    term: i64,
    /// Whether it begins a term. A renewal never does, even if its term is over by now.
    begins: bool,
    peers: BTreeSet<String>,
    /// Read before it was sent: whoever sees it can only have seen it later.
    sent: Moment,
}

#[derive(Debug)]
struct Term {
    number: i64,
    deadline: Moment,
    /// When the last renewal that was accepted was sent.
    renewed: Moment,
    /// When the last renewal was tried.
    tried: Moment,
    /// The peers in the lease that was accepted last.
    acknowledged: BTreeSet<String>,
    /// The peers in leases that were sent since and may be there or may come yet.
    uncertain: BTreeSet<String>,
    /// When a peer was asked for the last promise that it gave.
    promised: BTreeMap<String, Moment>,
    /// Questions without an answer.
    asked: BTreeMap<u64, (String, Moment)>,
    /// When all were asked last.
    round: Option<Moment>,
}

impl Tenure {
    pub fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            known: Known::Nothing,
            busy: None,
            pause: None,
            term: None,
            highest: 0,
            tickets: 0,
        }
    }

    /// Ends the term if its deadline has passed. To be called before anything else is
    /// concluded from it.
    pub fn expire(&mut self, now: Moment) {
        if self.term.as_ref().is_some_and(|it| it.deadline <= now) {
            self.term = None;
        }
    }

    /// The number of the running term.
    pub fn term(&self) -> Option<i64> {
        self.term.as_ref().map(|it| it.number)
    }

    /// Until when the running term lasts.
    pub fn deadline(&self) -> Option<Moment> {
        self.term.as_ref().map(|it| it.deadline)
    }

    /// Takes in that a term of this node is named somewhere, so that it is not used again
    /// should the lease be lost.
    pub fn has_been(&mut self, term: i64) {
        self.highest = self.highest.max(term);
    }

    /// Takes in the answer to a write.
    pub fn written(&mut self, answer: LeaseAnswer, now: Moment) {
        let attempt = match self.busy.take() {
            Some(Busy::Writing(attempt)) => attempt,
            other => {
                self.busy = other;
                return;
            }
        };
        self.expire(now);
        let version = match answer {
            LeaseAnswer::Written { version } => version,
            LeaseAnswer::Refused => {
                self.failed(now.after(self.timing.renew / 10));
                return;
            }
            LeaseAnswer::Unknown => {
                self.failed(attempt.sent.after(self.timing.renew / 2));
                return;
            }
        };
        self.known = Known::Version(version);
        let until = attempt.sent.after(self.timing.duration);
        match &mut self.term {
            Some(term) if term.number == attempt.term => {
                term.renewed = attempt.sent;
                term.acknowledged = attempt.peers;
                // The lease has moved on: what was sent before can no longer be accepted.
                term.uncertain.clear();
                term.deadline = term.deadline.max(until);
            }
            None if attempt.begins && now < until => {
                self.term = Some(Term {
                    number: attempt.term,
                    deadline: until,
                    renewed: attempt.sent,
                    tried: attempt.sent,
                    acknowledged: attempt.peers,
                    uncertain: BTreeSet::new(),
                    promised: BTreeMap::new(),
                    asked: BTreeMap::new(),
                    round: None,
                });
            }
            // It came too late for a term to begin or to go on.
            Some(_) | None => {}
        }
    }

    /// Takes in the answer to a read of the own lease.
    pub fn read(&mut self, answer: ReadAnswer<LeaseView>, now: Moment) {
        if !matches!(self.busy, Some(Busy::Reading)) {
            return;
        }
        self.busy = None;
        let ReadAnswer::Found(lease) = answer else {
            self.pause = Some(now.after(self.timing.renew / 2));
            return;
        };
        let number = lease.as_ref().map(|it| it.term);
        self.has_been(number.unwrap_or_default());
        // Somebody else has begun a term of this node, or has taken the lease away: others
        // judge by what is there now.
        if self.term.is_some() && self.term() != number {
            self.term = None;
        }
        self.known = lease.map_or(Known::Absent, |it| Known::Version(it.version));
    }

    /// Takes in the answer to a question for a promise.
    pub fn promised(&mut self, by: &str, term: i64, ticket: u64, granted: bool, now: Moment) {
        self.expire(now);
        let Some(running) = self.term.as_mut().filter(|it| it.number == term) else {
            return;
        };
        if running
            .asked
            .get(&ticket)
            .is_none_or(|(node, _)| node != by)
        {
            return;
        }
        let Some((_, sent)) = running.asked.remove(&ticket).filter(|_| granted) else {
            return;
        };
        let last = running.promised.entry(by.to_owned()).or_insert(sent);
        *last = sent.max(*last);
        self.extend(now);
    }

    /// Begins what is to be done about the lease. `wanted` has the peers to name, or is
    /// nothing when there is no use for a term.
    pub fn poll(
        &mut self,
        wanted: Option<&BTreeSet<String>>,
        addresses: &BTreeMap<String, IpAddr>,
        agenda: &mut Agenda,
    ) -> Vec<Act> {
        let Some(peers) = wanted else {
            return Vec::new();
        };
        let mut acts = self.ask(addresses, agenda);
        self.extend(agenda.now);
        if self.busy.is_some() || self.pause.is_some_and(|at| !agenda.due(at)) {
            return acts;
        }
        let expected = match &self.known {
            Known::Nothing => {
                self.busy = Some(Busy::Reading);
                let node = self.me.clone();
                acts.push(Act::ReadLease { node });
                return acts;
            }
            Known::Absent => None,
            Known::Version(version) => Some(version.clone()),
        };
        let now = agenda.now;
        let number = match &mut self.term {
            Some(term) => {
                let pace = if *peers == term.acknowledged {
                    self.timing.renew
                } else {
                    self.timing.renew / 20
                };
                if !agenda.due(term.tried.after(pace)) {
                    return acts;
                }
                term.tried = now;
                term.uncertain.extend(peers.iter().cloned());
                term.number
            }
            None => self.highest.saturating_add(1).max(self.timing.first_term),
        };
        self.highest = number;
        self.busy = Some(Busy::Writing(Attempt {
            term: number,
            begins: self.term.is_none(),
            peers: peers.clone(),
            sent: now,
        }));
        acts.push(Act::WriteLease {
            expected,
            term: number,
            peers: peers.clone(),
        });
        acts
    }

    /// Takes in that a write has failed: the lease has to be read, and written again, but
    /// not before `pause`.
    fn failed(&mut self, pause: Moment) {
        self.known = Known::Nothing;
        self.pause = Some(pause);
        if let Some(term) = &mut self.term {
            term.tried = before(pause, self.timing.renew);
        }
    }

    /// Asks all peers when renewals fail.
    fn ask(&mut self, addresses: &BTreeMap<String, IpAddr>, agenda: &mut Agenda) -> Vec<Act> {
        let Some(term) = &mut self.term else {
            return Vec::new();
        };
        let pace = self.timing.renew / 2;
        if !agenda.due(term.renewed.after(self.timing.renew * 3 / 2))
            || term.round.is_some_and(|at| !agenda.due(at.after(pace)))
        {
            return Vec::new();
        }
        let now = agenda.now;
        let useful = before(now, self.timing.promise);
        term.asked.retain(|_, (_, sent)| useful < *sent);
        term.round = Some(now);
        agenda.due(now.after(pace));
        let mut acts = Vec::new();
        for node in term.acknowledged.union(&term.uncertain) {
            // Who cannot be asked does not promise.
            let Some(&address) = addresses.get(node) else {
                continue;
            };
            self.tickets += 1;
            term.asked.insert(self.tickets, (node.clone(), now));
            acts.push(Act::Ask {
                node: node.clone(),
                address,
                term: term.number,
                ticket: self.tickets,
            });
        }
        acts
    }

    /// Moves the deadline as far as promises go.
    fn extend(&mut self, now: Moment) {
        let Some(term) = &mut self.term else { return };
        if now < term.renewed.after(self.timing.renew * 3 / 2) {
            return;
        }
        let mut until = term.renewed.after(self.timing.autonomy);
        let mut peers = term.acknowledged.union(&term.uncertain).peekable();
        if peers.peek().is_none() {
            // Nobody may take over before the end of autonomy; but a kernel that is left
            // alone must not go on for so long.
            until = until.min(now.after(self.timing.duration));
        }
        for node in peers {
            let Some(sent) = term.promised.get(node) else {
                return;
            };
            until = until.min(sent.after(self.timing.promise.min(self.timing.duration)));
        }
        term.deadline = term.deadline.max(until);
    }
}
