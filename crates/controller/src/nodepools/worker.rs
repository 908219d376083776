//! One pool: its machine, and everything that the machine asks for.
//!
//! One task owns all of it. Calls run beside it and come back as messages, so that a slow
//! cloud delays nothing else; no lock is held while anybody waits.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use floe_api::flipop::{
    address,
    pool::{Circumstances, FloatingIPPool},
};
use floe_core::{
    ipam::families::Family,
    nodepool::{
        cloud::Refusal,
        pool::{Answer, Call, Pool},
        records::{RecordSet, family_of},
    },
};
use futures::{StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use jiff::Timestamp;
use serde_json::Value;
use tokio::{sync::watch, task::yield_now, time::sleep_until};
use tracing::{info, warn};

use super::{
    Shared,
    account::Caller,
    annotate::{Given, Word},
    check::{self, Fault, PoolPlan},
    names::Keeper,
    objects::{Id, version},
    rivalry::Rivals,
    schema::Schema,
    server::Failure,
};
use crate::installation::PERMISSION_MISSING;

mod calls;
mod notes;
mod report;
mod running;

use notes::Noted;
use running::{Running, keeper, sight};

/// The pause after a failed write of an object; each further one is twice as long.
const WRITE_PAUSE: Duration = Duration::from_secs(2);

/// The longest pause after a failed write.
const LONGEST_WRITE_PAUSE: Duration = Duration::from_mins(2);

/// Looks after a pool as long as it is there.
pub async fn run(shared: Arc<Shared>, id: Id, mut objects: watch::Receiver<Arc<FloatingIPPool>>) {
    let object = Arc::clone(&objects.borrow_and_update());
    let caller = Caller {
        kind: "FloatingIPPool",
        id: id.clone(),
    };
    let rivals = shared.rivals.subscribe();
    let schema = Schema::new(&shared);
    let mut missing = shared.missing.clone();
    let mut worker = Worker {
        shared,
        id,
        caller,
        object,
        told_objects: objects.clone(),
        rivals,
        course: Course::Idle,
        epochs: 0,
        under_way: 0,
        work: FuturesUnordered::new(),
        writes: Writes::default(),
        told: BTreeSet::new(),
        told_unseen: false,
        schema,
    };
    worker.take_up();
    loop {
        worker.decide();
        // An event may concern many pools: all of them decide before any of them reports.
        yield_now().await;
        let now = worker.now();
        worker.report(now);
        let now = worker.shared.clock.now();
        let wake = worker.wake(now);
        let instant = worker.shared.clock.instant(wake.unwrap_or(now));
        let Worker {
            course,
            work,
            rivals,
            schema,
            ..
        } = &mut worker;
        tokio::select! {
            changed = objects.changed() => {
                if changed.is_err() {
                    break;
                }
                let object = Arc::clone(&objects.borrow_and_update());
                worker.see(object);
            }
            Some(done) = work.next(), if !work.is_empty() => worker.done(done),
            // The sender lives as long as what all share.
            _ = rivals.changed() => worker.take_up(),
            () = schema.changed() => worker.retry_writes(),
            Ok(()) = missing.changed() => worker.retry_writes(),
            () = course.news() => {}
            () = sleep_until(instant), if wake.is_some() => {}
        }
    }
    worker.end();
}

struct Worker {
    shared: Arc<Shared>,
    id: Id,
    caller: Caller,
    /// The newest version that was seen.
    object: Arc<FloatingIPPool>,
    /// What the watch has told.
    told_objects: watch::Receiver<Arc<FloatingIPPool>>,
    /// The pools that list an address of another one.
    rivals: watch::Receiver<Rivals>,
    course: Course,
    /// How many pools of calls there were: see [`Running::epoch`].
    epochs: u64,
    /// Calls under way that change something, also those of machines that are gone.
    under_way: usize,
    work: FuturesUnordered<BoxFuture<'static, Done>>,
    writes: Writes,
    /// Troubles that are told and last.
    told: BTreeSet<(String, &'static str)>,
    /// An Event has reported that nodes or pods may not be listed.
    told_unseen: bool,
    schema: Schema,
}

/// What is done with the pool.
enum Course {
    /// Nothing: it is going, or was not looked at yet.
    Idle,
    /// It cannot be followed.
    Faulty(Fault),
    /// It is followed.
    Running(Box<Running>),
}

/// Writes of the object: one at a time.
#[derive(Default)]
struct Writes {
    busy: bool,
    /// Not before this, after a failure.
    pause: Option<Timestamp>,
    /// Failures in a row.
    failures: u32,
    /// What is left to write is not kept by the API server, and waits until then.
    held: Option<Timestamp>,
    /// The machine waits until its memory is written.
    asked: bool,
}

/// Something has ended.
enum Done {
    Call {
        epoch: u64,
        call: Call,
        answer: Answer,
        /// How the object is now, if the call has changed it.
        object: Option<Box<FloatingIPPool>>,
        /// When a list was begun.
        begun: Option<tokio::time::Instant>,
    },
    Written {
        outcome: Result<Box<FloatingIPPool>, Failure>,
        /// How the object is, if somebody else was faster.
        fresh: Option<Box<FloatingIPPool>>,
        /// What the status was patched with.
        patch: Option<Value>,
    },
    /// A name was written, or removed.
    Named {
        provider: String,
        set: RecordSet,
        removed: bool,
        outcome: Result<(), Refusal>,
    },
}

impl Course {
    /// Waits for news about nodes and pods.
    async fn news(&mut self) {
        match self {
            Self::Running(running) => running.sight.changed().await,
            Self::Idle | Self::Faulty(_) => std::future::pending().await,
        }
    }
}

impl Worker {
    fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// The watch tells of an object, perhaps of an older one than a write has returned.
    fn see(&mut self, object: Arc<FloatingIPPool>) {
        if version(&*object) >= version(&*self.object) {
            self.object = object;
            self.take_up();
        }
    }

    /// The specification may have changed.
    fn take_up(&mut self) {
        let object = Arc::clone(&self.object);
        if object.is_deleting() && !object.is_held() {
            self.course = Course::Idle;
            return;
        }
        let plan = check::pool(&object.spec, &self.shared.registry);
        let plan = plan.and_then(|plan| match self.rivals.borrow_and_update().get(&self.id) {
            Some(rival) => Err(check::rival(rival)),
            None => Ok(plan),
        });
        match plan {
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

    fn refuse(&mut self, fault: &Fault) {
        let Id { namespace, name } = &self.id;
        let Fault { reason, message } = fault;
        warn!(
            reason,
            namespace,
            name,
            error = message,
            "a pool cannot be followed"
        );
        self.shared.metrics.pool(&self.id, None);
        let note = message.clone();
        self.shared
            .teller
            .tell(&*self.object, true, reason, "Validate", note, &[message]);
    }

    fn follow(&mut self, plan: PoolPlan) {
        let now = self.now();
        let spec = self.object.to_core(Circumstances {
            cluster: &self.shared.cluster,
            capabilities: plan.ips.capabilities(),
        });
        let owner = self.owner();
        let families: BTreeSet<Family> = spec.ips.iter().map(|ip| family_of(*ip)).collect();
        self.epochs += 1;
        if let Course::Running(running) = &mut self.course {
            running.machine.configure(spec, now);
            running.replan(plan, &self.shared, owner, self.epochs);
            if let Some(keeper) = &mut running.keeper {
                keeper.about(families);
            }
            return;
        }
        let mut keeper = plan.dns.clone().map(|dns| keeper(dns, owner));
        if let Some(keeper) = &mut keeper {
            let status = self.object.status.iter();
            keeper.has_said(status.flat_map(|it| it.ips.keys()));
            keeper.about(families);
        }
        let account = self.shared.accounts.of(&plan.provider, &plan.ips);
        let running = Running {
            account,
            sight: sight(&self.shared, &plan),
            looked: false,
            notes: Noted::default(),
            machine: Pool::new(spec, self.object.memory()),
            keeper,
            plan,
            changing: 0,
            changed: tokio::time::Instant::now(),
            told: None,
            epoch: self.epochs,
            annotated: None,
        };
        self.course = Course::Running(Box::new(running));
    }

    /// Who keeps the pool's name in DNS. The name of the pool and not its uid: whoever makes
    /// a pool anew means the same.
    fn owner(&self) -> String {
        let Id { namespace, name } = &self.id;
        format!("floe/{}/pool/{namespace}/{name}", self.shared.cluster)
    }

    /// Begins everything that can be done now.
    fn decide(&mut self) {
        let now = self.now();
        if let Course::Running(running) = &mut self.course {
            running.look(now);
        }
        self.begin_calls(now);
    }

    fn wake(&self, now: Timestamp) -> Option<Timestamp> {
        let waits = [self.writes.pause, self.writes.held];
        let pause = waits.into_iter().flatten().min();
        let pause = pause.filter(|_| !self.writes.busy);
        let Course::Running(running) = &self.course else {
            return pause;
        };
        let asks = running.looked
            && !running.waits_for_name(&self.object)
            && !running.waits_for_others(self.under_way);
        let machine = running.machine.wake(now).filter(|_| asks);
        let keeper = running.keeper.as_ref().and_then(Keeper::wake);
        [pause, machine, keeper].into_iter().flatten().min()
    }

    /// What kept the object from being written may be over.
    fn retry_writes(&mut self) {
        self.writes.pause = None;
        self.writes.held = None;
        if let Course::Running(running) = &mut self.course {
            running.machine.retry_purchase();
        }
    }

    /// The object is gone.
    fn end(&mut self) {
        let Id { namespace, name } = &self.id;
        info!(namespace, name, "a pool is gone");
        self.shared.metrics.pool(&self.id, None);
        Schema::end::<FloatingIPPool>(&self.shared, &self.id);
        for is_status in [true, false] {
            let subject = calls::forbidden_write(&self.id, is_status);
            let installation = &self.shared.installation;
            installation.resolve(PERMISSION_MISSING, &subject);
        }
        let texts = self.object.spec.ips.iter();
        let ips = texts.filter_map(|text| address::parse(text)).collect();
        self.annotate(Given {
            ips,
            ..Given::default()
        });
    }

    fn annotate(&self, given: Given) {
        let uid = self.object.metadata.uid.clone();
        let word = Word {
            pool: (self.id.clone(), uid.unwrap_or_default()),
            given,
        };
        // An error means that this process no longer leads.
        let _ = self.shared.words.send(word);
    }
}
