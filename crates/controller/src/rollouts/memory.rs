//! What was done and told about updates, as long as this process leads.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// A Deployment by namespace and name.
pub(super) type Name = (String, String);

/// A wait that ends by itself is worth a word after this time.
const PATIENCE: Duration = Duration::from_secs(30);

/// For so long an evicted pod counts as one that leaves; then the caches say so too.
const LEAVING: Duration = Duration::from_secs(30);

/// The first pause before another pod goes for one that did not take what it was handed.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LAST_PAUSE: Duration = Duration::from_mins(10);

/// So many pods are remembered that were handed an address.
const MOST: usize = 10_000;

#[derive(Debug, Default)]
pub(super) struct Memory(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    waits: BTreeMap<Name, Wait>,
    /// By uid: when they were evicted.
    evicted: BTreeMap<String, Instant>,
    /// By the uid of the pod that was to get the address: how often, and when last.
    heirs: BTreeMap<String, (u32, Instant)>,
    /// How many times something was told about a Deployment.
    turns: BTreeMap<Name, u32>,
}

#[derive(Debug)]
struct Wait {
    reason: &'static str,
    since: Instant,
    told: bool,
}

impl Memory {
    /// The Deployments of which pods wait.
    pub fn known(&self) -> Vec<Name> {
        self.state().waits.keys().cloned().collect()
    }

    /// Whether a pod of it waits.
    pub fn knows(&self, name: &Name) -> bool {
        self.state().waits.contains_key(name)
    }

    /// None of its pods waits any more.
    pub fn forget(&self, name: &Name) {
        self.state().waits.remove(name);
    }

    /// Why they wait, one reason for each Deployment.
    pub fn reasons(&self) -> Vec<&'static str> {
        self.state()
            .waits
            .values()
            .map(|wait| wait.reason)
            .collect()
    }

    /// A Deployment waits for this reason; whether that is to be told now: once, and
    /// `later` only if it lasts.
    pub fn waits(&self, name: &Name, reason: &'static str, later: bool, now: Instant) -> bool {
        let mut state = self.state();
        let new = || Wait {
            reason,
            since: now,
            told: false,
        };
        let wait = state.waits.entry(name.clone()).or_insert_with(new);
        if wait.reason != reason {
            *wait = new();
        }
        let is_due = !wait.told && (!later || now - wait.since >= PATIENCE);
        wait.told |= is_due;
        is_due
    }

    /// Tells the times apart that something is told about a Deployment.
    pub fn turn(&self, name: &Name) -> u32 {
        let mut state = self.state();
        if state.turns.len() >= MOST && !state.turns.contains_key(name) {
            state.turns.clear();
        }
        let turn = state.turns.entry(name.clone()).or_default();
        *turn = turn.saturating_add(1);
        *turn
    }

    /// A pod was evicted for another one.
    pub fn evicted(&self, uid: &str, heir: &str, now: Instant) {
        let mut state = self.state();
        state.evicted.insert(uid.to_owned(), now);
        if state.heirs.len() >= MOST && !state.heirs.contains_key(heir) {
            state.heirs.clear();
        }
        let (times, last) = state.heirs.entry(heir.to_owned()).or_insert((0, now));
        *times = times.saturating_add(1);
        *last = now;
    }

    /// Whether a pod was evicted a moment ago.
    pub fn has_evicted(&self, uid: &str) -> bool {
        self.state().evicted.contains_key(uid)
    }

    /// Forgets those that were evicted so long ago that everybody sees it.
    pub fn tidy(&self, now: Instant) {
        let mut state = self.state();
        state.evicted.retain(|_, at| now - *at < LEAVING);
    }

    /// Whether another pod should not go yet for one to which addresses were handed over so
    /// many times: it did not take them, and each time costs a pod.
    pub fn is_too_early(&self, heir: &str, now: Instant) -> Option<u32> {
        let state = self.state();
        let (times, last) = *state.heirs.get(heir)?;
        let doubled = 2_u32.saturating_pow(times.saturating_sub(1));
        let pause = FIRST_PAUSE.saturating_mul(doubled).min(LAST_PAUSE);
        (now - last < pause).then_some(times)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
