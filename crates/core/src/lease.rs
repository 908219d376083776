//! Leadership of one replica among several, decided from a shared lease.
//!
//! The rules are those of the Kubernetes Go client's leader election, so that
//! both kinds of clients can share one lease object:
//!
//! - The lease names its holder. The holder renews it every retry period.
//! - Another candidate may take it when the holder's name is empty, or when
//!   the record has not changed for the duration that is written in it. The
//!   change is timed by the *observer's* own monotonic clock. The times inside
//!   the record come from other hosts' clocks and are never compared.
//! - A holder that cannot renew stops leading at the renew deadline, which is
//!   shorter than the lease duration.
//!
//! ```text
//!              lease free or expired, write accepted
//!   Following ----------------------------------------> Leading --+
//!       ^                                                  |  ^   | renewed
//!       |   renew deadline passed, or name not in record   |  +---+
//!       +--------------------------------------------------+
//! ```
//!
//! One round of the caller is: read the lease, [`Candidate::decide`], write the
//! record that the decision carries, [`Candidate::written`] when the write was
//! accepted.
//!
//! Rounds come at a steady pace. A caller that also watches the lease may start
//! one early when [`Candidate::is_worth_a_look`] says so; a watch that is late,
//! wrong or missing then only costs time, since the round reads for itself.
//!
//! # Guarantees
//! At most one candidate is leader at any moment.
//!
//! # Assumptions
//! Clocks of all hosts run at the same speed; they may show different times.
//! Writes are refused when the lease has changed since it was read. Identities
//! are never used twice. Nobody deletes the lease or edits it by hand.

use std::time::Duration;

use jiff::Timestamp;

pub use timing::{JITTER, LONGEST_WAKE_PAUSE, Timing, TimingError};

mod timing;

/// A point on the local monotonic clock, counted from any fixed start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(pub Duration);

impl Moment {
    /// The moment that lies `span` after this one.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    /// The time from `now` until this moment; zero when it has passed.
    pub fn remaining(self, now: Self) -> Duration {
        self.0.saturating_sub(now.0)
    }
}

/// The content of the lease object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Identity of the holder; empty when the lease was released.
    pub holder: String,
    /// How long others wait without seeing a change before they take the lease.
    pub duration_seconds: u32,
    /// When the holder got the lease, by the holder's wall clock.
    pub acquired: Option<Timestamp>,
    /// When the holder renewed it last, by the holder's wall clock.
    pub renewed: Option<Timestamp>,
    /// How often the lease has passed from one holder to another.
    pub transitions: u32,
}

impl Record {
    /// Whether the last holder has given the lease back.
    pub fn is_released(&self) -> bool {
        self.holder.is_empty()
    }
}

/// What to do after a look at the lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The lease is free: write this record to lead.
    Acquire {
        /// The record to write.
        record: Record,
        /// Why the lease is free.
        vacancy: Vacancy,
    },
    /// The lease is ours: write this record to lead on.
    Renew {
        /// The record to write.
        record: Record,
    },
    /// Somebody else holds the lease: write nothing.
    Wait {
        /// The holder.
        holder: String,
        /// When the lease expires unless the holder renews it.
        until: Moment,
    },
    /// We led and do no longer: stop leading, write nothing in this round.
    StepDown(Loss),
}

/// Why a lease is free.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Vacancy {
    /// There is no lease object: create it.
    Absent,
    /// The last holder has released it.
    Released,
    /// The holder has not renewed it in time.
    Expired {
        /// The silent holder.
        holder: String,
    },
}

impl Vacancy {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Absent => "LeaseAbsent",
            Self::Released => "LeaseReleased",
            Self::Expired { .. } => "LeaseExpired",
        }
    }
}

/// Why a term has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Loss {
    /// No renewal was accepted until the renew deadline.
    RenewDeadlinePassed,
    /// The record names another holder.
    LeaseTaken {
        /// The new holder.
        holder: String,
    },
    /// The record names nobody, or is gone.
    LeaseVacated,
}

impl Loss {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RenewDeadlinePassed => "RenewDeadlinePassed",
            Self::LeaseTaken { .. } => "LeaseTaken",
            Self::LeaseVacated => "LeaseVacated",
        }
    }
}

/// One replica's view of the election.
#[derive(Clone, Debug)]
pub struct Candidate {
    me: String,
    timing: Timing,
    /// The record as last seen, and when it was first seen like that.
    observed: Option<(Record, Moment)>,
    /// We lead until then.
    term: Option<Moment>,
}

impl Candidate {
    /// A candidate that has not looked at the lease yet. `me` must be unique
    /// among all candidates that ever use this lease.
    pub fn new(me: impl Into<String>, timing: Timing) -> Self {
        Self {
            me: me.into(),
            timing,
            observed: None,
            term: None,
        }
    }

    /// The identity this candidate writes into the lease.
    pub fn identity(&self) -> &str {
        &self.me
    }

    /// The record as it was last read or written.
    pub fn observed(&self) -> Option<&Record> {
        self.observed.as_ref().map(|(record, _)| record)
    }

    /// Whether this candidate leads at `now`.
    pub fn is_leader(&self, now: Moment) -> bool {
        self.term.is_some_and(|until| now < until)
    }

    /// When the term ends unless the lease is renewed before.
    pub fn term(&self) -> Option<Moment> {
        self.term
    }

    /// Takes in what was just read (`None`: there is no lease) and says what to
    /// do. `now` is taken when the answer has arrived; `wall` is only written
    /// into records for people and other clients to read.
    pub fn decide(&mut self, seen: Option<Record>, now: Moment, wall: Timestamp) -> Decision {
        self.observe(seen, now);
        if let Some(loss) = self.loss(now) {
            self.term = None;
            return Decision::StepDown(loss);
        }
        let Some((record, since)) = &self.observed else {
            return Decision::Acquire {
                record: self.record(wall, wall, 0),
                vacancy: Vacancy::Absent,
            };
        };
        if record.holder == self.me {
            let acquired = record.acquired.unwrap_or(wall);
            return Decision::Renew {
                record: self.record(acquired, wall, record.transitions),
            };
        }
        let until = since.after(Duration::from_secs(record.duration_seconds.into()));
        let vacancy = if record.is_released() {
            Vacancy::Released
        } else if until <= now {
            Vacancy::Expired {
                holder: record.holder.clone(),
            }
        } else {
            return Decision::Wait {
                holder: record.holder.clone(),
                until,
            };
        };
        Decision::Acquire {
            record: self.record(wall, wall, record.transitions.saturating_add(1)),
            vacancy,
        }
    }

    /// Takes in that the API server has accepted `record`.
    ///
    /// `sent` is the moment before the request left. The term counts from
    /// there: others may have seen the record long before the answer came.
    pub fn written(&mut self, record: Record, sent: Moment, now: Moment) {
        let until = sent.after(self.timing.renew_deadline());
        self.term = (record.holder == self.me && now < until).then_some(until);
        self.observe(Some(record), now);
    }

    /// Whether the lease should be read before the next round is due, because
    /// a watch has `shown` this record (`None`: the lease was deleted).
    ///
    /// A release is: its writer no longer leads. So is another holder than the
    /// one that was read, because followers have to know who leads. A deletion is
    /// not, since the holder leads on until it notices. Neither is a record that
    /// was already read, because the round of that read has acted on it.
    pub fn is_worth_a_look(&self, shown: Option<&Record>, now: Moment) -> bool {
        let Some(record) = shown else { return false };
        let known = self.observed().map(|observed| observed.holder.as_str());
        let is_another = known != Some(&record.holder) && record.holder != self.me;
        let is_news = record.is_released() || is_another;
        is_news && !self.is_leader(now) && self.observed() != shown
    }

    /// Ends the term when its deadline has passed. To be called when the lease
    /// cannot be read; [`Candidate::decide`] does the same by itself.
    pub fn expire(&mut self, now: Moment) -> Option<Loss> {
        if self.term.is_none_or(|until| now < until) {
            return None;
        }
        self.term = None;
        Some(Loss::RenewDeadlinePassed)
    }

    /// Ends the term for a clean stop. Returns the record that frees the lease
    /// for others at once, or `None` when `seen` is not ours to free.
    pub fn release(&mut self, seen: Option<&Record>, wall: Timestamp) -> Option<Record> {
        self.term = None;
        let seen = seen.filter(|record| record.holder == self.me)?;
        Some(Record {
            holder: String::new(),
            // Zero would be refused by the API server.
            duration_seconds: 1,
            acquired: Some(wall),
            renewed: Some(wall),
            transitions: seen.transitions,
        })
    }

    fn observe(&mut self, seen: Option<Record>, now: Moment) {
        if self.observed() != seen.as_ref() {
            self.observed = seen.map(|record| (record, now));
        }
    }

    fn loss(&self, now: Moment) -> Option<Loss> {
        let until = self.term?;
        match &self.observed {
            Some((record, _)) if record.holder == self.me => {
                (until <= now).then_some(Loss::RenewDeadlinePassed)
            }
            Some((record, _)) if !record.is_released() => Some(Loss::LeaseTaken {
                holder: record.holder.clone(),
            }),
            _ => Some(Loss::LeaseVacated),
        }
    }

    fn record(&self, acquired: Timestamp, renewed: Timestamp, transitions: u32) -> Record {
        Record {
            holder: self.me.clone(),
            duration_seconds: self.timing.record_seconds(),
            acquired: Some(acquired),
            renewed: Some(renewed),
            transitions,
        }
    }
}

#[cfg(test)]
mod tests;
