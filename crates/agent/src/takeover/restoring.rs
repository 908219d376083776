//! Configuring addresses again whose records name their pods again, and noting what is missing.
//!
//! Attaching a network takes as long as its plugins want. So it is done beside the comparisons:
//! these only say [what is wanted](Restoring::want), and no removal from another container
//! waits for it. While a container is worked on, comparisons leave it alone, and look again when
//! it is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::{addr::canonical, node::state::State};
use futures::{StreamExt as _, stream::FuturesUnordered};
use tokio::{
    sync::{Notify, watch},
    task::spawn_blocking,
    time::{Instant, sleep_until, timeout},
};
use tracing::{info, warn};

use super::{Configured, TURN, Takeover};
use crate::events::{self, News};

/// The reason under which an address is configured again.
const RESTORED: &str = "AddressRestored";

/// The same where that fails.
const NOT_RESTORED: &str = "AddressNotRestored";

/// How many containers are worked on at once.
const AT_ONCE: usize = 4;

/// The pause after the first failure. It doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// The cap of the doubling pause where only the failed address itself is down.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// The same where each try interrupts other addresses of the network, which work.
const LONGEST_PAUSE_OF_OTHERS: Duration = Duration::from_mins(15);

/// What is to be configured again, by container.
#[derive(Default)]
pub struct Restoring {
    jobs: Mutex<BTreeMap<String, Job>>,
    wanted: Notify,
    /// The containers that are worked on.
    running: watch::Sender<BTreeSet<String>>,
    /// How often one was done with.
    done: watch::Sender<u64>,
}

struct Job {
    addresses: Vec<Configured>,
    failures: u32,
    not_before: Instant,
    is_running: bool,
}

impl Restoring {
    /// Replaces what is wanted, but for containers that could not be looked at: they were worked
    /// on, or that failed. What failed before keeps its pause.
    pub(super) fn want(&self, all: Vec<Configured>, unseen: &BTreeSet<String>) {
        let mut wanted: BTreeMap<String, Vec<Configured>> = BTreeMap::new();
        for it in all {
            let container = it.attachment.container.clone();
            wanted.entry(container).or_default().push(it);
        }
        let mut jobs = self.jobs();
        jobs.retain(|container, job| {
            job.is_running || unseen.contains(container) || wanted.contains_key(container)
        });
        for (container, addresses) in wanted {
            let job = jobs.entry(container).or_insert_with(|| Job {
                addresses: Vec::new(),
                failures: 0,
                not_before: Instant::now(),
                is_running: false,
            });
            job.addresses = addresses;
        }
        drop(jobs);
        self.wanted.notify_one();
    }

    /// Returns as soon as a container is worked on.
    pub(super) async fn begins(&self, container: &str) {
        let mut running = self.running.subscribe();
        // The sender lives as long as this.
        let _ = running.wait_for(|all| all.contains(container)).await;
    }

    /// Tells, by a growing number, each time a container was worked on.
    pub(super) fn done(&self) -> watch::Receiver<u64> {
        self.done.subscribe()
    }

    /// Claims the next container that is due.
    pub(super) fn begin(&self, now: Instant) -> Option<(String, Vec<Configured>)> {
        let mut jobs = self.jobs();
        let mut due = jobs.iter_mut().filter(|(_, job)| job.is_due(now));
        let (container, job) = due.next()?;
        job.is_running = true;
        let begun = (container.clone(), job.addresses.clone());
        drop(jobs);
        self.running.send_modify(|all| {
            all.insert(begun.0.clone());
        });
        Some(begun)
    }

    /// Notes that a container was worked on, and after a failure the longest pause.
    pub(super) fn end(&self, container: &str, failed: Option<Duration>, now: Instant) {
        let mut jobs = self.jobs();
        match (failed, jobs.get_mut(container)) {
            (None, _) => drop(jobs.remove(container)),
            (Some(longest), Some(job)) => {
                job.is_running = false;
                job.not_before = now + pause(job.failures, longest);
                job.failures += 1;
            }
            (Some(_), None) => {}
        }
        drop(jobs);
        self.running.send_modify(|all| {
            all.remove(container);
        });
        self.done.send_modify(|count| *count += 1);
    }

    /// When something is to be tried again that failed.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let jobs = self.jobs();
        let waiting = jobs.values().filter(|job| !job.is_running);
        waiting.map(|job| job.not_before).min()
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Job>> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    fn is_due(&self, now: Instant) -> bool {
        !self.is_running && self.not_before <= now
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn pause(failures: u32, longest: Duration) -> Duration {
    let doubled = FIRST_PAUSE.saturating_mul(2_u32.saturating_pow(failures));
    doubled.min(longest)
}

/// Whether attaching the networks of these addresses again interrupts others, which are there.
fn interrupts(state: &State, off: &BTreeSet<IpAddr>) -> bool {
    state.attached.iter().any(|it| {
        let all = it.addresses();
        let all = all.iter().map(|info| canonical(info.ip.addr()));
        // Where no result is noted, the network may have configured all of them.
        let own = all.filter(|ip| it.has_configured(*ip) != Some(false));
        let own: BTreeSet<IpAddr> = own.collect();
        !own.is_disjoint(off) && !own.is_subset(&it.taken_off)
    })
}

impl Takeover {
    /// Configures again what is wanted, for ever.
    pub(super) async fn restore_forever(&self) {
        let restoring = &self.restoring;
        let mut work = FuturesUnordered::new();
        loop {
            while work.len() < AT_ONCE
                && let Some((container, addresses)) = restoring.begin(Instant::now())
            {
                work.push(async move {
                    let failed = self.restore_container(&container, &addresses).await;
                    (container, failed)
                });
            }
            let due = restoring.next_due().filter(|_| work.len() < AT_ONCE);
            tokio::select! {
                Some((container, failed)) = work.next() => {
                    restoring.end(&container, failed, Instant::now());
                }
                () = restoring.wanted.notified() => {}
                () = until(due) => {}
            }
        }
    }

    /// Configures the addresses of a container again. If not all of them could be, the longest
    /// pause before the next try.
    pub(super) async fn restore_container(
        &self,
        container: &str,
        addresses: &[Configured],
    ) -> Option<Duration> {
        let Ok(_turn) = timeout(TURN, self.turns.wait(container)).await else {
            return Some(LONGEST_PAUSE);
        };
        let mut failed = BTreeSet::new();
        for configured in addresses {
            if !self.restore_one(configured).await {
                failed.insert(configured.attachment.ip);
            }
        }
        if failed.is_empty() {
            return None;
        }
        // A file that cannot be read says nothing about others.
        let state = self.states.read(container).await.ok().flatten();
        let of_others = state.is_some_and(|it| interrupts(&it, &failed));
        Some(if of_others {
            LONGEST_PAUSE_OF_OTHERS
        } else {
            LONGEST_PAUSE
        })
    }

    async fn restore_one(&self, configured: &Configured) -> bool {
        let attachment = &configured.attachment;
        let (ip, container) = (attachment.ip, attachment.container.clone());
        let restored = (self.restore)(container, ip).await;
        let about = attachment.pod.as_ref();
        let about = about.map(|pod| events::pod(&pod.namespace, &pod.name, &pod.uid));
        let (warning, reason, note) = match &restored {
            Ok(false) => return true,
            Ok(true) => {
                info!(reason = RESTORED, %ip, container = attachment.container, "address restored");
                let note = format!("{ip} is configured again: its record names this pod again");
                (false, RESTORED, note)
            }
            Err((cause, error)) => {
                warn!(
                    reason = NOT_RESTORED, cause, %ip, container = attachment.container, error,
                    "cannot restore an address",
                );
                let note = format!("{ip} is this pod's again, but cannot be configured: {error}");
                (true, NOT_RESTORED, note)
            }
        };
        if let Some(about) = about {
            self.events.tell(News {
                about,
                warning,
                reason,
                action: "Restore",
                note,
            });
        }
        restored.is_ok()
    }

    /// Notes which addresses pods should have and do not have: those that are off, and those
    /// that the plugin has configured and that are not in the namespace any more.
    pub(super) async fn note_missing(&self, kept: Vec<Configured>, off: Vec<Configured>) {
        let look_in = Arc::clone(&self.look_in);
        let missing = spawn_blocking(move || {
            let is_missing = |it: &Configured| {
                let netns = it.netns.as_deref().filter(|_| it.is_expected);
                let found = netns.and_then(|netns| look_in(netns));
                found.is_some_and(|all| !all.contains(&it.attachment.ip))
            };
            kept.into_iter().filter(is_missing).chain(off).collect()
        });
        let missing: Vec<Configured> = match missing.await {
            Ok(missing) => missing,
            // A panic goes on in the task that waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        let missing = missing.into_iter().map(|it| it.attachment);
        self.missing
            .replace(missing.filter_map(|it| Some((it.ip, it.pod?))));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_the_longest() {
        let pauses = (0..7).map(|it| pause(it, LONGEST_PAUSE).as_secs());
        assert_eq!(pauses.collect::<Vec<_>>(), [2, 4, 8, 16, 32, 60, 60]);
        assert_eq!(pause(u32::MAX, LONGEST_PAUSE), LONGEST_PAUSE);
    }
}
