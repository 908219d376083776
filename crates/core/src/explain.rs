//! Why an address is where it is, and what would release it; why a pod has none.
//!
//! Nothing is guessed: what would become of an address is asked of
//! [`reclaim`](crate::ipam::reclaim), and where a pod could run of
//! [`filter`](crate::schedule::filter), as if it were done now.
//!
//! - [`nodes`]: where a pod could run, in a few lines.
//! - [`shared`]: who has a shared address, and what would move it.
//! - [`words`]: causes, holders and workloads in words.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;
use jiff::Timestamp;

use self::words::{app_text, holder, told, workload_text};
use crate::ipam::{
    key::{HolderKey, KeyParts},
    ledger::{Ledger, Record},
    policy::ReleasePolicy,
    reclaim::{Left, leftovers, settle},
    reservation,
    slot::{Cause, Departure, Fate, Sighting},
    workload::Workload,
};

pub mod nodes;
pub mod shared;
#[cfg(test)]
mod tests;
mod words;

/// What is known about an address beside the books.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// What a look for the pod of its record has shown. Looked at only if the key
    /// of the record names a pod.
    pub sighting: Sighting<'a>,
    /// The workload that the key of its record names, if it names one.
    pub workload: Option<&'a Workload>,
    /// Whether the record cannot be read.
    pub unreadable: bool,
    /// The node that has the address itself, if one has.
    pub node: Option<&'a str>,
}

/// Why an address is where it is, and what would release it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Why its holder has it, or nobody.
    pub why: Why,
    /// What would release it; `None` if nobody has it.
    pub end: Option<End>,
    /// Who has it, in words.
    holder: String,
    /// Since when, if that is known: the second sentence then, which refers to the first.
    pub since: Option<Timestamp>,
    /// Whether it was taken out of the configuration.
    outside: bool,
}

/// Why an address is where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has no record and is in no range.
    NotConfigured,
    /// It is the gateway of this network of the configuration.
    Gateway(IpNet),
    /// A node has it itself.
    NodeAddress {
        /// The node.
        node: String,
        /// Whether a range of the configuration has it, so that a pod can get it as well.
        configured: bool,
    },
    /// Nobody has it.
    Free,
    /// Nobody has it, but a pod that is being scheduled is to get it.
    Promised,
    /// Its record cannot be read.
    Unreadable,
    /// An administrator has reserved it.
    Reserved,
    /// It is set aside to be shared, and no `VirtualIP` has it.
    SharedFree,
    /// A `VirtualIP` has it.
    Shared,
    /// Its key tells no pod and no workload, and nobody runs with it.
    Foreign,
    /// Somebody runs with it, and its key does not tell who.
    HolderUnknown,
    /// Its pod is there.
    PodHolds,
    /// It waits for a pod that is there and not bound yet.
    PodExpected,
    /// Nobody can tell whether its pod is there.
    PodUnreadable,
    /// Its pod is there no more, and its record does not say so yet.
    PodLeft(Departure),
    /// Its pod is gone, and it waits for the next one of that name.
    Kept(Cause),
    /// It waits for any pod of its pool.
    SpareOfPool,
    /// It waits for any pod of its workload.
    SpareOfWorkload,
}

/// What would release an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Nothing more is needed: it is released as soon as floe comes to it.
    Now(Cause),
    /// The end of its pod.
    WithPod(Cause),
    /// Its workload: when it shrinks or goes.
    WithWorkload {
        /// The workload in words.
        workload: String,
        /// Whether its pod must be gone, too.
        after_pod: bool,
    },
    /// Nobody can tell what its workload wants; it stays until somebody can.
    WorkloadUnreadable {
        /// The workload in words.
        workload: String,
    },
    /// Somebody, by hand.
    ByHand {
        /// Whether its pod must be gone before.
        after_pod: bool,
    },
    /// Somebody who takes the reservation back.
    Unreserving,
    /// The end of its `VirtualIP`, or that it asks for other addresses.
    WithVirtualIP,
}

impl Account {
    /// The account of an address.
    pub fn of(ledger: &Ledger, ip: IpAddr, facts: &Facts<'_>) -> Self {
        let Some(record) = ledger.record(ip) else {
            let configured = !ledger.is_outside(ip);
            let why = if let Some(node) = facts.node {
                Why::NodeAddress {
                    node: node.to_owned(),
                    configured,
                }
            } else if let Some(network) = gateway_of(ledger, ip) {
                Why::Gateway(network)
            } else if ledger.promised_to(ip).is_some() {
                Why::Promised
            } else if ledger.topology().shared_of(ip).is_some() {
                Why::SharedFree
            } else if configured {
                Why::Free
            } else {
                Why::NotConfigured
            };
            return Self {
                why,
                end: None,
                holder: String::new(),
                since: None,
                outside: false,
            };
        };
        let (why, end) = of_record(ledger, record, facts);
        Self {
            why,
            end: Some(end),
            holder: holder(&record.key),
            since: (record.updated != Timestamp::UNIX_EPOCH).then_some(record.updated),
            outside: ledger.is_taken_out_for(&record.key, record.ip),
        }
    }

    /// The account in a few sentences, the most important one first.
    pub fn sentences(&self) -> Vec<String> {
        let mut sentences = vec![self.first()];
        sentences.extend(self.since.map(|since| format!("So since {since}.")));
        if self.outside {
            let text =
                "It is in no range of the configuration any more, so nobody else can get it.";
            sentences.push(text.into());
        }
        let end = self.end.as_ref();
        sentences.extend(end.map(|end| format!("What would release it: {end}.")));
        sentences
    }

    fn first(&self) -> String {
        let holder = &self.holder;
        match &self.why {
            Why::NotConfigured => {
                "It has no record, and is in no range of the configuration.".into()
            }
            Why::Gateway(network) => {
                format!("It is the gateway of {network}: no pod gets it.")
            }
            Why::NodeAddress {
                node,
                configured: false,
            } => format!("It is the address of node {node}."),
            Why::NodeAddress {
                node,
                configured: true,
            } => format!(
                "It is the address of node {node}, and a range of the configuration has it: take it out of the range or reserve it, or a pod gets it as well."
            ),
            Why::Free => "It is free: the next pod that can have it may get it.".into(),
            Why::Promised => "It is free, and set aside for a pod that is being scheduled.".into(),
            Why::Unreadable => {
                "Its record cannot be read, so nobody knows whose it is, and it is left alone."
                    .into()
            }
            Why::Reserved => {
                let purpose = holder.strip_prefix("pool reserved-for-").unwrap_or(holder);
                format!("It is reserved for {purpose}: no pod gets it.")
            }
            Why::SharedFree => {
                "It is set aside to be shared by several pods, and no VirtualIP has it.".into()
            }
            Why::Shared => format!("It is shared: {holder} has it for its pods."),
            Why::Foreign => format!(
                "Its record has the key {holder}, which tells neither pod nor workload; nobody runs with it."
            ),
            Why::HolderUnknown => {
                format!("Somebody runs with it, but the key {holder} does not tell who.")
            }
            Why::PodHolds => format!("It is held by {holder}."),
            Why::PodExpected => {
                format!("It waits for {holder}, which is there and gets it when it is bound.")
            }
            Why::PodUnreadable => {
                format!(
                    "It was held by {holder}; whether that pod is still there nobody can tell now."
                )
            }
            Why::PodLeft(departure) => format!(
                "It was held by {holder}, which is {}; floe is about to act on that.",
                departure.text()
            ),
            Why::Kept(_) => format!("It is kept for {holder}, which is not there."),
            Why::SpareOfPool | Why::SpareOfWorkload => {
                format!("It is a spare: the next pod of {holder} gets it.")
            }
        }
    }
}

impl Why {
    /// Whether the address has no holder and no pod can get it.
    pub fn is_not_for_pods(&self) -> bool {
        matches!(
            self,
            Self::NotConfigured
                | Self::Gateway(_)
                | Self::NodeAddress {
                    configured: false,
                    ..
                }
        )
    }

    /// The stable reason for answers.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotConfigured => "NotConfigured",
            Self::Gateway(_) => "Gateway",
            Self::NodeAddress { .. } => "NodeAddress",
            Self::Free => "Free",
            Self::Promised => "PromisedToPod",
            Self::Unreadable => "UnreadableRecord",
            Self::Reserved => "Reserved",
            Self::SharedFree => "SharedFree",
            Self::Shared => "Shared",
            Self::Foreign => "ForeignKey",
            Self::HolderUnknown => "HolderUnknown",
            Self::PodHolds => "PodHolds",
            Self::PodExpected => "PodExpected",
            Self::PodUnreadable => "PodUnreadable",
            Self::PodLeft(_) => "PodLeft",
            Self::Kept(cause) => cause.reason(),
            Self::SpareOfPool => "SpareOfPool",
            Self::SpareOfWorkload => "SpareOfWorkload",
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let after = |after_pod: bool| {
            if after_pod {
                ", once its pod is gone"
            } else {
                ""
            }
        };
        match self {
            Self::Now(cause) => write!(out, "nothing more, it is about to be: {}", told(*cause)),
            Self::WithPod(cause) => write!(out, "the end of its pod: {}", told(*cause)),
            Self::WithWorkload {
                workload,
                after_pod,
            } => write!(
                out,
                "fewer replicas of {workload} or its end{}",
                after(*after_pod)
            ),
            Self::WorkloadUnreadable { workload } => write!(
                out,
                "what {workload} wants, but that cannot be read now, so it stays"
            ),
            Self::ByHand { after_pod } => write!(out, "a release by hand{}", after(*after_pod)),
            Self::Unreserving => out.write_str("taking the reservation back"),
            Self::WithVirtualIP => {
                out.write_str("the end of its VirtualIP, or that this asks for other addresses")
            }
        }
    }
}

/// The network of which an address is the gateway, unless the configuration hands it out
/// elsewhere.
fn gateway_of(ledger: &Ledger, ip: IpAddr) -> Option<IpNet> {
    let mut entries = ledger.topology().config().entries().iter();
    let entry = entries.find(|entry| entry.gateway() == ip)?;
    ledger.is_outside(ip).then(|| entry.network())
}

/// Whether somebody may release an address by hand, by what is known of the pod of
/// its record. Who releases looks again.
pub fn is_releasable(key: &HolderKey, uid: &str, is_idle: bool, sighting: Sighting<'_>) -> bool {
    match key.parts() {
        Some(KeyParts { pod, .. }) if !pod.is_empty() => Departure::seen(uid, sighting).is_some(),
        _ => is_idle && !key.is_vip(),
    }
}

fn of_record(ledger: &Ledger, record: &Record, facts: &Facts<'_>) -> (Why, End) {
    let by_hand = End::ByHand { after_pod: false };
    if facts.unreadable {
        return (Why::Unreadable, by_hand);
    }
    if record.reserved && reservation::is_reservation(record) {
        return (Why::Reserved, End::Unreserving);
    }
    if record.key.is_vip() {
        return (Why::Shared, End::WithVirtualIP);
    }
    let Some(parts) = record.key.parts() else {
        return if record.is_idle() {
            (Why::Foreign, by_hand)
        } else {
            (Why::HolderUnknown, by_hand)
        };
    };
    if !parts.pod.is_empty() {
        return of_pod(ledger, record, facts);
    }
    if !record.is_idle() {
        return (Why::HolderUnknown, by_hand);
    }
    match (parts.pool, facts.workload) {
        (Some(_), _) => (Why::SpareOfPool, by_hand),
        (None, Some(workload)) if record.policy == ReleasePolicy::Immutable => {
            (Why::SpareOfWorkload, end_of_spare(ledger, record, workload))
        }
        (None, _) => (Why::SpareOfWorkload, by_hand),
    }
}

fn of_pod(ledger: &Ledger, record: &Record, facts: &Facts<'_>) -> (Why, End) {
    let departure = Departure::seen(&record.uid, facts.sighting);
    let is_there = departure.is_none();
    if record.reserved {
        // It stays whatever becomes of the pod.
        return (Why::Reserved, End::Unreserving);
    }
    let settled = facts.workload.and_then(|workload| {
        let left = Left {
            record,
            departure: departure.unwrap_or(Departure::Deleted),
            workload,
        };
        settle(ledger, &[left]).pop()
    });
    let Some(settled) = settled else {
        let after_pod = is_there;
        return (
            why_of_pod(record, facts, departure, None),
            End::ByHand { after_pod },
        );
    };
    let cause = settled.verdict.cause;
    let end = match (settled.verdict.fate, cause) {
        (Fate::Free, _) if is_there => End::WithPod(cause),
        (Fate::Free, _) => End::Now(cause),
        (Fate::Keep | Fate::Spare, Cause::StillWanted) => End::WithWorkload {
            workload: workload_text(facts.workload),
            after_pod: is_there,
        },
        (Fate::Keep | Fate::Spare, Cause::WorkloadUnreadable) => End::WorkloadUnreadable {
            workload: workload_text(facts.workload),
        },
        (Fate::Keep | Fate::Spare, _) => End::ByHand {
            after_pod: is_there,
        },
    };
    (why_of_pod(record, facts, departure, Some(cause)), end)
}

fn why_of_pod(
    record: &Record,
    facts: &Facts<'_>,
    departure: Option<Departure>,
    cause: Option<Cause>,
) -> Why {
    match (departure, facts.sighting) {
        (None, Sighting::Unreadable) => Why::PodUnreadable,
        (None, _) if record.is_idle() => Why::PodExpected,
        (None, _) => Why::PodHolds,
        (Some(_), _) if record.is_idle() => Why::Kept(cause.unwrap_or(Cause::PolicyNever)),
        (Some(departure), _) => Why::PodLeft(departure),
    }
}

fn end_of_spare(ledger: &Ledger, record: &Record, workload: &Workload) -> End {
    let unneeded = leftovers(ledger, workload).spares;
    match unneeded
        .into_iter()
        .find(|(spare, _)| spare.ip == record.ip)
    {
        Some((_, cause)) => End::Now(cause),
        None if workload.state.replicas().is_none() => End::WorkloadUnreadable {
            workload: app_text(&workload.app),
        },
        None => End::WithWorkload {
            workload: app_text(&workload.app),
            after_pod: false,
        },
    }
}
