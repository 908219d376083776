//! What a keeper wants to be done.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    pledges::Refusal,
    view::{Holding, Successor},
};
use crate::{
    lease::Moment,
    vip::{Candidate, VipId, elect::MoveReason},
};

/// What to do now, and when to ask again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Output {
    /// What to do.
    pub acts: Vec<Act>,
    /// When to [`poll`](super::Keeper::poll) again if nothing happens before.
    pub next: Option<Moment>,
}

/// One thing to do. Whatever has an answer is answered by exactly one event, also when it
/// failed or took too long.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Write the lease of this node, if it still has the expected version.
    WriteLease {
        /// What it should have; nothing: there should be none, create it.
        expected: Option<String>,
        /// The term to write.
        term: i64,
        /// The peers to write.
        peers: BTreeSet<String>,
    },
    /// Read the lease of a node from the API server itself, not from any cache.
    ReadLease {
        /// Whose.
        node: String,
    },
    /// Change who has the addresses of a `VirtualIP`, if what keeps that still has the expected
    /// version. Each accepted write gives it a new one.
    WriteVip {
        /// Which.
        id: VipId,
        /// What it should have.
        expected: String,
        /// What to write.
        change: Change,
    },
    /// Read who has the addresses of a `VirtualIP` from the API server itself, not from any
    /// cache.
    ReadVip {
        /// Which.
        id: VipId,
    },
    /// Ask a node for a promise. It may get lost; there may be no answer.
    Ask {
        /// The node.
        node: String,
        /// Where its agent is reached.
        address: IpAddr,
        /// The own term.
        term: i64,
        /// To be in the answer.
        ticket: u64,
    },
    /// Answer a question for a promise.
    Answer {
        /// The node that asked.
        to: String,
        /// The term that it asked for.
        term: i64,
        /// The number of its question.
        ticket: u64,
        /// Why it is not promised; nothing: it is.
        refusal: Option<Refusal>,
    },
    /// Serve exactly this.
    Serve(Serving),
}

/// A change of who has the addresses of a `VirtualIP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The holder is this one, and there is no successor.
    Hold {
        /// The new holder.
        holder: Holding,
        /// The number of moves to write.
        moves: i64,
        /// Why it moves; nothing: the same pod has it again, that is no move.
        reason: Option<MoveReason>,
    },
    /// There is no holder and no successor.
    Release {
        /// The number of moves to write.
        moves: i64,
        /// Why.
        reason: MoveReason,
    },
    /// This one is to be the next holder.
    Nominate(Successor),
    /// Nobody is to be the next holder.
    Dismiss,
}

/// All that a node serves.
///
/// The kernel gets the roles and the deadline in one step: a new deadline must never meet
/// old roles. Whoever reports [`Event::Served`](super::Event::Served) vouches for that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Serving {
    /// Counts up with each one.
    pub number: u64,
    /// When everything with the roles [`Role::Holder`] and [`Role::Prepared`] ends by
    /// itself. Other roles know no deadline. Nothing: there is no such role.
    pub deadline: Option<Moment>,
    /// What is served.
    pub roles: BTreeMap<VipId, Served>,
}

/// One `VirtualIP` that a node has to do with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Served {
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// What the node does with them.
    pub role: Role,
}

/// What a node does with the addresses of a `VirtualIP`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// It answers for them, until the deadline, and passes traffic to this pod.
    Holder(Candidate),
    /// It passes traffic to this pod until the deadline, but announces nothing yet.
    Prepared(Candidate),
    /// It answers no more, and sends what still comes to this node.
    HandedTo(IpAddr),
    /// Another node has them; what starts on this node goes to these addresses of the pod.
    Away(Vec<IpAddr>),
}
