//! Acts of the keeper that are calls to the API server, and what comes back.

use std::{collections::BTreeSet, sync::Arc};

use floe_api::floe::{
    register::{self, Entry, VirtualIPRegister},
    virtualip::VirtualIP,
};
use floe_core::vip::{
    VipId,
    elect::MoveReason,
    keeper::{Change, Event, LeaseAnswer, ReadAnswer},
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
    /// An answer for the keeper.
    Keeper(Box<Event>),
    /// Changes of a register were written, or not.
    Wrote {
        /// The name of the register.
        register: String,
        /// Whose entries were to change.
        ids: Vec<VipId>,
        /// How it went.
        outcome: Written<Box<VirtualIPRegister>>,
    },
    /// A register was read for these objects.
    Read {
        /// The name of the register.
        register: String,
        /// For which objects.
        ids: Vec<VipId>,
        /// What was found; an error: it could not be read.
        found: Result<Option<Box<VirtualIPRegister>>, ()>,
    },
    /// The status of an object was written with this patch, or not.
    Told(VipId, Option<Arc<VirtualIP>>, Value),
    /// It was asked whether a node is down; nothing: nobody knows.
    Down(String, Option<bool>),
}

/// A change of an entry, and the object that it was judged on.
#[derive(Debug)]
pub struct Edit {
    /// Which object.
    pub vip: Arc<VirtualIP>,
    /// What is to change.
    pub change: Change,
}

/// Writes the lease of this node.
pub async fn write_lease(
    calls: Calls,
    expected: Option<String>,
    term: i64,
    peers: BTreeSet<String>,
) -> Answer {
    let answer = match calls.write_lease(expected, term, &peers).await {
        Written::Done(version) => LeaseAnswer::Written { version },
        Written::Refused => LeaseAnswer::Refused,
        Written::Unknown => LeaseAnswer::Unknown,
    };
    Answer::Keeper(Box::new(Event::LeaseWritten(answer)))
}

/// Reads the lease of a node.
pub async fn read_lease(calls: Calls, node: String) -> Answer {
    let read = calls.read_lease(&node).await;
    let answer = read.map_or(ReadAnswer::Failed, ReadAnswer::Found);
    Answer::Keeper(Box::new(Event::LeaseRead { node, answer }))
}

/// Writes all changes of a register at once, if it still has the version on which they were
/// judged; otherwise none of them.
pub async fn write(calls: Calls, register: String, version: String, edits: Vec<Edit>) -> Answer {
    if edits.is_empty() {
        return Answer::Wrote {
            register,
            ids: Vec::new(),
            outcome: Written::Refused,
        };
    }
    let now = Timestamp::now();
    let entries: Vec<(&str, Entry)> = edits
        .iter()
        .map(|Edit { vip, change }| {
            let uid = vip.metadata.uid.as_deref().unwrap_or_default();
            (uid, objects::changed(vip, change, now))
        })
        .collect();
    let entries = entries.iter().map(|(uid, entry)| (*uid, Some(entry)));
    let patch = register::patch(Some(&version), entries);
    let outcome = match calls.patch_register(&register, &patch).await {
        Written::Done(object) => {
            for Edit { vip, change } in &edits {
                log(&vip.id(), change);
                if let Some(note) = dropped(change, vip) {
                    let version = object.metadata.resource_version.as_deref();
                    calls.tell(vip, version.unwrap_or_default(), "MoveNotPrepared", note);
                }
            }
            Written::Done(Box::new(object))
        }
        Written::Refused => {
            debug!(register, count = edits.len(), "somebody else was faster");
            Written::Refused
        }
        Written::Unknown => Written::Unknown,
    };
    Answer::Wrote {
        register,
        ids: edits.iter().map(|it| it.vip.id()).collect(),
        outcome,
    }
}

/// Reads a register once for all objects of which something is in doubt.
pub async fn read(calls: Calls, register: String, ids: Vec<VipId>) -> Answer {
    // What has no entry is in no register.
    let found = if register.is_empty() {
        Ok(None)
    } else {
        calls.read_register(&register).await
    };
    Answer::Read {
        found: found.map(|it| it.map(Box::new)),
        register,
        ids,
    }
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

/// Writes the status of an object, which is as it was seen.
pub async fn tell(calls: Calls, id: VipId, object: Arc<VirtualIP>, status: Value) -> Answer {
    let patch = json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": &status,
    });
    let written = calls.patch_vip(&id, &patch).await;
    let object = match written {
        Written::Done(object) => Some(Arc::new(object)),
        Written::Refused | Written::Unknown => None,
    };
    Answer::Told(id, object, status)
}
