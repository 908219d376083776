//! What happens to a keeper.

use std::collections::BTreeSet;

use super::view::{LeaseView, PodView, View};
use crate::vip::VipId;

/// Something that a keeper is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// All that there is at the start has been told: objects, leases and the node's pods.
    /// A keeper begins nothing before.
    Synced,
    /// A `VirtualIP` was seen by a watch.
    Vip(View),
    /// A `VirtualIP` is gone.
    VipGone(VipId),
    /// The lease of a node was seen by a watch; nothing: it is gone.
    Lease {
        /// Whose.
        node: String,
        /// What was seen.
        lease: Option<LeaseView>,
    },
    /// A pod of this node was seen; nothing: it is gone.
    Pod {
        /// Its uid.
        uid: String,
        /// What was seen.
        pod: Option<PodView>,
    },
    /// The answer to [`Act::WriteLease`](super::Act::WriteLease).
    LeaseWritten(LeaseAnswer),
    /// The answer to [`Act::ReadLease`](super::Act::ReadLease).
    LeaseRead {
        /// Whose.
        node: String,
        /// What the API server said.
        answer: ReadAnswer<LeaseView>,
    },
    /// The answer to [`Act::WriteVip`](super::Act::WriteVip).
    VipWritten {
        /// Which.
        id: VipId,
        /// What the API server said.
        answer: VipAnswer,
    },
    /// The answer to [`Act::ReadVip`](super::Act::ReadVip).
    VipRead {
        /// Which.
        id: VipId,
        /// What the API server said.
        answer: ReadAnswer<View>,
    },
    /// Another node asks for a promise. The clock is read after it was received.
    PromiseAsked {
        /// The node that asks.
        by: String,
        /// Its term.
        term: i64,
        /// Its number for this question.
        ticket: u64,
    },
    /// Another node answers to [`Act::Ask`](super::Act::Ask).
    Promised {
        /// The node that answers.
        by: String,
        /// The term that was asked for.
        term: i64,
        /// The number of the question.
        ticket: u64,
        /// Whether it promises.
        granted: bool,
    },
    /// The Node object is gone, or somebody vouches that the node is out of service.
    NodeDown(String),
    /// That is over.
    NodeUp(String),
    /// What this node should serve is not there, or nobody would hear of it.
    CannotServe(VipId),
    /// What this node serves nobody outside of the cluster hears of any more: the link on
    /// which it was announced is lost. Somebody else is to have it; while there is nobody
    /// else it stays, since from inside it still works.
    CannotAnnounce(VipId),
    /// What the kernel may answer for though it was told to end that, at the time of the next
    /// [`Event::Served`]: only these, of all that it does not serve.
    Lingers(BTreeSet<VipId>),
    /// The kernel now has the [`Serving`](super::Serving) of this number.
    Served(u64),
    /// The agent is to end: hand over what others can have, take nothing more.
    Stop,
}

/// How a write of the own lease went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseAnswer {
    /// It was accepted, and the lease has this version now.
    Written {
        /// The version.
        version: String,
    },
    /// It was refused for sure: the lease is not what it was thought to be.
    Refused,
    /// Nobody knows: no answer in time, or one that does not tell.
    Unknown,
}

/// How a write of a `VirtualIP` went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VipAnswer {
    /// It was accepted, and this is what came of it.
    Written(Box<View>),
    /// It was refused: the object is not what it was thought to be.
    Conflict,
    /// It was never sent. What was to be written is to be judged anew.
    Unsent,
    /// It failed, and maybe it was done all the same.
    Unknown,
}

/// How a direct read went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadAnswer<T> {
    /// The API server has this now; nothing: there is no such object.
    Found(Option<T>),
    /// It could not be read.
    Failed,
}
