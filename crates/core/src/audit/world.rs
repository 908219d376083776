//! What an audit looks at: plain values, as somebody has read them.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::{
    addr::name,
    ipam::{
        attribute::{Attribute, StoredAttribute},
        key::HolderKey,
        ledger::Record,
        policy::ReleasePolicy,
    },
    vip::VipId,
};

/// Everything that is compared.
#[derive(Clone, Copy, Debug)]
pub struct World<'a> {
    /// The text of the address configuration; `None` if there is none.
    pub configuration: Option<&'a str>,
    /// All records.
    pub records: &'a [StoredRecord],
    /// All pods that want an address.
    pub pods: &'a [Pod],
    /// All pools.
    pub pools: &'a [Pool],
    /// All nodes.
    pub nodes: &'a [Node],
    /// All `VirtualIP` objects; `None` if nobody can tell, and then nothing is said
    /// about them.
    pub vips: Option<&'a [Vip]>,
    /// What agents report as missing on their nodes; `None` if that cannot be read, and then
    /// nothing is said about it.
    pub missing: Option<&'a [Missing]>,
    /// The namespace whose pools count for everybody.
    pub everywhere: &'a str,
    /// The label of a record for a node; none when it is for none.
    pub node_label: fn(&str) -> Option<String>,
}

/// A record as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// The name of the object, which should be that of an address.
    pub name: String,
    /// What it says; `None` if that cannot be read.
    pub content: Option<Content>,
}

/// What a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The holder key.
    pub key: HolderKey,
    /// The stored text that says where the holder runs.
    pub attribute: String,
    /// The release policy.
    pub policy: ReleasePolicy,
    /// When it last changed hands.
    pub updated: Timestamp,
    /// Whether an administrator has reserved it.
    pub reserved: bool,
    /// What repeats the rest for people and selectors.
    pub marks: Marks,
}

/// What repeats a record for people and selectors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// Whether the label is there that says that the address is outside of the
    /// configuration.
    pub outside: bool,
    /// The label that names the node.
    pub node: Option<String>,
    /// The annotation that names the node.
    pub node_note: Option<String>,
    /// The annotation that names the state.
    pub state: Option<String>,
}

/// A pod that wants an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The node that it is bound to.
    pub node: Option<String>,
    /// How far it is.
    pub life: Life,
    /// The addresses that its annotation claims; `None` if that cannot be read.
    pub claimed: Option<Vec<IpAddr>>,
    /// The addresses that its status shows.
    pub shown: Vec<IpAddr>,
}

/// How far a pod is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Not running yet, or nobody knows.
    Pending,
    /// Its containers run.
    Running,
    /// All its containers have ended, and none will start again.
    Finished,
}

/// A Pool object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its size as written.
    pub size: i64,
    /// Whether it asks for addresses ahead of pods.
    pub preallocate: bool,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: Option<IpAddr>,
}

/// A `VirtualIP` object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vip {
    /// Which.
    pub id: VipId,
    /// The addresses that it was granted.
    pub addresses: Vec<IpAddr>,
}

/// An address that a pod lacks although its record gives it to the pod, as the agent of the
/// node reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The address.
    pub ip: IpAddr,
    /// Namespace and name of the pod.
    pub pod: (String, String),
    /// The node.
    pub node: String,
}

impl Content {
    /// Where the holder runs, as far as that can be read.
    pub fn place(&self) -> StoredAttribute {
        Attribute::read(&self.attribute)
    }
}

impl StoredRecord {
    /// The record for the ledger; `None` if its name is no address. What cannot be read
    /// is held by nobody knows whom, as if it were reserved.
    pub(super) fn entered(&self) -> Option<Record> {
        let ip = name::parse(&self.name).ok()?;
        let Some(content) = &self.content else {
            return Some(Record {
                ip,
                key: HolderKey::from(""),
                policy: ReleasePolicy::Never,
                node: String::new(),
                uid: String::new(),
                updated: Timestamp::UNIX_EPOCH,
                reserved: true,
                workload_note: None,
            });
        };
        let place = content.place().attribute;
        Some(Record {
            ip,
            key: content.key.clone(),
            policy: content.policy,
            node: place.node_name,
            uid: place.uid,
            updated: content.updated,
            reserved: content.reserved,
            workload_note: None,
        })
    }
}
