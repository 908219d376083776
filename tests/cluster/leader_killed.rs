//! The leader is killed in the middle of its work, three times: every pod ends
//! with exactly one address, and every address with at most one pod.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{POLICY, agrees, ip, records_of};
use crate::racks;

const PODS: usize = 200;

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn two_hundred_pods_have_one_address_each_after_three_kills_of_the_leader() -> Result<()> {
    let cluster = racks::alone().await?;
    let namespace = TestNamespace::create(&cluster, "crowd").await?;
    let mut leader = floe::leader_after(&cluster, floe::HOME, None, LIMIT).await?;
    // Addresses that are kept as spares, and such that are not.
    for (name, policy) in [("kept", "immutable"), ("not-kept", "")] {
        let half = u32::try_from(PODS / 2)?;
        let many = racks::workload("Deployment", name, half, &json!({ POLICY: policy }));
        namespace.apply(&racks::in_rack(many, "crowd").to_string())?;
    }
    // Each kill has to find pods that are bound and pods that are not.
    for kill in 0..3 {
        let enough = PODS * (2 * kill + 1) / 8;
        wait::until(&format!("{enough} pods are bound"), LIMIT, async || {
            Ok((bound(&namespace).await? >= enough).then_some(()))
        })
        .await?;
        floe::kill(&cluster, &leader).await?;
        let done = bound(&namespace).await?;
        ensure!(done < PODS, "kill {kill} came too late: all are bound");
        leader = floe::leader_after(&cluster, floe::HOME, Some(&leader), LIMIT).await?;
    }

    let pods = wait::until("all pods are bound", 2 * LIMIT, async || {
        let pods = pods(&namespace).await?;
        let bound = pods.iter().filter(|pod| has_node(pod)).count();
        ensure!(bound == PODS && pods.len() == PODS, "{bound} are bound");
        Ok(Some(pods))
    })
    .await?;
    // What a killed bind has left behind is found by the next check.
    let what = "every address is of one pod, and every pod has one";
    wait::until(what, LIMIT, async || {
        let records = records_of(&namespace).await?;
        let mut holders = BTreeMap::new();
        for pod in &pods {
            let ip = ip(pod)?;
            agrees(pod, records.get(&ip))?;
            if let Some(other) = holders.insert(ip, pod.name_any()) {
                panic!("{other} and {} have one address", pod.name_any());
            }
        }
        ensure!(records.len() == PODS, "{} are held", records.len());
        Ok(Some(()))
    })
    .await?;
    namespace.kubectl(&["delete", "deployment", "kept", "not-kept"])?;
    crate::holdings::holds(&namespace, 0)
        .await
        .context("all are free again")?;
    floe::wait_until_ready(&cluster)
}

async fn pods(namespace: &TestNamespace<'_>) -> Result<Vec<Pod>> {
    namespace.pods("app in (kept,not-kept)").await
}

/// How many pods have a node.
async fn bound(namespace: &TestNamespace<'_>) -> Result<usize> {
    let pods = pods(namespace).await?;
    Ok(pods.iter().filter(|pod| has_node(pod)).count())
}

fn has_node(pod: &Pod) -> bool {
    pod.spec
        .as_ref()
        .is_some_and(|spec| spec.node_name.is_some())
}
