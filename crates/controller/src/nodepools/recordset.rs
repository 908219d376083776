//! One record set: a name in DNS that says the addresses of nodes that fit.
//!
//! Nothing is written before nodes and pods were listed once, so that a restart never
//! empties a name; node events that come together are one write.

use std::{sync::Arc, time::Duration};

use floe_api::flipop::records::NodeDNSRecordSet;
use floe_core::nodepool::{cloud::Refusal, records::RecordSet, retry::after};
use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep_until};
use tracing::{info, warn};

use super::{
    Shared,
    account::Caller,
    check::{self, DnsPlan, Fault, RecordsPlan},
    names::Keeper,
    objects::{Id, newest},
    schema::Schema,
    server::Failure,
    sight::Sight,
};
use crate::installation::PERMISSION_MISSING;

mod report;
mod running;

use running::Running;

/// How long node events are collected before DNS is told.
const MOMENT: Duration = Duration::from_secs(1);

/// The pause after a failed write of an object; each further one is twice as long.
const WRITE_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause after a failed write.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_mins(2);

/// Looks after a record set as long as it is there.
pub async fn run(shared: Arc<Shared>, id: Id, mut objects: watch::Receiver<Arc<NodeDNSRecordSet>>) {
    let object = Arc::clone(&objects.borrow_and_update());
    let schema = Schema::new(&shared);
    let mut missing = shared.missing.clone();
    let mut worker = Worker {
        caller: Caller {
            kind: "NodeDNSRecordSet",
            id: id.clone(),
        },
        shared,
        id,
        object,
        told_objects: objects.clone(),
        course: Course::Idle,
        work: FuturesUnordered::new(),
        busy: false,
        pause: None,
        told: None,
        told_unseen: false,
        schema,
        failures: 0,
        held: None,
    };
    worker.take_up();
    loop {
        worker.step();
        let now = worker.shared.clock.now();
        let wake = worker.wake();
        let instant = worker.shared.clock.instant(wake.unwrap_or(now));
        let Worker {
            course,
            work,
            schema,
            ..
        } = &mut worker;
        tokio::select! {
            changed = objects.changed() => {
                if changed.is_err() {
                    break;
                }
                worker.object = Arc::clone(&objects.borrow_and_update());
                worker.take_up();
            }
            Some(done) = work.next(), if !work.is_empty() => worker.done(done),
            () = schema.changed() => {
                worker.pause = None;
                worker.held = None;
            }
            Ok(()) = missing.changed() => worker.pause = None,
            () = course.news() => {}
            () = sleep_until(instant), if wake.is_some() => {}
        }
    }
    let Id { namespace, name } = &worker.id;
    info!(
        namespace,
        name, "a record set is gone; its name stays as it is"
    );
    worker.shared.metrics.record_set(&worker.id, None);
    Schema::end::<NodeDNSRecordSet>(&worker.shared, &worker.id);
    let subject = forbidden_write(&worker.id);
    let installation = &worker.shared.installation;
    installation.resolve(PERMISSION_MISSING, &subject);
}

/// The permission that a write of a status lacks; a role may allow it in some namespaces only.
fn forbidden_write(id: &Id) -> String {
    format!(
        "write nodednsrecordsets/status in namespace {}",
        id.namespace
    )
}

struct Worker {
    shared: Arc<Shared>,
    id: Id,
    caller: Caller,
    object: Arc<NodeDNSRecordSet>,
    /// What the watch has told.
    told_objects: watch::Receiver<Arc<NodeDNSRecordSet>>,
    course: Course,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    /// A write of the object is under way.
    busy: bool,
    pause: Option<Timestamp>,
    /// The trouble that is told and lasts.
    told: Option<&'static str>,
    /// An Event has reported that nodes or pods may not be listed.
    told_unseen: bool,
    schema: Schema,
    /// Failed writes in a row.
    failures: u32,
    /// What is left to write is not kept by the API server, and waits until then.
    held: Option<Timestamp>,
}

enum Course {
    Idle,
    Faulty(Fault),
    Running(Box<Running>),
}

enum Done {
    Written {
        outcome: Result<Box<NodeDNSRecordSet>, Failure>,
        fresh: Option<Box<NodeDNSRecordSet>>,
        patch: Value,
    },
    Named {
        provider: String,
        set: RecordSet,
        outcome: Result<(), Refusal>,
    },
}

impl Course {
    async fn news(&mut self) {
        match self {
            Self::Running(running) => running.sight.changed().await,
            Self::Idle | Self::Faulty(_) => std::future::pending().await,
        }
    }
}

impl Worker {
    fn take_up(&mut self) {
        if self.object.metadata.deletion_timestamp.is_some() {
            self.course = Course::Idle;
            return;
        }
        match check::records(&self.object.spec, &self.shared.registry) {
            Ok(plan) => self.follow(plan),
            Err(fault) => {
                let known = matches!(&self.course, Course::Faulty(old) if *old == fault);
                if !known {
                    self.refuse(&fault);
                }
                self.course = Course::Faulty(fault);
            }
        }
    }

    fn refuse(&self, fault: &Fault) {
        let Id { namespace, name } = &self.id;
        let Fault { reason, message } = fault;
        warn!(
            reason,
            namespace,
            name,
            error = message,
            "a record set cannot be followed"
        );
        self.shared.metrics.record_set(&self.id, None);
        let note = message.clone();
        self.shared
            .teller
            .tell(&*self.object, true, reason, "Validate", note, &[message]);
    }

    fn follow(&mut self, plan: RecordsPlan) {
        let Id { namespace, name } = &self.id;
        let owner = format!("floe/{}/nodes/{namespace}/{name}", self.shared.cluster);
        let keeper = |dns: &DnsPlan| Keeper::new(dns.clone(), owner, MOMENT);
        if let Course::Running(running) = &mut self.course {
            if *running.sight.selection() != plan.selection {
                running.sight = Sight::new(&self.shared.watches, &plan.selection, false);
            }
            if running.keeper.plan().is_same_place(&plan.dns) {
                running.keeper.configure(plan.dns.clone());
            } else {
                running.keeper = keeper(&plan.dns);
            }
            running.plan = plan;
            return;
        }
        let mut keeper = keeper(&plan.dns);
        let status = self.object.status.iter();
        keeper.has_said(status.flat_map(|it| &it.addresses));
        let sight = Sight::new(&self.shared.watches, &plan.selection, false);
        let running = Running::new(plan, sight, keeper);
        self.course = Course::Running(Box::new(running));
    }

    fn step(&mut self) {
        let now = self.shared.clock.now();
        let Worker {
            shared,
            caller,
            object,
            course,
            work,
            ..
        } = self;
        if let Course::Running(running) = course {
            running.look(object, now);
            if let Some(set) = running.keeper.poll(now) {
                let (shared, caller) = (Arc::clone(shared), caller.clone());
                let plan = running.keeper.plan().clone();
                work.push(Box::pin(async move {
                    let outcome = shared.write_name(&plan, &caller, &set).await;
                    let provider = plan.provider;
                    Done::Named {
                        provider,
                        set,
                        outcome,
                    }
                }));
            }
        }
        self.report(now);
    }

    fn done(&mut self, done: Done) {
        let now = self.shared.clock.now();
        match done {
            Done::Named {
                provider,
                set,
                outcome,
            } => self.named(&provider, set, outcome, now),
            Done::Written {
                outcome,
                fresh,
                patch,
            } => {
                self.busy = false;
                if let Ok(object) = &outcome {
                    self.failures = 0;
                    let subject = forbidden_write(&self.id);
                    let installation = &self.shared.installation;
                    installation.resolve(PERMISSION_MISSING, &subject);
                    let got = json!(object.status);
                    self.schema.answered(&self.shared, &**object, &patch, &got);
                }
                match (outcome, fresh) {
                    (Ok(object), _) | (Err(_), Some(object)) => {
                        self.object = newest(Arc::from(object), &self.told_objects);
                        self.take_up();
                    }
                    (Err(failure), None) => {
                        let Id { namespace, name } = &self.id;
                        let reason = failure.reason();
                        warn!(reason, namespace, name, error = %failure, "a record set is not written");
                        let pause = WRITE_PAUSE.saturating_mul(2_u32.saturating_pow(self.failures));
                        self.failures = self.failures.saturating_add(1);
                        self.pause = Some(after(now, pause.min(LONGEST_WRITE_PAUSE)));
                        if let Failure::Forbidden(why) = &failure {
                            let subject = forbidden_write(&self.id);
                            self.shared.installation.report(reason, &subject, why);
                        }
                    }
                }
            }
        }
    }

    fn named(
        &mut self,
        provider: &str,
        set: RecordSet,
        outcome: Result<(), Refusal>,
        now: Timestamp,
    ) {
        let Course::Running(running) = &mut self.course else {
            return;
        };
        let plan = running.keeper.plan();
        // Another name by now: its keeper has asked for nothing yet.
        if !plan.is_at(provider, &set) {
            return;
        }
        let Id { namespace, name } = &self.id;
        match &outcome {
            Ok(()) => {
                let addresses = set.addresses.len();
                info!(
                    namespace,
                    name,
                    dns = plan.full_name(),
                    addresses,
                    "a name was written"
                );
                self.told = None;
            }
            Err(refusal) => {
                let reason = refusal.class.reason();
                warn!(reason, namespace, name, error = %refusal, "a name was not written");
                if self.told != Some(reason) {
                    let note = format!("{}: {refusal}", plan.full_name());
                    let what = refusal.message.as_str();
                    let teller = &self.shared.teller;
                    teller.tell(&*self.object, true, reason, "Publish", note, &[what]);
                    self.told = Some(reason);
                }
            }
        }
        running.keeper.ended(set, outcome, now);
    }

    fn wake(&self) -> Option<Timestamp> {
        let pause = [self.pause, self.held].into_iter().flatten().min();
        let pause = pause.filter(|_| !self.busy);
        let keeper = match &self.course {
            Course::Running(running) => running.keeper.wake(),
            Course::Idle | Course::Faulty(_) => None,
        };
        [pause, keeper].into_iter().flatten().min()
    }
}
