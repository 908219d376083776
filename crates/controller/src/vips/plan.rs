//! Moves that are planned: those that somebody asks for, and those back to a preferred
//! pod. The agent of the holder carries them out.

use std::time::Duration;

use floe_api::floe::virtualip::{CandidateStatus, Holding, MOVE_TO, VirtualIP};
use floe_core::{
    lease::Moment,
    vip::{
        Candidate,
        elect::{self, Failover, Health, Holder, Load, MoveReason, Stay, Verdict},
    },
};
use jiff::Timestamp;

/// What is to be done about moves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Who is to have the addresses next.
    pub successor: Option<Holding>,
    /// What becomes of the wish for a move; none while there is none, or while it waits.
    pub wish: Option<Wish>,
    /// Whether time alone may change this.
    pub waits: bool,
}

/// What becomes of a wish for a move. In any case it is taken off the object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wish {
    /// It is on its way, or done.
    Heard,
    /// It cannot be.
    Refused(NoMove),
}

/// Why addresses do not move as somebody wishes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoMove {
    /// The pod cannot have them.
    #[error("pod {0} is no candidate")]
    NoCandidate(String),
    /// There is nobody to hand them over.
    #[error("no pod has the addresses, so none can hand them over to {0}")]
    NoHolder(String),
}

impl NoMove {
    /// The stable reason for events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoCandidate(_) => "MoveToNoCandidate",
            Self::NoHolder(_) => "MoveWithoutHolder",
        }
    }
}

/// What else is known about an object.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    /// No other plan was made for it lately: the holder's agent may have found that one
    /// impossible.
    pub is_calm: bool,
    /// The pod that somebody wishes is no candidate, but may soon be one.
    pub is_hopeful: bool,
    /// The time.
    pub now: Timestamp,
}

/// The pod to which somebody wishes the addresses to move.
pub fn wished(vip: &VirtualIP) -> Option<&str> {
    let annotations = vip.metadata.annotations.as_ref()?;
    annotations.get(MOVE_TO).map(String::as_str)
}

/// Decides by an object and its candidates.
pub fn decide(vip: &VirtualIP, candidates: &[CandidateStatus], mood: Mood) -> Plan {
    let status = vip.status.as_ref();
    let holder = status.and_then(|it| it.holder.as_ref());
    let busy = status.is_some_and(|it| it.successor.is_some());
    if let Some(pod) = wished(vip) {
        return asked(pod, holder, candidates, busy, mood);
    }
    match holder {
        Some(holder) if !busy => back(vip, holder, candidates, mood),
        _ => Plan::default(),
    }
}

fn asked(
    pod: &str,
    holder: Option<&Holding>,
    candidates: &[CandidateStatus],
    busy: bool,
    mood: Mood,
) -> Plan {
    let waits = Plan {
        waits: true,
        ..Plan::default()
    };
    let refused = |why| Plan {
        wish: Some(Wish::Refused(why)),
        ..Plan::default()
    };
    let mut named = candidates.iter().filter(|it| !it.is_standby());
    let candidate = named.find(|it| it.pod == pod);
    match (holder, candidate) {
        (Some(holder), _) if holder.pod == pod => Plan {
            wish: Some(Wish::Heard),
            ..Plan::default()
        },
        (_, None) if mood.is_hopeful => waits,
        (_, None) => refused(NoMove::NoCandidate(pod.to_owned())),
        (None, _) => refused(NoMove::NoHolder(pod.to_owned())),
        // After the move that is on its way.
        (Some(_), Some(_)) if busy => waits,
        (Some(_), Some(candidate)) => Plan {
            successor: Some(successor(candidate, MoveReason::Requested)),
            wish: Some(Wish::Heard),
            waits: false,
        },
    }
}

fn back(vip: &VirtualIP, holder: &Holding, candidates: &[CandidateStatus], mood: Mood) -> Plan {
    let failover = &vip.spec.failover;
    let is_candidate = candidates.iter().any(|it| it.uid == holder.uid);
    // What becomes of a holder that is not fit is for its agent to say.
    if !failover.failback || !is_candidate {
        return Plan::default();
    }
    let failover = Failover {
        unready_grace: Duration::ZERO,
        between_moves: Duration::from_secs(failover.min_seconds_between_moves.into()),
        failback: true,
        preferred: failover.preferred_pods.clone(),
    };
    let last = vip.status.as_ref().and_then(|it| it.last_move.as_ref());
    let known: Vec<Candidate> = candidates.iter().cloned().map(Candidate::from).collect();
    let held = Holder {
        pod: &holder.pod,
        uid: &holder.uid,
        health: Health::Fit,
        moved: last.map(|it| moment(it.at.0)),
    };
    // Preferred pods have an order, so it does not matter who holds how many.
    match elect::judge(held, &known, &failover, &Load::new(), moment(mood.now)) {
        Verdict::Move { to, reason } if mood.is_calm => {
            let first = to.first().map(|best| &best.uid);
            let best = candidates.iter().find(|it| Some(&it.uid) == first);
            Plan {
                successor: best.map(|best| successor(best, reason)),
                ..Plan::default()
            }
        }
        Verdict::Move { .. } | Verdict::Stay(Stay::MovedLately { .. }) => Plan {
            waits: true,
            ..Plan::default()
        },
        Verdict::Stay(_) | Verdict::Vacate { .. } => Plan::default(),
    }
}

fn successor(candidate: &CandidateStatus, reason: MoveReason) -> Holding {
    Holding {
        pod: candidate.pod.clone(),
        uid: candidate.uid.clone(),
        node: candidate.node.clone(),
        node_address: candidate.node_address,
        addresses: candidate.addresses.clone(),
        mode: candidate.mode.clone(),
        term: 0,
        since: None,
        ready: false,
        reason: reason.reason().to_owned(),
    }
}

fn moment(time: Timestamp) -> Moment {
    let millis = u64::try_from(time.as_millisecond()).unwrap_or(0);
    Moment(Duration::from_millis(millis))
}
