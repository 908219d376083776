//! How many pods are bound each second, with all writes done.
//!
//! The reference makes the same writes in a bare loop: the record, the Binding
//! and the Event. The controller runs and watches in both cases, so the API
//! server has the same work, and so has the machine; and in both cases the time
//! ends when all writes are done.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    pin::pin,
    sync::{Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Context as _, Result, ensure};
use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels,
};
use floe_core::ipam::{attribute::Attribute, key::HolderKey, names, policy::ReleasePolicy};
use floe_testbed::cluster::wait;
use futures::{Stream, StreamExt as _, TryStreamExt as _, future::try_join_all};
use jiff::Timestamp;
use k8s_openapi::api::{
    core::v1::{Binding, Pod},
    events::v1::Event,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::{Value, json};
use tokio::{time::timeout, try_join};

use super::{Scene, records::AT_ONCE};
use crate::{
    filter,
    program::Controller,
    scene,
    table::{Figure, Row, Wanted},
};

const ROUNDS: u32 = 5;

/// Measures the bare loop and floe in turns; all pods stay.
pub async fn measure(scene: &Scene<'_>) -> Result<Vec<Row>> {
    let controller = scene.controller().await?;
    let share = scene.size.pods / (2 * ROUNDS);
    let (mut bare, mut floe) = (0.0, 0.0);
    for round in 0..ROUNDS {
        let first = 2 * round * share;
        let pods = create(scene, first, share).await?;
        let queue = Mutex::new(pods.iter());
        let loops = (0..AT_ONCE).map(|_| bind_bare(&scene.client, &queue));
        bare += timed(scene, &pods, loops).await?;
        let pods = create(scene, first + share, share).await?;
        let queue = Mutex::new(pods.iter());
        let loops = (0..AT_ONCE).map(|_| bind_by_floe(&controller, &queue));
        floe += timed(scene, &pods, loops).await?;
    }
    all_hold_one(scene).await?;
    controller.stop().await?;
    let rate = |seconds: f64| Figure::PerSecond(f64::from(share * ROUNDS) / seconds);
    let row = Row::new("durable binds", rate(floe), Wanted::RatioAtLeast(0.8));
    Ok(vec![row.against(rate(bare))])
}

/// A pod and where it goes.
struct Placed {
    name: String,
    uid: String,
    node: String,
    /// The address that the bare loop gives it.
    address: IpAddr,
}

async fn create(scene: &Scene<'_>, first: u32, count: u32) -> Result<Vec<Placed>> {
    let api: Api<Pod> = Api::namespaced(scene.client.clone(), scene::NAMESPACE);
    futures::stream::iter(first..first + count)
        .map(|number| {
            let api = api.clone();
            async move {
                let name = format!("bound-{number}");
                let pod: Pod = serde_json::from_value(filter::pod_object(&name, None))?;
                let pod = api.create(&PostParams::default(), &pod).await?;
                let size = scene.size;
                let (subnet, turn) = (number % size.subnets, number / size.subnets);
                Ok(Placed {
                    name,
                    uid: pod.uid().unwrap_or_default(),
                    node: scene::node_name(subnet, turn % size.nodes_per_subnet + 1),
                    // From the far end; floe takes the lowest.
                    address: scene::address(
                        subnet,
                        size.held_per_subnet + size.free_per_subnet - 1 - turn,
                    ),
                })
            }
        })
        .buffer_unordered(AT_ONCE)
        .try_collect()
        .await
}

/// How long it takes until several loops have bound all pods, and each of the
/// pods has its Event.
async fn timed<F>(scene: &Scene<'_>, pods: &[Placed], loops: impl Iterator<Item = F>) -> Result<f64>
where
    F: Future<Output = Result<()>>,
{
    let api: Api<Event> = Api::namespaced(scene.client.clone(), scene::NAMESPACE);
    let newest = api.list(&ListParams::default().limit(1)).await?;
    let newest = newest.metadata.resource_version.unwrap_or_default();
    let events = api.watch(&WatchParams::default(), &newest).await?;
    let start = Instant::now();
    try_join!(try_join_all(loops), all_told(events, pods))?;
    Ok(start.elapsed().as_secs_f64())
}

/// Waits until every pod has an Event: floe writes it after the Binding, and it is
/// work that has to be done.
async fn all_told(
    events: impl Stream<Item = kube::Result<WatchEvent<Event>>>,
    pods: &[Placed],
) -> Result<()> {
    let mut silent: BTreeSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
    let mut events = pin!(events);
    while !silent.is_empty() {
        let next = timeout(wait::SETTLED, events.next()).await;
        let next = next.with_context(|| format!("{} pods have no Event", silent.len()))?;
        if let WatchEvent::Added(event) = next.context("the watch of Events has ended")??
            && let Some(uid) = event.regarding.and_then(|pod| pod.uid)
        {
            silent.remove(uid.as_str());
        }
    }
    Ok(())
}

/// The pods that wait for one of the loops.
type Queue<'a> = Mutex<std::slice::Iter<'a, Placed>>;

fn next<'a>(queue: &Queue<'a>) -> Option<&'a Placed> {
    queue.lock().unwrap_or_else(PoisonError::into_inner).next()
}

/// Asks floe, one pod after the other.
async fn bind_by_floe(controller: &Controller, queue: &Queue<'_>) -> Result<()> {
    let mut line = controller.extender().await?;
    while let Some(pod) = next(queue) {
        let body = json!({
            "PodName": pod.name, "PodNamespace": scene::NAMESPACE, "PodUID": pod.uid,
            "Node": pod.node,
        });
        let answer = line.post("/v1/bind", body.to_string().as_bytes()).await?;
        let answer: Value = serde_json::from_slice(&answer)?;
        let error = answer["Error"].as_str().unwrap_or_default();
        ensure!(error.is_empty(), "{} is not bound: {error}", pod.name);
    }
    Ok(())
}

/// Makes the writes by hand, one pod after the other.
async fn bind_bare(client: &Client, queue: &Queue<'_>) -> Result<()> {
    let events: Api<Event> = Api::namespaced(client.clone(), scene::NAMESPACE);
    while let Some(pod) = next(queue) {
        write(client, pod).await?;
        events.create(&PostParams::default(), &event(pod)?).await?;
    }
    Ok(())
}

/// Writes the record and the Binding, as floe does.
async fn write(client: &Client, pod: &Placed) -> Result<()> {
    let key = HolderKey::from(format!("NULL_{}_NULL_{}", scene::NAMESPACE, pod.name));
    let place = Attribute {
        node_name: pod.node.clone(),
        uid: pod.uid.clone(),
    };
    let spec = FloatingIPSpec::of(&key, &place, ReleasePolicy::OnDelete, Timestamp::now());
    let mut record = FloatingIP::new(pod.address, spec);
    let annotations = record.metadata.annotations.get_or_insert_default();
    annotations.insert(labels::NODE.to_owned(), pod.node.clone());
    annotations.insert(labels::STATE.to_owned(), "Bound".to_owned());
    let records: Api<FloatingIP> = Api::all(client.clone());
    records.create(&PostParams::default(), &record).await?;

    let args = json!({ "common": { "ipinfos": [
        { "ip": format!("{}/21", pod.address), "vlan": 0, "gateway": "10.32.0.1" },
    ] } });
    let binding: Binding = serde_json::from_value(json!({
        "metadata": {
            "name": pod.name, "namespace": scene::NAMESPACE, "uid": pod.uid,
            "annotations": { names::ARGS: args.to_string() },
        },
        "target": { "apiVersion": "v1", "kind": "Node", "name": pod.node },
    }))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), scene::NAMESPACE);
    let _: Value = pods
        .create_subresource("binding", &pod.name, &PostParams::default(), &binding)
        .await?;
    Ok(())
}

fn event(pod: &Placed) -> Result<Event> {
    let event = json!({
        "metadata": { "name": format!("{}.{:.8}", pod.name, pod.uid), "namespace": scene::NAMESPACE },
        "eventTime": format!("{:.6}", Timestamp::now()),
        "reportingController": "floe.dev/bench", "reportingInstance": "bench",
        "action": "Bind", "reason": "AddressAllocated", "type": "Normal",
        "regarding": {
            "apiVersion": "v1", "kind": "Pod",
            "name": pod.name, "namespace": scene::NAMESPACE, "uid": pod.uid,
        },
        "note": format!("{} on {}", pod.address, pod.node),
    });
    Ok(serde_json::from_value(event)?)
}

/// Fails unless every pod is bound and has exactly one address.
async fn all_hold_one(scene: &Scene<'_>) -> Result<()> {
    let api: Api<Pod> = Api::namespaced(scene.client.clone(), scene::NAMESPACE);
    let pods = api.list(&ListParams::default()).await?.items;
    let bound: BTreeSet<String> = pods
        .iter()
        .filter(|pod| {
            pod.spec
                .as_ref()
                .is_some_and(|spec| spec.node_name.is_some())
        })
        .filter_map(ResourceExt::uid)
        .collect();
    let api: Api<FloatingIP> = Api::all(scene.client.clone());
    let records = api.list(&ListParams::default()).await?.items;
    let holders: Vec<String> = records
        .iter()
        .map(|record| record.spec.place().attribute.uid)
        .filter(|uid| !uid.is_empty())
        .collect();
    let distinct: BTreeSet<String> = holders.iter().cloned().collect();
    ensure!(
        distinct == bound && distinct.len() == holders.len(),
        "{} pods are bound, {} records name a pod, {} different ones",
        bound.len(),
        holders.len(),
        distinct.len()
    );
    Ok(())
}
