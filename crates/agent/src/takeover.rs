//! Addresses that belong to others by now are taken off this node: gather, decide in
//! [`floe_core::node::takeover`], apply, report.
//!
//! A node that was away comes back with the pods it had, while others have their
//! addresses. As soon as it can ask, everything that it has configured is compared
//! with the records:
//!
//! - after every complete list of its records,
//! - after every change of a record that the watch shows,
//! - when the API server answers again after it did not: the watch may still show what
//!   was true before, so every record is read directly,
//! - and once a minute, for records that the watch cannot show for want of a label.
//!
//! How long both nodes answer is thus the time until the API server is reached again,
//! at most [`PROBE`] later, and one read. Each removal is logged with how long it took
//! since its cause.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, sync::Arc, time::Duration};

use floe_core::{
    addr,
    node::{
        state::PodId,
        takeover::{self, Attachment, Evidence, Judgement, Oddity, Seen, Verdict},
    },
};
use floe_net::takeoff::{self, Removed, Target};
use floe_shell::stop::Stop;
use futures::{StreamExt as _, stream};
use tokio::{
    task::spawn_blocking,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    cri::Cri,
    events::{self, Events, News},
    permits::{Record, Records},
    state::{Kept, States},
    turns::Turns,
};
use contact::Contact;

mod contact;

/// The time between two looks without a cause.
const PERIOD: Duration = Duration::from_mins(1);

/// The pause before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The time between two questions whether the API server is there.
pub const PROBE: Duration = Duration::from_secs(5);

/// How long to wait for the turn of a container.
const TURN: Duration = Duration::from_secs(5);

/// How many addresses are read and taken off at once.
const AT_ONCE: usize = 8;

/// Takes an address off; it blocks. Tests have their own.
pub type TakeOff = Arc<dyn Fn(&Target) -> (Removed, Vec<String>) + Send + Sync>;

/// The task that takes addresses off.
pub struct Takeover {
    /// The records of this node's addresses.
    pub records: Records,
    /// A client to ask whether the API server is there.
    pub client: kube::Client,
    /// The runtime, which knows the pods and namespaces of what galaxy attached.
    pub cri: Cri,
    /// The state files, which say what is configured.
    pub states: States,
    /// Who works on which container.
    pub turns: Turns,
    /// Where to tell what was taken off.
    pub events: Events,
    /// This node.
    pub node: String,
    /// Whether records decide nothing on this node.
    pub trust_annotations: bool,
    /// How an address is taken off.
    pub take_off: TakeOff,
}

/// Takes an address off in the kernel of this host.
pub fn in_kernel() -> TakeOff {
    Arc::new(|target| {
        let (removed, failed) = takeoff::take_off(target);
        (removed, failed.iter().map(ToString::to_string).collect())
    })
}

/// Why everything is looked at, and since when there is reason to.
#[derive(Clone, Copy, Debug)]
struct Cause {
    what: &'static str,
    since: Instant,
    /// Whether what the watch shows is not believed.
    distrusts_watch: bool,
}

/// Something that is configured on this node.
#[derive(Clone, Debug)]
struct Configured {
    attachment: Attachment,
    netns: Option<PathBuf>,
}

impl Takeover {
    /// Compares again and again until `stop`.
    pub async fn run(self, mut stop: Stop) {
        if self.trust_annotations {
            info!("annotations are trusted, so no record decides about addresses here");
            stop.requested().await;
            return;
        }
        tokio::select! {
            () = stop.requested() => {}
            () = self.compare_forever() => {}
        }
    }

    async fn compare_forever(&self) {
        let mut lists = self.records.lists();
        let mut changes = self.records.changes();
        let mut contact = Contact::new(self.client.clone());
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut told = BTreeMap::new();
        let mut failed: Option<Cause> = None;
        loop {
            let mut cause = Cause {
                what: "time",
                since: Instant::now(),
                distrusts_watch: false,
            };
            tokio::select! {
                biased;
                () = contact.regained() => {
                    cause.what = "contact";
                    cause.distrusts_watch = true;
                }
                Ok(()) = lists.changed() => cause.what = "list",
                Ok(()) = changes.changed() => cause.what = "change",
                () = pause(failed.is_some()) => {}
                _ = ticks.tick() => {}
            }
            cause.since = Instant::now();
            // What failed before is still due, for its own cause.
            if let Some(before) = failed.take() {
                cause = Cause {
                    distrusts_watch: before.distrusts_watch || cause.distrusts_watch,
                    ..before
                };
            }
            // Before the first list the watch shows nothing, and every record would be
            // read twice.
            if *lists.borrow() == 0 && !cause.distrusts_watch {
                continue;
            }
            if !self.compare(cause, &mut told).await {
                failed = Some(cause);
            }
        }
    }

    /// Compares what is configured with the records; whether all of it could be.
    async fn compare(&self, cause: Cause, told: &mut Told) -> bool {
        let configured = match self.configured().await {
            Ok(configured) => configured,
            Err(error) => {
                warn!(
                    reason = "NodeUnreadable",
                    error, "cannot tell what is configured"
                );
                return false;
            }
        };
        let suspects = self.suspects(&configured, cause.distrusts_watch);
        let outcomes = stream::iter(suspects)
            .map(|it| self.settle(it, cause))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let mut all = true;
        let mut odd = Told::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Settled => {}
                Outcome::Odd(ip, oddity) => {
                    if told.get(&ip) != Some(&oddity) {
                        warn!(reason = oddity.reason(), %ip, "address stays: {oddity}");
                    }
                    odd.insert(ip, oddity);
                }
                Outcome::Failed => all = false,
            }
        }
        *told = odd;
        all
    }

    /// What needs a direct read.
    fn suspects(&self, configured: &[Configured], distrusts_watch: bool) -> Vec<Configured> {
        let evidence = if distrusts_watch {
            BTreeMap::new()
        } else {
            let shown = self.records.all().into_iter();
            let shown = shown.map(|(ip, it)| (ip, Evidence::Watched(Some(seen(it)))));
            shown.collect()
        };
        let attachments: Vec<Attachment> =
            configured.iter().map(|it| it.attachment.clone()).collect();
        let judged = takeover::judge(&attachments, &evidence, &self.node, false);
        let pairs = configured.iter().zip(judged);
        pairs
            .filter(|(_, judged)| judged.verdict != Verdict::Keep)
            .map(|(configured, _)| configured.clone())
            .collect()
    }

    /// Reads the record of an address and does what it says.
    async fn settle(&self, configured: Configured, cause: Cause) -> Outcome {
        let attachment = &configured.attachment;
        let (ip, container) = (attachment.ip, attachment.container.as_str());
        // Nobody may attach or detach between the read and the removal.
        let Ok(_turn) = timeout(TURN, self.turns.wait(container)).await else {
            return Outcome::Failed;
        };
        // It may be detached by now.
        if let Ok(None) = self.states.read(container).await {
            return Outcome::Settled;
        }
        let record = match self.records.read(ip).await {
            Ok(record) => record,
            Err(error) => {
                warn!(reason = error.reason(), %ip, error = %error, "cannot compare an address");
                return Outcome::Failed;
            }
        };
        let evidence = BTreeMap::from([(ip, Evidence::Read(record.map(seen)))]);
        let one = std::slice::from_ref(attachment);
        let judged = takeover::judge(one, &evidence, &self.node, false);
        match judged.into_iter().next().map(|it: Judgement| it.verdict) {
            Some(Verdict::TakeOff(holder)) => self.remove(configured, &holder, cause).await,
            Some(Verdict::Report(oddity)) => Outcome::Odd(ip, oddity),
            Some(Verdict::Keep | Verdict::Read) | None => Outcome::Settled,
        }
    }

    async fn remove(&self, configured: Configured, holder: &Seen, cause: Cause) -> Outcome {
        let Configured { attachment, netns } = configured;
        let netns = match netns {
            Some(netns) => Some(netns),
            // Without an answer the pod is cut off as a whole, rather than let two
            // answer for one address.
            None => self.cri.netns(&attachment.container).await.unwrap_or(None),
        };
        let target = Target {
            ip: attachment.ip,
            container: attachment.container.clone(),
            netns,
        };
        let take_off = Arc::clone(&self.take_off);
        let done = spawn_blocking(move || take_off(&target)).await;
        let (removed, failed) = match done {
            Ok(done) => done,
            // A panic goes on in whoever waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        if !removed.0.is_empty() {
            self.report(&attachment, holder, &removed, cause);
        }
        if failed.is_empty() {
            return Outcome::Settled;
        }
        warn!(
            reason = "TakeOffFailed",
            ip = %attachment.ip,
            container = attachment.container,
            error = failed.join(" / "),
            "address of another pod is still configured; it is tried again",
        );
        Outcome::Failed
    }

    fn report(&self, attachment: &Attachment, holder: &Seen, removed: &Removed, cause: Cause) {
        let took = cause.since.elapsed();
        let ip = attachment.ip;
        info!(
            reason = MOVED_AWAY,
            %ip,
            container = attachment.container,
            holder = holder.key.as_str(),
            node = holder.node,
            cause = cause.what,
            took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX),
            removed = removed.0.join(", "),
            "address is taken off",
        );
        let Some(pod) = &attachment.pod else {
            return;
        };
        let place = if holder.node.is_empty() {
            String::new()
        } else {
            format!(" on node {}", holder.node)
        };
        self.events.tell(News {
            about: events::pod(&pod.namespace, &pod.name, &pod.uid),
            warning: true,
            reason: MOVED_AWAY,
            action: "TakeOff",
            note: format!("{ip} belongs to {}{place} by now", holder.key.as_str()),
        });
    }

    /// Every address of a record that is configured here, from the state files.
    async fn configured(&self) -> Result<Vec<Configured>, String> {
        let kept = self.states.list().await.map_err(|it| it.to_string())?;
        let unnamed = kept.iter().any(|kept| {
            let attached = kept.state.iter().flat_map(|state| &state.attached);
            attached.into_iter().any(|it| it.pod.is_none())
        });
        // galaxy's files name no pod; the runtime does. Without its answer a record that
        // names another node still counts.
        let pods: BTreeMap<String, PodId> = if unnamed {
            let sandboxes = self.cri.sandboxes().await.unwrap_or_default();
            sandboxes.into_iter().map(|it| (it.id, it.pod)).collect()
        } else {
            BTreeMap::new()
        };
        Ok(kept.iter().flat_map(|it| addresses_of(it, &pods)).collect())
    }
}

/// The reason under which a removal is told.
const MOVED_AWAY: &str = "AddressMovedAway";

/// The oddities that were told already.
type Told = BTreeMap<IpAddr, Oddity>;

/// What became of one address.
enum Outcome {
    Settled,
    Odd(IpAddr, Oddity),
    Failed,
}

fn addresses_of(kept: &Kept, pods: &BTreeMap<String, PodId>) -> Vec<Configured> {
    let attached = kept.state.iter().flat_map(|state| &state.attached);
    let mut found: Vec<Configured> = Vec::new();
    for it in attached {
        for ip in it
            .addresses()
            .iter()
            .map(|it| addr::canonical(it.ip.addr()))
        {
            // Every network of a pod is told all of its addresses.
            if found.iter().any(|it| it.attachment.ip == ip) {
                continue;
            }
            let pod = it.pod.clone();
            found.push(Configured {
                attachment: Attachment {
                    container: kept.container.clone(),
                    pod: pod.or_else(|| pods.get(&kept.container).cloned()),
                    ip,
                },
                netns: it.netns.as_ref().map(PathBuf::from),
            });
        }
    }
    found
}

fn seen(record: Record) -> Seen {
    Seen {
        key: record.key,
        uid: record.uid,
        node: record.node,
    }
}

async fn pause(short: bool) {
    if short {
        sleep(AGAIN).await;
    } else {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests;
