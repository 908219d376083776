//! One shared address, and all the ways in which it comes to move.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use floe_testbed::{
    cluster::wait::{self, SETTLED},
    progress::Step,
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{ResourceExt as _, api::DeleteParams};
use tokio::task::block_in_place;

use super::{
    Effort,
    field::{ADDRESS, APP, Field, node_of},
    history::{History, Outage},
    learned::{Learned, is_going, is_unready},
    prober::{Prober, SPACING},
};

/// How long all packets must be answered before something is done, and afterwards.
const STEADY: Duration = Duration::from_secs(2);
/// Longer than the least time between two moves for unreadiness, and than what is
/// repeated after a move.
const REST: Duration = Duration::from_secs(5);

/// Why the address moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Somebody asks for it.
    Planned,
    /// The pod does not answer any more, and is found unready.
    Unready,
    /// The pod is deleted.
    Deleted,
    /// The node is drained.
    Drain,
    /// The node is switched off.
    PowerOff,
    /// The node is switched off on which the leading controller runs.
    LeaderOff,
}

/// One move.
#[derive(Clone, Copy, Debug)]
pub struct Round {
    /// What it cost.
    pub outage: Outage,
    /// How long packets were lost after the API server knew that the pod cannot serve;
    /// `None` where it is told by nobody.
    pub after_known: Option<Duration>,
}

impl Kind {
    /// All of them, the mildest first.
    pub const ALL: [Self; 6] = [
        Self::Planned,
        Self::Unready,
        Self::Deleted,
        Self::Drain,
        Self::PowerOff,
        Self::LeaderOff,
    ];

    /// What rows are called.
    pub fn title(self) -> &'static str {
        match self {
            Self::Planned => "planned move",
            Self::Unready => "pod unready",
            Self::Deleted => "pod deleted",
            Self::Drain => "node drained",
            Self::PowerOff => "node switched off",
            Self::LeaderOff => "node of the leader switched off",
        }
    }

    fn rounds(self, effort: Effort) -> usize {
        match self {
            Self::Planned => effort.planned,
            Self::Unready | Self::Deleted => effort.pods,
            Self::Drain | Self::PowerOff | Self::LeaderOff => effort.nodes,
        }
    }
}

/// Measures all rounds of a kind. The address is shared, and all is well before and
/// after.
pub async fn measure(field: &Field<'_>, kind: Kind, effort: Effort) -> Result<Vec<Round>> {
    let count = kind.rounds(effort);
    let mut rounds = Vec::new();
    for number in 1..=count {
        let title = format!("{}, {number} of {count}", kind.title());
        rounds.push(Step::run_async(title, Box::pin(round(field, kind))).await?);
    }
    Ok(rounds)
}

async fn round(field: &Field<'_>, kind: Kind) -> Result<Round> {
    match kind {
        Kind::PowerOff => {
            let leading = field.leading_node().await?;
            field.place(|node| node != leading).await?;
        }
        Kind::LeaderOff => {
            let leading = field.leading_node().await?;
            field.place(|node| node == leading).await?;
        }
        Kind::Planned | Kind::Unready | Kind::Deleted | Kind::Drain => {}
    }
    tokio::time::sleep(REST).await;
    let pod = field.holding_pod().await?;
    let prober = Prober::start(&field.outside, vec![ADDRESS], SPACING)?;
    wait::until("the address answers", SETTLED, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;

    let learned = learned(field, kind, &pod).await?;
    let (from, since) = (Instant::now(), Timestamp::now());
    let done = act(field, kind, &pod).await;
    let moved = match done {
        Ok(()) => settle(field, &pod, &prober).await,
        Err(error) => Err(error),
    };
    let (from, known) = match learned {
        Some(learned) if moved.is_ok() => (from, Some(learned.when().await?)),
        _ => (from, None),
    };
    let (from, known) = (prober.at(from), known.map(|it| prober.at(it)));
    let histories = block_in_place(|| prober.stop());
    // Also after a failure, so that the next kind finds what it needs.
    restore(field, kind, &pod, since).await?;
    moved?;
    let history = histories.first().context("there is one target")?;
    let outage = history
        .outage(from)
        .context("the address fell silent again")?;
    tell(history, from, known);
    Ok(Round {
        outage,
        after_known: known.map(|known| outage.after(known)),
    })
}

/// Says where packets were lost, for whoever wants to know why.
fn tell(history: &History, from: Duration, known: Option<Duration>) {
    let since = |at: Duration| at.saturating_sub(from).as_millis();
    let holes = history.holes(from);
    let holes = holes
        .iter()
        .map(|(at, count)| format!("{count} at {} ms", since(*at)));
    let holes: Vec<String> = holes.collect();
    let known = known.map_or_else(String::new, |at| {
        format!("; the API server knew at {} ms", since(at))
    });
    eprintln!("     lost: {}{known}", or_none(&holes.join(", ")));
}

fn or_none(text: &str) -> &str {
    if text.is_empty() { "none" } else { text }
}

/// Listens for when the API server knows, where it is to know.
async fn learned(field: &Field<'_>, kind: Kind, pod: &Pod) -> Result<Option<Learned>> {
    let is_news = match kind {
        Kind::Unready => is_unready,
        Kind::Deleted | Kind::Drain => is_going,
        Kind::Planned | Kind::PowerOff | Kind::LeaderOff => return Ok(None),
    };
    let learned = Learned::listen(&field.namespace.api(), &pod.name_any(), is_news).await?;
    Ok(Some(learned))
}

async fn act(field: &Field<'_>, kind: Kind, pod: &Pod) -> Result<()> {
    let (name, node) = (pod.name_any(), node_of(pod));
    match kind {
        Kind::Planned => {
            let pods = field.namespace.pods(APP).await?;
            let others = pods.iter().map(kube::ResourceExt::name_any);
            let other = others.into_iter().find(|it| *it != name);
            field
                .ask_for_move(&other.context("there is one pod only")?)
                .await
        }
        Kind::Unready => field.mute(pod, true).await,
        Kind::Deleted => {
            let pods = field.namespace.api::<Pod>();
            pods.delete(&name, &DeleteParams::default()).await?;
            Ok(())
        }
        Kind::Drain => block_in_place(|| {
            let how = ["--ignore-daemonsets", "--force", "--delete-emptydir-data"];
            let words = [&["drain", node.as_str(), "--timeout=60s"], &how[..]].concat();
            field.namespace.kubectl(&words).map(drop)
        }),
        Kind::PowerOff | Kind::LeaderOff => field.cluster.power_off(&node).await,
    }
}

/// Waits until another pod has the address and all packets are answered.
async fn settle(field: &Field<'_>, before: &Pod, prober: &Prober) -> Result<()> {
    let uid = before.uid().unwrap_or_default();
    wait::until(
        "another pod has the address and answers",
        SETTLED,
        async || {
            let holder = field.holder().await?;
            let moved = holder.uid != uid && prober.is_steady(STEADY);
            Ok(moved.then_some(()))
        },
    )
    .await
}

/// Undoes what was done, and waits until all pods could have the address again.
async fn restore(field: &Field<'_>, kind: Kind, pod: &Pod, since: Timestamp) -> Result<()> {
    let node = node_of(pod);
    match kind {
        Kind::Planned | Kind::Deleted => {}
        Kind::Unready => field.mute(pod, false).await?,
        Kind::Drain => {
            block_in_place(|| field.namespace.kubectl(&["uncordon", &node]))?;
        }
        Kind::PowerOff | Kind::LeaderOff => field.power_on(&node, since).await?,
    }
    field.whole().await
}
