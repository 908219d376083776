//! Many shared addresses on the same three pods: how long they take to be served, how
//! long to move all at once, and what they cost the API server while nothing happens.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::Ipv4Addr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use floe_api::floe::virtualip::VirtualIP;
use floe_testbed::{cluster::wait, progress::Step};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use tokio::task::{JoinHandle, block_in_place};

use super::{
    field::{Field, NODES, virtual_ip},
    history::{History, Outage, Spread},
    prober::Prober,
    writes::{self, Writes},
};
use crate::table::{Figure, Row, Wanted};

/// The first address.
const FIRST: Ipv4Addr = Ipv4Addr::new(10, 201, 1, 1);
/// How many objects are written at once.
const AT_ONCE: usize = 16;
/// How often each address is asked; no figure of many is finer than that.
const SPACING: Duration = Duration::from_millis(100);
const STEADY: Duration = Duration::from_secs(2);
/// What follows from a change is over by then.
const REST: Duration = Duration::from_secs(15);
/// It only ends what hangs.
const LIMIT: Duration = Duration::from_mins(5);
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
    let few = size.all / 10;
    let none = quiet(field, 0, size).await?;
    let title = format!("sharing {few} addresses");
    Step::run_async(title, share(field, 0, few)).await?;
    let some = quiet(field, few, size).await?;
    let title = format!("sharing {} addresses", size.all);
    let (created, served) = Step::run_async(title, share(field, few, size.all)).await?;
    let many = quiet(field, size.all, size).await?;
    let all = size.all;
    let shared = all - few;
    let mut rows = vec![
        Row::new(
            format!("{shared} more addresses, from the first object to the last"),
            seconds(created),
            Wanted::Nothing,
        ),
        Row::new(
            "  from the last object until all answer",
            seconds(served),
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

/// Shares addresses from number `from` to before `to`. Returns how long it took to
/// write all objects, and from then until all answer.
async fn share(field: &Field<'_>, from: u32, to: u32) -> Result<(Duration, Duration)> {
    let vips = field.vips();
    let before = Writes::so_far(field.cluster)?;
    let started = Instant::now();
    stream::iter(from..to)
        .map(|number| create(&vips, number))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    let written = Instant::now();
    let targets: Vec<Ipv4Addr> = (from..to).map(address).collect();
    let prober = Prober::start(&field.outside, targets, SPACING)?;
    let all = usize::try_from(to)?;
    wait::until("all addresses have a holder", LIMIT, async || {
        let held = vips.list(&ListParams::default()).await?;
        let held = held.iter().filter(|it| node_of(it).is_some()).count();
        ensure!(held == all, "{held} of {all} have one");
        Ok(Some(()))
    })
    .await?;
    eprintln!("    all have a holder after {:?}", started.elapsed());
    wait::until("all addresses answer", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let begun = prober.at(written);
    let writes = Writes::so_far(field.cluster)?.since(&before);
    writes.tell("until all answer");
    let histories = block_in_place(|| prober.stop());
    let answers = histories.iter().map(History::first_answer);
    let answers: Option<Vec<Duration>> = answers.collect();
    let last = answers.context("an address has not answered")?;
    let last = last.into_iter().max().unwrap_or_default();
    Ok((written - started, last.saturating_sub(begun)))
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
    let prober = Prober::start(&field.outside, targets, SPACING)?;
    wait::until("all addresses of the node answer", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let version = listed.metadata.resource_version.as_deref();
    let names = held.iter().map(|it| it.name_any()).collect();
    let moves = watch_moves(&vips, version.unwrap_or_default(), node, names).await?;
    let before = Writes::so_far(field.cluster)?;
    let from = Instant::now();
    field.cluster.power_off(node).await?;
    let (first, last) = tokio::time::timeout(LIMIT, moves)
        .await
        .context("not all addresses have moved")???;
    ensure!(first >= from, "an address moved before the node died");
    wait::until("all addresses answer again", LIMIT, async || {
        Ok(prober.is_steady(STEADY).then_some(()))
    })
    .await?;
    let writes = Writes::so_far(field.cluster)?.since(&before);
    writes.tell("from the death until all answer");
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

/// Waits until all these addresses of a node are held elsewhere. Returns when it was told
/// of the first one and of the last.
async fn watch_moves(
    vips: &Api<VirtualIP>,
    version: &str,
    node: &str,
    mut waiting: BTreeSet<String>,
) -> Result<JoinHandle<Result<(Instant, Instant)>>> {
    let lost = node.to_owned();
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
            let moved = node_of(&vip).is_some_and(|it| it != lost);
            if moved && waiting.remove(&vip.name_any()) {
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
