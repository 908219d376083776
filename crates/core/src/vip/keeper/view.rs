//! What an agent sees of the objects that all agents share.

use std::{collections::BTreeSet, net::IpAddr};

use crate::vip::{
    Candidate, VipId,
    elect::{Failover, Health},
};

/// A `VirtualIP` as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    /// Which one.
    pub id: VipId,
    /// The version of what keeps its holder; writes are made on it.
    pub version: String,
    /// When it was made, in seconds: the same for whoever looks, and whatever happens. Those
    /// that were made earlier come first where many are spread.
    pub born: i64,
    /// The addresses that are granted; without any there is nothing to hold.
    pub addresses: Vec<IpAddr>,
    /// Who has them.
    pub holder: Option<Holding>,
    /// Who is to have them next.
    pub successor: Option<Successor>,
    /// Who could have them, and nodes that may be named next.
    pub candidates: Vec<Candidate>,
    /// When they move.
    pub failover: Failover,
    /// How often they have moved. It never falls, and grows whenever a holder loses them.
    pub moves: i64,
    /// Whether the object is being deleted: its holder lets go.
    pub deleting: bool,
}

impl View {
    /// Those of the candidates that can be elected.
    pub fn electable(&self) -> impl Iterator<Item = &Candidate> {
        self.candidates.iter().filter(|it| it.is_electable())
    }

    /// Whether this node has the addresses in this term.
    pub fn is_held_by(&self, node: &str, term: i64) -> bool {
        let holder = self.holder.as_ref();
        holder.is_some_and(|it| it.candidate.node == node && it.term == term)
    }
}

/// A pod that has the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The pod.
    pub candidate: Candidate,
    /// The term of its node's lease in which it got them.
    pub term: i64,
}

/// A pod that is to have the addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Successor {
    /// The pod.
    pub candidate: Candidate,
    /// The term in which its node is prepared; only of use with `ready`.
    pub term: i64,
    /// Whether its node is prepared.
    pub ready: bool,
    /// Why the addresses are to move: the text of a
    /// [`MoveReason`](crate::vip::elect::MoveReason).
    pub reason: String,
}

/// The lease of a node as it was seen last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Its resource version: every renewal changes it.
    pub version: String,
    /// The number of the node's term.
    pub term: i64,
    /// The nodes without whose promises it does not outlive a renewal.
    pub peers: BTreeSet<String>,
}

/// A pod of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// How it is. [`Health::Unclaimed`] and [`Health::CannotServe`] are not for a pod
    /// alone to say, and count as fit.
    pub health: Health,
    /// Its addresses, if they are known; they go before those in a candidate.
    pub addresses: Vec<IpAddr>,
}
