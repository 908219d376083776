//! The API server fails, and everybody survives it.

use std::time::{Duration, Instant};

use anyhow::Result;
use floe_testbed::cluster::control::ProgramStatus;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{shared, wait};
use k8s_openapi::api::core::v1::Node;
use kube::api::Api;

use crate::LIMIT;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn the_api_server_survives_kill_and_restart_and_so_does_everything_in_it() -> Result<()> {
    let cluster = shared::alone().await;
    let namespace = TestNamespace::create(&cluster, "api").await?;
    namespace.kubectl(&["create", "deployment", "web", "--image=nginx:1.7.9"])?;
    let before = namespace.ready_pods("app=web", 1, LIMIT).await?;

    cluster.kill_api_server().await?;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    assert!(nodes.get("node-1").await.is_err(), "nobody answers for it");
    cluster.start_api_server().await?;
    wait::until("the API server answers", LIMIT, async || {
        Ok(Some(nodes.get("node-1").await?))
    })
    .await?;

    // The same pod still runs, and the rest of the control plane works again.
    namespace.kubectl(&["scale", "deployment", "web", "--replicas=2"])?;
    let after = namespace.ready_pods("app=web", 2, LIMIT).await?;
    assert!(
        after
            .iter()
            .any(|pod| pod.metadata.uid == before[0].metadata.uid)
    );
    for node in ["node-1", "node-2", "node-3"] {
        cluster.wait_for_node(node, true, LIMIT).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_node_cut_off_from_the_api_server_becomes_not_ready_and_the_others_do_not() -> Result<()>
{
    let cluster = shared::alone().await;
    cluster.cut_off_from_api_server(Some("node-2")).await?;
    cluster.wait_for_node("node-2", false, LIMIT).await?;
    for node in ["node-1", "node-3"] {
        cluster.wait_for_node(node, true, Duration::ZERO).await?;
    }
    // Only the control plane is out of reach; the node itself is not.
    let outside = cluster.outside().await?;
    outside.network_script("ping -c 1 -W 2 10.200.0.12")?;
    // Cutting all off and mending one leaves the rest cut.
    cluster.cut_off_from_api_server(None).await?;
    cluster.reunite_with_api_server(Some("node-2")).await?;
    cluster.wait_for_node("node-2", true, LIMIT).await?;
    for node in ["node-1", "node-3"] {
        cluster.wait_for_node(node, false, LIMIT).await?;
    }
    cluster.reunite_with_api_server(None).await?;
    for node in ["node-1", "node-3"] {
        cluster.wait_for_node(node, true, LIMIT).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn every_other_program_can_be_killed_and_started_and_pods_start_afterwards() -> Result<()> {
    let cluster = shared::alone().await;
    let programs = [
        ("control-plane", "kube-scheduler"),
        ("control-plane", "kube-controller-manager"),
        ("control-plane", "kube-proxy"),
        ("node-1", "containerd"),
        ("node-1", "kube-proxy"),
    ];
    for (host, program) in programs {
        cluster.kill(host, program).await?;
    }
    let running = cluster.status().await?.programs;
    for (host, program) in programs {
        let name = format!("{host}/{program}");
        let killed = |it: &ProgramStatus| it.name.to_string() == name && it.ended.is_some();
        assert!(running.iter().any(killed), "{name} still runs");
    }
    for (host, program) in programs {
        cluster.start(host, program).await?;
    }
    let namespace = TestNamespace::create(&cluster, "programs").await?;
    namespace.apply(
        "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: web}, spec: {selector: {matchLabels: \
         {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, \
         image: nginx}]}}}}",
    )?;
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_slow_api_server_takes_at_least_as_long_as_it_was_told_to() -> Result<()> {
    let cluster = shared::alone().await;
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    nodes.get("node-1").await?;
    let delay = Duration::from_millis(300);
    cluster.slow_api_server(delay).await?;
    let asked = Instant::now();
    nodes.get("node-1").await?;
    let took = asked.elapsed();
    cluster.slow_api_server(Duration::ZERO).await?;
    // A lower bound only: there and back again.
    assert!(took >= 2 * delay, "{took:?}");
    Ok(())
}
