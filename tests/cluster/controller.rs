//! floe-controller as an administrator meets it: pods that lead, follow and tell.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use floe_testbed::cluster::namespace::is_ready;
use floe_testbed::cluster::{Cluster, shared, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, ListParams};

use crate::LIMIT;
use crate::http::{get_path, pod_ip};

async fn controllers(cluster: &Cluster) -> Result<Vec<Pod>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let selected = ListParams::default().labels(floe::CONTROLLER);
    Ok(pods.list(&selected).await?.items)
}

/// Waits until both controllers are ready.
async fn both_ready(cluster: &Cluster) -> Result<Vec<Pod>> {
    wait::until("both controllers are ready", LIMIT, async || {
        let pods = controllers(cluster).await?;
        Ok((pods.len() == 2 && pods.iter().all(is_ready)).then_some(pods))
    })
    .await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn two_controllers_are_ready_one_leads_and_another_takes_over_when_it_goes() -> Result<()> {
    let cluster = shared::alone().await;
    floe::install(&cluster)?;
    let pods = both_ready(&cluster).await?;
    let leader = floe::leader(&cluster, LIMIT).await?;

    // Both tell their version and that they are well, whoever leads.
    let outside = cluster.outside().await?;
    for pod in &pods {
        let address = SocketAddr::new(pod_ip(pod)?, 8080);
        let version = get_path(&outside, address, "/version")?;
        assert!(version.contains(env!("CARGO_PKG_VERSION")), "{version}");
        assert!(get_path(&outside, address, "/healthz")?.starts_with("HTTP/1.0 200"));
    }

    let api: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    api.delete(&leader, &DeleteParams::default()).await?;
    let successor = floe::leader(&cluster, LIMIT).await?;
    assert_ne!(successor, leader);
    both_ready(&cluster).await?;
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn controllers_without_api_server_are_not_ready_do_not_restart_and_recover() -> Result<()> {
    let cluster = shared::alone().await;
    floe::install(&cluster)?;
    let pods = both_ready(&cluster).await?;
    let outside = cluster.outside().await?;
    let first = SocketAddr::new(pod_ip(&pods[0])?, 8080);

    cluster.stop_api_server().await?;
    // Lease and API server are lost within a few seconds of each other; what
    // counts is that it ends by naming the cause.
    let told = wait::until("it says that the API server is lost", LIMIT, async || {
        let answer = get_path(&outside, first, "/readyz")?;
        let named = answer.contains("ApiServerUnreachable");
        Ok((answer.starts_with("HTTP/1.0 503") && named).then_some(()))
    })
    .await;
    cluster.start_api_server().await?;
    told?;

    // Asked directly: what the API server says of them is from before its stop.
    for pod in &pods {
        let address = SocketAddr::new(pod_ip(pod)?, 8080);
        wait::until("it is ready again", LIMIT, async || {
            let answer = get_path(&outside, address, "/readyz")?;
            Ok(answer.starts_with("HTTP/1.0 200").then_some(()))
        })
        .await?;
    }
    let after = both_ready(&cluster).await?;
    floe::leader(&cluster, LIMIT).await?;
    for pod in after {
        let same = pods
            .iter()
            .any(|before| before.metadata.uid == pod.metadata.uid);
        assert!(same, "it was replaced instead of waited for");
        let statuses = pod.status.and_then(|status| status.container_statuses);
        let restarts: i32 = statuses
            .context("it runs")?
            .iter()
            .map(|c| c.restart_count)
            .sum();
        assert_eq!(restarts, 0, "it waits for the API server instead of ending");
    }
    Ok(())
}
