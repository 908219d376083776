//! Many shared addresses on the same three pods: how long they take to be served, how
//! long to move all at once, and what they cost the API server while nothing happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use floe_api::floe::virtualip::{SERVING, VirtualIP};
use floe_testbed::{cluster::wait, progress::Step};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use tokio::task::{JoinHandle, block_in_place};

use super::{
    bare_patches,
    field::{Field, NODES, virtual_ip},
    history::{History, Outage, Spread},
    prober::Prober,
    taken,
    writes::{self, Writes},
};
use crate::table::{Figure, Row, Wanted};

/// The first address.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 201, 1, 1);
/// How many objects are written at once.
const AT_ONCE: usize = 16;
/// How often each address is asked; no figure of many is finer than that.
const SPACING: Duration = Duration::from_millis(100);
/// The same while all of them get their first holder: asking must not cost more than what
/// is measured.
const SHARING: Duration = Duration::from_millis(500);
/// Where the machine bounds how many neighbours all its namespaces together may have. An
/// address that is asked from outside is one.
const NEIGHBOURS: &str = "/proc/sys/net/ipv4/neigh/default/gc_thresh";
const STEADY: Duration = Duration::from_secs(2);
/// What follows from a change is over by then.
const REST: Duration = Duration::from_secs(15);
/// It only ends what hangs.
const LIMIT: Duration = Duration::from_mins(5);
/// What floe may write of objects, registers and records until an address is served: finalizer,
/// record, grant, holder, status by controller and agent.
const WRITTEN: Wanted = Wanted::AtMost(Figure::Count(5.0));
/// How many registers are written when the addresses of a node are taken: each of sixteen by
/// two heirs, with room for a second time.
const TAKEN: Wanted = Wanted::AtMost(Figure::Count(64.0));
/// How long all addresses of a dead node may take once the first was taken.
const MOVED: Wanted = Wanted::AtMost(Figure::Seconds(1.0));
/// What writes may be with all addresses, beside those with a tenth of them.
const GROWTH: Wanted = Wanted::RatioAtMost(1.2);

/// How many addresses, and how long it is watched that nothing happens.
#[derive(Clone, Copy)]
pub struct Size {
    /// All of them.
    pub all: u32,
    /// How long writes are counted.
    pub watched: Duration,
}

/// Measures with no address, a tenth of them, and all. Nobody shares one before.
pub async fn measure(field: &Field<'_>, size: Size) -> Result<Vec<Row>> {
    for node in 1..=NODES {
        join_segment(field, &format!("node-{node}"), node).await?;
    }
    join_segment(field, &field.outside.name, 200).await?;
    make_room(size.all);
    let few = size.all / 10;
    let none = quiet(field, 0, size).await?;
    let title = format!("sharing {few} addresses");
    Step::run_async(title, share(field, 0, few)).await?;
    let some = quiet(field, few, size).await?;
    let title = format!("sharing {} addresses", size.all);
    let outcome = Step::run_async(title, share(field, few, size.all)).await?;
    let many = quiet(field, size.all, size).await?;
    let all = size.all;
    let shared = all - few;
    let mut rows = vec![
        Row::new(
            format!("{shared} more addresses, from the first object to the last"),
            seconds(outcome.created),
            Wanted::Nothing,
        ),
        Row::new(
            "  from the last object until all answer",
            seconds(outcome.answered),
            Wanted::Nothing,
        ),
        Row::new(
            "  from the last object until all are said to be served",
            seconds(outcome.told),
            Wanted::Nothing,
        ),
        Row::new(
            "  writes of objects and records for each",
            Figure::Count(outcome.writes),
            WRITTEN,
        ),
        Row::new(
            "  Events for each",
            Figure::Count(outcome.events),
            Wanted::Nothing,
        ),
        Row::new(
            "writes to the API server, no address",
            none,
            Wanted::Nothing,
        ),
        Row::new(format!("  {few} addresses"), some, Wanted::Nothing).against(none),
        Row::new(format!("  {all} addresses, beside {few}"), many, GROWTH).against(some),
    ];
    let title = format!("a node with its part of {all} addresses dies");
    rows.extend(Step::run_async(title, Box::pin(node_dies(field))).await?);
    Ok(rows)
}

/// Gives a host an address on the segment of the many, so that they can be announced.
async fn join_segment(field: &Field<'_>, host: &str, number: usize) -> Result<()> {
    let host = field.cluster.host(host).await?;
    let script = format!("ip addr replace 10.201.255.{number}/16 dev eth0");
    host.network_script(&script).map(drop)
}

/// Writes for each second while nothing happens.
async fn quiet(field: &Field<'_>, addresses: u32, size: Size) -> Result<Figure> {
    let title = format!("counting writes with {addresses} addresses");
    let count = async {
        tokio::time::sleep(REST).await;
        writes::per_second(field.cluster, size.watched).await
    };
    Ok(Figure::PerSecond(Step::run_async(title, count).await?))
}

/// How it went to share addresses.
struct Shares {
    /// How long it took to write all objects.
    created: Duration,
    /// From then until all answer.
    answered: Duration,
    /// From then until all objects say that they are served.
    told: Duration,
    /// What floe has written of objects and records for each.
    writes: f64,
    /// The Events for each.
    events: f64,
}

/// Shares addresses from number `from` to before `to`.
async fn share(field: &Field<'_>, from: u32, to: u32) -> Result<Shares> {
    let vips = field.vips();
    let before = Writes::so_far(field.cluster)?;
    let listed = vips.list_metadata(&ListParams::default().limit(1)).await?;
    let version = listed.metadata.resource_version.unwrap_or_default();
    let names = (from..to).map(name).collect();
    // A list again and again would cost the API server more than what is measured.
    let serving = watch(&vips, &version, names, |vip| {
        let condition = vip.condition(SERVING);
        condition.is_some_and(|it| it.status == "True")
    });
    let serving = serving.await?;
    let started = Instant::now();
    stream::iter(from..to)
        .map(|number| create(&vips, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let written = Instant::now();
    let targets: Vec<Ipv4Addr> = (from..to).map(address).collect();
    let prober = Prober::start(&field.outside, targets, SHARING)?;
    let (_, told) = tokio::time::timeout(LIMIT, serving)
        .await
        .context("not all addresses are served")???;
    wait::until("all addresses answer", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let begun = prober.at(written);
    let writes = Writes::so_far(field.cluster)?.since(&before);
    writes.tell("until all are served");
    let histories = block_in_place(|| prober.stop());
    let answers = histories.iter().map(History::first_answer);
    let answers: Option<Vec<Duration>> = answers.collect();
    let last = answers.context("an address has not answered")?;
    let last = last.into_iter().max().unwrap_or_default();
    let count = f64::from(to - from);
    let kinds = [
        "virtualips PATCH",
        "virtualips/status",
        "virtualipregisters",
        "floatingips",
    ];
    Ok(Shares {
        created: written - started,
        answered: last.saturating_sub(begun),
        told: told.saturating_duration_since(written),
        writes: kinds.iter().map(|kind| writes.of(kind)).sum::<f64>() / count,
        events: writes.of("events POST") / count,
    })
}

/// Sees to it that a host can have so many neighbours, if this process may.
fn make_room(addresses: u32) {
    for (number, factor) in [(3, 8), (2, 4), (1, 2)] {
        let path = format!("{NEIGHBOURS}{number}");
        let wanted = addresses * factor;
        let now = std::fs::read_to_string(&path).unwrap_or_default();
        let now: u32 = now.trim().parse().unwrap_or(u32::MAX);
        if now < wanted
            && let Err(error) = std::fs::write(&path, wanted.to_string())
        {
            eprintln!("    the machine bounds its neighbours to {now}: {error}");
        }
    }
}

async fn create(vips: &Api<VirtualIP>, number: u32) -> Result<()> {
    let vip = virtual_ip(&name(number), &address(number).to_string());
    let vip: VirtualIP = serde_json::from_value(vip)?;
    vips.create(&PostParams::default(), &vip).await?;
    Ok(())
}

/// The node with the most addresses is switched off. It stays so.
async fn node_dies(field: &Field<'_>) -> Result<Vec<Row>> {
    let vips = field.vips();
    let listed = vips.list(&ListParams::default()).await?;
    let mut by_node: BTreeMap<String, Vec<&VirtualIP>> = BTreeMap::new();
    for vip in &listed.items {
        let node = node_of(vip).context("an address has no holder")?;
        by_node.entry(node).or_default().push(vip);
    }
    let counts = by_node.values().map(Vec::len);
    let fewest = counts.min().unwrap_or(0);
    let (node, held) = by_node
        .iter()
        .max_by_key(|(_, held)| held.len())
        .context("there is no address")?;
    let targets: Vec<Ipv4Addr> = held.iter().filter_map(|it| granted(it)).collect();
    ensure!(targets.len() == held.len(), "an address is not granted");
    let like = held.first().context("there is no address")?;
    let title = format!("{} bare patches", held.len());
    let bare = bare_patches::measure(field.cluster, like, held.len(), AT_ONCE);
    let bare = Step::run_async(title, bare).await?;
    let prober = Prober::start(&field.outside, targets, SPACING)?;
    wait::until("all addresses of the node answer", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let uids = held.iter().filter_map(|it| it.uid()).collect();
    let moves = taken::watch(field.cluster.client().await?, node.clone(), uids).await?;
    let before = Writes::so_far(field.cluster)?;
    let from = Instant::now();
    field.cluster.power_off(node).await?;
    let (first, last) = tokio::time::timeout(LIMIT, moves)
        .await
        .context("not all addresses have moved")???;
    let taking = Writes::so_far(field.cluster)?.since(&before);
    taking.tell("until the last was taken");
    ensure!(first >= from, "an address moved before the node died");
    wait::until("all addresses answer again", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let writes = Writes::so_far(field.cluster)?.since(&before);
    writes.tell("until all answer");
    let decided = prober.at(first);
    let from = prober.at(from);
    let histories = block_in_place(|| prober.stop());
    let outages = outages(&histories, from)?;
    let gaps = Spread::of(outages.iter().map(|it| it.gap)).context("there is no address")?;
    let answered = outages.iter().map(|it| it.after(decided)).max();
    let count = held.len();
    Ok(vec![
        Row::new(
            format!("{count} addresses of a dead node: all answer, after the first was taken"),
            seconds(answered.unwrap_or_default()),
            MOVED,
        ),
        Row::new(
            "  the last was taken, after the first",
            seconds(last.saturating_duration_since(first)),
            Wanted::Nothing,
        )
        .against(seconds(bare)),
        Row::new(
            "  writes of registers, until the last was taken",
            Figure::Count(taking.of("virtualipregisters")),
            TAKEN,
        ),
        Row::new("  gap, p50", seconds(gaps.p50), Wanted::Nothing),
        Row::new("  gap, max", seconds(gaps.max), Wanted::Nothing),
        Row::new(
            "  of all nodes the least had",
            Figure::Count(f64::from(u32::try_from(fewest)?)),
            Wanted::Nothing,
        ),
    ])
}

fn outages(histories: &[History], from: Duration) -> Result<Vec<Outage>> {
    histories
        .iter()
        .map(|it| it.outage(from).context("an address fell silent again"))
        .collect()
}

/// Waits until all these objects are as wanted. Returns when it was told of the first one
/// and of the last.
async fn watch(
    vips: &Api<VirtualIP>,
    version: &str,
    mut waiting: BTreeSet<String>,
    is_wanted: impl Fn(&VirtualIP) -> bool + Send + 'static,
) -> Result<JoinHandle<Result<(Instant, Instant)>>> {
    let events = vips.watch(&WatchParams::default(), version).await?;
    let mut events = Box::pin(events);
    Ok(tokio::spawn(async move {
        let mut first = None;
        while let Some(event) = events.try_next().await? {
            let at = Instant::now();
            let vip = match event {
                WatchEvent::Added(vip) | WatchEvent::Modified(vip) => vip,
                WatchEvent::Deleted(vip) => bail!("{} was deleted", vip.name_any()),
                WatchEvent::Error(status) => bail!("the watch of addresses ended: {status:?}"),
                WatchEvent::Bookmark(_) => continue,
            };
            if is_wanted(&vip) && waiting.remove(&vip.name_any()) {
                let first = *first.get_or_insert(at);
                if waiting.is_empty() {
                    return Ok((first, at));
                }
            }
        }
        bail!("the watch of addresses ended")
    }))
}

/// The node that has an address.
fn node_of(vip: &VirtualIP) -> Option<String> {
    let holder = vip.status.as_ref()?.holder.as_ref()?;
    Some(holder.node.clone())
}

fn granted(vip: &VirtualIP) -> Option<Ipv4Addr> {
    match vip.status.as_ref()?.addresses.first()? {
        std::net::IpAddr::V4(address) => Some(*address),
        std::net::IpAddr::V6(_) => None,
    }
}

fn name(number: u32) -> String {
    format!("crowd-{number}")
}

fn address(number: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(FIRST.to_bits() + number)
}

fn seconds(duration: Duration) -> Figure {
    Figure::Seconds(duration.as_secs_f64())
}
