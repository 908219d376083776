//! What becomes of pods, said to people: one stable reason each, the same in the
//! Event on the pod, in the log and in the metrics.

use std::{
    collections::BTreeMap,
    fmt::Display,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use floe_core::{
    ipam::choice::Choice,
    schedule::gate::missed::{self, Missed},
};
use ipnet::IpNet;
use k8s_openapi::api::core::v1::ObjectReference;
use tracing::{debug, info, warn};

use crate::{
    cluster::Pod,
    events::{Events, News},
    metrics::Metrics,
};

/// Tells about pods.
#[derive(Clone)]
pub struct Reporter {
    events: Events,
    metrics: Metrics,
    /// By the uid of the pod.
    told: Arc<Mutex<BTreeMap<String, Told>>>,
}

/// What was told about a pod so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Told {
    /// How many times.
    turns: u32,
    /// A mark of reason and words of the last time.
    last: u64,
}

/// Of so many pods it is remembered what was told. Whoever forgets tells again,
/// and the API server then has most of it already.
const MOST_REMEMBERED: usize = 50_000;

/// Why a pod may wait although all is well. It goes on without anybody's help
/// when others go; for anything else somebody has to do something.
const PATIENT: [&str; 5] = [
    "OldPodNotGone",
    "WorkloadLimitReached",
    "PoolLimitReached",
    "NamespacePoolLimitReached",
    "YieldsToNewerRevision",
];

impl Reporter {
    /// Tells by Events, logs and metrics.
    pub fn new(events: Events, metrics: Metrics) -> Self {
        Self {
            events,
            metrics,
            told: Arc::default(),
        }
    }

    /// A pod gets no address anywhere for now. Counted each time, and told once
    /// until reason or words are others.
    pub fn waits(&self, pod: &Pod, reason: &'static str, why: &dyn Display) {
        self.metrics.refused(reason);
        let note = why.to_string();
        let Some(turn) = self.turn(pod, reason, &note) else {
            debug!(
                namespace = pod.namespace,
                pod = pod.name,
                reason,
                why = note,
                "pod goes on waiting for an address",
            );
            return;
        };
        info!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            reason,
            why = note,
            "pod waits for an address",
        );
        let warning = !PATIENT.contains(&reason);
        self.tell(pod, turn, warning, reason, "Schedule", note);
    }

    /// A pod was bound with these addresses.
    pub fn bound(&self, pod: &Pod, node: &str, addresses: &[Choice]) {
        info!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            node,
            addresses = list(addresses),
            "pod has its addresses",
        );
        self.got(pod, &format!("on node {node}"), "Bind", addresses);
    }

    /// A pod got these addresses and was let through its gate, to nodes of these subnets.
    pub fn let_through(&self, pod: &Pod, subnets: &[IpNet], addresses: &[Choice]) {
        let subnets: Vec<String> = subnets.iter().map(ToString::to_string).collect();
        let subnets = subnets.join(", ");
        info!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            subnets,
            addresses = list(addresses),
            "pod has its addresses, and its gate is open",
        );
        self.got(pod, &format!("for nodes of {subnets}"), "Assign", addresses);
    }

    fn got(&self, pod: &Pod, place: &str, action: &'static str, addresses: &[Choice]) {
        let is_new = |choice: &&Choice| matches!(choice, Choice::New(_));
        let (new, old): (Vec<_>, Vec<_>) = addresses.iter().partition(is_new);
        let groups = [
            ("AddressAllocated", "allocated", new),
            ("AddressReused", "reused", old),
        ];
        for (reason, word, addresses) in groups {
            if addresses.is_empty() {
                continue;
            }
            let words = format!("{word} {} {place}", list(addresses));
            if let Some(turn) = self.turn(pod, reason, &words) {
                self.tell(pod, turn, false, reason, action, words);
            }
        }
    }

    /// Something is wrong with a pod that runs or should run, and what to do. The
    /// caller knows whether that is news.
    pub fn warns(&self, pod: &Pod, reason: &'static str, why: &dyn Display) {
        let note = why.to_string();
        warn!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            reason,
            why = note,
            "something is wrong with a pod that has an address",
        );
        let turn = self.next_turn(pod, mark(reason, &note));
        self.tell(pod, turn, true, reason, "Check", note);
    }

    /// No node has room for a pod that has its addresses; what is done about it. Told
    /// once until reason or words are others.
    pub fn unplaced(
        &self,
        pod: &Pod,
        action: &'static str,
        reason: &'static str,
        why: &dyn Display,
    ) {
        let note = why.to_string();
        let Some(turn) = self.turn(pod, reason, &note) else {
            return;
        };
        warn!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            action,
            reason,
            why = note,
            "no node has room for a pod with its addresses",
        );
        self.metrics.refused(reason);
        self.tell(pod, turn, true, reason, action, note);
    }

    /// A pod is on a node and will never have an address. Told once until the words are
    /// others.
    pub fn missed_gate(&self, pod: &Pod, missed: &Missed) {
        let note = missed.to_string();
        let Some(turn) = self.turn(pod, missed::REASON, &note) else {
            return;
        };
        warn!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            reason = missed::REASON,
            why = note,
            "pod was bound without having been at the gate",
        );
        self.metrics.refused(missed::REASON);
        self.tell(pod, turn, true, missed::REASON, "Check", note);
    }

    /// A pod without record was found to run with an address, and has it now.
    pub fn adopted(&self, pod: &Pod, ip: IpAddr) {
        info!(
            namespace = pod.namespace,
            pod = pod.name,
            uid = pod.uid,
            %ip,
            "running pod was given the record of its address",
        );
        let (reason, note) = (
            "AddressAdopted",
            format!("runs with {ip}, which is its own now"),
        );
        if let Some(turn) = self.turn(pod, reason, &note) {
            self.tell(pod, turn, false, reason, "Adopt", note);
        }
    }

    /// A pod is gone; what was told about it need not be remembered.
    pub fn forget(&self, uid: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.remove(uid);
    }

    /// The turn in which this is told, or `None` if it was told last.
    fn turn(&self, pod: &Pod, reason: &str, note: &str) -> Option<u32> {
        let mark = mark(reason, note);
        let is_known = {
            let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            told.get(&pod.uid).is_some_and(|it| it.last == mark)
        };
        (!is_known).then(|| self.next_turn(pod, mark))
    }

    fn next_turn(&self, pod: &Pod, mark: u64) -> u32 {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.len() >= MOST_REMEMBERED && !told.contains_key(&pod.uid) {
            told.clear();
        }
        let entry = told.entry(pod.uid.clone()).or_default();
        *entry = Told {
            turns: entry.turns.saturating_add(1),
            last: mark,
        };
        entry.turns
    }

    fn tell(
        &self,
        pod: &Pod,
        turn: u32,
        warning: bool,
        reason: &'static str,
        action: &'static str,
        note: String,
    ) {
        let news = News {
            about: ObjectReference {
                api_version: Some("v1".into()),
                kind: Some("Pod".into()),
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                uid: Some(pod.uid.clone()),
                resource_version: Some(pod.version.clone()),
                ..ObjectReference::default()
            },
            warning,
            reason,
            action,
            note,
        };
        self.events.tell_in_turn(news, turn);
    }
}

/// Compared inside of this process only.
fn mark(reason: &str, note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (reason, note).hash(&mut hasher);
    hasher.finish()
}

/// Addresses with a comma between them.
fn list<'a>(addresses: impl IntoIterator<Item = &'a Choice>) -> String {
    let texts = addresses.into_iter().map(|choice| choice.ip().to_string());
    texts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
