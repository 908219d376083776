//! Float IPs with a scheduler that has never heard of floe: pods wait at a scheduling gate
//! until they have their addresses.
//!
//! The cluster is one of its own: its scheduler has no extender, and its fake nodes stand
//! in racks with node subnets and addresses of their own. The gate is written in the
//! manifests, as the webhook would add it; `behind` has tests with the webhook, and `cloud`
//! those on the real node, with an agent.
//!
//! | rack | nodes | node subnet | float IPs |
//! | --- | --- | --- | --- |
//! | left | fake-1, fake-2 | 10.30.0.0/24 | 10.0.80.2~10.0.80.60 |
//! | right | fake-3, fake-4 | 10.31.0.0/24 | 10.0.81.2~10.0.81.60 |
//! | scarce | fake-5 | 10.32.0.0/24 | 10.0.82.2 alone |

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use floe_testbed::supervisor::fake_nodes;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLockWriteGuard};

use crate::LIMIT;
use crate::holdings::{POLICY, agrees, holds, ip, records_of, told};

mod behind;
mod cloud;

const RACK: &str = "floe.dev/rack";
const RESOURCE: &str = "tke.cloud.tencent.com/eni-ip";
const LABEL: &str = "floe.dev/node-subnet";

/// Rack, its nodes, the network of their addresses, and its float IPs.
const RACKS: [(&str, &[u32], &str, &str, &str); 3] = [
    (
        "left",
        &[1, 2],
        "10.30.0",
        "10.0.80",
        "10.0.80.2~10.0.80.60",
    ),
    (
        "right",
        &[3, 4],
        "10.31.0",
        "10.0.81",
        "10.0.81.2~10.0.81.60",
    ),
    ("scarce", &[5], "10.32.0", "10.0.82", "10.0.82.2"),
];

/// A leader that is killed is missed soon, and a pod without a node is given up soon.
const VARIABLES: [(&str, &str); 5] = [
    ("FLOE_SCHEDULING", "gates"),
    ("FLOE_GATES_UNSCHEDULABLE_TIMEOUT", "3s"),
    ("FLOE_LEADER_ELECT_LEASE_DURATION", "6s"),
    ("FLOE_LEADER_ELECT_RENEW_DEADLINE", "4s"),
    ("FLOE_LEADER_ELECT_RETRY_PERIOD", "1s"),
];

static CLUSTER: Shared = Shared::new(|| {
    ClusterSpec::new("gates")
        .nodes(1)
        .fake_nodes(5)
        .without_extender()
});

static READY: OnceCell<()> = OnceCell::const_new();

async fn cluster() -> Result<RwLockWriteGuard<'static, Cluster>> {
    let cluster = CLUSTER.alone().await;
    let set_up = async || {
        stand_in_racks(&cluster).await?;
        cluster.apply(&configuration(&[]).to_string(), floe::NAMESPACE)?;
        floe::install_with(&cluster, &VARIABLES)
    };
    READY.get_or_try_init(set_up).await?;
    Ok(cluster)
}

/// The addresses of all racks, and more.
fn configuration(more: &[Value]) -> Value {
    let entries = RACKS.map(|(_, _, nodes, network, ips)| {
        json!({
            "nodeSubnets": [format!("{nodes}.0/24")], "ips": [ips],
            "subnet": format!("{network}.0/24"), "gateway": format!("{network}.1"),
        })
    });
    let entries = [&entries[..], more].concat();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": json!(entries).to_string() },
    })
}

async fn stand_in_racks(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let params = PatchParams::default();
    for (rack, members, network, ..) in RACKS {
        for number in members {
            let name = fake_nodes::name(*number);
            let label = json!({ "metadata": { "labels": { RACK: rack } } });
            let addresses = json!({ "status": { "addresses": [
                { "type": "InternalIP", "address": format!("{network}.{}", 10 + number) },
            ] } });
            nodes.patch(&name, &params, &Patch::Merge(label)).await?;
            let addresses = Patch::Merge(addresses);
            nodes.patch_status(&name, &params, &addresses).await?;
        }
    }
    Ok(())
}

/// A pod at the gate, in a rack if one is named.
fn pod(name: &str, rack: Option<&str>) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": {
            "schedulingGates": [{ "name": "floe.dev/ip" }],
            "containers": [{
                "name": "nginx", "image": "nginx:1.7.9",
                "resources": { "limits": { RESOURCE: "1" }, "requests": { RESOURCE: "1" } },
            }],
        },
    });
    if let Some(rack) = rack {
        pod["spec"]["nodeSelector"] = json!({ RACK: rack });
    }
    pod
}

/// A Deployment of such pods that keeps its addresses.
fn deployment(name: &str, replicas: usize, rack: Option<&str>) -> Value {
    let mut pod = pod(name, rack);
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": name },
        "spec": {
            "replicas": replicas, "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": {
                    "labels": { "app": name }, "annotations": { POLICY: "immutable" },
                },
                "spec": pod["spec"].take(),
            },
        },
    })
}

/// Whether a pod waits at floe's gate.
pub fn is_gated(pod: &Pod) -> bool {
    let gates = pod
        .spec
        .as_ref()
        .and_then(|it| it.scheduling_gates.as_ref());
    let mut gates = gates.into_iter().flatten();
    gates.any(|gate| gate.name == "floe.dev/ip")
}

/// Waits until so many pods run, each with an address that its node can carry and a
/// record that says so; returns the addresses.
async fn run(namespace: &TestNamespace<'_>, app: &str, count: usize) -> Result<BTreeSet<String>> {
    let what = format!("{count} pods of {app} run with addresses");
    wait::until(&what, 2 * LIMIT, async || {
        let pods = namespace
            .ready_pods(&format!("app={app}"), count, LIMIT)
            .await?;
        let records = records_of(namespace).await?;
        let mut addresses = BTreeSet::new();
        for pod in &pods {
            let ip = ip(pod)?;
            agrees(pod, records.get(&ip)).with_context(|| format!("{ip} of {}", pod.name_any()))?;
            let node = pod.spec.as_ref().and_then(|it| it.node_name.clone());
            let node = node.unwrap_or_default();
            let rack = RACKS
                .iter()
                .find(|(_, members, ..)| members.iter().any(|it| fake_nodes::name(*it) == node));
            let (.., network, _) = rack.with_context(|| format!("{node} is in no rack"))?;
            ensure!(ip.starts_with(&format!("{network}.")), "{ip} on {node}");
            addresses.insert(ip);
        }
        ensure!(addresses.len() == count, "two have one: {addresses:?}");
        Ok(Some(addresses))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn at_the_gate_pods_get_addresses_and_a_plain_scheduler_finds_their_nodes() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates").await?;
    let mut web = deployment("web", 6, None);
    // The API server looks closely at what becomes of terms that are there.
    let racks = json!([{ "key": RACK, "operator": "In", "values": ["left", "right"] }]);
    let one = json!([{ "key": "metadata.name", "operator": "In", "values": ["fake-3"] }]);
    web["spec"]["template"]["spec"]["affinity"] = json!({ "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
            { "matchExpressions": racks }, { "matchFields": one },
        ] },
    } });
    namespace.apply(&web.to_string())?;
    let before = run(&namespace, "web", 6).await?;
    let pods = namespace.pods("app=web").await?;
    for pod in &pods {
        told(
            &namespace,
            &pod.name_any(),
            "Scheduled",
            "Successfully assigned",
        )
        .await?;
        told(
            &namespace,
            &pod.name_any(),
            "AddressAllocated",
            "for nodes of",
        )
        .await?;
    }
    // The next pod gets the address of the one that goes, wherever it lies.
    let gone = pods[0].name_any();
    let params = DeleteParams::default();
    namespace.api::<Pod>().delete(&gone, &params).await?;
    wait::until("the pod is gone", LIMIT, async || {
        let found = namespace.api::<Pod>().get_opt(&gone).await?;
        Ok(found.is_none().then_some(()))
    })
    .await?;
    assert_eq!(run(&namespace, "web", 6).await?, before);
    namespace.kubectl(&["delete", "deployment", "web"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn killing_the_leader_while_thirty_pods_are_at_the_gate_leaves_none_there() -> Result<()> {
    const PODS: usize = 30;
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-kill").await?;
    let leader = floe::leader_after(&cluster, floe::HOME, None, LIMIT).await?;
    // Slow enough for the kill to come in the middle.
    cluster.slow_api_server(Duration::from_millis(50)).await?;
    namespace.apply(&deployment("crowd", PODS, None).to_string())?;
    wait::until("some have records", LIMIT, async || {
        Ok((!records_of(&namespace).await?.is_empty()).then_some(()))
    })
    .await?;
    floe::kill(&cluster, &leader).await?;
    let pods = namespace.pods("app=crowd").await?;
    let waiting = pods.iter().filter(|pod| is_gated(pod)).count();
    ensure!(
        waiting > 0,
        "the kill came too late: all {} are through",
        pods.len()
    );
    cluster.slow_api_server(Duration::ZERO).await?;
    floe::leader_after(&cluster, floe::HOME, Some(&leader), LIMIT).await?;
    run(&namespace, "crowd", PODS).await?;
    let pods = namespace.pods("app=crowd").await?;
    assert!(!pods.iter().any(is_gated));
    holds(&namespace, PODS).await?;
    namespace.kubectl(&["delete", "deployment", "crowd"])?;
    holds(&namespace, 0).await?;
    floe::wait_until_ready(&cluster)
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn who_waits_at_the_gate_says_why_and_goes_on_when_an_address_is_freed() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-wait").await?;
    namespace.apply(&pod("first", Some("scarce")).to_string())?;
    run(&namespace, "first", 1).await?;
    namespace.apply(&pod("second", Some("scarce")).to_string())?;
    let assigned = async |status: &str| {
        wait::until(&format!("its condition is {status}"), LIMIT, async || {
            let pod = namespace.api::<Pod>().get("second").await?;
            let conditions = pod.status.and_then(|it| it.conditions).unwrap_or_default();
            let ours = conditions
                .into_iter()
                .find(|it| it.type_ == "floe.dev/AddressAssigned");
            Ok(ours.filter(|it| it.status == status))
        })
        .await
    };
    let waits = assigned("False").await?;
    assert_eq!(waits.reason.as_deref(), Some("NoAddressLeft"));
    told(&namespace, "second", "NoAddressLeft", "no").await?;
    assert!(is_gated(&namespace.api::<Pod>().get("second").await?));
    let params = DeleteParams::default();
    namespace.api::<Pod>().delete("first", &params).await?;
    run(&namespace, "second", 1).await?;
    assigned("True").await?;
    namespace.api::<Pod>().delete("second", &params).await?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pod_that_fits_on_no_node_is_evicted_and_its_address_is_given_back() -> Result<()> {
    let cluster = cluster().await?;
    let namespace = TestNamespace::create(&cluster, "gates-big").await?;
    let mut big = deployment("big", 1, Some("left"));
    let container = &mut big["spec"]["template"]["spec"]["containers"][0];
    container["resources"]["requests"]["cpu"] = json!("100000");
    container["resources"]["limits"]["cpu"] = json!("100000");
    namespace.apply(&big.to_string())?;
    let first = wait::until("it has an address and no node", LIMIT, async || {
        let pods = namespace.pods("app=big").await?;
        Ok(pods.into_iter().find(|pod| !is_gated(pod)))
    })
    .await?;
    told(
        &namespace,
        &first.name_any(),
        "UnschedulableWithAddress",
        "has had room",
    )
    .await?;
    wait::until("another pod has come", LIMIT, async || {
        let pods = namespace.pods("app=big").await?;
        let gone = pods.iter().all(|pod| pod.uid() != first.uid());
        Ok((gone && !pods.is_empty()).then_some(()))
    })
    .await?;
    namespace.kubectl(&["delete", "deployment", "big"])?;
    holds(&namespace, 0).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nodes_show_their_subnet_and_keep_offering_the_resource() -> Result<()> {
    let cluster = cluster().await?;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let shows = async |name: &str, subnet: &str, amount: &str| {
        let what = format!("{name} shows {subnet} and {amount}");
        wait::until(&what, LIMIT, async || {
            let node = nodes.get(name).await?;
            let status = node.status.clone().unwrap_or_default();
            let amount_of = |all: Option<std::collections::BTreeMap<_, _>>| {
                let quantity: Option<k8s_openapi::apimachinery::pkg::api::resource::Quantity> =
                    all.and_then(|mut all| all.remove(RESOURCE));
                quantity.map(|it| it.0)
            };
            let found = (
                node.labels().get(LABEL).cloned(),
                amount_of(status.capacity),
                amount_of(status.allocatable),
            );
            let wanted = (subnet.to_owned(), amount.to_owned());
            let wanted = (Some(wanted.0), Some(wanted.1.clone()), Some(wanted.1));
            ensure!(found == wanted, "{found:?}");
            Ok(Some(()))
        })
        .await
    };
    shows("fake-1", "10.30.0.0_24", "59").await?;
    shows("fake-5", "10.32.0.0_24", "1").await?;
    // As a kubelet does that starts anew.
    let none = json!({ "status": {
        "capacity": { RESOURCE: "0" }, "allocatable": { RESOURCE: "0" },
    } });
    let params = PatchParams::default();
    let patch = Patch::Merge(none);
    nodes.patch_status("fake-1", &params, &patch).await?;
    let label = json!({ "metadata": { "labels": { LABEL: null } } });
    nodes.patch("fake-1", &params, &Patch::Merge(label)).await?;
    shows("fake-1", "10.30.0.0_24", "59").await
}
