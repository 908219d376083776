//! What the driver sees: by watches, and in answers to calls.

use std::sync::Arc;

use floe_api::floe::{register::VirtualIPRegister, virtualip::VirtualIP};
use floe_core::{
    addr,
    vip::{
        VipId,
        keeper::{Event, LeaseAnswer, LeaseView, ReadAnswer, VipAnswer},
    },
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use tokio::task::JoinError;
use tracing::{info, warn};

use super::Driver;
use crate::vips::{
    answer::Answer,
    calls::Written,
    inbox::Sight,
    objects::{self, is_older},
};

impl Driver {
    /// Takes in what has come of a call.
    pub(super) fn answered(&mut self, done: Result<Answer, JoinError>) {
        let answer = match done {
            Ok(answer) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => return,
        };
        let now = self.clock.now();
        match answer {
            Answer::Keeper(event) => {
                self.note(&event);
                self.keeper.handle(*event, now);
            }
            Answer::Wrote {
                register,
                ids,
                outcome,
            } => self.wrote(&register, ids, outcome),
            Answer::Read {
                register,
                ids,
                found,
            } => self.read(&register, ids, found),
            Answer::Told(id, object, status) => {
                self.teller.told(&id, object.as_deref(), &status, now);
                let known = self.books.shown(&id).map(|it| &it.metadata);
                let is_news = |it: &VirtualIP| known.is_some_and(|known| is_newer(it, known));
                if let Some(object) = object.filter(|it| is_news(it)) {
                    self.object_known(object);
                    self.see(&id);
                }
            }
            Answer::Down(node, Some(is_down)) => {
                if self.doubts.is_down(&node, is_down) {
                    info!(node, is_down, "it is known whether a silent node runs");
                    let event = if is_down {
                        Event::NodeDown
                    } else {
                        Event::NodeUp
                    };
                    self.keeper.handle(event(node), now);
                }
            }
            Answer::Down(_, None) => {}
        }
    }

    /// Takes in how a write of a register went.
    fn wrote(&mut self, register: &str, ids: Vec<VipId>, outcome: Written<Box<VirtualIPRegister>>) {
        let now = self.clock.now();
        let rest = self.writes.done(register);
        match outcome {
            Written::Done(object) => {
                self.teller.owe(&ids);
                let mut concerned = ids.clone();
                let answers = ids.into_iter().map(|id| {
                    let view = objects::view_by(&self.books, &id, &object).map(Box::new);
                    // Of an object that is gone meanwhile nobody needs to know more.
                    let answer = view.map_or(VipAnswer::Unknown, VipAnswer::Written);
                    (id, answer)
                });
                let answers: Vec<_> = answers.collect();
                concerned.extend(self.register_known(register, Some(*object)));
                for (id, answer) in answers {
                    self.keeper.handle(Event::VipWritten { id, answer }, now);
                }
                self.see_all(&concerned);
            }
            Written::Refused => self.not_written(ids, &VipAnswer::Conflict),
            Written::Unknown => self.not_written(ids, &VipAnswer::Unknown),
        }
        self.not_written(rest.outdated, &VipAnswer::Conflict);
        self.not_written(rest.unsent, &VipAnswer::Unsent);
    }

    /// Takes in what was read of a register.
    fn read(
        &mut self,
        register: &str,
        ids: Vec<VipId>,
        found: Result<Option<Box<VirtualIPRegister>>, ()>,
    ) {
        let now = self.clock.now();
        let Ok(found) = found else {
            for id in ids {
                let answer = ReadAnswer::Failed;
                self.keeper.handle(Event::VipRead { id, answer }, now);
            }
            return;
        };
        let none = Box::default();
        let mut concerned = ids.clone();
        let answers = ids.into_iter().map(|id| {
            let view = objects::view_by(&self.books, &id, found.as_ref().unwrap_or(&none));
            (id, ReadAnswer::Found(view))
        });
        let answers: Vec<_> = answers.collect();
        // That a register is gone a watch tells.
        if let Some(object) = found {
            concerned.extend(self.register_known(register, Some(*object)));
        }
        for (id, answer) in answers {
            self.keeper.handle(Event::VipRead { id, answer }, now);
        }
        self.see_all(&concerned);
    }

    /// Lets the keeper see objects as they are known: a watch may have told more by now than
    /// an answer knows of, or of another object of that name.
    fn see_all(&mut self, ids: &[VipId]) {
        for id in ids {
            self.see(id);
        }
    }

    /// Lets the keeper see an object as it is known.
    fn see(&mut self, id: &VipId) {
        if let Some(view) = objects::view_in(&self.books, id) {
            self.keeper.handle(Event::Vip(view), self.clock.now());
        }
    }

    /// What an answer means for others than the keeper.
    fn note(&mut self, event: &Event) {
        if let Event::LeaseRead { node, answer } = event
            && let ReadAnswer::Found(lease) = answer
            && *node != self.me
        {
            self.lease_known(node, lease.clone());
        }
        if let Event::LeaseWritten(answer) = event {
            let fails = *answer == LeaseAnswer::Unknown;
            if std::mem::replace(&mut self.failing, fails) == fails {
                return;
            }
            if fails {
                let reason = "LeaseUnwritable";
                warn!(reason, "the lease of this node cannot be written");
            } else {
                info!("the lease of this node can be written again");
                // Whatever cut this call off may have cut watches off, which do not notice.
                (self.ends.regained)();
            }
        }
    }

    /// Takes in what a watch has seen of a lease.
    pub(super) fn lease_seen(&mut self, node: String, sight: Sight<LeaseView>) {
        let number = |lease: &LeaseView| lease.version.parse::<u64>().ok();
        let known = self.leases.get(&node).and_then(number);
        let new = sight.object.as_ref().and_then(number);
        if !sight.listed && matches!((new, known), (Some(new), Some(known)) if new < known) {
            return;
        }
        self.lease_known(&node, sight.object.clone());
        let now = self.clock.now();
        let lease = sight.object;
        self.keeper.handle(Event::Lease { node, lease }, now);
    }

    fn lease_known(&mut self, node: &str, lease: Option<LeaseView>) {
        let now = self.clock.now();
        if self.doubts.seen(node, lease.as_ref(), now) {
            self.keeper.handle(Event::NodeUp(node.to_owned()), now);
        }
        match lease {
            Some(lease) => self.leases.insert(node.to_owned(), lease),
            None => self.leases.remove(node),
        };
    }

    /// Takes in what a watch has seen of an object.
    pub(super) fn vip_seen(&mut self, id: VipId, sight: Sight<VirtualIP>) {
        let known = self.books.shown(&id).map(|it| &it.metadata);
        let now = self.clock.now();
        let Some(object) = sight.object else {
            self.books.remove_vip(&id);
            self.is_stirred = true;
            self.keeper.handle(Event::VipGone(id), now);
            return;
        };
        // What a write has shown already would only be undone.
        let is_same = known.is_some_and(|known| known.uid == object.metadata.uid);
        let is_late = known.is_some_and(|known| is_older(&object.metadata, known));
        if !sight.listed && is_same && is_late {
            return;
        }
        if known.is_some_and(|it| it.uid != object.metadata.uid) {
            self.keeper.handle(Event::VipGone(id.clone()), now);
        }
        self.object_known(Arc::new(object));
        self.see(&id);
    }

    /// Takes in what a watch has seen of a register.
    pub(super) fn register_seen(&mut self, name: &str, sight: Sight<VirtualIPRegister>) {
        let touched = if sight.listed {
            self.is_stirred = true;
            self.teller.look_again();
            self.books.put_register(name, sight.object).all
        } else {
            self.register_known(name, sight.object)
        };
        self.see_all(&touched);
    }

    /// Takes in a register, unless more is known. Returns the objects that are in it or were.
    fn register_known(&mut self, name: &str, register: Option<VirtualIPRegister>) -> Vec<VipId> {
        self.is_stirred = true;
        self.teller.look_again();
        let known = self.books.register(name);
        let stays = match (&register, known) {
            (Some(new), Some(known)) => is_older(&new.metadata, &known.metadata),
            (_, None) | (None, Some(_)) => false,
        };
        if stays {
            return self.books.within(name);
        }
        self.books.put_register(name, register).all
    }

    fn object_known(&mut self, object: Arc<VirtualIP>) {
        let candidates = object.status.iter().flat_map(|it| &it.candidates);
        self.nodes
            .extend(candidates.map(|it| addr::canonical(it.node_address)));
        self.books.put_vip(object);
        self.is_stirred = true;
        self.teller.look_again();
    }
}

/// Whether an answer tells something of the object that is known. It may be older than what
/// a watch has shown meanwhile, or of one that is gone.
fn is_newer(object: &VirtualIP, known: &ObjectMeta) -> bool {
    object.metadata.uid == known.uid && !is_older(&object.metadata, known)
}
