//! What the cloud has listed, and when to ask it again.

use std::{sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{address::Tick, agenda::Agenda, view::Trouble};
use crate::nodepool::{
    cloud::{Class, Listing, Refusal},
    retry::{Pace, Tries, after},
};

/// The time from one list to the next when nothing happens.
pub(super) const IDLE: Duration = Duration::from_mins(1);

/// How long lists may lag behind what was done, and how long an order without an answer
/// may still come true.
pub(super) const SETTLE: Duration = Duration::from_secs(10);

/// How old a list that was not asked for may be.
const UNASKED: Duration = Duration::from_secs(30);

/// The account of the cloud, as it was listed last.
#[derive(Clone, Debug, Default)]
pub(super) struct Account {
    pub listed: Arc<Listing>,
    /// When it was heard last.
    pub heard: Option<Timestamp>,
    /// When that list, or the one under way, was asked for.
    pub asked: Option<Tick>,
    pub trouble: Option<Trouble>,
    under_way: bool,
    tries: Tries,
    /// Lists in a row that were asked for because something was not settled.
    looks: u32,
    looks_since: Option<Timestamp>,
    at_once: bool,
    /// Nobody is asked anything before that.
    hold: Tries,
}

impl Account {
    /// Somebody cannot go on without a list.
    pub fn look_at_once(&mut self) {
        self.at_once = true;
    }

    /// Something is about to settle: look soon, and less and less often.
    pub fn look_soon(&mut self, now: Timestamp) {
        self.looks = 0;
        self.looks_since = Some(now);
    }

    /// Whether the cloud may be called at all.
    pub fn is_open(&self, agenda: &mut Agenda) -> bool {
        agenda.is_over(self.hold.next)
    }

    /// Whether to ask for a list now.
    pub fn ask(&mut self, eager: bool, step: u64, agenda: &mut Agenda) -> bool {
        if self.under_way || !self.is_open(agenda) || !agenda.is_over(self.tries.next) {
            return false;
        }
        if let (Some(heard), Some(asked)) = (self.heard, self.asked)
            && self.tries.next.is_none()
            && !self.at_once
        {
            let mut due = after(asked.at, IDLE);
            if eager {
                let from = self.looks_since.map_or(heard, |it| it.max(heard));
                due = due.min(after(from, Pace::Fast.wait(self.looks.saturating_add(1))));
            }
            if !agenda.due(due) {
                return false;
            }
        }
        self.under_way = true;
        self.at_once = false;
        self.asked = Some(Tick {
            at: agenda.now,
            step: Some(step),
        });
        true
    }

    /// A list has come in. Says when it was begun at the latest.
    pub fn heard(&mut self, listed: Arc<Listing>, eager: bool, now: Timestamp) -> Tick {
        let begun = match self.asked {
            Some(asked) if self.under_way => asked,
            Some(_) | None => Tick {
                at: now.checked_sub(UNASKED).unwrap_or(Timestamp::MIN),
                step: None,
            },
        };
        self.under_way = false;
        self.listed = listed;
        self.heard = Some(now);
        self.asked = Some(begun);
        self.trouble = None;
        self.tries = Tries::default();
        self.looks = if eager {
            self.looks.saturating_add(1)
        } else {
            0
        };
        self.answered(now);
        begun
    }

    /// The list could not be had. What was known stays known.
    pub fn unheard(&mut self, refusal: &Refusal, now: Timestamp) {
        self.under_way = false;
        self.tries.refused(refusal, now);
        self.trouble = Some(Trouble {
            reason: refusal.class.reason(),
            message: format!("retrieving IPs current provider ID: {refusal}"),
        });
    }

    /// Something was refused: when it was too much, everybody waits.
    pub fn refused(&mut self, refusal: &Refusal, now: Timestamp) {
        if refusal.class == Class::RateLimited {
            self.hold.refused(refusal, now);
        }
    }

    /// Until when everybody waits.
    pub fn held_until(&self, now: Timestamp) -> Timestamp {
        self.hold.next.map_or(now, |at| at.max(now))
    }

    /// Something was done: it is not too much any more.
    pub fn answered(&mut self, now: Timestamp) {
        if self.hold.next.is_some_and(|at| at <= now) {
            self.hold = Tries::default();
        }
    }
}
