//! What the records lack of what a running pod shows.
//!
//! The annotation of a pod claims addresses, and whoever made the pod could have
//! written it. The status is written by the node: an address that both have is in
//! use by that pod. A record is made or completed for such a one only, and where
//! another holder has it, that is told and nothing is guessed.

use std::net::IpAddr;

use super::{
    key::HolderKey,
    ledger::{Ledger, Record},
};
use crate::addr::canonical;

/// A pod whose containers run.
#[derive(Clone, Copy, Debug)]
pub struct Runner<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// The key under which it holds addresses.
    pub key: &'a HolderKey,
    /// The key under which galaxy stored its addresses, where that differs.
    pub galaxy_key: Option<&'a HolderKey>,
    /// What is noted beside its own key.
    pub note: Option<&'a str>,
    /// The addresses that its annotation claims.
    pub claimed: &'a [IpAddr],
    /// The addresses that its status shows.
    pub shown: &'a [IpAddr],
}

/// What there is to say about one claimed address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// The record says what the pod shows.
    Sound(IpAddr),
    /// There is no record: make it.
    Adopt(IpAddr),
    /// The record is the pod's and lacks where the pod runs, or its note: store it.
    Complete(Box<Record>),
    /// Nothing to do but to tell.
    Odd(Oddity),
}

/// Something that a person should look at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Oddity {
    /// Another holder has the address.
    ///
    /// Compat: the words before the node are galaxy's.
    #[error("conflict ip {ip} found for both {pod} and {holder}{}", on_node(.node))]
    Conflict {
        /// The address.
        ip: IpAddr,
        /// The key of the pod.
        pod: HolderKey,
        /// The key in the record.
        holder: HolderKey,
        /// The node for which the record is bound; empty for none.
        node: String,
    },
    /// The record is of another pod that had this name.
    #[error(
        "conflict ip {ip} found for both {pod} with uid {uid} and {pod} with uid {other}{}",
        on_node(.node)
    )]
    OtherUid {
        /// The address.
        ip: IpAddr,
        /// The key of both.
        pod: HolderKey,
        /// The uid of the pod.
        uid: String,
        /// The uid in the record.
        other: String,
        /// The node for which the record is bound; empty for none.
        node: String,
    },
    /// The pod claims the address and does not show it.
    #[error("the annotation claims {ip}, but the status of the pod does not show it")]
    NotShown {
        /// The address.
        ip: IpAddr,
    },
    /// The pod shows an address that is in no entry of the configuration.
    #[error("{ip} has no record, and no entry of the configuration has it")]
    NotConfigured {
        /// The address.
        ip: IpAddr,
    },
}

impl Oddity {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict { .. } | Self::OtherUid { .. } => "AddressConflict",
            Self::NotShown { .. } => "AddressNotShown",
            Self::NotConfigured { .. } => "AddressNotConfigured",
        }
    }
}

/// Where to look for the other holder, as the end of a sentence.
fn on_node(node: &str) -> String {
    if node.is_empty() {
        return String::new();
    }
    format!(", which its record places on node {node}")
}

/// Looks at every claimed address.
///
/// A promise to another pod does not stand in the way: the address is in use, and
/// whoever is to get it finds the record when it tries to make its own.
pub fn inspect(ledger: &Ledger, pod: &Runner<'_>) -> Vec<Finding> {
    pod.claimed
        .iter()
        .map(|ip| look(ledger, pod, canonical(*ip)))
        .collect()
}

fn look(ledger: &Ledger, pod: &Runner<'_>, ip: IpAddr) -> Finding {
    let shown = pod.shown.iter().any(|known| canonical(*known) == ip);
    let Some(record) = ledger.record(ip) else {
        return match (shown, ledger.is_outside(ip)) {
            (false, _) => Finding::Odd(Oddity::NotShown { ip }),
            (true, true) => Finding::Odd(Oddity::NotConfigured { ip }),
            (true, false) => Finding::Adopt(ip),
        };
    };
    let own = record.key == *pod.key;
    if !own && Some(&record.key) != pod.galaxy_key {
        return Finding::Odd(Oddity::Conflict {
            ip,
            pod: pod.key.clone(),
            holder: record.key.clone(),
            node: record.node.clone(),
        });
    }
    if !record.uid.is_empty() && record.uid != pod.uid {
        return Finding::Odd(Oddity::OtherUid {
            ip,
            pod: record.key.clone(),
            uid: pod.uid.to_owned(),
            other: record.uid.clone(),
            node: record.node.clone(),
        });
    }
    let lacks_place = record.uid.is_empty() || record.node.is_empty();
    let lacks_note = own && record.workload_note.is_none() && pod.note.is_some();
    if record.reserved || !(lacks_place || lacks_note) {
        return Finding::Sound(ip);
    }
    if shown {
        Finding::Complete(Box::new(record.clone()))
    } else {
        Finding::Odd(Oddity::NotShown { ip })
    }
}

#[cfg(test)]
mod tests;
