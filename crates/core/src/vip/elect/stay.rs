//! Whether a holder stays.

use std::time::Duration;

use super::{Candidate, Load, place, rank};
use crate::lease::Moment;

/// When an address moves, as its owner has set it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failover {
    /// How long a holder may be unready before the address moves.
    pub unready_grace: Duration,
    /// The least time between two moves for unreadiness or failback.
    pub between_moves: Duration,
    /// Whether the address moves from a holder that is fit to a pod that is preferred.
    pub failback: bool,
    /// Pods that come first, in this order.
    pub preferred: Vec<String>,
}

impl Default for Failover {
    fn default() -> Self {
        Self {
            unready_grace: Duration::ZERO,
            between_moves: Duration::from_secs(3),
            failback: false,
            preferred: Vec::new(),
        }
    }
}

/// The pod that holds an address.
#[derive(Clone, Copy, Debug)]
pub struct Holder<'a> {
    /// Its name.
    pub pod: &'a str,
    /// Its uid.
    pub uid: &'a str,
    /// How it is.
    pub health: Health,
    /// When the address moved to it, if that is known, on the clock of `now`.
    pub moved: Option<Moment>,
}

/// How a holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// It can hold the address.
    Fit,
    /// It is not ready.
    Unready {
        /// Since when, on the clock of `now`.
        since: Moment,
    },
    /// It is being deleted, but still there.
    Terminating,
    /// It has ended.
    Finished,
    /// There is no such pod any more.
    Gone,
    /// It is there, but does not claim the address any more.
    Unclaimed,
    /// Its node cannot serve the address.
    CannotServe,
}

/// Why an address moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MoveReason {
    /// Nobody held it.
    FirstHolder,
    /// The holder was not ready.
    PodNotReady,
    /// The holder was deleted.
    PodDeleted,
    /// The holder has ended.
    PodFinished,
    /// The holder does not claim it any more.
    PodUnclaimed,
    /// Nothing was heard from the holder's node.
    NodeSilent,
    /// The agent of the holder's node stops.
    AgentStopping,
    /// Somebody asked for it.
    Requested,
    /// A pod that is preferred can hold it again.
    Failback,
    /// The holder's node could not serve it.
    CannotServe,
}

/// What becomes of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict<'a> {
    /// The holder keeps it.
    Stay(Stay),
    /// It moves to the first of these that is prepared for it; there is at least one.
    Move {
        /// Those who can have it, best first.
        to: Vec<&'a Candidate>,
        /// Why.
        reason: MoveReason,
    },
    /// The holder cannot keep it and nobody else can have it. Whoever acts on this does
    /// not give it to the same pod again before that is fit.
    Vacate {
        /// Why.
        reason: MoveReason,
    },
}

/// Why a holder keeps an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stay {
    /// It can hold it, and nobody is to be had instead.
    Fit,
    /// It is not ready, but not for long.
    InGrace {
        /// Until then.
        until: Moment,
    },
    /// It would move, but has moved lately.
    MovedLately {
        /// Why it would move.
        reason: MoveReason,
        /// Until then.
        until: Moment,
    },
    /// It should move, but nobody else can have it, and the holder may still answer.
    NobodyElse {
        /// Why it should move.
        reason: MoveReason,
    },
}

impl MoveReason {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::FirstHolder,
        Self::PodNotReady,
        Self::PodDeleted,
        Self::PodFinished,
        Self::PodUnclaimed,
        Self::NodeSilent,
        Self::AgentStopping,
        Self::Requested,
        Self::Failback,
        Self::CannotServe,
    ];

    /// The stable reason for status, events and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::FirstHolder => "FirstHolder",
            Self::PodNotReady => "PodNotReady",
            Self::PodDeleted => "PodDeleted",
            Self::PodFinished => "PodFinished",
            Self::PodUnclaimed => "PodUnclaimed",
            Self::NodeSilent => "NodeSilent",
            Self::AgentStopping => "AgentStopping",
            Self::Requested => "Requested",
            Self::Failback => "Failback",
            Self::CannotServe => "CannotServe",
        }
    }

    /// The reason that is written so.
    pub fn parse(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.reason() == text)
    }
}

impl Verdict<'_> {
    /// When to judge again though nothing else has changed, if time alone can change it.
    pub fn until(&self) -> Option<Moment> {
        match *self {
            Self::Stay(Stay::InGrace { until } | Stay::MovedLately { until, .. }) => Some(until),
            Self::Stay(Stay::Fit | Stay::NobodyElse { .. })
            | Self::Move { .. }
            | Self::Vacate { .. } => None,
        }
    }
}

/// What becomes of an address that a pod holds. Candidates are those that can hold it now;
/// the holder itself may be among them or not.
///
/// # Guarantees
/// A holder that is fit stays, unless failback is set and a candidate comes before it
/// among the preferred pods. Nobody but a candidate is ever chosen, and never the holder.
/// A holder that is gone, has ended, or does not claim the address never stays.
pub fn judge<'a>(
    holder: Holder<'_>,
    candidates: impl IntoIterator<Item = &'a Candidate>,
    failover: &Failover,
    load: &Load,
    now: Moment,
) -> Verdict<'a> {
    let others = candidates.into_iter().filter(|it| it.uid != holder.uid);
    let others = rank(others, &failover.preferred, load);
    let calm = holder.moved.map(|at| at.after(failover.between_moves));
    let slowly = |to: Vec<&'a Candidate>, reason| match calm {
        Some(until) if now < until => Verdict::Stay(Stay::MovedLately { reason, until }),
        _ => Verdict::Move { to, reason },
    };
    let back = || {
        let own = place(&failover.preferred, holder.pod);
        let mut better = others.clone();
        better.retain(|it| failover.failback && place(&failover.preferred, &it.pod) < own);
        (!better.is_empty()).then(|| slowly(better, MoveReason::Failback))
    };
    let (may_answer, reason) = match holder.health {
        Health::Fit => return back().unwrap_or(Verdict::Stay(Stay::Fit)),
        Health::Unready { since } => {
            let until = since.after(failover.unready_grace);
            if now < until {
                return back().unwrap_or(Verdict::Stay(Stay::InGrace { until }));
            }
            (true, MoveReason::PodNotReady)
        }
        Health::Terminating => (true, MoveReason::PodDeleted),
        Health::Gone => (false, MoveReason::PodDeleted),
        Health::Finished => (false, MoveReason::PodFinished),
        Health::Unclaimed => (false, MoveReason::PodUnclaimed),
        Health::CannotServe => (false, MoveReason::CannotServe),
    };
    match (others.is_empty(), may_answer) {
        (true, true) => Verdict::Stay(Stay::NobodyElse { reason }),
        (true, false) => Verdict::Vacate { reason },
        (false, _) if reason == MoveReason::PodNotReady => slowly(others, reason),
        (false, _) => Verdict::Move { to: others, reason },
    }
}

#[cfg(test)]
mod tests;
