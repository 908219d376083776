//! Who waits, and who may be woken when.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use floe_core::{
    ipam::key::HolderKey,
    schedule::{claimant::Claimant, wake},
};
use ipnet::IpNet;
use tokio::time::Instant;

use super::rooms::Rooms;
use crate::claims::Claim;

/// A pod is not woken more often, unless there is something new for it.
pub const GAP: Duration = Duration::from_secs(1);

/// So many wakes in vain, and even new things no longer break the gap.
const MOST_IN_VAIN: u32 = 3;

/// The scheduler lets a pod wait up to ten seconds before it tries it again. Who
/// does not come for longer than that has another reason, and is in nobody's way.
const ANSWER: Duration = Duration::from_secs(15);

/// The first pause between two regular wakes; it doubles up to the last.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LAST_PAUSE: Duration = Duration::from_mins(1);

/// A pod that is not there may be one that a cache does not have yet.
const GRACE: Duration = Duration::from_secs(30);

/// So many of those that go first are looked at.
const FIRST_IN_LINE: usize = 4;

/// The pods that wait.
#[derive(Debug, Default)]
pub struct Line {
    /// By uid.
    pods: BTreeMap<String, Entry>,
    /// The uids of each workload, by its app prefix.
    apps: BTreeMap<HolderKey, BTreeSet<String>>,
    /// The uids of those to whom an address is being handed over, by their groups.
    heirs: BTreeMap<HolderKey, BTreeSet<String>>,
}

#[derive(Debug)]
struct Entry {
    pod: wake::Waiting,
    claimant: Claimant,
    since: Instant,
    last: Option<Wake>,
    /// How often it was woken.
    wakes: u32,
    /// How often it came and was refused again.
    in_vain: u32,
    /// The subnets of the nodes that it could run on, if somebody noted them.
    sites: BTreeSet<IpNet>,
}

#[derive(Debug)]
struct Wake {
    at: Instant,
    /// When it was first woken without coming.
    expected_since: Instant,
    rooms: Arc<Rooms>,
    /// Whether the pod has come since.
    answered: bool,
}

/// A pod that may be woken.
#[derive(Clone, Debug)]
pub struct Called {
    /// The pod, as it was when it was refused.
    pub claimant: Claimant,
    /// Whether what it needs is kept from those behind it.
    pub reserves: bool,
    /// Whether it is to be woken; otherwise it was, a moment ago.
    pub wake: bool,
}

impl Line {
    /// A pod waits from now on, or goes on waiting. If it was woken in vain, tells
    /// for what.
    pub fn refused(&mut self, claim: &Claim, now: Instant) -> Option<Arc<Rooms>> {
        let Claim {
            pod,
            claimant,
            revision,
            ..
        } = claim;
        let waiting = wake::Waiting {
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            revision: *revision,
            created: pod.created,
            wishes: claimant.wishes.clone(),
        };
        if let Some(entry) = self.pods.get_mut(&pod.uid)
            && entry.claimant.app_prefix == claimant.app_prefix
        {
            entry.pod = waiting;
            entry.claimant = claimant.clone();
            let last = entry.last.as_mut().filter(|last| !last.answered)?;
            last.answered = true;
            entry.in_vain += 1;
            return Some(Arc::clone(&last.rooms));
        }
        self.leave(&pod.uid);
        let app = self.apps.entry(claimant.app_prefix.clone()).or_default();
        app.insert(pod.uid.clone());
        let entry = Entry {
            pod: waiting,
            claimant: claimant.clone(),
            since: now,
            last: None,
            wakes: 0,
            in_vain: 0,
            sites: BTreeSet::new(),
        };
        self.pods.insert(pod.uid.clone(), entry);
        None
    }

    /// A pod waits no longer. If others of its workload do, tells their group.
    pub fn leave(&mut self, uid: &str) -> Option<HolderKey> {
        let entry = self.pods.remove(uid)?;
        let group = &entry.claimant.group_key;
        if let Some(heirs) = self.heirs.get_mut(group) {
            heirs.remove(uid);
            if heirs.is_empty() {
                self.heirs.remove(group);
            }
        }
        let app = self.apps.get_mut(&entry.claimant.app_prefix)?;
        app.remove(uid);
        if app.is_empty() {
            self.apps.remove(&entry.claimant.app_prefix);
            return None;
        }
        Some(entry.claimant.group_key)
    }

    /// The uids of those who are not there any more.
    pub fn without(&self, is_there: impl Fn(&str) -> bool, now: Instant) -> Vec<String> {
        let missed =
            |(uid, entry): &(&String, &Entry)| !is_there(uid) && now - entry.since >= GRACE;
        let missed = self.pods.iter().filter(missed);
        missed.map(|(uid, _)| uid.clone()).collect()
    }

    /// See [`Waiting::has_rivals`](super::Waiting::has_rivals).
    pub fn has_rivals(&self, claimant: &Claimant, revision: u64) -> bool {
        let app = self.apps.get(&claimant.app_prefix).into_iter().flatten();
        let mut entries = app.filter_map(|uid| self.pods.get(uid));
        self.heirs.contains_key(&claimant.group_key)
            || entries.any(|entry| entry.pod.revision != revision)
    }

    /// See [`Waiting::ahead_of`](super::Waiting::ahead_of).
    pub fn ahead_of(
        &self,
        claimant: &Claimant,
        mine: u64,
        rank: impl Fn(&wake::Waiting) -> u64,
        now: Instant,
    ) -> Vec<(wake::Waiting, Claimant)> {
        let heirs = self.heirs.get(&claimant.group_key);
        // Heirs do not wait for each other: each of them has something that comes free.
        let heirs = heirs.filter(|heirs| !heirs.contains(&claimant.uid));
        let heirs = heirs.into_iter().flatten();
        let heirs = heirs
            .filter_map(|uid| self.pods.get(uid))
            .filter(|entry| entry.claimant.app_prefix != claimant.app_prefix)
            .map(|entry| (u64::MAX, entry));
        let app = self.apps.get(&claimant.app_prefix).into_iter().flatten();
        let app = app
            .filter_map(|uid| self.pods.get(uid))
            .map(|entry| (rank(&entry.pod), entry))
            .filter(|(rank, _)| *rank > mine);
        let mut ahead: Vec<(u64, &Entry)> = app
            .chain(heirs)
            .filter(|(_, entry)| entry.comes(now))
            .collect();
        ahead.sort_by_key(|(rank, entry)| (Reverse(*rank), entry.pod.created, &entry.pod.uid));
        ahead
            .into_iter()
            .take(FIRST_IN_LINE)
            .map(|(_, entry)| (entry.pod.clone(), entry.claimant.clone()))
            .collect()
    }

    /// Notes the subnets of nodes that a pod could run on.
    pub fn offered(&mut self, uid: &str, sites: impl IntoIterator<Item = IpNet>) {
        if let Some(entry) = self.pods.get_mut(uid) {
            entry.sites.extend(sites);
        }
    }

    /// The subnets of nodes that a pod could run on; `None` if it does not wait, and
    /// empty if nobody knows.
    pub fn sites(&self, uid: &str) -> Option<BTreeSet<IpNet>> {
        self.pods.get(uid).map(|entry| entry.sites.clone())
    }

    /// An address is being handed over to a pod. It is expected to come for it, however
    /// often it came in vain before.
    pub fn hand_over(&mut self, uid: &str) {
        let Some(entry) = self.pods.get_mut(uid) else {
            return;
        };
        entry.in_vain = 0;
        entry.last = None;
        let heirs = self.heirs.entry(entry.claimant.group_key.clone());
        heirs.or_default().insert(uid.to_owned());
    }

    /// The names of all pods that share what they leave behind, with their namespaces.
    pub fn sharing(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.pods.values();
        entries
            .map(|entry| &entry.claimant)
            .filter(|claimant| claimant.shares_spares)
            .map(|claimant| (claimant.namespace.as_str(), claimant.name.as_str()))
    }

    /// Revisions may be others than when the pods were refused.
    pub fn revise(&mut self, revision: impl Fn(&Claimant) -> Option<u64>) {
        for entry in self.pods.values_mut() {
            if let Some(revision) = revision(&entry.claimant) {
                entry.pod.revision = revision;
            }
        }
    }

    /// Those whom rooms concern: first whoever was woken and has not come yet, then
    /// whoever may be woken now, in order. Regularly, everybody is looked at.
    pub fn called(&self, rooms: &Rooms, is_regular: bool, now: Instant) -> Vec<Called> {
        let is_due = |entry: &&Entry| {
            !entry.is_awaited(now)
                && if is_regular {
                    entry.is_due_regularly(now)
                } else {
                    rooms.concern(&entry.claimant) && entry.is_due(rooms, now)
                }
        };
        let due = self.pods.values().filter(is_due);
        let mut queue = wake::queue(due.map(|entry| (&entry.claimant.app_prefix, &entry.pod)));
        if queue.is_empty() {
            return Vec::new();
        }
        // What is being handed over is for nobody else.
        let is_heir = |pod: &&wake::Waiting| self.heirs.values().any(|it| it.contains(&pod.uid));
        if !self.heirs.is_empty() {
            queue.sort_by_key(|pod| !is_heir(pod));
        }
        let awaited = self.pods.values().filter(|entry| entry.is_awaited(now));
        let awaited = awaited.map(|entry| Called {
            claimant: entry.claimant.clone(),
            reserves: true,
            wake: false,
        });
        let queue = queue.into_iter().filter_map(|pod| self.pods.get(&pod.uid));
        let queue = queue.map(|entry| Called {
            claimant: entry.claimant.clone(),
            reserves: entry.comes(now),
            wake: true,
        });
        awaited.chain(queue).collect()
    }

    /// These are being woken.
    pub fn woken(&mut self, uids: &[&str], rooms: &Arc<Rooms>, now: Instant) {
        for uid in uids {
            if let Some(entry) = self.pods.get_mut(*uid) {
                let unanswered = entry.last.as_ref().filter(|last| !last.answered);
                entry.wakes += 1;
                entry.last = Some(Wake {
                    at: now,
                    expected_since: unanswered.map_or(now, |last| last.expected_since),
                    rooms: Arc::clone(rooms),
                    answered: false,
                });
            }
        }
    }

    /// A pod could not be told that it is woken, so it is not expected.
    pub fn not_woken(&mut self, uid: &str) {
        let entry = self.pods.get_mut(uid);
        if let Some(last) = entry.and_then(|entry| entry.last.as_mut()) {
            last.answered = true;
        }
    }
}

impl Entry {
    /// Whether it was woken a moment ago and is expected.
    fn is_awaited(&self, now: Instant) -> bool {
        let last = self.last.as_ref();
        last.is_some_and(|last| !last.answered && !last.is_overdue(now))
    }

    /// Whether it can be expected to come when it is woken, and to take what it was
    /// woken for.
    fn comes(&self, now: Instant) -> bool {
        let last = self.last.as_ref();
        self.in_vain < MOST_IN_VAIN && !last.is_some_and(|last| last.is_overdue(now))
    }

    /// Whether it may be woken for these.
    fn is_due(&self, rooms: &Rooms, now: Instant) -> bool {
        self.last.as_ref().is_none_or(|last| {
            let is_new = || rooms.concern_beside(&self.claimant, &last.rooms);
            now - last.at >= GAP || (self.in_vain < MOST_IN_VAIN && is_new())
        })
    }

    /// Whether it may be woken just because time has passed.
    fn is_due_regularly(&self, now: Instant) -> bool {
        let doubled = 2_u32.saturating_pow(self.wakes.saturating_sub(1));
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LAST_PAUSE);
        let last = self.last.as_ref();
        last.is_none_or(|last| now - last.at >= pause)
    }
}

impl Wake {
    fn is_overdue(&self, now: Instant) -> bool {
        !self.answered && now - self.expected_since >= ANSWER
    }
}
