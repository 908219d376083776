//! The objects of the API server as the keeper sees them, and its changes as patches.

use std::{collections::BTreeSet, time::Duration};

use floe_api::floe::virtualip::{self, CandidateStatus, SERVING, VirtualIP};
use floe_core::vip::{
    Candidate, Mode, VipId,
    elect::Failover,
    keeper::{Change, Holding, LeaseView, Successor, View},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};
use serde_json::{Value, json};

use super::conditions::{self, Told};

/// The namespace of the nodes' leases.
pub const LEASES: &str = "kube-system";

/// The label of the nodes' leases.
pub const LEASE_LABEL: &str = "floe.dev/vip-lease";

/// The annotation of a lease with the nodes whose promises its node needs.
const PEERS: &str = "floe.dev/peers";

/// What the names of leases begin with.
const LEASE_PREFIX: &str = "floe-vip-";

/// Which object it is.
pub fn id_of(object: &VirtualIP) -> VipId {
    let meta = &object.metadata;
    VipId {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

/// A `VirtualIP` as the keeper sees it.
pub fn view(object: &VirtualIP) -> View {
    let status = object.status.clone().unwrap_or_default();
    let failover = &object.spec.failover;
    let seconds = |number: u32| Duration::from_secs(number.into());
    View {
        id: id_of(object),
        version: object.metadata.resource_version.clone().unwrap_or_default(),
        addresses: status.addresses,
        holder: status.holder.map(|it| Holding {
            term: it.term,
            candidate: candidate_in(it),
        }),
        successor: status.successor.map(|it| Successor {
            term: it.term,
            ready: it.ready,
            reason: it.reason.clone(),
            candidate: candidate_in(it),
        }),
        candidates: status.candidates.into_iter().map(candidate).collect(),
        failover: Failover {
            unready_grace: seconds(failover.unready_grace_seconds),
            between_moves: seconds(failover.min_seconds_between_moves),
            failback: failover.failback,
            preferred: failover.preferred_pods.clone(),
        },
        moves: status.moves,
        deleting: object.metadata.deletion_timestamp.is_some(),
    }
}

/// The patch that makes a change to an object, which is as it was judged.
pub fn patch(change: &Change, object: &VirtualIP, now: Timestamp) -> Value {
    let old = object.status.as_ref().and_then(|it| it.holder.as_ref());
    let last_move = |reason: &str, to: Option<&str>| {
        json!({
            "at": Time(now), "reason": reason,
            "from": old.map(|it| &it.pod), "to": to,
        })
    };
    let status = match change {
        Change::Hold {
            holder,
            moves,
            reason,
        } => {
            let since = old
                .filter(|_| reason.is_none())
                .and_then(|it| it.since.clone());
            let mut written = pod_json(&holder.candidate, holder.term);
            written["since"] = json!(since.unwrap_or(Time(now)));
            // A holder has neither; in a merge only what is null goes.
            written["ready"] = Value::Null;
            written["reason"] = Value::Null;
            let mut status = json!({ "holder": written, "successor": null, "moves": moves });
            if let Some(reason) = reason {
                status["lastMove"] = last_move(reason.reason(), Some(&holder.candidate.pod));
            }
            status
        }
        Change::Release { moves, reason } => {
            let reason = reason.reason();
            let mut status = json!({ "holder": null, "successor": null, "moves": moves });
            status["lastMove"] = last_move(reason, None);
            let silent = Told {
                kind: SERVING,
                holds: false,
                reason: reason.to_owned(),
                message: "no pod has the addresses".to_owned(),
            };
            if let Some(conditions) = conditions::changed(object, &[silent], now) {
                status["conditions"] = conditions;
            }
            status
        }
        Change::Nominate(successor) => {
            let mut written = pod_json(&successor.candidate, successor.term);
            written["ready"] = json!(successor.ready);
            written["reason"] = json!(successor.reason);
            json!({ "successor": written })
        }
        Change::Dismiss => json!({ "successor": null }),
    };
    json!({
        "metadata": { "resourceVersion": object.metadata.resource_version },
        "status": status,
    })
}

/// The lease of a node and the node; nothing if it is no such lease.
pub fn lease_view(lease: &Lease) -> Option<(String, LeaseView)> {
    let name = lease.metadata.name.as_deref().unwrap_or_default();
    let node = name
        .strip_prefix(LEASE_PREFIX)
        .filter(|it| !it.is_empty())?;
    let annotations = lease.metadata.annotations.as_ref();
    let peers = annotations.and_then(|all| all.get(PEERS));
    let peers = peers.map(String::as_str).unwrap_or_default().split(',');
    let term = lease.spec.as_ref().and_then(|spec| spec.lease_transitions);
    let view = LeaseView {
        version: lease.metadata.resource_version.clone().unwrap_or_default(),
        term: term.unwrap_or_default().into(),
        peers: peers
            .filter(|it| !it.is_empty())
            .map(str::to_owned)
            .collect(),
    };
    Some((node.to_owned(), view))
}

/// The name of a node's lease.
pub fn lease_name(node: &str) -> String {
    format!("{LEASE_PREFIX}{node}")
}

/// The lease of a node with these contents; nothing if no lease can count so far.
pub fn lease(
    node: &str,
    expected: Option<String>,
    term: i64,
    peers: &BTreeSet<String>,
    duration: Duration,
    now: Timestamp,
) -> Option<Lease> {
    let peers: Vec<&str> = peers.iter().map(String::as_str).collect();
    let labels = [(LEASE_LABEL, "true"), ("app.kubernetes.io/part-of", "floe")];
    let labels = labels.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(Lease {
        metadata: ObjectMeta {
            name: Some(lease_name(node)),
            namespace: Some(LEASES.to_owned()),
            resource_version: expected,
            labels: Some(labels.into()),
            annotations: Some([(PEERS.to_owned(), peers.join(","))].into()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(node.to_owned()),
            lease_duration_seconds: i32::try_from(duration.as_secs()).ok(),
            lease_transitions: Some(i32::try_from(term).ok()?),
            // For people. Whoever judges counts on its own clock.
            renew_time: Some(MicroTime(now)),
            ..LeaseSpec::default()
        }),
    })
}

fn pod_json(candidate: &Candidate, term: i64) -> Value {
    json!({
        "pod": candidate.pod, "uid": candidate.uid,
        "node": candidate.node, "nodeAddress": candidate.node_address,
        "addresses": candidate.addresses, "mode": word(candidate.mode), "term": term,
    })
}

fn candidate(status: CandidateStatus) -> Candidate {
    Candidate {
        mode: mode(&status.mode),
        pod: status.pod,
        uid: status.uid,
        node: status.node,
        node_address: status.node_address,
        addresses: status.addresses,
        ready_since: status.ready_since.0.as_second(),
    }
}

fn candidate_in(holding: virtualip::Holding) -> Candidate {
    Candidate {
        mode: mode(&holding.mode),
        pod: holding.pod,
        uid: holding.uid,
        node: holding.node,
        node_address: holding.node_address,
        addresses: holding.addresses,
        // Who has it or is to have it is not ranked.
        ready_since: 0,
    }
}

fn mode(word: &str) -> Mode {
    match word {
        "direct" => Mode::Direct,
        _ => Mode::Nat,
    }
}

fn word(mode: Mode) -> &'static str {
    match mode {
        Mode::Nat => "nat",
        Mode::Direct => "direct",
    }
}
