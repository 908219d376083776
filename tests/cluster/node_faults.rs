//! Nodes fail in every way, Kubernetes notices, and the node comes back.

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, shared, wait};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;

use crate::LIMIT;
use crate::http::{get, pod_ip};

/// Three replicas that leave a lost node after three seconds.
const WEB: &str = r"
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 3
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      topologySpreadConstraints:
      - { maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway, labelSelector: { matchLabels: { app: web } } }
      tolerations:
      - { key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 3 }
      - { key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 3 }
      containers: [{ name: web, image: 'nginx:1.7.9' }]
";

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Waits until three pods are Ready, none of them on `lost`.
async fn runs_elsewhere(namespace: &TestNamespace<'_>, lost: &str) -> Result<()> {
    wait::until("all pods run elsewhere", LIMIT, async || {
        let pods = namespace.pods("app=web").await?;
        let elsewhere = pods
            .iter()
            .filter(|pod| {
                floe_testbed::cluster::namespace::is_ready(pod) && node_of(pod) != Some(lost)
            })
            .count();
        Ok((elsewhere == 3).then_some(()))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_powered_off_node_becomes_not_ready_its_pods_run_elsewhere_and_it_comes_back()
-> Result<()> {
    let cluster = shared::alone().await;
    let namespace = TestNamespace::create(&cluster, "power").await?;
    namespace.apply(WEB)?;
    let pods = namespace.ready_pods("app=web", 3, LIMIT).await?;
    let victim = pods
        .iter()
        .find(|pod| node_of(pod) == Some("node-3"))
        .context("no pod on node-3")?;
    let address = std::net::SocketAddr::new(pod_ip(victim)?, 80);
    let outside = cluster.outside().await?;
    get(&outside, address)?;

    cluster.power_off("node-3").await?;
    assert!(
        cluster.power_off("node-3").await.is_err(),
        "it is off already"
    );
    assert!(
        get(&outside, address).is_err(),
        "nothing of the node answers"
    );
    cluster.wait_for_node("node-3", false, LIMIT).await?;
    runs_elsewhere(&namespace, "node-3").await?;

    cluster.power_on("node-3").await?;
    cluster.wait_for_node("node-3", true, LIMIT).await?;
    // Back again, the node lets its replaced pod go, and takes new ones.
    wait::until("the replaced pod is gone", LIMIT, async || {
        Ok(namespace
            .api::<Pod>()
            .get_opt(&victim.name_any())
            .await?
            .is_none()
            .then_some(()))
    })
    .await?;
    namespace.kubectl(&["scale", "deployment", "web", "--replicas=6"])?;
    let pods = namespace.ready_pods("app=web", 6, LIMIT).await?;
    let back = pods
        .iter()
        .find(|pod| node_of(pod) == Some("node-3"))
        .context("nothing runs on node-3")?;
    get(&outside, std::net::SocketAddr::new(pod_ip(back)?, 80))?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_node_without_cable_a_paused_node_and_one_without_kubelet_become_not_ready_and_return()
-> Result<()> {
    let cluster = shared::alone().await;
    let namespace = TestNamespace::create(&cluster, "faults").await?;
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, labels: {app: web}}, spec: {nodeName: node-1, \
               tolerations: [{operator: Exists}], containers: [{name: web, image: 'nginx:1.7.9'}]}}";
    namespace.apply(pod)?;
    let pods = namespace.ready_pods("app=web", 1, LIMIT).await?;
    let address = std::net::SocketAddr::new(pod_ip(&pods[0])?, 80);
    let outside = cluster.outside().await?;

    // All three at once, on a node each: they take as long as one.
    let answers = async |cluster: &Cluster| -> Result<()> {
        wait::until("the pod answers", LIMIT, async || {
            get(&cluster.outside().await?, address).map(Some)
        })
        .await?;
        Ok(())
    };
    answers(&cluster).await?;
    cluster.pull_cable("node-1").await?;
    cluster.pause("node-2").await?;
    cluster.kill("node-3", "kubelet").await?;
    assert!(
        get(&outside, address).is_err(),
        "a node without cable answers nobody"
    );
    for node in ["node-1", "node-2", "node-3"] {
        cluster.wait_for_node(node, false, LIMIT).await?;
    }
    let status = cluster.status().await?;
    let kubelet = status
        .programs
        .iter()
        .find(|program| program.name.to_string() == "node-3/kubelet");
    assert!(
        kubelet.is_some_and(|kubelet| kubelet.ended.is_some()),
        "{status:?}"
    );

    cluster.plug_cable("node-1").await?;
    cluster.resume("node-2").await?;
    cluster.start("node-3", "kubelet").await?;
    for node in ["node-1", "node-2", "node-3"] {
        cluster.wait_for_node(node, true, LIMIT).await?;
    }
    answers(&cluster).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn faults_of_hosts_and_programs_that_do_not_exist_are_refused_by_name() -> Result<()> {
    let cluster = shared::together().await;
    let refusals = [
        (cluster.power_off("node-9").await, "there is no host node-9"),
        (cluster.power_off("outside").await, "outside is no node"),
        (
            cluster.power_on("node-1").await,
            "node-1 is switched on already",
        ),
        (
            cluster.kill("node-1", "kubelette").await,
            "there is no program node-1/kubelette",
        ),
        (
            cluster.start("node-1", "kubelet").await,
            "node-1/kubelet is running already",
        ),
    ];
    for (result, reason) in refusals {
        let error = format!(
            "{:#}",
            result
                .err()
                .with_context(|| format!("expected: {reason}"))?
        );
        assert!(error.contains(reason), "{error}");
    }
    Ok(())
}
