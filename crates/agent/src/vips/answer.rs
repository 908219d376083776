//! Acts of the keeper that are calls to the API server, and what comes back.

use std::sync::Arc;

use floe_api::floe::virtualip::VirtualIP;
use floe_core::vip::{
    VipId,
    elect::MoveReason,
    keeper::{Act, Change, Event, LeaseAnswer, ReadAnswer, VipAnswer},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tracing::{debug, info};

use super::{
    calls::{Calls, Written},
    objects,
};

/// What has come of a call.
#[derive(Debug)]
pub enum Answer {
    /// An answer for the keeper, and the object that came with it.
    Keeper(Box<Event>, Option<Arc<VirtualIP>>),
    /// The conditions of an object were written, or not.
    Told(VipId, Option<Arc<VirtualIP>>),
    /// It was asked whether a node is down; nothing: nobody knows.
    Down(String, Option<bool>),
}

/// Does an act that is a call; nothing comes of any other. `object` is the one that a
/// write was judged on.
pub async fn call(calls: Calls, act: Act, object: Option<Arc<VirtualIP>>) -> Option<Answer> {
    let (event, object) = match act {
        Act::WriteLease {
            expected,
            term,
            peers,
        } => {
            let answer = match calls.write_lease(expected, term, &peers).await {
                Written::Done(version) => LeaseAnswer::Written { version },
                Written::Refused => LeaseAnswer::Refused,
                Written::Unknown => LeaseAnswer::Unknown,
            };
            (Event::LeaseWritten(answer), None)
        }
        Act::ReadLease { node } => {
            let read = calls.read_lease(&node).await;
            let answer = read.map_or(ReadAnswer::Failed, ReadAnswer::Found);
            (Event::LeaseRead { node, answer }, None)
        }
        Act::WriteVip {
            id,
            expected,
            change,
        } => {
            let is_judged = |it: &Arc<VirtualIP>| {
                it.metadata.resource_version.as_deref() == Some(expected.as_str())
            };
            let object = object.filter(is_judged);
            let dropped = object.as_deref().and_then(|it| dropped(&change, it));
            let written = match object {
                Some(object) => {
                    let patch = objects::patch(&change, &object, Timestamp::now());
                    calls.patch_vip(&id, &patch).await
                }
                // Of another version than the keeper knows nothing can be written.
                None => Written::Refused,
            };
            let (answer, object) = match written {
                Written::Done(object) => {
                    log(&id, &change);
                    if let Some(note) = dropped {
                        calls.tell(&object, "MoveNotPrepared", note);
                    }
                    let view = Box::new(objects::view(&object));
                    (VipAnswer::Written(view), Some(Arc::new(object)))
                }
                Written::Refused => {
                    debug!(name = id.name, ?change, "somebody else was faster");
                    (VipAnswer::Conflict, None)
                }
                Written::Unknown => (VipAnswer::Unknown, None),
            };
            (Event::VipWritten { id, answer }, object)
        }
        Act::ReadVip { id } => {
            let (answer, object) = match calls.read_vip(&id).await {
                Ok(object) => {
                    let view = object.as_ref().map(objects::view);
                    (ReadAnswer::Found(view), object.map(Arc::new))
                }
                Err(()) => (ReadAnswer::Failed, None),
            };
            (Event::VipRead { id, answer }, object)
        }
        Act::Ask { .. } | Act::Answer { .. } | Act::Serve(_) => return None,
    };
    Some(Answer::Keeper(Box::new(event), object))
}

/// What to say of a move that somebody has asked for, and that a change drops: the
/// successor was not prepared in time, or cannot be it any more.
fn dropped(change: &Change, object: &VirtualIP) -> Option<String> {
    let status = object.status.as_ref()?;
    let successor = status.successor.as_ref()?;
    let asked = successor.reason == MoveReason::Requested.reason();
    let has_it = status
        .holder
        .as_ref()
        .is_some_and(|it| it.uid == successor.uid);
    let node = &successor.node;
    (*change == Change::Dismiss && asked && !has_it).then(|| {
        format!(
            "the move to pod {} is dropped: node {node} was not prepared for it in time",
            successor.pod
        )
    })
}

fn log(id: &VipId, change: &Change) {
    let VipId { namespace, name } = id;
    match change {
        Change::Hold { holder, reason, .. } => {
            let (reason, term) = (reason.map(MoveReason::reason), holder.term);
            let (pod, node) = (&holder.candidate.pod, &holder.candidate.node);
            info!(
                reason,
                namespace, name, pod, node, term, "shared address has a holder"
            );
        }
        Change::Release { reason, .. } => {
            let reason = reason.reason();
            info!(
                reason,
                namespace, name, "shared address has no holder any more"
            );
        }
        Change::Nominate(successor) => {
            let (reason, pod, ready) =
                (&successor.reason, &successor.candidate.pod, successor.ready);
            info!(
                reason,
                namespace, name, pod, ready, "shared address has a successor"
            );
        }
        Change::Dismiss => info!(namespace, name, "shared address has no successor any more"),
    }
}

/// Writes the conditions of an object, which is as it was seen.
pub async fn tell(calls: Calls, id: VipId, object: Arc<VirtualIP>, conditions: Value) -> Answer {
    let patch = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": { "conditions": conditions },
    });
    let written = calls.patch_vip(&id, &patch).await;
    let object = match written {
        Written::Done(object) => Some(Arc::new(object)),
        Written::Refused | Written::Unknown => None,
    };
    Answer::Told(id, object)
}
