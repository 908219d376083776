//! Addresses that belong to others by now are taken off this node: gather, decide in
//! [`floe_core::node::takeover`], apply, report.
//!
//! A node that was away comes back with the pods it had, while others have their
//! addresses. As soon as it can ask, everything that it has configured is compared
//! with the records:
//!
//! - after every complete list of its records,
//! - after every change of a record that the watch shows,
//! - when the API server answers again after it did not: what the watch has shown is
//!   forgotten, so every record is read directly,
//! - and once a minute, for records that the watch cannot show for want of a label.
//!
//! An address whose record names its pod again, after it was taken off, is configured again:
//! an administrator may have edited a record and reverted that. What a record gives to a pod
//! and the pod does not have, for whatever cause, is reported ([`missing`]).
//!
//! How long both nodes answer is thus the time until the API server is reached again,
//! at most [`PROBE`] later, and one read. Each removal is logged with how long it took
//! since its cause.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::Path,
    sync::Arc,
    time::Duration,
};

use floe_core::node::takeover::{
    self, Attachment, Evidence, Here, Judgement, Oddity, Seen, Verdict,
};
use floe_net::takeoff::{self, Removed, TakeOffError, Target};
use floe_shell::{logs, stop::Stop};
use futures::{StreamExt as _, future::BoxFuture, stream};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout},
};
use tracing::{info, warn};

use crate::{
    apiserver::is_missing,
    cri::Cri,
    events::Events,
    metrics::Metrics,
    permits::{Record, Records},
    state::States,
    turns::Turns,
};
use configured::Configured;
use missing::Missing;
pub use restoring::Restoring;

mod configured;
mod contact;
pub mod missing;
mod removal;
mod restoring;

/// The time between two looks without a cause.
const PERIOD: Duration = Duration::from_mins(1);

/// The pause before what failed is tried again.
const AGAIN: Duration = Duration::from_secs(2);

/// The time between two questions whether the API server is there.
pub const PROBE: Duration = Duration::from_secs(5);

/// How long to wait for the turn of a container.
const TURN: Duration = Duration::from_secs(5);

/// How long to wait for the Node object.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many addresses are read and taken off at once.
const AT_ONCE: usize = 8;

/// Takes an address off; it blocks. Tests have their own.
pub type TakeOff = Arc<dyn Fn(&Target) -> (Removed, Vec<TakeOffError>) + Send + Sync>;

/// Configures an address again that was taken off a container, in whose turn it is called;
/// whether there was anything to do.
pub type Restore = Arc<dyn Fn(String, IpAddr) -> BoxFuture<'static, Restored> + Send + Sync>;

/// What became of it; after a failure its reason and text.
pub type Restored = Result<bool, (&'static str, String)>;

/// The addresses in a namespace, `None` if it is gone or cannot be entered; it blocks. Tests
/// have their own.
pub type LookIn = Arc<dyn Fn(&Path) -> Option<BTreeSet<IpAddr>> + Send + Sync>;

/// The task that takes addresses off.
pub struct Takeover {
    /// The records of this node's addresses.
    pub records: Records,
    /// A client to ask whether the API server is there, and knows this node.
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
    /// How an address is configured again.
    pub restore: Restore,
    /// How it is found out what is configured in a pod.
    pub look_in: LookIn,
    /// Where missing addresses are noted, for the `NodeNetwork`.
    pub missing: Missing,
    /// Where it is counted.
    pub metrics: Metrics,
    /// What is to be configured again.
    pub restoring: Restoring,
}

/// Takes an address off in the kernel of this host.
pub fn in_kernel() -> TakeOff {
    Arc::new(takeoff::take_off)
}

/// Looks at the kernel of this host. A namespace that cannot be entered proves nothing.
pub fn looking_in_kernel() -> LookIn {
    Arc::new(|path| takeoff::addresses_in(path).ok().flatten())
}

/// Why everything is looked at, and since when there is reason to.
#[derive(Clone, Copy, Debug)]
struct Cause {
    what: &'static str,
    since: Instant,
}

/// What is known from the looks before.
#[derive(Default)]
struct Memory {
    /// The oddities that were told already.
    told: BTreeMap<IpAddr, Oddity>,
    /// Whether the cluster has a node of this name.
    is_confirmed: bool,
}

/// What became of one address.
enum Outcome {
    Settled,
    Odd(IpAddr, Oddity),
    /// Its record names the pod, but the pod does not have it.
    Off(Configured),
    /// The same, and it is to be configured again now.
    Restorable(Configured),
    /// Its container is being restored, after which it is looked at again.
    Busy(Configured),
    /// It could not be compared, or not be taken off its container.
    Failed(String),
}

impl Takeover {
    /// Compares again and again until `stop`.
    pub async fn run(self, mut stop: Stop) {
        if self.trust_annotations {
            info!("annotations are trusted, so no record decides about addresses here");
            stop.requested().await;
            return;
        }
        let (regained, contacts) = watch::channel(0_u64);
        // Beside the comparisons, and cut short by nothing that they do: questions that
        // are never asked to the end never notice that nobody answers.
        let asking = contact::ask(self.client.clone(), || {
            self.records.forget();
            regained.send_modify(|count| *count += 1);
        });
        tokio::select! {
            () = stop.requested() => {}
            () = asking => {}
            () = self.compare_forever(contacts) => {}
            () = self.restore_forever() => {}
        }
    }

    async fn compare_forever(&self, mut contacts: watch::Receiver<u64>) {
        let mut lists = self.records.lists();
        let mut changes = self.records.changes();
        let mut restored = self.restoring.done();
        let mut ticks = interval(PERIOD);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut memory = Memory::default();
        let mut failed: Option<Cause> = None;
        loop {
            let what = tokio::select! {
                biased;
                Ok(()) = contacts.changed() => "contact",
                Ok(()) = lists.changed() => "list",
                Ok(()) = changes.changed() => "change",
                Ok(()) = restored.changed() => "restore",
                () = pause(failed.is_some()) => "time",
                _ = ticks.tick() => "time",
            };
            // Before the first list the watch shows nothing, and every record would be
            // read twice. Who was without contact has waited long enough.
            if *lists.borrow() == 0 && *contacts.borrow() == 0 {
                continue;
            }
            // What failed before is still due, for its own cause.
            let since = Instant::now();
            let cause = failed.take().unwrap_or(Cause { what, since });
            if !self.compare(cause, &mut memory).await {
                failed = Some(cause);
            }
        }
    }

    /// Compares what is configured with the records; whether all of it could be.
    async fn compare(&self, cause: Cause, memory: &mut Memory) -> bool {
        let configured = match configured::gather(&self.states, &self.cri).await {
            Ok(configured) => configured,
            Err(error) => {
                let reason = "AttachmentsUnreadable";
                warn!(reason, error, "cannot tell what is configured");
                return false;
            }
        };
        let suspects = self.suspects(&configured);
        let doubted: BTreeSet<IpAddr> = suspects.iter().map(|it| it.attachment.ip).collect();
        let mut all = true;
        if !suspects.is_empty() && !memory.is_confirmed {
            match self.confirmed().await {
                Ok(confirmed) => memory.is_confirmed = confirmed,
                Err(error) => {
                    let reason = "NodeUnconfirmed";
                    warn!(reason, error, node = self.node, "cannot read this node");
                    all = false;
                }
            }
        }
        let outcomes = stream::iter(suspects)
            .map(|it| self.settle(it, memory.is_confirmed, cause))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        let mut odd = BTreeMap::new();
        let (mut off, mut restorable) = (Vec::new(), Vec::new());
        let mut unseen = BTreeSet::new();
        for outcome in outcomes {
            match outcome {
                Outcome::Settled => {}
                Outcome::Off(configured) => off.push(configured),
                Outcome::Restorable(configured) => restorable.push(configured),
                Outcome::Busy(configured) => {
                    unseen.insert(configured.attachment.container.clone());
                    off.extend(configured.is_off.then_some(configured));
                }
                Outcome::Odd(ip, oddity) => {
                    if memory.told.get(&ip) != Some(&oddity) {
                        warn!(reason = oddity.reason(), %ip, "address stays: {oddity}");
                    }
                    odd.insert(ip, oddity);
                }
                Outcome::Failed(container) => {
                    unseen.insert(container);
                    all = false;
                }
            }
        }
        memory.told = odd;
        off.extend(restorable.iter().cloned());
        self.restoring.want(restorable, &unseen);
        let kept = configured.into_iter();
        let kept = kept.filter(|it| !doubted.contains(&it.attachment.ip));
        self.note_missing(kept.collect(), off).await;
        all
    }

    /// Whether the cluster has a node of this name.
    async fn confirmed(&self) -> Result<bool, String> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        match timeout(PATIENCE, nodes.get_metadata(&self.node)).await {
            Ok(Ok(_)) => Ok(true),
            Ok(Err(error)) if is_missing(&error) => Ok(false),
            Ok(Err(error)) => Err(logs::with_causes(&error)),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        }
    }

    /// What needs a direct read: all that the watch does not confirm.
    fn suspects(&self, configured: &[Configured]) -> Vec<Configured> {
        let shown = self.records.all().into_iter();
        let shown = shown.map(|(ip, it)| (ip, Evidence::Watched(Some(seen(it)))));
        let evidence = shown.collect();
        let attachments: Vec<Attachment> =
            configured.iter().map(|it| it.attachment.clone()).collect();
        let judged = takeover::judge(&attachments, &evidence, self.here(true));
        let pairs = configured.iter().zip(judged);
        pairs
            .filter(|(configured, judged)| configured.is_off || judged.verdict != Verdict::Keep)
            .map(|(configured, _)| configured.clone())
            .collect()
    }

    /// Reads the record of an address and does what it says.
    async fn settle(&self, configured: Configured, is_confirmed: bool, cause: Cause) -> Outcome {
        let attachment = &configured.attachment;
        let (ip, container) = (attachment.ip, attachment.container.as_str());
        // Nobody may attach or detach between the read and the removal.
        let turn = tokio::select! {
            biased;
            // Plugins take their time, and other addresses must not wait for them.
            () = self.restoring.begins(container) => return Outcome::Busy(configured),
            turn = timeout(TURN, self.turns.wait(container)) => turn,
        };
        let Ok(_turn) = turn else {
            return Outcome::Failed(container.to_owned());
        };
        // It may be detached by now.
        if let Ok(None) = self.states.read(container).await {
            return Outcome::Settled;
        }
        let record = match self.records.read(ip).await {
            Ok(record) => record,
            Err(error) => {
                warn!(reason = error.reason(), %ip, error = %error, "cannot compare an address");
                return Outcome::Failed(container.to_owned());
            }
        };
        let pod = attachment.pod.as_ref();
        let is_whole = record
            .as_ref()
            .zip(pod)
            .is_some_and(|(it, pod)| it.uid == pod.uid);
        let evidence = BTreeMap::from([(ip, Evidence::Read(record.map(seen)))]);
        let one = std::slice::from_ref(attachment);
        let judged = takeover::judge(one, &evidence, self.here(is_confirmed));
        match judged.into_iter().next().map(|it: Judgement| it.verdict) {
            Some(Verdict::TakeOff(holder)) => self.remove(configured, &holder, cause).await,
            Some(Verdict::Report(oddity)) => Outcome::Odd(ip, oddity),
            // As long as the record lacks the uid, the controller has still to complete it.
            Some(Verdict::Keep) if configured.is_off && !is_whole => Outcome::Off(configured),
            Some(Verdict::Keep) if configured.is_off => Outcome::Restorable(configured),
            Some(Verdict::Keep | Verdict::Read) | None => Outcome::Settled,
        }
    }

    fn here(&self, is_confirmed: bool) -> Here<'_> {
        let node = &self.node;
        Here { node, is_confirmed }
    }
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
