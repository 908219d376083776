//! What the driver sees: by watches, and in answers to calls.

use std::sync::Arc;

use floe_api::floe::virtualip::VirtualIP;
use floe_core::{
    addr,
    vip::{
        VipId,
        keeper::{Event, LeaseAnswer, LeaseView, ReadAnswer},
    },
};
use tokio::task::JoinError;
use tracing::{info, warn};

use super::Driver;
use crate::vips::{answer::Answer, inbox::Sight, objects};

impl Driver {
    /// Takes in what has come of a call.
    pub(super) fn answered(&mut self, done: Result<Option<Answer>, JoinError>) {
        let answer = match done {
            Ok(Some(answer)) => answer,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(None) | Err(_) => return,
        };
        let now = self.clock.now();
        match answer {
            Answer::Keeper(event, object) => {
                self.note(&event);
                // A watch may have told more by now than the answer knows of.
                let newer = object.as_ref().and_then(|it| self.newer(it));
                if let Some(object) = object.filter(|_| newer.is_none()) {
                    self.object_known(object);
                }
                self.keeper.handle(*event, now);
                if let Some(newer) = newer {
                    self.keeper.handle(Event::Vip(objects::view(&newer)), now);
                }
            }
            Answer::Told(id, object) => {
                self.teller.told(&id, object.is_some(), now);
                if let Some(object) = object.filter(|it| self.newer(it).is_none()) {
                    let view = objects::view(&object);
                    self.object_known(object);
                    self.keeper.handle(Event::Vip(view), now);
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

    /// What an answer means for others than the keeper.
    fn note(&mut self, event: &Event) {
        if let Event::VipWritten { id, .. } = event {
            self.writing.remove(id);
        }
        if let Event::VipRead { id, answer } = event
            && *answer == ReadAnswer::Found(None)
        {
            self.objects.remove(id);
            self.is_stirred = true;
        }
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
        let known = self.leases.get(&node).map(|it| it.version.as_str());
        let new = sight.object.as_ref().map(|it| it.version.as_str());
        if !sight.listed && is_older(new, known) {
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
        let known = self.objects.get(&id).map(|it| &it.metadata);
        let now = self.clock.now();
        let Some(object) = sight.object else {
            self.objects.remove(&id);
            self.is_stirred = true;
            self.keeper.handle(Event::VipGone(id), now);
            return;
        };
        let meta = &object.metadata;
        let is_another = known.is_some_and(|it| it.uid != meta.uid);
        let version = known.and_then(|it| it.resource_version.as_deref());
        // What a write or a read has shown already would only be undone.
        if !sight.listed && !is_another && is_older(meta.resource_version.as_deref(), version) {
            return;
        }
        if is_another {
            self.keeper.handle(Event::VipGone(id), now);
        }
        let view = objects::view(&object);
        self.object_known(Arc::new(object));
        self.keeper.handle(Event::Vip(view), now);
    }

    /// The same object as it is known, if that is newer.
    fn newer(&self, object: &VirtualIP) -> Option<Arc<VirtualIP>> {
        let known = self.objects.get(&objects::id_of(object))?;
        let version = object.metadata.resource_version.as_deref();
        let is_same = known.metadata.uid == object.metadata.uid;
        let is_newer = is_older(version, known.metadata.resource_version.as_deref());
        (is_same && is_newer).then(|| Arc::clone(known))
    }

    fn object_known(&mut self, object: Arc<VirtualIP>) {
        let candidates = object.status.iter().flat_map(|it| &it.candidates);
        self.nodes
            .extend(candidates.map(|it| addr::canonical(it.node_address)));
        self.objects.insert(objects::id_of(&object), object);
        self.is_stirred = true;
        self.teller.look_again();
    }
}

/// Whether a version is known to be older than another. Servers count them up.
fn is_older(version: Option<&str>, than: Option<&str>) -> bool {
    let number = |version: Option<&str>| version.and_then(|it| it.parse::<u64>().ok());
    matches!((number(version), number(than)), (Some(one), Some(other)) if one < other)
}
