//! The same on a cluster whose scheduler nobody has configured: the webhook puts pods at the
//! gate, and agents give them their addresses.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use super::release::{Release, done};
use super::{BARE, answered};
use crate::LIMIT;
use crate::float_ips::NGINX;
use crate::holdings::{ARGS, addresses, set, told};
use crate::racks;

const RESOURCE: &str = "tke.cloud.tencent.com/eni-ip";
const LABEL: &str = "floe.dev/node-subnet";

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn no_scheduler_is_configured_and_the_documented_deployment_runs_with_addresses() -> Result<()>
{
    let cluster = BARE.alone().await;
    cluster.schedule_with_extender(false).await?;
    let (release, told_at_last) = Release::by_readme(&cluster)?;
    // The sample has its addresses when the last command is done.
    let held = told_at_last
        .matches(" dp_default_nginx-deployment_")
        .count();
    assert_eq!(held, 3, "{told_at_last}");
    sample_goes(&cluster)?;
    let namespace = TestNamespace::create(&cluster, "gated").await?;
    trusted(&namespace).await?;

    // The gate is put on whoever wants an address, and on nobody else.
    let gates = async |pod: &Value| gates_of(&namespace, pod).await;
    let mut pod = racks::pod("draft", &json!({}));
    assert_eq!(gates(&pod).await?, ["floe.dev/ip"]);
    pod["spec"]["schedulingGates"] = json!([{ "name": "others.dev/gate" }]);
    assert_eq!(gates(&pod).await?, ["others.dev/gate", "floe.dev/ip"]);
    let mut bound = racks::pod("draft", &json!({}));
    bound["spec"]["nodeName"] = json!("node-1");
    assert!(gates(&bound).await?.is_empty());
    let mut plain = racks::pod("plain", &json!({}));
    plain["spec"]["containers"][0]["resources"] = json!({});
    assert!(gates(&plain).await?.is_empty());
    namespace.apply(&plain.to_string())?;

    // What can never work is told at once.
    let range = json!({ ARGS: r#"{"request_ip_range":[["10.200.0.9~10.200.0.2"]]}"# });
    let bad = racks::workload("Deployment", "bad", 1, &range).to_string();
    let refused = namespace.apply(&bad).err().context("it is accepted")?;
    ensure!(
        format!("{refused:#}").contains("InvalidRange"),
        "{refused:#}"
    );

    // No word of gates is in it.
    namespace.apply(NGINX)?;
    let held = settled(&namespace, 3).await?;
    answered(&cluster, &namespace).await?;
    for pod in held.keys() {
        told(&namespace, pod, "AddressAllocated", "for nodes of").await?;
        told(&namespace, pod, "Scheduled", "Successfully assigned").await?;
    }
    // A new version gets the addresses of the old one.
    namespace.kubectl(&["set", "env", "deployment/nginx-deployment", "VERSION=2"])?;
    let rolled = "--timeout=90s";
    namespace.kubectl(&["rollout", "status", "deployment/nginx-deployment", rolled])?;
    let now = settled(&namespace, 3).await?;
    assert!(now.keys().all(|pod| !held.contains_key(pod)), "{now:?}");
    assert_eq!(set(&now), set(&held));
    answered(&cluster, &namespace).await?;

    // Who wants nothing was left alone.
    let plain = namespace.ready_pods("app=plain", 1, LIMIT).await?.remove(0);
    assert!(!plain.annotations().contains_key(ARGS), "{plain:?}");
    let spec = plain.spec.context("it has one")?;
    assert_eq!((spec.scheduling_gates, spec.affinity), (None, None));

    namespace.kubectl(&["delete", "deployment,pod", "--all"])?;
    namespace.kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=90s"])?;
    release.remove().await?;
    forgotten(&cluster).await?;
    cluster.schedule_with_extender(true).await
}

/// Takes the sample of the README away, with the addresses that it would keep.
fn sample_goes(cluster: &Cluster) -> Result<()> {
    for words in [
        &["delete", "deployment", "nginx-deployment"][..],
        &["wait", "pod", "--all", "--for=delete", "--timeout=90s"],
        &["delete", "floatingips.galaxy.k8s.io", "--all"],
    ] {
        done(cluster.kubectl().args(words))?;
    }
    Ok(())
}

/// The addresses of the sample, when its records say where its pods run, which is told after
/// that.
pub async fn settled(
    namespace: &TestNamespace<'_>,
    count: usize,
) -> Result<BTreeMap<String, String>> {
    wait::until("all have addresses", LIMIT, async || {
        addresses(namespace, "app=nginx", count).await.map(Some)
    })
    .await
}

/// Waits until the API server trusts the webhook: the controllers write whom to trust when they
/// are there.
async fn trusted(namespace: &TestNamespace<'_>) -> Result<()> {
    wait::until("a pod with an address is taken", LIMIT, async || {
        let pod = racks::pod("draft", &json!({}));
        gates_of(namespace, &pod).await.map(Some)
    })
    .await?;
    Ok(())
}

/// The gates that a pod would have.
pub async fn gates_of(namespace: &TestNamespace<'_>, pod: &Value) -> Result<Vec<String>> {
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let pod = serde_json::from_value(pod.clone())?;
    let stored = namespace.api::<Pod>().create(&params, &pod).await?;
    let gates = stored.spec.and_then(|it| it.scheduling_gates);
    Ok(gates
        .unwrap_or_default()
        .into_iter()
        .map(|it| it.name)
        .collect())
}

/// Takes off what floe has put on nodes, as the guide says.
pub async fn forgotten(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let has = |node: &Node| {
        let status = node.status.clone().unwrap_or_default();
        let offers = [status.capacity, status.allocatable];
        let mut offers = offers.into_iter().flatten();
        node.labels().contains_key(LABEL) || offers.any(|it| it.contains_key(RESOURCE))
    };
    let listed = nodes.list(&ListParams::default()).await?.items;
    assert_eq!(listed.iter().filter(|node| has(node)).count(), 3);
    let label = format!("{LABEL}-");
    done(cluster.kubectl().args(["label", "nodes", "--all", &label]))?;
    let path = |of: &str| json!({ "op": "remove", "path": format!("/status/{of}/tke.cloud.tencent.com~1eni-ip") });
    let removal = json!([path("capacity"), path("allocatable")]).to_string();
    for node in &listed {
        let mut kubectl = cluster.kubectl();
        kubectl.args(["patch", "node", &node.name_any(), "--subresource=status"]);
        done(kubectl.args(["--type=json", "--patch", &removal]))?;
    }
    wait::until("nodes are as they were", LIMIT, async || {
        let listed = nodes.list(&ListParams::default()).await?.items;
        Ok((!listed.iter().any(has)).then_some(()))
    })
    .await
}
