//! Nodes that exist in the API only: for scale, without a kernel behind them.
//!
//! A fake node is Ready, renews its lease, reports its pods as running and lets
//! them go when they are deleted. No container of it ever starts, and its pods
//! have no address. Like a kubelet, it says again that it and its pods are ready
//! when somebody took them for lost while it could not speak.

use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::timeout;

/// The label that only fake nodes carry.
pub const LABEL: &str = "floe.dev/fake-node";

/// The annotation of pods that never get ready on a fake node, as if what they run were
/// broken.
pub const BROKEN: &str = "floe.dev/fake-broken";

/// The affinity of pods that keep off fake nodes, as JSON.
pub fn keep_off() -> serde_json::Value {
    serde_json::json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{ "matchExpressions": [
            { "key": LABEL, "operator": "DoesNotExist" },
        ] }],
    } } })
}

const AT_ONCE: usize = 32;
/// Renewed well within the grace that the controller manager gives a node.
const RENEWAL: Duration = Duration::from_secs(2);
/// An answer that takes longer is not waited for: the other nodes want to be renewed.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of a fake node, counted from 1.
pub fn name(number: u32) -> String {
    format!("fake-{number}")
}

/// Creates the nodes and sets them Ready.
pub async fn create(client: &Client, count: u32) -> Result<()> {
    let nodes: Api<Node> = Api::all(client.clone());
    futures::stream::iter(1..=count)
        .map(Ok)
        .try_for_each_concurrent(AT_ONCE, |number| {
            let nodes = nodes.clone();
            async move {
                let node: Node = serde_json::from_value(node(number))?;
                match nodes.create(&PostParams::default(), &node).await {
                    Ok(_) => {}
                    Err(kube::Error::Api(status)) if status.is_already_exists() => {}
                    Err(error) => return Err(error.into()),
                }
                let status = json!({ "status": status(number) });
                nodes
                    .patch_status(
                        &name(number),
                        &PatchParams::default(),
                        &Patch::Merge(status),
                    )
                    .await?;
                anyhow::Ok(())
            }
        })
        .await
}

/// Keeps the nodes alive for as long as this is polled.
pub async fn live(client: Client, count: u32) {
    tokio::join!(
        renew_leases(client.clone(), count),
        stay_ready(client.clone()),
        run_pods(client),
    );
}

async fn renew_leases(client: Client, count: u32) {
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    loop {
        futures::stream::iter(1..=count)
            .for_each_concurrent(AT_ONCE, |number| {
                let leases = leases.clone();
                async move {
                    let name = name(number);
                    match timeout(PATIENCE, renew(&leases, &name)).await {
                        Ok(Ok(())) => {}
                        Ok(Err(error)) => {
                            tracing::warn!(node = name, %error, "cannot renew the lease of a fake node");
                        }
                        Err(_) => tracing::warn!(node = name, "the lease of a fake node takes long"),
                    }
                }
            })
            .await;
        tokio::time::sleep(RENEWAL).await;
    }
}

async fn renew(leases: &Api<Lease>, name: &str) -> Result<(), kube::Error> {
    let spec = json!({
        "holderIdentity": name, "leaseDurationSeconds": 40,
        "renewTime": format!("{:.6}", Timestamp::now()),
    });
    // Much cheaper for the API server than to apply it.
    let renewal = Patch::Merge(json!({ "spec": spec }));
    match leases.patch(name, &PatchParams::default(), &renewal).await {
        Err(kube::Error::Api(status)) if status.is_not_found() => {
            let lease = Patch::Apply(json!({
                "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": name }, "spec": spec,
            }));
            let apply = PatchParams::apply("floe-testbed").force();
            leases.patch(name, &apply, &lease).await.map(drop)
        }
        renewed => renewed.map(drop),
    }
}

/// Says again that a node is ready when it was taken for lost.
async fn stay_ready(client: Client) {
    let nodes: Api<Node> = Api::all(client);
    watcher(nodes.clone(), watcher::Config::default().labels(LABEL))
        .default_backoff()
        .applied_objects()
        .for_each_concurrent(AT_ONCE, |node| {
            let nodes = nodes.clone();
            async move {
                let Ok(node) = node else { return };
                let conditions = node.status.as_ref().and_then(|it| it.conditions.as_ref());
                let is_lost = conditions
                    .into_iter()
                    .flatten()
                    .any(|condition| condition.type_ == "Ready" && condition.status != "True");
                if !is_lost {
                    return;
                }
                let (name, params) = (node.name_any(), PatchParams::default());
                let ready = Patch::Strategic(json!({ "status": { "conditions": [ready()] } }));
                if let Err(error) = nodes.patch_status(&name, &params, &ready).await {
                    tracing::warn!(node = name, %error, "a fake node cannot say that it is ready");
                }
            }
        })
        .await;
}

async fn run_pods(client: Client) {
    let pods: Api<Pod> = Api::all(client.clone());
    watcher(pods, watcher::Config::default())
        .default_backoff()
        .applied_objects()
        .for_each_concurrent(AT_ONCE, |pod| {
            let client = client.clone();
            async move {
                let Ok(pod) = pod else { return };
                if let Err(error) = run_pod(&client, &pod).await {
                    tracing::warn!(pod = pod.name_any(), %error, "a fake node cannot run its pod");
                }
            }
        })
        .await;
}

async fn run_pod(client: &Client, pod: &Pod) -> Result<(), kube::Error> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    let Some(number) = node.and_then(|node| node.strip_prefix("fake-")?.parse::<u32>().ok()) else {
        return Ok(());
    };
    let pods: Api<Pod> = Api::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let name = pod.name_any();
    let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
    let result = if pod.metadata.deletion_timestamp.is_some() {
        let mut at_once = DeleteParams::default().grace_period(0);
        at_once.preconditions = Some(kube::api::Preconditions {
            uid: pod.uid(),
            resource_version: None,
        });
        pods.delete(&name, &at_once).await.map(drop)
    } else if phase == Some("Pending") {
        let status = json!({ "metadata": { "uid": pod.uid() }, "status": running(pod, number) });
        // As of a kubelet: conditions of others stay.
        pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status))
            .await
            .map(drop)
    } else if phase == Some("Running") && is_unready(pod) && !is_broken(pod) {
        let ready = json!({ "type": "Ready", "status": "True", "lastTransitionTime": seconds() });
        let status =
            json!({ "metadata": { "uid": pod.uid() }, "status": { "conditions": [ready] } });
        pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(status))
            .await
            .map(drop)
    } else {
        Ok(())
    };
    match result {
        // Somebody else was quicker, or it is another pod of that name by now.
        Err(kube::Error::Api(status)) if status.is_not_found() || status.is_conflict() => Ok(()),
        other => other,
    }
}

/// Whether somebody took a pod for unready, as happens when its node is taken for lost.
fn is_unready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "False")
}

fn is_broken(pod: &Pod) -> bool {
    pod.annotations().contains_key(BROKEN)
}

fn running(pod: &Pod, number: u32) -> Value {
    let now = seconds();
    let (ready, word) = if is_broken(pod) {
        (false, "False")
    } else {
        (true, "True")
    };
    let spec = pod.spec.as_ref();
    let containers: Vec<Value> = spec
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "",
                "ready": ready, "restartCount": 0, "started": true,
                "state": { "running": { "startedAt": now } },
            })
        })
        .collect();
    let condition = |kind: &str, status: &str| json!({ "type": kind, "status": status, "lastTransitionTime": now });
    json!({
        "phase": "Running", "startTime": now, "hostIP": address(number),
        "conditions": [
            condition("PodScheduled", "True"), condition("Initialized", "True"),
            condition("ContainersReady", word), condition("Ready", word),
        ],
        "containerStatuses": containers,
    })
}

fn node(number: u32) -> Value {
    let name = name(number);
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": { "name": name, "labels": { LABEL: "true", "kubernetes.io/hostname": name, "kubernetes.io/os": "linux" } },
    })
}

fn status(number: u32) -> Value {
    let capacity =
        json!({ "cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti" });
    json!({
        "capacity": capacity, "allocatable": capacity,
        "addresses": [{ "type": "InternalIP", "address": address(number) }, { "type": "Hostname", "address": name(number) }],
        "conditions": [ready()],
    })
}

fn ready() -> Value {
    let now = seconds();
    json!({
        "type": "Ready", "status": "True", "reason": "FakeNode",
        "lastHeartbeatTime": now, "lastTransitionTime": now,
    })
}

/// The time, as objects have it.
fn seconds() -> String {
    let now = Timestamp::now();
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Fake nodes have addresses of 10.201.0.0/16 that nobody answers at.
fn address(number: u32) -> String {
    format!("10.201.{}.{}", number / 250, number % 250 + 1)
}
