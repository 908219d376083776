//! Nodes that exist in the API only: for scale, without a kernel behind them.
//!
//! A fake node is Ready, renews its lease, reports its pods as running and lets
//! them go when they are deleted. No container of it ever starts, and its pods
//! have no address.

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

/// The label that only fake nodes carry.
pub const LABEL: &str = "floe.dev/fake-node";

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
const RENEWAL: Duration = Duration::from_secs(3);

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
    tokio::join!(renew_leases(client.clone(), count), run_pods(client));
}

async fn renew_leases(client: Client, count: u32) {
    let leases: Api<Lease> = Api::namespaced(client, "kube-node-lease");
    let apply = PatchParams::apply("floe-testbed").force();
    loop {
        futures::stream::iter(1..=count)
            .for_each_concurrent(AT_ONCE, |number| {
                let (leases, apply) = (leases.clone(), apply.clone());
                async move {
                    let name = name(number);
                    let lease = json!({
                        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": { "name": name },
                        "spec": {
                            "holderIdentity": name, "leaseDurationSeconds": 40,
                            "renewTime": format!("{:.6}", Timestamp::now()),
                        },
                    });
                    if let Err(error) = leases.patch(&name, &apply, &Patch::Apply(lease)).await {
                        tracing::warn!(node = name, %error, "cannot renew the lease of a fake node");
                    }
                }
            })
            .await;
        tokio::time::sleep(RENEWAL).await;
    }
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
    let result = if pod.metadata.deletion_timestamp.is_some() {
        let mut at_once = DeleteParams::default().grace_period(0);
        at_once.preconditions = Some(kube::api::Preconditions {
            uid: pod.uid(),
            resource_version: None,
        });
        pods.delete(&name, &at_once).await.map(drop)
    } else if pod
        .status
        .as_ref()
        .and_then(|status| status.phase.as_deref())
        == Some("Pending")
    {
        let status = json!({ "metadata": { "uid": pod.uid() }, "status": running(pod, number) });
        pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status))
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

fn running(pod: &Pod, number: u32) -> Value {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let spec = pod.spec.as_ref();
    let containers: Vec<Value> = spec
        .map(|spec| spec.containers.as_slice())
        .unwrap_or_default()
        .iter()
        .map(|container| {
            json!({
                "name": container.name, "image": container.image, "imageID": "",
                "ready": true, "restartCount": 0, "started": true,
                "state": { "running": { "startedAt": now } },
            })
        })
        .collect();
    let condition =
        |kind: &str| json!({ "type": kind, "status": "True", "lastTransitionTime": now });
    json!({
        "phase": "Running", "startTime": now, "hostIP": address(number),
        "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
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
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    let capacity =
        json!({ "cpu": "64", "memory": "256Gi", "pods": "500", "ephemeral-storage": "1Ti" });
    json!({
        "capacity": capacity, "allocatable": capacity,
        "addresses": [{ "type": "InternalIP", "address": address(number) }, { "type": "Hostname", "address": name(number) }],
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "FakeNode",
            "lastHeartbeatTime": now, "lastTransitionTime": now,
        }],
    })
}

/// Fake nodes have addresses of 10.201.0.0/16 that nobody answers at.
fn address(number: u32) -> String {
    format!("10.201.{}.{}", number / 250, number % 250 + 1)
}
