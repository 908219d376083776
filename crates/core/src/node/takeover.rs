//! Which addresses that are configured on this node belong elsewhere by now.
//!
//! A node that was away comes back with the pods it had, while their successors run
//! on other nodes with the same addresses. Two hosts then answer for one address,
//! until the one that lost it takes it off.
//!
//! Taking off an address that is in rightful use is an outage. So nothing is taken
//! off because of what a watch says or lacks: a watch can be behind, and it shows
//! only records of this node. It only tells what to [read](Verdict::Read), and what
//! was read decides.

use std::{collections::BTreeMap, net::IpAddr};

use super::state::PodId;
use crate::{addr::canonical, ipam::key::HolderKey};

/// An address that is configured for a container of this node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attachment {
    /// The container.
    pub container: String,
    /// Its pod; unknown for what galaxy attached, if the runtime does not tell either.
    pub pod: Option<PodId>,
    /// The address.
    pub ip: IpAddr,
}

/// The node on which is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Here<'a> {
    /// Its name, as far as it is known.
    pub node: &'a str,
    /// Whether the cluster has a node of this name. Under a wrong name everything
    /// would seem to be elsewhere.
    pub is_confirmed: bool,
}

/// What a record says about who has its address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The key of the holder.
    pub key: HolderKey,
    /// The uid of the pod that runs with it; empty when nobody does, or in records
    /// of galaxy.
    pub uid: String,
    /// The node where that pod runs; empty when nobody does.
    pub node: String,
}

/// The record of an address, and how it is known. `None` is no record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// From a watch, which may be behind and shows the records of this node only.
    Watched(Option<Seen>),
    /// From a direct read just now.
    Read(Option<Seen>),
}

/// What to do about one address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// The address and its container.
    pub attachment: Attachment,
    /// What to do.
    pub verdict: Verdict,
}

/// What to do about an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing: the record names the pod, or at least nobody else.
    Keep,
    /// Read the record directly and judge again.
    Read,
    /// Take it off at once: somebody else has it.
    TakeOff(Seen),
    /// Leave it and tell.
    Report(Oddity),
}

/// Something that a person should look at, while the address stays.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Oddity {
    /// There is no record. Nobody else has the address, so it stays.
    #[error("the address has no record any more")]
    RecordGone,
    /// The record waits as a spare, so that somebody else may get the address.
    #[error("the record waits as {key} and names no pod")]
    RecordIdle {
        /// The key of the record.
        key: HolderKey,
    },
    /// The record has the uid of this pod, and says another name or node. A pod is on
    /// one node only, so nobody else can have the address.
    #[error("the record has the uid of this pod, but names {key} on node {node:?}")]
    RecordContradicts {
        /// The key of the record.
        key: HolderKey,
        /// The node in the record.
        node: String,
    },
    /// The record names another node, and nothing else says that the address has moved.
    /// But it is not sure what this node is called.
    #[error("the record names node {node:?}, and whether this is another one is not known")]
    NodeUnconfirmed {
        /// The node in the record.
        node: String,
    },
    /// Somebody else has the address, and the pod that lost it cannot be reached.
    #[error("{key} has the address by now, but the namespace of this pod cannot be found")]
    OutOfReach {
        /// The key of the record.
        key: HolderKey,
    },
}

/// The reason under which an address is taken off.
pub const MOVED_AWAY: &str = "AddressMovedAway";

impl Verdict {
    /// The stable reason for logs, events and metrics; nothing to say without one.
    pub fn reason(&self) -> Option<&'static str> {
        match self {
            Self::Keep | Self::Read => None,
            Self::TakeOff(_) => Some(MOVED_AWAY),
            Self::Report(oddity) => Some(oddity.reason()),
        }
    }
}

impl Oddity {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::RecordGone => "RecordGone",
            Self::RecordIdle { .. } => "RecordIdle",
            Self::RecordContradicts { .. } => "RecordContradicts",
            Self::NodeUnconfirmed { .. } => "NodeUnconfirmed",
            Self::OutOfReach { .. } => "PodOutOfReach",
        }
    }
}

/// Judges every configured address. `evidence` has what is known of each; an address
/// that it lacks is one that the watch does not show.
///
/// # Guarantees
/// [`Verdict::TakeOff`] and [`Verdict::Report`] rest on direct reads only.
pub fn judge(
    attachments: &[Attachment],
    evidence: &BTreeMap<IpAddr, Evidence>,
    here: Here<'_>,
) -> Vec<Judgement> {
    let judged = attachments.iter().map(|attachment| {
        let ip = canonical(attachment.ip);
        let known = evidence
            .get(&ip)
            .or_else(|| evidence.get(&attachment.ip))
            .unwrap_or(&Evidence::Watched(None));
        let verdict = match known {
            Evidence::Read(seen) => decide(attachment, seen.as_ref(), here),
            Evidence::Watched(seen) => match decide(attachment, seen.as_ref(), here) {
                Verdict::Keep => Verdict::Keep,
                Verdict::Read | Verdict::TakeOff(_) | Verdict::Report(_) => Verdict::Read,
            },
        };
        Judgement {
            attachment: attachment.clone(),
            verdict,
        }
    });
    judged.collect()
}

fn decide(attachment: &Attachment, seen: Option<&Seen>, here: Here<'_>) -> Verdict {
    let Some(seen) = seen else {
        return Verdict::Report(Oddity::RecordGone);
    };
    let moved = || Verdict::TakeOff(seen.clone());
    // Whichever pod it is, what was attached with it is not how a shared address is served.
    if seen.key.is_vip() {
        return moved();
    }
    let elsewhere = !seen.node.is_empty() && seen.node != here.node;
    // The name of a node alone takes an address off only if this node's is sure.
    let by_node = || {
        if here.is_confirmed {
            return moved();
        }
        let node = seen.node.clone();
        Verdict::Report(Oddity::NodeUnconfirmed { node })
    };
    let Some(pod) = &attachment.pod else {
        return if elsewhere { by_node() } else { Verdict::Keep };
    };
    let named = seen.key.names_pod(&pod.namespace, &pod.name);
    if !seen.uid.is_empty() && !pod.uid.is_empty() {
        return match (seen.uid == pod.uid, named && !elsewhere) {
            (false, _) => moved(),
            (true, true) => Verdict::Keep,
            (true, false) => Verdict::Report(Oddity::RecordContradicts {
                key: seen.key.clone(),
                node: seen.node.clone(),
            }),
        };
    }
    let names_another = !named && seen.key.parts().is_some_and(|key| !key.pod.is_empty());
    if names_another {
        moved()
    } else if elsewhere {
        by_node()
    } else if named {
        Verdict::Keep
    } else {
        Verdict::Report(Oddity::RecordIdle {
            key: seen.key.clone(),
        })
    }
}

#[cfg(test)]
mod tests;
