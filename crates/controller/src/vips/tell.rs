//! What is told about shared addresses: moves, refusals, and what is wrong with pods.
//!
//! Names of Events are made from what they tell, so however many processes see a move, and
//! however often they start, it is told once.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_api::floe::virtualip::{Move, VirtualIP};
use floe_core::vip::{VipId, elect::MoveReason};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use tracing::{info, warn};

use super::claims::Claimer;
use crate::{
    events::{Events, News},
    metrics::Metrics,
};

/// A move that a new leader finds is told if it is not older: the last leader may not have
/// lived to tell it, and if it has, the name of the Event is taken.
const RECENT: Duration = Duration::from_mins(10);

/// How long it can wait to tell a move: with a node hundreds of addresses may move, each by a
/// write to the same server. Whoever leads next tells what this process has not told.
const CALM: Duration = Duration::from_secs(2);

/// Of so many problems it is remembered that they were told.
const MOST_REMEMBERED: usize = 20_000;

/// Tells, and remembers what was told.
pub struct Teller {
    events: Events,
    metrics: Metrics,
    problems: Mutex<BTreeSet<(String, &'static str, String)>>,
    moves: Mutex<BTreeMap<VipId, Seen>>,
}

/// What was last seen of an object.
#[derive(Clone, Debug)]
struct Seen {
    uid: Option<String>,
    moves: i64,
    /// What was last written of a move. A first holder does not count as one, and is told
    /// all the same.
    last: Option<Move>,
    /// Name and uid of the pod that had the addresses.
    holder: Option<(String, String)>,
}

/// What pods are to be told of moves that were seen at once: by name, uid and reason.
#[derive(Debug, Default)]
pub struct PodMoves(BTreeMap<(String, String, &'static str), PodMove>);

#[derive(Debug)]
struct PodMove {
    /// The first of them in words.
    note: String,
    /// The numbers of all of them.
    turns: Vec<u32>,
}

impl Teller {
    /// By Events, logs and metrics.
    pub fn new(events: Events, metrics: Metrics) -> Self {
        Self {
            events,
            metrics,
            problems: Mutex::default(),
            moves: Mutex::default(),
        }
    }

    /// Something is wrong with an object that asks for addresses. Told once; `what` tells
    /// problems of one reason apart.
    pub fn problem(
        &self,
        namespace: &str,
        claimer: &Claimer,
        reason: &'static str,
        what: &str,
        note: String,
    ) {
        {
            let mut told = lock(&self.problems);
            if told.len() >= MOST_REMEMBERED {
                told.clear();
            }
            if !told.insert((claimer.uid.clone(), reason, what.to_owned())) {
                return;
            }
        }
        let Claimer { kind, name, uid } = claimer;
        warn!(
            reason,
            namespace,
            kind,
            name,
            why = note,
            "a claim of a shared address is not met"
        );
        let about = ObjectReference {
            api_version: Some(if *kind == "Pod" { "v1" } else { "apps/v1" }.to_owned()),
            kind: Some((*kind).to_owned()),
            namespace: Some(namespace.to_owned()),
            name: Some(name.clone()),
            uid: Some(uid.clone()),
            ..ObjectReference::default()
        };
        let turn = turn(&[what]);
        self.tell(about, true, reason, "Claim", note, turn);
    }

    /// An object gets less than it asks for.
    pub fn refused(&self, id: &VipId, vip: &VirtualIP, reason: &'static str, note: String) {
        let VipId { namespace, name } = id;
        warn!(
            reason,
            namespace,
            name,
            why = note,
            "a VirtualIP is refused"
        );
        let turn = turn(&[&note]);
        self.tell(reference(vip), true, reason, "Grant", note, turn);
    }

    /// Something else about an object, in the state that it is in.
    pub fn about(&self, vip: &VirtualIP, reason: &'static str, action: &'static str, note: String) {
        let (namespace, name) = (&vip.metadata.namespace, &vip.metadata.name);
        warn!(reason, ?namespace, ?name, why = note, "about a VirtualIP");
        let version = vip.metadata.resource_version.as_deref();
        let turn = turn(&[version.unwrap_or_default()]);
        self.tell(reference(vip), true, reason, action, note, turn);
    }

    /// Tells the last move of an object, unless that was done, and notes what its pods are
    /// to be told. `uid_of` finds the uid of a pod by its name.
    pub fn moved(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        now: Timestamp,
        uid_of: impl Fn(&str) -> Option<String>,
        pods: &mut PodMoves,
    ) {
        let Some(status) = &vip.status else { return };
        let holder = status.holder.as_ref();
        let seen = Seen {
            uid: vip.metadata.uid.clone(),
            moves: status.moves,
            last: status.last_move.clone(),
            holder: holder.map(|it| (it.pod.clone(), it.uid.clone())),
        };
        let before = lock(&self.moves).insert(id.clone(), seen.clone());
        let before = before.filter(|before| before.uid == seen.uid);
        let Some(last) = &status.last_move else {
            return;
        };
        match &before {
            Some(before) if before.last == seen.last || before.moves > seen.moves => return,
            None if last.at.0 + SignedDuration::try_from(RECENT).unwrap_or_default() < now => {
                return;
            }
            Some(_) | None => {}
        }
        let reason = MoveReason::parse(&last.reason).map_or("Moved", MoveReason::reason);
        if let Some(before) = &before {
            let missed = u64::try_from(seen.moves - before.moves).unwrap_or(1);
            self.metrics.vips().moved(reason, missed);
        }
        let note = words(vip, last);
        let VipId { namespace, name } = id;
        info!(
            reason,
            namespace,
            name,
            from = last.from,
            to = last.to,
            "shared addresses moved"
        );
        let count = seen.moves.to_string();
        let uid = vip.metadata.uid.as_deref().unwrap_or_default();
        let turn = turn(&[uid, &count, &last.to]);
        self.tell_move(reference(vip), reason, note.clone(), turn);
        let holders = [before.and_then(|it| it.holder), seen.holder];
        for pod in BTreeSet::from([&last.from, &last.to]) {
            if pod.is_empty() {
                continue;
            }
            let known = holders.iter().flatten().find(|(name, _)| name == pod);
            let uid = known.map(|(_, uid)| uid.clone()).or_else(|| uid_of(pod));
            // Nobody finds an Event about a pod without its uid.
            let Some(uid) = uid else { continue };
            let key = (pod.clone(), uid, reason);
            let told = pods.0.entry(key).or_insert_with(|| PodMove {
                note: note.clone(),
                turns: Vec::new(),
            });
            told.turns.push(turn);
        }
    }

    /// Tells pods what has happened to them at once. A pod that loses or gets hundreds of
    /// addresses with a node is told in one Event: nobody reads hundreds, and each is a
    /// write at a time when there are enough of them.
    pub fn pods_moved(&self, namespace: &str, pods: PodMoves) {
        for ((name, uid, reason), told) in pods.0 {
            let (note, turn) = match &told.turns[..] {
                [one] => (told.note, *one),
                all => {
                    let parts: Vec<String> = all.iter().map(ToString::to_string).collect();
                    let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                    let note = format!("{}; so did {} others", told.note, all.len() - 1);
                    (note, turn(&parts))
                }
            };
            let about = ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Pod".to_owned()),
                namespace: Some(namespace.to_owned()),
                name: Some(name),
                uid: Some(uid),
                ..ObjectReference::default()
            };
            self.tell_move(about, reason, note, turn);
        }
    }

    /// Counts objects by their state, and forgets those that are gone.
    pub fn count<'a>(&self, all: impl Iterator<Item = (&'a VipId, &'a VirtualIP)>) {
        let mut states = BTreeMap::<&'static str, i64>::new();
        let mut ids = BTreeSet::new();
        for (id, vip) in all {
            *states.entry(vip.facts().state().text()).or_default() += 1;
            ids.insert(id);
        }
        lock(&self.moves).retain(|id, _| ids.contains(id));
        self.metrics.vips().states(states);
    }

    fn tell_move(&self, about: ObjectReference, reason: &'static str, note: String, turn: u32) {
        let news = News {
            about,
            warning: false,
            reason,
            action: "Move",
            note,
        };
        self.events.tell_later(news, turn, CALM);
    }

    fn tell(
        &self,
        about: ObjectReference,
        warning: bool,
        reason: &'static str,
        action: &'static str,
        note: String,
        turn: u32,
    ) {
        let news = News {
            about,
            warning,
            reason,
            action,
            note,
        };
        self.events.tell_in_turn(news, turn);
    }
}

fn words(vip: &VirtualIP, last: &Move) -> String {
    let status = vip.status.as_ref();
    let addresses = status.iter().flat_map(|it| &it.addresses);
    let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
    let addresses = if addresses.is_empty() {
        vip.metadata.name.clone().unwrap_or_default()
    } else {
        addresses.join(", ")
    };
    let holder = status.and_then(|it| it.holder.as_ref());
    let node = holder.filter(|it| it.pod == last.to);
    let node = node.map(|it| format!(" on node {}", it.node));
    let node = node.unwrap_or_default();
    match (last.from.as_str(), last.to.as_str()) {
        ("", to) => format!("{addresses}: now at pod {to}{node}"),
        (from, "") => format!("{addresses}: no longer at pod {from}"),
        (from, to) => format!("{addresses}: moved from pod {from} to pod {to}{node}"),
    }
}

fn reference(vip: &VirtualIP) -> ObjectReference {
    ObjectReference {
        api_version: Some(VirtualIP::api_version(&()).into_owned()),
        kind: Some(VirtualIP::kind(&()).into_owned()),
        namespace: vip.metadata.namespace.clone(),
        name: vip.metadata.name.clone(),
        uid: vip.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// A number for what is told, never zero. Its hash is the same in every process of one
/// build, which is enough: another build tells a thing twice at worst.
fn turn(parts: &[&str]) -> u32 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or(1).max(1)
}

fn lock<T>(memory: &Mutex<T>) -> MutexGuard<'_, T> {
    memory.lock().unwrap_or_else(PoisonError::into_inner)
}
