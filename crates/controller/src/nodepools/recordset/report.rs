//! What is told of a record set, and written into its status.

use std::sync::Arc;

use floe_api::flipop::{
    ACCEPTED, PUBLISHED,
    records::{NodeDNSRecordSet, NodeDNSRecordSetStatus},
};
use floe_core::nodepool::retry::after;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{Course, Done, Worker, running::Running};
use crate::{
    installation::PERMISSION_MISSING,
    metrics::RecordFigures,
    nodepools::{
        names::Standing,
        server::Failure,
        status::{self, Verdict, whole},
    },
};

/// The types of conditions that only floe writes.
const OURS: [&str; 2] = [ACCEPTED, PUBLISHED];

impl Worker {
    pub(super) fn report(&mut self, now: Timestamp) {
        let old = self.object.status.clone().unwrap_or_default();
        let (verdicts, mut wanted) = match &self.course {
            Course::Idle => return,
            Course::Faulty(fault) => {
                let status = NodeDNSRecordSetStatus {
                    state: "error".into(),
                    error: fault.message.clone(),
                    ..NodeDNSRecordSetStatus::default()
                };
                (vec![Verdict::accepted(Some(fault))], status)
            }
            Course::Running(running) => {
                let figures = running.figures();
                self.shared.metrics.record_set(&self.id, Some(figures));
                let pods = running.plan.selection.pods.is_some();
                let not_seen = self.shared.missing.borrow().not_seen(pods);
                let (mut verdicts, mut status) = running.status(&old);
                let was_told = std::mem::replace(&mut self.told_unseen, not_seen.is_some());
                if let Some(message) = not_seen {
                    if !was_told {
                        let (reason, note) = (PERMISSION_MISSING, message.clone());
                        let teller = &self.shared.teller;
                        teller.tell(&*self.object, true, reason, "Validate", note, &[&message]);
                    }
                    status.state = "error".into();
                    status.error.clone_from(&message);
                    verdicts.retain(|it| it.kind != ACCEPTED);
                    verdicts.insert(0, Verdict::bad(ACCEPTED, PERMISSION_MISSING, message));
                }
                (verdicts, status)
            }
        };
        if wanted.error.is_empty() {
            let error = self.schema.message::<NodeDNSRecordSet>();
            wanted.error = error.unwrap_or_default();
        }
        let generation = self.object.metadata.generation;
        wanted.observed_generation = generation;
        wanted.conditions = status::conditions(&old.conditions, &OURS, &verdicts, generation, now);
        self.write(&wanted, now);
    }

    fn write(&mut self, wanted: &NodeDNSRecordSetStatus, now: Timestamp) {
        if self.busy || self.pause.is_some_and(|at| at > now) {
            return;
        }
        self.pause = None;
        self.held = None;
        let old = self
            .object
            .status
            .as_ref()
            .map_or(Value::Null, |it| json!(it));
        let Some(patch) = status::difference(&old, &json!(wanted)) else {
            return;
        };
        if let Some(until) = self.schema.held(&old, &patch) {
            let wait = until.saturating_duration_since(Instant::now());
            self.held = Some(after(now, wait));
            return;
        }
        self.busy = true;
        let (shared, id) = (Arc::clone(&self.shared), self.id.clone());
        let version = self.object.metadata.resource_version.clone();
        self.work.push(Box::pin(async move {
            let outcome = shared.server.patch_status(&id, version, &patch).await;
            let fresh = match &outcome {
                Err(Failure::Conflict) => shared.server.read(&id).await.ok().map(Box::new),
                Ok(_)
                | Err(
                    Failure::Gone | Failure::Forbidden(_) | Failure::Failed(_) | Failure::Silent,
                ) => None,
            };
            Done::Written {
                outcome: outcome.map(Box::new),
                fresh,
                patch,
            }
        }));
    }
}

impl Running {
    fn status(&self, old: &NodeDNSRecordSetStatus) -> (Vec<Verdict>, NodeDNSRecordSetStatus) {
        let standing = self.keeper.standing();
        let (state, error) = match &standing {
            Standing::Current(_) | Standing::Kept => ("active", String::new()),
            Standing::Failed(refusal) => {
                let error = format!("Failed to update DNS: {refusal}");
                ("in-progress", error)
            }
            Standing::Waiting | Standing::Nothing | Standing::Leaving => {
                ("in-progress", String::new())
            }
        };
        let applied = self.keeper.applied();
        let (addresses, last_update) = match applied {
            Some((addresses, at)) => {
                let texts: Vec<_> = addresses.iter().map(ToString::to_string).collect();
                // A look that has changed nothing is no news.
                let same = texts == old.addresses && old.last_update.is_some();
                let at = if same {
                    old.last_update.clone()
                } else {
                    Some(Time(whole(at)))
                };
                (texts, at)
            }
            // As the last process has left it.
            None => (old.addresses.clone(), old.last_update.clone()),
        };
        let status = NodeDNSRecordSetStatus {
            state: state.to_owned(),
            error,
            records: i64::try_from(addresses.len()).unwrap_or(i64::MAX),
            addresses,
            last_update,
            ..NodeDNSRecordSetStatus::default()
        };
        let verdicts = vec![Verdict::accepted(None), Verdict::published(&standing)];
        (verdicts, status)
    }

    fn figures(&self) -> RecordFigures {
        let applied = self.keeper.applied();
        RecordFigures {
            provider: self.plan.dns.provider.clone(),
            dns: self.plan.dns.full_name(),
            records: applied.map_or(0, |(addresses, _)| addresses.len()),
        }
    }
}
