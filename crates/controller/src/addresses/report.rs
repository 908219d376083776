//! The same story for logs, Events and metrics.

use std::fmt::Write as _;

use k8s_openapi::api::core::v1::ObjectReference;
use tokio::sync::watch;
use tracing::{info, warn};

use super::intake::{Applied, Outcome};
use crate::{
    events::{Events, News},
    metrics::Metrics,
};

/// Tells people what came of each offer.
pub struct Reporter {
    events: Option<Events>,
    metrics: Metrics,
    state: watch::Sender<State>,
}

/// How the address configuration stands, for the readiness answer.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct State {
    /// The reason of the last outcome.
    pub reason: &'static str,
    /// The same in words.
    pub message: String,
}

impl Reporter {
    /// Without `events` nothing is written to the API server.
    pub fn new(events: Option<Events>, metrics: Metrics) -> Self {
        Self {
            events,
            metrics,
            state: watch::Sender::new(State {
                reason: "ConfigurationUnknown",
                message: "no address configuration was looked for yet".into(),
            }),
        }
    }

    /// Where others learn how the configuration stands.
    pub fn state(&self) -> watch::Receiver<State> {
        self.state.subscribe()
    }

    /// Tells an outcome. `source` names the text for people, and `about` is the
    /// object that has it.
    pub fn tell(&self, outcome: &Outcome, source: &str, about: Option<ObjectReference>) {
        log(outcome, source);
        self.metrics.configuration(outcome);
        let message = story(outcome);
        if let (Some(events), Some(about)) = (&self.events, about) {
            events.tell(News {
                about,
                warning: is_warning(outcome),
                reason: outcome.reason(),
                action: "Configure",
                note: message.clone(),
            });
        }
        self.state.send_replace(State {
            reason: outcome.reason(),
            message,
        });
    }
}

fn is_warning(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Applied(applied) => !applied.problems.is_empty() || applied.removes_all(),
        Outcome::Refused { .. } | Outcome::Absent { .. } => true,
    }
}

/// One line for the outcome, and one for each problem.
fn log(outcome: &Outcome, source: &str) {
    let reason = outcome.reason();
    match outcome {
        Outcome::Applied(applied) if applied.removes_all() => warn!(
            reason,
            source,
            entries = applied.entries,
            removed = %applied.change.removed,
            outside = applied.outside,
            "address configuration has no address",
        ),
        Outcome::Applied(applied) => info!(
            reason,
            source,
            entries = applied.entries,
            addresses = %applied.addresses,
            added = %applied.change.added,
            removed = %applied.change.removed,
            altered = %applied.change.altered,
            outside = applied.outside,
            "address configuration applied",
        ),
        Outcome::Refused { fallback, .. } => {
            warn!(reason, source, fallback, "address configuration refused");
        }
        Outcome::Absent { fallback, .. } => warn!(
            reason,
            source, fallback, "no address configuration there; waiting for it",
        ),
    }
    for problem in outcome.problems() {
        let left_out = problem.left_out.as_ref().map(ToString::to_string);
        warn!(
            reason = problem.reason(),
            source,
            entry = problem.entry,
            field = problem.field,
            error = %problem.fault,
            left_out,
            "address configuration has a problem",
        );
    }
}

/// The outcome in words.
pub fn story(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Applied(applied) => told(applied),
        Outcome::Refused { refused, fallback } => {
            format!("refused, {}: {refused}", stays(*fallback))
        }
        Outcome::Absent { object, fallback } => {
            let missing = if *object {
                "the ConfigMap does not have the key"
            } else {
                "there is no such ConfigMap"
            };
            format!("{missing}, {}", stays(*fallback))
        }
    }
}

fn stays(fallback: bool) -> &'static str {
    if fallback {
        "the configuration before stays in force"
    } else {
        "no address is configured"
    }
}

fn told(applied: &Applied) -> String {
    let Applied {
        entries,
        addresses,
        change,
        problems,
        outside,
    } = applied;
    let mut text = String::new();
    for (index, problem) in problems.iter().enumerate() {
        let separator = if index == 0 { "with problems: " } else { "; " };
        put(&mut text, format_args!("{separator}{problem}"));
        if let Some(left_out) = &problem.left_out {
            put(&mut text, format_args!(" (left out: {left_out})"));
        }
    }
    if !problems.is_empty() {
        text.push_str(". ");
    }
    put(
        &mut text,
        format_args!("in force: entries {entries}, addresses {addresses}"),
    );
    let parts = [
        ("added", &change.added),
        ("removed", &change.removed),
        ("altered", &change.altered),
    ];
    for (word, set) in parts {
        if !set.is_empty() {
            put(&mut text, format_args!("; {word} {set}"));
        }
    }
    if applied.removes_all() {
        text.push_str("; no pod gets an address until some are configured again");
    }
    if let Some(outside) = outside.filter(|outside| *outside > 0) {
        // Without any entry nothing was taken out, as far as records are concerned: they
        // may well be inside the next configuration.
        let fate = if *entries == 0 {
            "; records stay with their holders as their policies say: addresses"
        } else {
            "; outside of the configuration, and free once the holder goes: addresses"
        };
        put(&mut text, format_args!("{fate} {outside}"));
    }
    text
}

fn put(text: &mut String, part: std::fmt::Arguments<'_>) {
    text.write_fmt(part).expect("a string takes everything");
}

#[cfg(test)]
mod tests;
