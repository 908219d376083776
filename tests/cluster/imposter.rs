//! Whoever can write a pod can write any address into its annotation. That alone
//! gives nobody the address.

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{ARGS, addresses, ip, records, told};
use crate::http::get;
use crate::segment;
use crate::underlay::{answers, pod, pod_on};

/// An annotation that claims an address, as the controller would write it.
fn claim(ip: &str) -> Value {
    let info = json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.200.0.1" });
    json!({ ARGS: json!({ "common": { "ipinfos": [info] } }).to_string() })
}

/// A pod that asks nobody: it names its node and its address itself.
fn forged(name: &str, node: &str, ip: &str) -> Value {
    let mut pod = pod(name, &claim(ip));
    pod["spec"]["nodeName"] = json!(node);
    pod
}

/// The address of a pod with the name `owner`, which answers there.
async fn owner(cluster: &Cluster, namespace: &TestNamespace<'_>) -> Result<(HostRef, String)> {
    namespace.apply(&pod_on("node-1", "owner", &json!({})).to_string())?;
    let address = addresses(namespace, "app=owner", 1).await?["owner"].clone();
    let outside = cluster.outside().await?;
    answers(&outside, "owner", &address)?;
    Ok((outside, address))
}

/// Waits until the node has tried at least twice to start a pod, and sees that it
/// has never run.
async fn never_runs(namespace: &TestNamespace<'_>, name: &str, reason: &str) -> Result<()> {
    let events = namespace.api::<Event>();
    let about = ListParams::default().fields(&format!("involvedObject.name={name}"));
    wait::until(&format!("{name} has failed twice"), LIMIT, async || {
        let listed = events.list(&about).await?.items;
        let failed = listed.iter().filter(|event| {
            event.reason.as_deref() == Some("FailedCreatePodSandBox")
                && event
                    .message
                    .as_ref()
                    .is_some_and(|text| text.contains(reason))
        });
        // The kubelet counts what is the same, and tells anew what is not.
        let times: i32 = failed.map(|event| event.count.unwrap_or(1)).sum();
        ensure!(times >= 2, "it failed {times} times");
        Ok(Some(()))
    })
    .await?;
    let pod = namespace.api::<Pod>().get(name).await?;
    let status = pod.status.unwrap_or_default();
    ensure!(
        status.phase.as_deref() == Some("Pending"),
        "it is {:?}",
        status.phase
    );
    ensure!(status.pod_ip.is_none(), "it has {:?}", status.pod_ip);
    let started = status.container_statuses.unwrap_or_default();
    let started = started.iter().find(|it| it.container_id.is_some());
    ensure!(started.is_none(), "a container was started: {started:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_bound_by_hand_with_the_address_of_another_never_runs() -> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "imposter").await?;
    let (outside, address) = owner(&cluster, &namespace).await?;
    // On the node of the owner, and on another.
    for (name, node) in [("near", "node-1"), ("far", "node-2")] {
        namespace.apply(&forged(name, node, &address).to_string())?;
    }
    for name in ["near", "far"] {
        told(&namespace, name, "AddressOfAnotherPod", &address).await?;
        never_runs(&namespace, name, "AddressOfAnotherPod").await?;
    }
    answers(&outside, "owner", &address)?;

    // They go as they came, and take nothing with them.
    namespace.kubectl(&["delete", "pod", "near", "far", "--timeout=60s"])?;
    answers(&outside, "owner", &address)?;
    assert_eq!(
        addresses(&namespace, "app=owner", 1).await?["owner"],
        address
    );
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_bound_by_hand_with_an_address_of_nobody_never_runs() -> Result<()> {
    /// Of the administrator's range; its last one.
    const FREE: &str = "10.200.0.180";
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "squatter").await?;
    namespace.apply(&forged("squatter", "node-3", FREE).to_string())?;
    told(&namespace, "squatter", "AddressNotRecorded", FREE).await?;
    never_runs(&namespace, "squatter", "AddressNotRecorded").await?;

    let outside = cluster.outside().await?;
    let answer = get(&outside, format!("{FREE}:80").parse()?);
    assert!(answer.is_err(), "somebody answers: {answer:?}");
    let records = records(&cluster, namespace.name()).await?;
    assert!(records.is_empty(), "trying is not enough: {records:?}");
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_whose_annotation_is_edited_never_runs_until_it_is_mended() -> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "edited").await?;
    let (outside, address) = owner(&cluster, &namespace).await?;

    // It has a node and an address of its own, but starts only when its volume is
    // there: time enough to edit it.
    let mut pod = pod_on("node-2", "edited", &json!({}));
    pod["spec"]["volumes"] = json!([{ "name": "later", "configMap": { "name": "later" } }]);
    pod["spec"]["containers"][0]["volumeMounts"] =
        json!([{ "name": "later", "mountPath": "/later" }]);
    namespace.apply(&pod.to_string())?;
    let pods: Api<Pod> = namespace.api();
    let bound = wait::until("the pod is bound", LIMIT, async || {
        let pod = pods.get("edited").await?;
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
        Ok(node.is_some().then_some(pod))
    })
    .await?;
    let own = ip(&bound)?;
    let edit = async |annotation: Value| {
        let patch = json!({ "metadata": { "annotations": annotation } });
        let params = PatchParams::default();
        pods.patch("edited", &params, &Patch::Merge(patch)).await
    };
    edit(claim(&address)).await?;
    namespace.kubectl(&["create", "configmap", "later"])?;
    told(&namespace, "edited", "AddressOfAnotherPod", &address).await?;
    never_runs(&namespace, "edited", "AddressOfAnotherPod").await?;
    answers(&outside, "owner", &address)?;

    edit(json!({ ARGS: bound.annotations()[ARGS] })).await?;
    let mended = addresses(&namespace, "app=edited", 1).await?;
    assert_eq!(mended["edited"], own);
    answers(&outside, "edited", &own)?;
    answers(&outside, "owner", &address)
}
