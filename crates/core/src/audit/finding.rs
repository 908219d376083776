//! What an audit can find, and what mends it.

use std::{fmt, net::IpAddr};

use super::SharedFinding;
use crate::{
    addr::name::{self, NameError},
    config::Problem,
    ipam::key::HolderKey,
    wording::counted,
};

/// One inconsistency.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// There is no address configuration.
    #[error("there is no address configuration, so no pod can get an address")]
    NoConfiguration,
    /// Something is wrong with the configuration.
    #[error("{0}")]
    Configuration(Problem),
    /// A node that runs such pods is in no configured node subnet.
    #[error("{}, but {} bound to it", subnetless(.address.as_ref()), counted(.pods, "pod with floating IPs is", "pods with floating IPs are"))]
    NodeNotConfigured {
        /// The node.
        node: String,
        /// Its address, if it has one.
        address: Option<IpAddr>,
        /// How many such pods are bound to it.
        pods: usize,
    },
    /// No pod can ask for a pool of this name.
    #[error("no pod can ask for a pool of this name: it cannot be a part of a holder key")]
    InvalidPoolName {
        /// The namespace of the object.
        namespace: String,
        /// The name.
        pool: String,
    },
    /// A pool has more addresses in use than its size.
    #[error("{} in use, at most {at_most} allowed", counted(.held, "address is", "addresses are"))]
    PoolOverLimit {
        /// The namespace of the object.
        namespace: String,
        /// The pool.
        pool: String,
        /// How many are in use.
        held: usize,
        /// How many are allowed.
        at_most: usize,
    },
    /// A pool has fewer addresses than it wants to have ahead of pods.
    #[error("it has fewer addresses than it asks for ahead of pods{}", if *.none_free { ", and none is free" } else { "" })]
    PoolShort {
        /// The namespace of the object that asks.
        namespace: String,
        /// The pool.
        pool: String,
        /// Whether no address is free for it.
        none_free: bool,
    },
    /// The object is the record of no address.
    #[error("{0}; the object holds no address")]
    StrangeName(NameError),
    /// The record says nothing that can be read.
    #[error("the record cannot be read; its address is left alone")]
    UnreadableRecord {
        /// The address.
        ip: IpAddr,
    },
    /// The record does not say where its holder runs.
    #[error(
        "the attribute {attribute:?} cannot be read, so nobody knows who runs with the address"
    )]
    MalformedAttribute {
        /// The address.
        ip: IpAddr,
        /// The stored text.
        attribute: String,
    },
    /// The key has no form that floe or galaxy would give it.
    #[error(
        "the key {key:?} has no form that floe or galaxy gives; nothing ever frees the address"
    )]
    ForeignKey {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
    },
    /// No entry of the configuration has the address.
    #[error("no entry of the configuration has the address; {key} holds it")]
    OutsideConfiguration {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
        /// Whether the label says so, too.
        labelled: bool,
    },
    /// Labels or annotations repeat something else than the record says.
    #[error("{} not true", names(.0))]
    LabelsNotTrue(Vec<Label>, IpAddr),
    /// A pod that runs has an address that is marked as reserved.
    #[error("it is marked as reserved, but the pod of its key {key} runs")]
    ReservedInUse {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
    },
    /// The pod is gone, and its address should be free.
    #[error("the pod of {key} is gone or has finished, and its policy gives the address back")]
    PodGone {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
        /// Whether another pod claims or shows the address, so that it must not be freed.
        claimed: bool,
    },
    /// The record says that a pod runs with the address, and there is no such pod.
    #[error("it is bound for pod uid {uid:?} on node {node:?}, but the pod of {key} is gone")]
    StaleBinding {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
        /// The node in the record.
        node: String,
        /// The uid in the record.
        uid: String,
    },
    /// The record is bound for another pod of the same name.
    #[error("it is bound for uid {stored:?}, but the pod of {key} has uid {uid:?}")]
    OtherUid {
        /// The address.
        ip: IpAddr,
        /// The key.
        key: HolderKey,
        /// The uid in the record.
        stored: String,
        /// The uid of the pod.
        uid: String,
    },
    /// The annotation of a pod cannot be read.
    #[error("its annotation with addresses cannot be read{}", if *.unrecorded { ", and it shows an address of which no record names it" } else { "" })]
    UnreadableAnnotation {
        /// Namespace and name of the pod.
        pod: (String, String),
        /// Whether its status shows a configured address whose record does not name it: then
        /// only the annotation could tell that the address is in use.
        unrecorded: bool,
    },
    /// A pod claims an address that has no record.
    #[error("its annotation names {ip}, which has no record")]
    RecordMissing {
        /// The address.
        ip: IpAddr,
        /// Namespace and name of the pod.
        pod: (String, String),
    },
    /// A pod claims an address that another holds.
    #[error("its annotation names {ip}, but {holder:?} holds it{}", on_node(.node))]
    AddressConflict {
        /// The address.
        ip: IpAddr,
        /// Namespace and name of the pod.
        pod: (String, String),
        /// Who holds it.
        holder: HolderKey,
        /// The node for which the record is bound; empty for none.
        node: String,
    },
    /// A pod lacks an address that its record gives it.
    #[error("its record gives it {ip}, but the agent of node {node} does not find it in the pod")]
    AddressMissing {
        /// The address.
        ip: IpAddr,
        /// Namespace and name of the pod.
        pod: (String, String),
        /// The node of the pod.
        node: String,
    },
    /// Something does not fit with a shared address.
    #[error(transparent)]
    Shared(SharedFinding),
    /// Several pods claim one address.
    #[error("the annotations of several pods name it: {}", listed(.pods))]
    ClaimedTwice {
        /// The address.
        ip: IpAddr,
        /// Namespaces and names of the pods.
        pods: Vec<(String, String)>,
    },
}

/// A label or annotation of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Label {
    /// The label that says that the address is outside of the configuration.
    Outside,
    /// The label that names the node.
    Node,
    /// The annotation that names the node.
    NodeNote,
    /// The annotation that names the state.
    State,
}

/// What mends a finding without harm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    /// Write labels and annotations of a record anew, as the rest of it says.
    RewriteLabels(IpAddr),
    /// Delete a record, if it is still as it was found and a direct look shows that
    /// there is no pod of its key.
    DeleteRecord(IpAddr),
}

impl Finding {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoConfiguration => "NoConfiguration",
            Self::Configuration(problem) => problem.reason(),
            Self::NodeNotConfigured { .. } => "NodeNotConfigured",
            Self::InvalidPoolName { .. } => "InvalidPoolName",
            Self::PoolOverLimit { .. } => "LimitExceeded",
            Self::PoolShort { .. } => "PoolShort",
            Self::StrangeName(error) => error.reason(),
            Self::UnreadableRecord { .. } => "UnreadableRecord",
            Self::MalformedAttribute { .. } => "MalformedAttribute",
            Self::ForeignKey { .. } => "ForeignKey",
            Self::OutsideConfiguration { .. } => "OutsideConfiguration",
            Self::LabelsNotTrue(..) => "LabelsNotTrue",
            Self::ReservedInUse { .. } => "ReservedInUse",
            Self::PodGone { .. } => "PodGone",
            Self::StaleBinding { .. } => "StaleBinding",
            Self::OtherUid { .. } => "OtherUid",
            Self::UnreadableAnnotation { .. } => "UnreadableAnnotation",
            Self::RecordMissing { .. } => "RecordMissing",
            Self::AddressConflict { .. } => "AddressConflict",
            Self::AddressMissing { .. } => "AddressMissing",
            Self::ClaimedTwice { .. } => "ClaimedTwice",
            Self::Shared(shared) => shared.reason(),
        }
    }

    /// Whether it concerns only the author of the object that it names. Every tenant can write
    /// such an object, so it says nothing about the state of the cluster.
    pub fn is_notice(&self) -> bool {
        matches!(
            self,
            Self::UnreadableAnnotation {
                unrecorded: false,
                ..
            }
        )
    }

    /// What it is about, as kubectl names things.
    pub fn subject(&self) -> String {
        let record = |ip: &IpAddr| format!("floatingip/{}", name::name(*ip));
        let pod = |(namespace, name): &(String, String)| format!("pod/{namespace}/{name}");
        match self {
            Self::NoConfiguration | Self::Configuration(_) => "configuration".into(),
            Self::NodeNotConfigured { node, .. } => format!("node/{node}"),
            Self::InvalidPoolName { namespace, pool }
            | Self::PoolOverLimit {
                namespace, pool, ..
            }
            | Self::PoolShort {
                namespace, pool, ..
            } => format!("pool/{namespace}/{pool}"),
            Self::StrangeName(
                NameError::NotAnAddress(text) | NameError::NotCanonical { text, .. },
            ) => format!("floatingip/{text}"),
            Self::UnreadableRecord { ip }
            | Self::MalformedAttribute { ip, .. }
            | Self::ForeignKey { ip, .. }
            | Self::OutsideConfiguration { ip, .. }
            | Self::LabelsNotTrue(_, ip)
            | Self::ReservedInUse { ip, .. }
            | Self::PodGone { ip, .. }
            | Self::StaleBinding { ip, .. }
            | Self::OtherUid { ip, .. }
            | Self::ClaimedTwice { ip, .. } => record(ip),
            Self::UnreadableAnnotation { pod: name, .. }
            | Self::RecordMissing { pod: name, .. }
            | Self::AddressMissing { pod: name, .. }
            | Self::AddressConflict { pod: name, .. } => pod(name),
            Self::Shared(shared) => shared.subject(),
        }
    }

    /// What mends it without harm, if anything does.
    pub fn fix(&self) -> Option<Fix> {
        match self {
            Self::LabelsNotTrue(_, ip)
            | Self::OutsideConfiguration {
                ip,
                labelled: false,
                ..
            } => Some(Fix::RewriteLabels(*ip)),
            Self::PodGone {
                ip, claimed: false, ..
            } => Some(Fix::DeleteRecord(*ip)),
            Self::NoConfiguration
            | Self::Configuration(_)
            | Self::NodeNotConfigured { .. }
            | Self::InvalidPoolName { .. }
            | Self::PoolOverLimit { .. }
            | Self::PoolShort { .. }
            | Self::StrangeName(_)
            | Self::UnreadableRecord { .. }
            | Self::MalformedAttribute { .. }
            | Self::ForeignKey { .. }
            | Self::OutsideConfiguration { .. }
            | Self::ReservedInUse { .. }
            | Self::PodGone { .. }
            | Self::StaleBinding { .. }
            | Self::OtherUid { .. }
            | Self::UnreadableAnnotation { .. }
            | Self::RecordMissing { .. }
            | Self::AddressConflict { .. }
            | Self::AddressMissing { .. }
            | Self::ClaimedTwice { .. }
            | Self::Shared(_) => None,
        }
    }

    /// What a person can do where there is no fix, or what is done anyway.
    pub fn advice(&self) -> Option<&'static str> {
        Some(match self {
            Self::NoConfiguration | Self::Configuration(_) => {
                "change the address configuration (ConfigMap floatingip-config)"
            }
            Self::NodeNotConfigured { .. } => "add the node's subnet to the configuration",
            Self::InvalidPoolName { .. } => "create the pool under another name",
            Self::PoolOverLimit { .. } => {
                "nothing is taken from pods; raise the size or scale down"
            }
            Self::PoolShort {
                none_free: true, ..
            } => "release addresses, or configure more",
            Self::PoolShort { .. } => "the controller takes them; see its log if they do not come",
            Self::StrangeName(_) | Self::UnreadableRecord { .. } | Self::ForeignKey { .. } => {
                "look at the object, then change or delete it with kubectl"
            }
            Self::MalformedAttribute { .. } => {
                "if a pod runs with the address, the controller completes the record"
            }
            Self::OutsideConfiguration { labelled: true, .. } => {
                "configure the address again, or let its holder go"
            }
            Self::ReservedInUse { .. } => {
                "take the label off if the pod is to have it, else delete the pod"
            }
            Self::PodGone { claimed: true, .. } => {
                "another pod has the address in its annotation or status: look there first"
            }
            Self::StaleBinding { .. } => {
                "the controller clears it; see its log if it stays, or release the address"
            }
            Self::OtherUid { .. } | Self::AddressConflict { .. } => {
                "delete the pod: the next one gets an address of its own"
            }
            Self::UnreadableAnnotation { .. } => "correct the annotation, or delete the pod",
            Self::RecordMissing { .. } => {
                "the controller adopts it as soon as the pod runs and shows it"
            }
            Self::AddressMissing { .. } => {
                "the agent restores what it took off itself; see the pod's Events, or delete the pod"
            }
            Self::ClaimedTwice { .. } => "delete the pod that does not hold the address",
            Self::Shared(shared) => shared.advice(),
            Self::LabelsNotTrue(..) | Self::OutsideConfiguration { .. } | Self::PodGone { .. } => {
                return None;
            }
        })
    }
}

impl fmt::Display for Label {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Outside => "label outside-configuration",
            Self::Node => "label node",
            Self::NodeNote => "annotation node",
            Self::State => "annotation state",
        })
    }
}

impl fmt::Display for Fix {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RewriteLabels(ip) => write!(out, "write the labels of {ip} anew"),
            Self::DeleteRecord(ip) => write!(out, "free {ip}"),
        }
    }
}

fn on_node(node: &str) -> String {
    if node.is_empty() {
        return String::new();
    }
    format!(" on node {node}")
}

fn subnetless(address: Option<&IpAddr>) -> String {
    match address {
        Some(ip) => format!("{ip} is in no configured node subnet"),
        None => "it has no InternalIP".into(),
    }
}

fn names(labels: &[Label]) -> String {
    let names: Vec<String> = labels.iter().map(Label::to_string).collect();
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}

fn listed(pods: &[(String, String)]) -> String {
    let names = pods
        .iter()
        .map(|(namespace, name)| format!("{namespace}/{name}"));
    names.collect::<Vec<_>>().join(", ")
}
