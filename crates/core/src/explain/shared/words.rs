//! Moves, conditions and pods in words.

use std::fmt;

use super::{Facts, Move, Place, Told};
use crate::{explain::nodes::NAMED, vip::elect::MoveReason};

/// Why an address moved, in words, with the stable word behind them.
pub fn reason(word: &str) -> String {
    let Some(known) = MoveReason::parse(word) else {
        return if word.is_empty() {
            "nobody says why".into()
        } else {
            word.to_owned()
        };
    };
    let words = match known {
        MoveReason::FirstHolder => "nobody had it",
        MoveReason::PodNotReady => "its pod was not ready",
        MoveReason::PodDeleted => "its pod was deleted",
        MoveReason::PodFinished => "its pod has ended",
        MoveReason::PodUnclaimed => "its pod did not ask for it any more",
        MoveReason::NodeSilent => "nothing was heard from its node",
        MoveReason::AgentStopping => "the agent of its node stopped",
        MoveReason::Requested => "somebody asked for it",
        MoveReason::Failback => "a preferred pod could have it again",
        MoveReason::CannotServe => "its node could not serve it",
    };
    format!("{words} ({word})")
}

/// What the conditions say that somebody should know.
pub fn conditions(facts: &Facts<'_>) -> Vec<String> {
    let mut told = Vec::new();
    match facts.serving {
        Some(it) if it.status != "True" => told.push(format!("It is not served: {it}.")),
        Some(it) if it.reason == "HolderNotReady" => {
            told.push("Its pod is not ready, but nobody else could have it.".into());
        }
        Some(_) | None => {}
    }
    let inside = facts.reachable.filter(|it| it.status != "True");
    told.extend(inside.map(|it| format!("It is reachable from inside the cluster only: {it}.")));
    told
}

/// The last move.
pub fn last_move(facts: &Facts<'_>) -> Option<String> {
    let Move {
        at,
        reason: why,
        from,
        to,
    } = facts.last_move?;
    let why = reason(why);
    let what = match (from, to) {
        ("", to) => format!("It came to pod {to} at {at}"),
        (from, "") => format!("It left pod {from} at {at}"),
        (from, to) => format!("It moved last at {at}, from pod {from} to pod {to}"),
    };
    let count = match facts.moves {
        ..=1 => String::new(),
        count => format!(" It has moved {count} times."),
    };
    Some(format!("{what}: {why}.{count}"))
}

/// Pods with their nodes, the first few of them.
pub fn places(candidates: &[Place<'_>]) -> String {
    let named = candidates.iter().take(NAMED);
    let named: Vec<String> = named
        .map(|it| format!("{} ({})", it.pod, it.node))
        .collect();
    let named = named.join(", ");
    match candidates.len().saturating_sub(NAMED) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            reason, message, ..
        } = self;
        let message = message.trim_end_matches('.');
        if message.is_empty() {
            return out.write_str(reason);
        }
        write!(out, "{message} ({reason})")
    }
}
