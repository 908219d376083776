//! How a pool looks to others: status, annotations, Events and metrics.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use floe_api::flipop::{
    ACCEPTED, PUBLISHED, READY, memory,
    pool::{FloatingIPPool, FloatingIPPoolStatus},
};
use floe_core::nodepool::{
    cloud::{Class, Refusal},
    pool::{Answer, Call, Memory, View},
    retry::after,
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    super::{
        Shared,
        check::Fault,
        objects::Id,
        server::Failure,
        status::{self, Verdict, whole},
    },
    Course, Done, Given, Running, Worker,
};
use crate::{
    installation::PERMISSION_MISSING,
    metrics::{IpFigures, PoolFigures},
};

/// The types of conditions that only floe writes.
const OURS: [&str; 3] = [ACCEPTED, READY, PUBLISHED];

impl Worker {
    /// Tells how everything is, and writes what has changed.
    pub(super) fn report(&mut self, now: Timestamp) {
        let wanted = match &self.course {
            Course::Idle => return,
            Course::Faulty(fault) => self.faulty(fault, now),
            Course::Running(_) => {
                let Some(status) = self.running(now) else {
                    return;
                };
                status
            }
        };
        self.hold(now);
        self.write(&wanted, now);
    }

    /// Compat: nothing but the error, and what has to outlive the process.
    fn faulty(&self, fault: &Fault, now: Timestamp) -> FloatingIPPoolStatus {
        let old = self.object.status.clone().unwrap_or_default();
        let verdicts = [Verdict::accepted(Some(fault))];
        let generation = self.object.metadata.generation;
        FloatingIPPoolStatus {
            error: fault.message.clone(),
            observed_generation: generation,
            conditions: status::conditions(&old.conditions, &OURS, &verdicts, generation, now),
            memory: old.memory,
            ..FloatingIPPoolStatus::default()
        }
    }

    fn running(&mut self, now: Timestamp) -> Option<FloatingIPPoolStatus> {
        let Course::Running(running) = &mut self.course else {
            return None;
        };
        let pods = running.plan.selection.pods.is_some();
        let not_seen = self.shared.missing.borrow().not_seen(pods);
        // Before everything was listed the last status is better than a guess.
        let is_looked = running.looked;
        self.tell_unseen(not_seen.as_deref());
        if !is_looked {
            return not_seen.map(|message| self.unseen(message, now));
        }
        let Course::Running(running) = &mut self.course else {
            return None;
        };
        let view = running.machine.view(now);
        if let Some(keeper) = &mut running.keeper {
            keeper.want(view.published.as_ref(), now);
        }
        let heard = view.published.is_some();
        // After a restart the last status is better than none.
        let shown = self
            .object
            .status
            .as_ref()
            .is_some_and(|it| !it.ips.is_empty());
        if !heard && shown && view.error.is_none() && !self.writes.asked {
            return None;
        }
        let mut verdicts = vec![accepted(not_seen), Verdict::ready(&view, heard)];
        verdicts.extend(
            running
                .keeper
                .iter()
                .map(|it| Verdict::published(&it.standing())),
        );
        let memory = kept(running.machine.memory());
        let figures = figures(running, &view);
        let given = running.given(&view, heard);
        let old = self.object.status.clone().unwrap_or_default();
        let generation = self.object.metadata.generation;
        let mut status = FloatingIPPoolStatus {
            observed_generation: generation,
            conditions: status::conditions(&old.conditions, &OURS, &verdicts, generation, now),
            memory,
            ..FloatingIPPoolStatus::default()
        };
        status.show(&view);
        if status.error.is_empty() {
            status.error = self.installation_error(pods).unwrap_or_default();
        }
        self.shared.metrics.pool(&self.id, Some(figures));
        if let Some(given) = given {
            self.annotate(given);
        }
        self.tell_troubles(&view);
        self.tell_moves(&old.memory, &status.memory);
        Some(status)
    }

    /// Emits one Event while nodes or pods may not be listed.
    fn tell_unseen(&mut self, message: Option<&str>) {
        let was_told = std::mem::replace(&mut self.told_unseen, message.is_some());
        if let Some(message) = message.filter(|_| !was_told) {
            let (teller, note) = (&self.shared.teller, message.to_owned());
            let reason = PERMISSION_MISSING;
            teller.tell(&*self.object, true, reason, "Validate", note, &[message]);
        }
    }

    /// The status while nodes or pods may not be listed: the rest stays as it was.
    fn unseen(&self, message: String, now: Timestamp) -> FloatingIPPoolStatus {
        let old = self.object.status.clone().unwrap_or_default();
        let generation = self.object.metadata.generation;
        let verdicts = [accepted(Some(message.clone()))];
        FloatingIPPoolStatus {
            error: message,
            conditions: status::conditions(
                &old.conditions,
                &[ACCEPTED],
                &verdicts,
                generation,
                now,
            ),
            ..old
        }
    }

    fn tell_troubles(&mut self, view: &View) {
        let own = view.error.iter().map(|it| (String::new(), it));
        let each = view.ips.iter();
        let each = each.filter_map(|(ip, it)| Some((ip.to_string(), it.error.as_ref()?)));
        let mut lasting = BTreeSet::new();
        for (ip, trouble) in own.chain(each) {
            let key = (ip.clone(), trouble.reason);
            if !self.told.contains(&key) {
                let message = &trouble.message;
                let note = match ip.as_str() {
                    "" => message.clone(),
                    ip => format!("{ip}: {message}"),
                };
                self.shared.teller.tell(
                    &*self.object,
                    true,
                    trouble.reason,
                    "Assign",
                    note,
                    &[&ip, message],
                );
            }
            lasting.insert(key);
        }
        self.told = lasting;
    }

    fn tell_moves(&self, old: &memory::Memory, new: &memory::Memory) {
        for (ip, moved) in &new.moves {
            if old.moves.get(ip) == Some(moved) {
                continue;
            }
            let from = match moved.from.as_str() {
                "" => "nowhere",
                from => from,
            };
            let note = format!("{ip}: moved from {from} to {} ({})", moved.to, moved.reason);
            let at = moved.at.0.to_string();
            self.shared
                .teller
                .tell(&*self.object, false, "Moved", "Move", note, &[ip, &at]);
        }
    }

    /// The finalizer is there exactly as long as it is needed; before the status, which says
    /// what is about to be bought.
    fn hold(&mut self, now: Timestamp) {
        let object = &self.object;
        let hold = object.gives_back() && !(object.is_deleting() && self.has_released());
        let rests = self.writes.pause.is_some_and(|at| at > now);
        if self.writes.busy || rests || hold == object.is_held() {
            return;
        }
        // A finalizer cannot be added to what is going.
        if hold && object.is_deleting() {
            return;
        }
        self.writes.busy = true;
        self.writes.pause = None;
        let (shared, id, seen) = (
            Arc::clone(&self.shared),
            self.id.clone(),
            Arc::clone(&self.object),
        );
        self.work.push(Box::pin(async move {
            let outcome = shared.server.hold(&id, &seen, hold).await;
            finish(&shared, &id, outcome, None).await
        }));
    }

    fn has_released(&self) -> bool {
        let Course::Running(running) = &self.course else {
            return false;
        };
        running.machine.is_reclaimed()
    }

    fn write(&mut self, wanted: &FloatingIPPoolStatus, now: Timestamp) {
        if self.writes.busy || self.writes.pause.is_some_and(|at| at > now) {
            return;
        }
        self.writes.pause = None;
        self.writes.held = None;
        let old = self
            .object
            .status
            .as_ref()
            .map_or(Value::Null, |it| json!(it));
        let Some(patch) = status::difference(&old, &json!(wanted)) else {
            let is_allowed = !self.shared.missing.borrow().forbids_buying();
            let answer = if is_allowed {
                Answer::Done
            } else {
                let words = self
                    .shared
                    .missing
                    .borrow()
                    .message(true)
                    .unwrap_or_default();
                Answer::Refused(Refusal::new(Class::NotPermitted, words))
            };
            self.answer_intent(answer, now);
            return;
        };
        if let Some(until) = self.schema.held(&old, &patch) {
            let wait = until.saturating_duration_since(Instant::now());
            self.writes.held = Some(after(now, wait));
            // What is bought has to be remembered.
            let words = self.schema.message::<FloatingIPPool>();
            let refusal = Refusal::new(Class::NotStored, words.unwrap_or_default());
            self.answer_intent(Answer::Refused(refusal), now);
            return;
        }
        self.writes.busy = true;
        let (shared, id) = (Arc::clone(&self.shared), self.id.clone());
        let version = self.object.metadata.resource_version.clone();
        self.work.push(Box::pin(async move {
            let outcome = shared.server.patch_status(&id, version, &patch).await;
            finish(&shared, &id, outcome, Some(patch)).await
        }));
    }
}

impl Worker {
    /// Answers the machine if it waits until its memory is written.
    fn answer_intent(&mut self, answer: Answer, now: Timestamp) {
        if std::mem::take(&mut self.writes.asked)
            && let Course::Running(running) = &mut self.course
        {
            running.machine.answered(&Call::Write, answer, now);
        }
    }

    /// Problems of the installation, for a status that has nothing worse to report.
    fn installation_error(&self, pods: bool) -> Option<String> {
        let schema = self.schema.message::<FloatingIPPool>();
        schema.or_else(|| self.shared.missing.borrow().message(pods))
    }
}

impl Running {
    /// What each node was given, if that is known and has changed, or if annotations have.
    fn given(&mut self, view: &View, heard: bool) -> Option<Given> {
        if !heard {
            return None;
        }
        let mut given = Given {
            ips: view.ips.keys().copied().collect(),
            nodes: view.annotations.clone(),
            seen: BTreeMap::new(),
        };
        if self.annotated.as_ref() == Some(&given) && self.notes.news.is_empty() {
            return None;
        }
        self.annotated = Some(given.clone());
        given.seen = std::mem::take(&mut self.notes.news);
        Some(given)
    }
}

fn accepted(not_seen: Option<String>) -> Verdict {
    match not_seen {
        Some(message) => Verdict::bad(ACCEPTED, PERMISSION_MISSING, message),
        None => Verdict::accepted(None),
    }
}

/// How the object is after a write; if somebody else was faster, it is read.
async fn finish(
    shared: &Shared,
    id: &Id,
    outcome: Result<FloatingIPPool, Failure>,
    patch: Option<Value>,
) -> Done {
    let fresh = match &outcome {
        Err(Failure::Conflict) => shared.server.read(id).await.ok().map(Box::new),
        Ok(_)
        | Err(Failure::Gone | Failure::Forbidden(_) | Failure::Failed(_) | Failure::Silent) => None,
    };
    Done::Written {
        outcome: outcome.map(Box::new),
        fresh,
        patch,
    }
}

/// What outlives the process, with times as they are written.
fn kept(memory: &Memory) -> memory::Memory {
    let mut kept = memory::Memory::from(memory);
    let cut = |time: &mut Time| time.0 = whole(time.0);
    kept.moves.values_mut().for_each(|it| cut(&mut it.at));
    kept.unfit_since.values_mut().for_each(cut);
    kept.purchase
        .iter_mut()
        .flat_map(|it| &mut it.since)
        .for_each(cut);
    kept
}

fn figures(running: &Running, view: &View) -> PoolFigures {
    let dns = running.keeper.as_ref().map(|it| it.plan().full_name());
    let ips = view.ips.iter().map(|(ip, it)| IpFigures {
        ip: ip.to_string(),
        state: it.state.word(),
        provider_id: it.server.clone().unwrap_or_default(),
        node: it.node.clone().unwrap_or_default(),
        assignments: it.assignments,
        errors: it.assignment_errors,
    });
    PoolFigures {
        provider: running.plan.provider.clone(),
        dns: dns.unwrap_or_default(),
        available: view.assignable_nodes.len(),
        unfulfilled: view.unfulfilled,
        ips: ips.collect(),
    }
}
