//! etcd goes back to an old snapshot, while the controllers run on.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams, LogParams, Patch, PatchParams};
use serde_json::json;

use super::ground;
use crate::LIMIT;
use crate::holdings::{ARGS, POLICY, addresses, api, records, records_of, set, told};
use crate::http::{get_path, pod_ip};
use crate::racks;

/// Two pods that run with these at the time of the snapshot, and have no record yet.
const LOST: [(&str, &str); 2] = [("lost-1", "10.0.70.40"), ("lost-2", "10.0.70.41")];

/// The processes of the controllers, as the machine sees them.
async fn processes(cluster: &Cluster) -> Result<BTreeSet<i32>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let controllers = ListParams::default().labels(floe::CONTROLLER);
    let listed = pods.list(&controllers).await?.items;
    let processes = listed
        .iter()
        .map(|pod| cluster.process_in_pod(pod, "floe-controller"));
    processes.collect()
}

/// Waits until all controllers count as many addresses in use as there are records.
async fn books_are_true(cluster: &Cluster) -> Result<()> {
    const COUNTER: &str =
        r#"galaxy_ip_counter{type="allocated",subnet="10.0.70.0/24",first_ip="10.0.70.2"} "#;
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let controllers = ListParams::default().labels(floe::CONTROLLER);
    let outside = cluster.outside().await?;
    wait::until("the books are true", LIMIT, async || {
        let records = records(cluster, "").await?;
        for pod in pods.list(&controllers).await?.items {
            let metrics = get_path(&outside, SocketAddr::new(pod_ip(&pod)?, 8080), "/metrics")?;
            let counted = metrics.lines().find_map(|line| line.strip_prefix(COUNTER));
            let counted = counted.context("no counter")?.trim_end_matches(".0");
            let counted: usize = counted.parse()?;
            ensure!(
                counted == records.len(),
                "{} counts {counted}, these are recorded: {records:#?}",
                pod.name_any()
            );
        }
        Ok(Some(()))
    })
    .await
}

/// A snapshot is some hours old when it is needed: the server has counted on by much
/// more than the first writes after a restore.
async fn time_passes(namespace: &TestNamespace<'_>, pod: &str, ip: &str) -> Result<()> {
    let pods: Api<Pod> = namespace.api();
    let records = api(namespace.cluster().client().await?);
    let params = PatchParams::default();
    for number in 0..500 {
        let note = json!({ "metadata": { "annotations": { "count": number.to_string() } } });
        pods.patch(pod, &params, &Patch::Merge(&note)).await?;
        records.patch(ip, &params, &Patch::Merge(&note)).await?;
    }
    Ok(())
}

/// Waits until the log of each controller says that the server went back.
async fn every_controller_noticed(cluster: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let controllers = ListParams::default().labels(floe::CONTROLLER);
    for pod in pods.list(&controllers).await?.items {
        let name = pod.name_any();
        wait::until(&format!("{name} notices"), LIMIT, async || {
            let log = pods.logs(&name, &LogParams::default()).await?;
            Ok(log.contains("ServerWentBack").then_some(()))
        })
        .await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn when_etcd_goes_back_running_pods_have_their_records_again_before_others_get_an_address()
-> Result<()> {
    let cluster = ground::alone().await;
    ground::prepare(&cluster).await?;
    let namespace = TestNamespace::create(&cluster, "went-back").await?;
    let never = json!({ POLICY: "never" });
    namespace.apply(&racks::workload("StatefulSet", "old", 2, &never).to_string())?;
    let old = addresses(&namespace, "app=old", 2).await?;

    // The controllers sleep, so that the snapshot has the pods without their records.
    cluster.pause("node-1").await?;
    for (name, ip) in LOST {
        ground::runs(&namespace, name, ip).await?;
    }
    let known = records_of(&namespace).await?;
    assert_eq!(known.len(), old.len(), "{known:?}");
    cluster.save_etcd("old").await?;
    cluster.resume("node-1").await?;
    for (name, ip) in LOST {
        ground::is_recorded(&namespace, name, ip).await?;
    }
    namespace.apply(&racks::workload("Deployment", "later", 2, &never).to_string())?;
    let later = addresses(&namespace, "app=later", 2).await?;
    books_are_true(&cluster).await?;
    time_passes(&namespace, "old-0", &old["old-0"]).await?;
    let before = processes(&cluster).await?;
    assert_eq!(before.len(), 2, "two controllers");

    cluster.restore_etcd("old").await?;
    // Those of pods that never were are free again, those of the running pods are not.
    let free: Vec<String> = set(&later).into_iter().collect();
    let lost = LOST.map(|(_, ip)| ip.to_owned());
    let ask = |name: &str, ranges: &[String]| {
        let args = json!({ "request_ip_range": [ranges] }).to_string();
        namespace.apply(&racks::pod(name, &json!({ ARGS: args })).to_string())
    };
    ask("too-late", &lost)?;
    ask("newcomer", &[&lost[..], &free[..1]].concat())?;
    let got = addresses(&namespace, "app=newcomer", 1).await?;
    assert_eq!(got["newcomer"], free[0], "the only one that is free");

    // The newcomer has it, so the others must have theirs: nobody waits for them.
    let now = records_of(&namespace).await?;
    for (name, ip) in LOST {
        let key = now.get(ip).map(|record| record.key.clone());
        let has = key
            .as_ref()
            .is_some_and(|key| key.ends_with(&format!("_{name}")));
        assert!(has, "{ip} of {name} is {key:?}'s");
        ground::is_recorded(&namespace, name, ip).await?;
    }
    assert_eq!(addresses(&namespace, "app=old", 2).await?, old);
    told(&namespace, "too-late", "FailedScheduling", "").await?;
    let found = namespace.api::<Pod>().get("too-late").await?;
    let node = found.spec.and_then(|spec| spec.node_name);
    assert_eq!(node, None, "it was bound with an address of another");

    wait::until("nobody has what never was", LIMIT, async || {
        let held = records(&cluster, "_later_").await?;
        ensure!(held.is_empty(), "held: {held:?}");
        Ok(Some(()))
    })
    .await?;
    books_are_true(&cluster).await?;
    assert_eq!(processes(&cluster).await?, before, "they ran all the time");
    every_controller_noticed(&cluster).await
}
