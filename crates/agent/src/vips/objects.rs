//! The objects of the API server as the keeper sees them, and its changes as patches.

use std::{collections::BTreeSet, time::Duration};

use floe_api::floe::{
    register::{Books, Entry, VirtualIPRegister},
    tenure::{self, LEASE_LABEL, LEASES},
    virtualip::{self, Move, VirtualIP},
};
use floe_core::vip::{
    Candidate, Mode, VipId,
    elect::{Failover, MoveReason},
    keeper::{Change, Holding, LeaseView, Successor, View},
};
use jiff::Timestamp;
use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, Time},
};

/// The annotation of a lease with the nodes whose promises its node needs.
const PEERS: &str = "floe.dev/peers";

/// A `VirtualIP` with what its register says, as the keeper sees it. Writes are made on the
/// version of the register.
fn view(vip: &VirtualIP, version: &str) -> View {
    let status = vip.status.clone().unwrap_or_default();
    let failover = &vip.spec.failover;
    let seconds = |number: u32| Duration::from_secs(number.into());
    View {
        id: vip.id(),
        version: version.to_owned(),
        born: (vip.metadata.creation_timestamp.as_ref()).map_or(0, |it| it.0.as_second()),
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
        candidates: status.candidates.into_iter().map(Candidate::from).collect(),
        failover: Failover {
            unready_grace: seconds(failover.unready_grace_seconds),
            between_moves: seconds(failover.min_seconds_between_moves),
            failback: failover.failback,
            preferred: failover.preferred_pods.clone(),
        },
        moves: status.moves,
        deleting: vip.metadata.deletion_timestamp.is_some(),
    }
}

/// An object as its keeper sees it by all that is known.
pub fn view_in(books: &Books, id: &VipId) -> Option<View> {
    let vip = books.vip(id)?;
    let register = books.register_of(vip);
    Some(view(vip, register.map_or("", version)))
}

/// The same by a register that may be older than the known one.
pub fn view_by(books: &Books, id: &VipId, register: &VirtualIPRegister) -> Option<View> {
    let vip = books.vip_by(id, register)?;
    Some(view(&vip, version(register)))
}

fn version(register: &VirtualIPRegister) -> &str {
    let version = register.metadata.resource_version.as_deref();
    version.unwrap_or_default()
}

/// Whether what was seen is known to be older than what is known. Servers count versions up,
/// over all objects of a kind.
pub fn is_older(seen: &ObjectMeta, known: &ObjectMeta) -> bool {
    let number = |meta: &ObjectMeta| meta.resource_version.as_deref()?.parse::<u64>().ok();
    matches!((number(seen), number(known)), (Some(seen), Some(known)) if seen < known)
}

/// The entry of an object, which is as it was judged, after a change.
pub fn changed(vip: &VirtualIP, change: &Change, now: Timestamp) -> Entry {
    let entry = Entry::of(vip);
    let last_move = |reason: MoveReason, to: &str| Move {
        at: Time(now),
        reason: reason.reason().to_owned(),
        from: (entry.holder.as_ref()).map_or_else(String::new, |it| it.pod.clone()),
        to: to.to_owned(),
    };
    match change {
        Change::Hold {
            holder,
            moves,
            reason,
        } => {
            // A write that changes nothing has no new version, and would let one come to effect
            // that was made on the same and is late. So the same holding begins anew.
            let old = entry.holder.as_ref();
            let since = old
                .filter(|it| reason.is_none() && it.term != holder.term)
                .and_then(|it| it.since.clone());
            let last = reason.map(|reason| last_move(reason, &holder.candidate.pod));
            Entry {
                holder: Some(virtualip::Holding {
                    since: Some(since.unwrap_or(Time(now))),
                    ..holding(&holder.candidate, holder.term)
                }),
                successor: None,
                moves: *moves,
                last_move: last.or(entry.last_move),
                ..entry
            }
        }
        Change::Release { moves, reason } => Entry {
            last_move: Some(last_move(*reason, "")),
            holder: None,
            successor: None,
            moves: *moves,
            ..entry
        },
        Change::Nominate(successor) => Entry {
            successor: Some(virtualip::Holding {
                ready: successor.ready,
                reason: successor.reason.clone(),
                ..holding(&successor.candidate, successor.term)
            }),
            ..entry
        },
        Change::Dismiss => Entry {
            successor: None,
            ..entry
        },
    }
}

/// The lease of a node and the node; nothing if it is no such lease.
pub fn lease_view(lease: &Lease) -> Option<(String, LeaseView)> {
    let node = tenure::node_of(lease)?;
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
            name: Some(tenure::lease_name(node)),
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

fn holding(candidate: &Candidate, term: i64) -> virtualip::Holding {
    virtualip::Holding {
        pod: candidate.pod.clone(),
        uid: candidate.uid.clone(),
        node: candidate.node.clone(),
        node_address: candidate.node_address,
        addresses: candidate.addresses.clone(),
        mode: word(candidate.mode).to_owned(),
        term,
        since: None,
        ready: false,
        reason: String::new(),
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
    Mode::parse(word).unwrap_or_default()
}

fn word(mode: Mode) -> &'static str {
    mode.word()
}
