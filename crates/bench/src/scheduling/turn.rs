//! One case, measured once.
//!
//! Pods are created, some at a time, and a watch tells when each of them is bound. The
//! clock runs from the first creation until the last pod is bound, as the watch shows it;
//! a second one until everything is written that belongs to the pods. Before, a few pods
//! that do not count show that all is at work and have connections made.

use std::{
    collections::BTreeSet,
    ops::Range,
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use floe_api::galaxy::FloatingIP;
use floe_testbed::cluster::wait;
use futures::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::{
    api::{core::v1::Pod, events::v1::Event},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{ListParams, PostParams},
};
use tokio::{task::JoinSet, time::sleep};

use super::{
    Case, bare,
    changes::{Change, Changes},
    field::Field,
    load::Load,
    pods,
    rows::Measured,
};
use crate::{
    cluster::records::AT_ONCE,
    failover::writes::Writes,
    program::{ClockOf, Controller},
    scene,
};

/// How many pods do not count.
pub const WARM_UP: u32 = 20;

/// How often is looked whether everything is written.
const LOOK: Duration = Duration::from_millis(200);

/// Measures a case, and takes everything away again.
pub async fn take(field: &Field<'_>, case: Case) -> Result<Measured> {
    let controller = field.controller(case).await?;
    let extender = controller
        .as_ref()
        .filter(|_| case == Case::Extender)
        .map(|it| it.extender);
    let scheduler = field.scheduler(extender)?;
    drive(field, case, 0..WARM_UP).await?;
    let clock = controller.as_ref().map(Controller::clock).transpose()?;
    let (writes, computed) = (Writes::so_far(field.cluster)?, now(clock)?);
    let count = field.size.pods;
    let Driven {
        bound,
        written,
        load,
    } = drive(field, case, WARM_UP..WARM_UP + count).await?;
    let computed = now(clock)?.saturating_sub(computed);
    let writes = Writes::so_far(field.cluster)?.since(&writes);
    writes.tell(case.text());
    eprintln!(
        "    computed for each pod until all are bound: {}",
        load.told(count)
    );
    scheduler.stop().await?;
    if let Some(controller) = controller {
        controller.stop().await?;
    }
    field.clear().await?;
    Ok(Measured {
        pods: count,
        bound,
        written,
        writes: writes.all() / f64::from(count),
        computed: computed.as_secs_f64() / f64::from(count),
    })
}

fn now(clock: Option<ClockOf>) -> Result<Duration> {
    clock.map_or(Ok(Duration::ZERO), ClockOf::now)
}

/// What came of creating pods.
struct Driven {
    /// The seconds until all are bound.
    bound: f64,
    /// The same until all is written.
    written: f64,
    /// Who has computed until all are bound.
    load: Load,
}

/// Creates pods.
async fn drive(field: &Field<'_>, case: Case, numbers: Range<u32>) -> Result<Driven> {
    let api: Api<Pod> = Api::namespaced(field.client.clone(), scene::NAMESPACE);
    let changes = Changes::from_now_on(api).await?;
    let told_before = told(field).await?;
    let mut tasks = JoinSet::new();
    bare::start(field, case, numbers.len(), &mut tasks).await?;
    let (client, owner) = (field.client.clone(), field.owner.clone());
    let (before, begun) = (Load::so_far()?, Instant::now());
    tasks.spawn(create(client, case, numbers.clone(), owner));
    let mut seen = pin!(see(changes, numbers));
    let uids = loop {
        tokio::select! {
            seen = &mut seen => break seen.context("not all pods are bound")?,
            // What has failed would be waited for in vain.
            Some(ended) = tasks.join_next() => ended??,
        }
    };
    let bound = begun.elapsed();
    let load = Load::so_far()?.since(&before);
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    if case.has_addresses() {
        all_written(field, &uids, told_before).await?;
    }
    Ok(Driven {
        bound: bound.as_secs_f64(),
        written: begun.elapsed().as_secs_f64(),
        load,
    })
}

async fn create(
    client: Client,
    case: Case,
    numbers: Range<u32>,
    owner: OwnerReference,
) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(client, scene::NAMESPACE);
    futures::stream::iter(numbers)
        .map(anyhow::Ok)
        .try_for_each_concurrent(AT_ONCE, async |number| {
            let pod = pods::object(case, number, &owner)?;
            api.create(&PostParams::default(), &pod).await?;
            Ok(())
        })
        .await
}

/// Waits until all pods are bound, and returns their uids.
async fn see(mut changes: Changes, numbers: Range<u32>) -> Result<BTreeSet<String>> {
    let mut bound = BTreeSet::new();
    while bound.len() < numbers.len() {
        let next = changes.next().await;
        let next = next.with_context(|| format!("{} of {} are", bound.len(), numbers.len()))?;
        let (Change::New(pod) | Change::Changed(pod)) = next;
        if pod.spec.as_ref().is_some_and(|it| it.node_name.is_some()) {
            bound.insert(pod.uid().unwrap_or_default());
        }
    }
    Ok(bound)
}

/// Waits until each of these pods has its Event, beside those that were told before, and
/// exactly one record that says where it runs.
async fn all_written(field: &Field<'_>, uids: &BTreeSet<String>, before: usize) -> Result<()> {
    let deadline = Instant::now() + wait::SETTLED;
    loop {
        let told = told(field).await? - before;
        // Only then: this list is the larger one.
        let holders = if told < uids.len() {
            Vec::new()
        } else {
            holders(field, uids).await?
        };
        let distinct: BTreeSet<&String> = holders.iter().collect();
        ensure!(
            distinct.len() == holders.len(),
            "some pods have two addresses"
        );
        if distinct.len() == uids.len() {
            return Ok(());
        }
        ensure!(
            Instant::now() < deadline,
            "of {} pods, {told} have an Event, and then {} a record with their node",
            uids.len(),
            holders.len(),
        );
        sleep(LOOK).await;
    }
}

/// How many Events there are about addresses of pods.
async fn told(field: &Field<'_>) -> Result<usize> {
    let api: Api<Event> = Api::namespaced(field.client.clone(), scene::NAMESPACE);
    let about = ListParams::default().fields(&format!("reason={}", bare::REASON));
    Ok(api.list_metadata(&about).await?.items.len())
}

/// For each record that says where one of these pods runs, the uid of the pod.
async fn holders(field: &Field<'_>, uids: &BTreeSet<String>) -> Result<Vec<String>> {
    let api: Api<FloatingIP> = Api::all(field.client.clone());
    let records = api.list(&ListParams::default()).await?.items;
    let places = records.iter().map(|record| record.spec.place().attribute);
    let bound = places.filter(|place| !place.node_name.is_empty());
    let ours = bound.filter(|place| uids.contains(&place.uid));
    Ok(ours.map(|place| place.uid).collect())
}
