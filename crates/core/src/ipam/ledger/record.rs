//! What the books consist of: records of the store, and promises.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::Timestamp;

use crate::ipam::{key::HolderKey, policy::ReleasePolicy};

/// One taken address, as its `FloatingIP` object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The address.
    pub ip: IpAddr,
    /// The holder key as stored.
    pub key: HolderKey,
    /// How long the address stays with its holder.
    pub policy: ReleasePolicy,
    /// The node that the holder was bound to; empty when nobody runs with it.
    pub node: String,
    /// The uid of the pod that runs with it; empty when nobody does.
    pub uid: String,
    /// When the holder last changed.
    pub updated: Timestamp,
    /// Whether an administrator reserved it.
    pub reserved: bool,
    /// What the key cannot say about the workload, see
    /// [`App::note`](crate::ipam::owner::App::note).
    pub workload_note: Option<String>,
}

impl Record {
    /// Whether no pod runs with this address: it is kept for later or a spare.
    pub fn is_idle(&self) -> bool {
        self.uid.is_empty() && self.node.is_empty()
    }
}

/// What was promised to a pod between a decision and the write that makes it true.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The group whose limit the pod counts against.
    pub group: HolderKey,
    /// The namespace of the pod.
    pub namespace: String,
    /// The prefix of the pod's own workload in the group.
    pub app_prefix: HolderKey,
    /// How many addresses the pod will use beside those that it holds. The ledger counts
    /// down while the pod gets them.
    pub places: usize,
    /// Addresses set aside for the pod, free ones or spares; without any, only
    /// its places count.
    pub addresses: BTreeSet<IpAddr>,
    /// When the promise lapses, if nobody came to take it.
    pub until: Timestamp,
}
