//! The calls that a machine asks for, and their answers.

use std::{net::IpAddr, sync::Arc};

use floe_api::flipop::pool::FloatingIPPool;
use floe_core::nodepool::{
    cloud::{Class, Refusal},
    pool::{Answer, Call},
    records::RecordSet,
    retry::after,
};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{info, warn};

use super::{
    super::{
        Shared,
        account::Caller,
        check::DnsPlan,
        objects::{Id, newest},
        server::Failure,
    },
    Course, Done, LONGEST_WRITE_PAUSE, Running, WRITE_PAUSE, Worker,
};
use crate::installation::PERMISSION_MISSING;

impl Worker {
    /// Begins what the machine wants now.
    pub(super) fn begin_calls(&mut self, now: Timestamp) {
        let Course::Running(running) = &mut self.course else {
            return;
        };
        // What is not known of nodes is not that they are gone.
        if !running.looked {
            return;
        }
        if running.waits_for_name(&self.object) {
            if let Some(keeper) = &mut running.keeper
                && let Some(set) = keeper.leave(now)
            {
                self.work
                    .push(name(&self.shared, keeper.plan(), &self.caller, set, true));
            }
            return;
        }
        let waits = running.waits_for_others(self.under_way);
        let calls = (!waits).then(|| running.machine.poll(now));
        for call in calls.into_iter().flatten() {
            if call == Call::Write {
                self.writes.asked = true;
                continue;
            }
            if is_change(&call) {
                running.changing += 1;
                self.under_way += 1;
            }
            let made = make(&self.shared, running, &self.caller, &self.object, call);
            self.work.push(made);
        }
        if let Some(keeper) = &mut running.keeper
            && let Some(set) = keeper.poll(now)
        {
            self.work
                .push(name(&self.shared, keeper.plan(), &self.caller, set, false));
        }
    }

    /// Something has ended.
    pub(super) fn done(&mut self, done: Done) {
        let now = self.now();
        match done {
            Done::Call {
                epoch,
                call,
                answer,
                object,
                begun,
            } => {
                if is_change(&call) {
                    self.under_way -= 1;
                }
                if let Some(object) = object {
                    self.see(Arc::from(object));
                }
                if let (Course::Running(running), Some(begun)) = (&mut self.course, begun) {
                    running.told = Some(begun);
                }
                self.answered(epoch, &call, answer, now);
            }
            Done::Written {
                outcome,
                fresh,
                patch,
            } => self.written(outcome, fresh, patch.as_ref(), now),
            Done::Named {
                provider,
                set,
                removed,
                outcome,
            } => self.named(&provider, set, removed, outcome, now),
        }
    }

    fn answered(&mut self, epoch: u64, call: &Call, answer: Answer, now: Timestamp) {
        let own = match &mut self.course {
            Course::Running(running) => Some(running).filter(|it| it.epoch == epoch),
            Course::Idle | Course::Faulty(_) => None,
        };
        let Some(running) = own else {
            self.unheard(call, &answer);
            return;
        };
        if is_change(call) {
            running.changing -= 1;
            running.changed = tokio::time::Instant::now();
        }
        let Id { namespace, name } = &self.id;
        if let Answer::Refused(refusal) = &answer {
            let reason = refusal.class.reason();
            warn!(reason, namespace, name, ?call, error = %refusal, "a provider refuses");
        } else if is_change(call) {
            info!(namespace, name, ?call, ?answer, "a provider has answered");
        }
        running.machine.answered(call, answer, now);
    }

    /// An answer to a machine that is gone. What was bought meanwhile is found by its mark, or
    /// has to be found by a person.
    fn unheard(&self, call: &Call, answer: &Answer) {
        let Id { namespace, name } = &self.id;
        if let Answer::Bought(ip) = answer {
            let reason = "PurchaseUnclear";
            warn!(reason, namespace, name, %ip, ?call, "bought for what the pool was before");
        }
    }

    fn named(
        &mut self,
        provider: &str,
        set: RecordSet,
        removed: bool,
        outcome: Result<(), Refusal>,
        now: Timestamp,
    ) {
        let Course::Running(running) = &mut self.course else {
            return;
        };
        let Some(keeper) = &mut running.keeper else {
            return;
        };
        // Another name by now: its keeper has asked for nothing yet.
        let plan = keeper.plan();
        if !plan.is_at(provider, &set) {
            return;
        }
        let Id { namespace, name } = &self.id;
        match &outcome {
            Ok(()) => info!(
                namespace,
                name,
                dns = plan.full_name(),
                removed,
                "a name was written"
            ),
            Err(refusal) => {
                let reason = refusal.class.reason();
                warn!(reason, namespace, name, error = %refusal, "a name was not written");
            }
        }
        if removed {
            keeper.left(outcome, now);
        } else {
            keeper.ended(set, outcome, now);
        }
    }

    /// A write of the object has ended.
    fn written(
        &mut self,
        outcome: Result<Box<FloatingIPPool>, Failure>,
        fresh: Option<Box<FloatingIPPool>>,
        patch: Option<&Value>,
        now: Timestamp,
    ) {
        self.writes.busy = false;
        self.writes.pause = None;
        match outcome {
            Ok(object) => {
                self.writes.failures = 0;
                let subject = forbidden_write(&self.id, patch.is_some());
                let installation = &self.shared.installation;
                installation.resolve(PERMISSION_MISSING, &subject);
                if let Some(patch) = patch {
                    let got = json!(object.status);
                    self.schema.answered(&self.shared, &*object, patch, &got);
                }
                self.see(Arc::from(object));
            }
            Err(failure) => {
                if let Some(fresh) = fresh {
                    self.object = newest(Arc::from(fresh), &self.told_objects);
                    self.take_up();
                    return;
                }
                let Id { namespace, name } = &self.id;
                let reason = failure.reason();
                warn!(reason, namespace, name, error = %failure, "a pool is not written");
                let pause = WRITE_PAUSE.saturating_mul(2_u32.saturating_pow(self.writes.failures));
                self.writes.failures = self.writes.failures.saturating_add(1);
                self.writes.pause = Some(after(now, pause.min(LONGEST_WRITE_PAUSE)));
                if let Failure::Forbidden(why) = &failure {
                    let subject = forbidden_write(&self.id, patch.is_some());
                    self.shared.installation.report(reason, &subject, why);
                }
                if std::mem::take(&mut self.writes.asked)
                    && let Course::Running(running) = &mut self.course
                {
                    let class = match failure {
                        Failure::Forbidden(_) => Class::NotPermitted,
                        Failure::Conflict
                        | Failure::Gone
                        | Failure::Failed(_)
                        | Failure::Silent => Class::Unavailable,
                    };
                    let refusal = Refusal::new(class, failure.to_string());
                    let answer = Answer::Refused(refusal);
                    running.machine.answered(&Call::Write, answer, now);
                }
            }
        }
    }
}

/// The permission that a write lacks; a role may allow it in some namespaces only.
pub(super) fn forbidden_write(id: &Id, is_status: bool) -> String {
    let subresource = if is_status { "/status" } else { "" };
    let namespace = &id.namespace;
    format!("write floatingippools{subresource} in namespace {namespace}")
}

/// Whether a call changes something at the cloud, so that lists from before are old.
fn is_change(call: &Call) -> bool {
    match call {
        Call::Assign { .. } | Call::Detach { .. } | Call::Buy { .. } | Call::Release { .. } => true,
        Call::List | Call::Check { .. } | Call::Write | Call::Enter { .. } => false,
    }
}

fn make(
    shared: &Arc<Shared>,
    running: &Running,
    caller: &Caller,
    object: &FloatingIPPool,
    call: Call,
) -> BoxFuture<'static, Done> {
    let (shared, account) = (Arc::clone(shared), Arc::clone(&running.account));
    let (caller, epoch, since) = (caller.clone(), running.epoch, running.since());
    let (region, uid) = (
        object.spec.region.clone(),
        object.metadata.uid.clone().unwrap_or_default(),
    );
    let mark_of = |ip: &IpAddr| running.machine.mark_of(*ip).cloned();
    let mark = match &call {
        // The mark that stands on it; the client compares it once more.
        Call::Release { ip } => mark_of(ip),
        Call::List
        | Call::Check { .. }
        | Call::Assign { .. }
        | Call::Detach { .. }
        | Call::Write
        | Call::Buy { .. }
        | Call::Enter { .. } => None,
    };
    Box::pin(async move {
        let (mut entered, mut begun) = (None, None);
        let ips = account.ips();
        let answer = match &call {
            Call::List => account.list(since).await.map(|heard| {
                begun = Some(heard.begun);
                Answer::Listed(heard.all)
            }),
            Call::Check { ip, handle } => {
                let checked = account.call("CheckIP", &caller, ips.check(*ip, handle));
                checked.await.map(Answer::Progress)
            }
            Call::Assign { ip, server } => {
                let assigned = account.assign(&caller, *ip, server);
                assigned.await.map(Answer::Taken)
            }
            Call::Detach { ip } => {
                let detached = account.call("UnassignIP", &caller, ips.detach(*ip));
                detached.await.map(Answer::Taken)
            }
            Call::Buy { mark } => {
                let v6 = !ips.capabilities().v4;
                let bought = account.call("CreateIP", &caller, ips.buy(&region, v6, mark));
                bought.await.map(Answer::Bought)
            }
            Call::Release { ip } => match mark {
                Some(mark) => {
                    let released = account.call("ReleaseIP", &caller, ips.release(*ip, &mark));
                    released.await.map(|()| Answer::Done)
                }
                None => Err(Refusal::new(
                    Class::HeldElsewhere,
                    "nothing proves that floe has bought it for this pool",
                )),
            },
            Call::Enter { ips: bought } => {
                match shared.server.enter(&caller.id, &uid, bought).await {
                    Ok(object) => {
                        entered = Some(Box::new(object));
                        Ok(Answer::Done)
                    }
                    Err(failure) => Err(Refusal::new(Class::Unavailable, failure.to_string())),
                }
            }
            // Done with the status.
            Call::Write => Ok(Answer::Done),
        };
        Done::Call {
            epoch,
            call,
            answer: answer.unwrap_or_else(Answer::Refused),
            object: entered,
            begun,
        }
    })
}

fn name(
    shared: &Arc<Shared>,
    plan: &DnsPlan,
    caller: &Caller,
    set: RecordSet,
    removed: bool,
) -> BoxFuture<'static, Done> {
    let (shared, plan, caller) = (Arc::clone(shared), plan.clone(), caller.clone());
    let provider = plan.provider.clone();
    Box::pin(async move {
        let outcome = if removed {
            shared.remove_name(&plan, &caller, &set).await
        } else {
            shared.write_name(&plan, &caller, &set).await
        };
        Done::Named {
            provider,
            set,
            removed,
            outcome,
        }
    })
}
