//! The leases of other nodes: whether a term of another node is over.
//!
//! That a lease is old says nothing by itself: it may have been renewed, and this node has
//! not seen it. So silence is counted on the own clock from when the lease was first seen
//! as it is, and then the API server is asked. If the other one had heard of a renewal
//! before its time was up, the API server would know of it by then.

use std::{collections::BTreeMap, time::Duration};

use super::{
    act::Act,
    agenda::{Agenda, longest_remains},
    event::ReadAnswer,
    pledges::Pledges,
    view::{Holding, LeaseView},
};
use crate::{lease::Moment, vip::Timing};

#[derive(Debug)]
pub(super) struct Rivals {
    me: String,
    timing: Timing,
    /// Nothing is taken for silence before this: what an earlier process of this node has
    /// promised is not known.
    quarantine: Moment,
    nodes: BTreeMap<String, Rival>,
}

#[derive(Debug)]
struct Rival {
    lease: Option<LeaseView>,
    /// Since when the lease is seen as it is.
    since: Moment,
    /// Since when it is seen with this term.
    term_since: Moment,
    /// Terms up to this one are over, and the kernel is silent too.
    over: i64,
    reading: Option<Reading>,
    /// No read before this.
    pause: Option<Moment>,
    /// Somebody vouches that the node does not run.
    down: bool,
}

#[derive(Debug)]
struct Reading {
    sent: Moment,
    /// The term that is over if nothing has changed.
    term: i64,
}

impl Rivals {
    pub fn new(me: String, timing: Timing, now: Moment) -> Self {
        Self {
            me,
            timing,
            quarantine: now.after(timing.beyond(timing.promise)),
            nodes: BTreeMap::new(),
        }
    }

    /// Takes in what a watch or a read has shown.
    pub fn seen(&mut self, node: &str, lease: Option<LeaseView>, now: Moment) {
        let rival = self.rival(node, now);
        if rival.lease.as_ref().map(|it| &it.version) == lease.as_ref().map(|it| &it.version) {
            return;
        }
        if rival.lease.as_ref().map(|it| it.term) != lease.as_ref().map(|it| it.term) {
            rival.term_since = now;
        }
        rival.since = now;
        rival.lease = lease;
    }

    /// Takes in whether somebody vouches that a node does not run.
    pub fn is_down(&mut self, node: &str, down: bool, now: Moment) {
        self.rival(node, now).down = down;
    }

    /// Takes in the answer to a read.
    pub fn read(
        &mut self,
        node: &str,
        answer: ReadAnswer<LeaseView>,
        pledges: &Pledges,
        now: Moment,
    ) {
        let Some(reading) = self.rival(node, now).reading.take() else {
            return;
        };
        let pause = now.after(self.timing.renew / 4);
        self.rival(node, now).pause = Some(pause);
        let ReadAnswer::Found(lease) = answer else {
            return;
        };
        self.seen(node, lease, now);
        // Judged as of when the question was sent: a lease that has changed since then, or
        // a promise that was given since then, is not answered by it.
        if self.quiet(node, reading.term, pledges, now) <= reading.sent {
            let rival = self.rival(node, now);
            rival.over = rival.over.max(reading.term);
        }
    }

    /// Whether a newer term than this is known.
    pub fn knows_newer(&self, node: &str, term: i64) -> bool {
        let lease = self.nodes.get(node).and_then(|it| it.lease.as_ref());
        lease.is_some_and(|it| it.term > term)
    }

    /// Whether this term was judged to be over.
    pub fn has_judged(&self, node: &str, term: i64) -> bool {
        self.nodes.get(node).is_some_and(|it| term <= it.over)
    }

    /// Whether a node was heard from a moment ago.
    pub fn is_heard(&self, node: &str, now: Moment) -> bool {
        self.nodes.get(node).is_some_and(|it| {
            let since = it.lease.as_ref().map(|_| it.since);
            since.is_some_and(|since| since.after(self.timing.renew * 2) > now)
        })
    }

    /// Whether the last that is known of a node is that it is silent.
    pub fn is_silent(&self, node: &str) -> bool {
        self.nodes.get(node).is_some_and(|it| {
            let term = it.lease.as_ref().map(|lease| lease.term);
            it.over > 0 && term.is_none_or(|term| term <= it.over)
        })
    }

    /// Whether nobody serves by this holding any more, neither an agent nor what a dead
    /// agent has left in the kernel.
    pub fn is_over(&mut self, holding: &Holding, agenda: &mut Agenda) -> bool {
        let node = &holding.candidate.node;
        if self.has_judged(node, holding.term) {
            return true;
        }
        if !self.knows_newer(node, holding.term) {
            return false;
        }
        // A new process may have begun the new term while the kernel still serves for the
        // old one.
        let remains = self.timing.beyond(longest_remains(&self.timing));
        agenda.due(self.rival(node, agenda.now).term_since.after(remains))
    }

    /// Whether a holder's node will be judged silent soon, unless it is heard from.
    pub fn is_suspect(
        &mut self,
        holding: &Holding,
        pledges: &Pledges,
        lead: Duration,
        agenda: &mut Agenda,
    ) -> bool {
        let node = &holding.candidate.node;
        if self.knows_newer(node, holding.term) {
            return false;
        }
        let quiet = self.quiet(node, holding.term, pledges, agenda.now);
        agenda.due(super::agenda::before(quiet, lead))
    }

    /// Asks the API server about a holder's node once it has been silent for long enough.
    pub fn look(
        &mut self,
        holding: &Holding,
        pledges: &Pledges,
        agenda: &mut Agenda,
    ) -> Option<Act> {
        let node = &holding.candidate.node;
        if self.knows_newer(node, holding.term) {
            return None;
        }
        let quiet = self.quiet(node, holding.term, pledges, agenda.now);
        if !agenda.due(quiet) {
            return None;
        }
        let rival = self.rival(node, agenda.now);
        if rival.reading.is_some() || rival.pause.is_some_and(|at| !agenda.due(at)) {
            return None;
        }
        rival.reading = Some(Reading {
            sent: agenda.now,
            term: holding.term,
        });
        Some(Act::ReadLease { node: node.clone() })
    }

    /// When a node will have been silent for so long that this term of it must be over.
    fn quiet(&mut self, node: &str, term: i64, pledges: &Pledges, now: Moment) -> Moment {
        let timing = self.timing;
        // Whom it does not name it does not ask, so it may go on without this node's word.
        let lease = self.nodes.get(node).and_then(|it| it.lease.as_ref());
        let asks = lease.is_some_and(|it| it.term == term && it.peers.contains(&self.me));
        let rival = self.rival(node, now);
        let span = if asks || rival.down {
            timing.duration
        } else {
            timing.autonomy
        };
        let quiet = rival.since.after(timing.beyond(span));
        quiet.max(pledges.end(node)).max(self.quarantine)
    }

    fn rival(&mut self, node: &str, now: Moment) -> &mut Rival {
        self.nodes.entry(node.to_owned()).or_insert(Rival {
            lease: None,
            since: now,
            term_since: now,
            over: 0,
            reading: None,
            pause: None,
            down: false,
        })
    }
}
