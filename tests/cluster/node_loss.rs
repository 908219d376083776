//! A node is lost: its pod runs elsewhere with the address it had, but not before
//! it is certain that the old one answers no more.

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{POLICY, addresses, agrees, holds, ip, records_of, told};
use crate::racks;

/// The nodes that are real, which other tests have no addresses for.
const REAL_NODES: &str = r#"{"nodeSubnets":["10.200.0.0/24"],"ips":["10.0.80.2~10.0.80.20"],"subnet":"10.0.80.0/24","gateway":"10.0.80.1"}"#;
const REAL_TOTAL: &str =
    r#"galaxy_ip_counter{type="total",subnet="10.0.80.0/24",first_ip="10.0.80.2"} 19"#;

/// Two pods, on a real node each.
fn database() -> Value {
    let mut db = racks::workload("StatefulSet", "db", 2, &json!({ POLICY: "immutable" }));
    db["spec"]["template"]["spec"]["affinity"] = json!({
        "nodeAffinity": real_nodes(),
        "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [{
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": { "matchLabels": { "app": "db" } },
        }] },
    });
    db
}

/// A Job whose pod ends at once.
fn job() -> Value {
    let mut pod = racks::pod("once", &json!({}));
    pod["spec"]["affinity"] = json!({ "nodeAffinity": real_nodes() });
    pod["spec"]["restartPolicy"] = json!("Never");
    pod["spec"]["containers"][0]["image"] = json!("busybox");
    pod["spec"]["containers"][0]["command"] = json!(["true"]);
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "once" },
        "spec": { "template": { "spec": pod["spec"].take() } },
    })
}

fn real_nodes() -> Value {
    json!({ "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": [
        { "matchExpressions": [{ "key": "floe.dev/fake-node", "operator": "DoesNotExist" }] },
    ] } })
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

/// A pod of the database on a node where no controller leads.
async fn victim(cluster: &Cluster, namespace: &TestNamespace<'_>) -> Result<Pod> {
    let leader = floe::leader(cluster, LIMIT).await?;
    let floes: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let selected = ListParams::default().labels(floe::CONTROLLER);
    let controllers = floes.list(&selected).await?.items;
    let bystanders: Vec<_> = controllers.iter().filter_map(node_of).collect();
    let leads = controllers.iter().find(|pod| pod.name_any() == leader);
    let leads = leads.and_then(node_of).context("the leader has a node")?;
    let mut pods = namespace.pods("app=db").await?;
    pods.retain(|pod| node_of(pod) != Some(leads.clone()));
    pods.sort_by_key(|pod| node_of(pod).is_some_and(|node| bystanders.contains(&node)));
    pods.into_iter().next().context("both are with the leader")
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn an_immutable_pod_of_a_lost_node_runs_elsewhere_with_its_address() -> Result<()> {
    let cluster = racks::alone().await?;
    racks::also_configure(&cluster, REAL_NODES, REAL_TOTAL).await?;
    let namespace = TestNamespace::create(&cluster, "lost").await?;
    namespace.apply(&database().to_string())?;
    let before = addresses(&namespace, "app=db", 2).await?;
    assert!(before.values().all(|ip| ip.starts_with("10.0.80.")));
    a_finished_job_holds_nothing(&namespace, before.len()).await?;

    let victim = victim(&cluster, &namespace).await?;
    let (name, lost) = (victim.name_any(), node_of(&victim).context("it runs")?);
    cluster.power_off(&lost).await?;
    cluster.wait_for_node(&lost, false, LIMIT).await?;
    // Nobody can tell whether the old pod still answers, so nothing moves.
    told(&namespace, &name, "NodeNotReady", "out-of-service").await?;
    agrees(&victim, records_of(&namespace).await?.get(&before[&name]))?;

    // Now somebody can: the node is out of service, and then removed.
    let taint = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute";
    namespace.kubectl(&["taint", "node", &lost, taint])?;
    let moved = wait::until("its pod runs elsewhere", LIMIT, async || {
        let pod = namespace.api::<Pod>().get(&name).await?;
        Ok((is_ready(&pod) && pod.metadata.uid != victim.metadata.uid).then_some(pod))
    })
    .await?;
    namespace.kubectl(&["delete", "node", &lost])?;
    assert_ne!(node_of(&moved), Some(lost.clone()));
    assert_eq!(ip(&moved)?, before[&name], "it is the same address");
    assert_eq!(addresses(&namespace, "app=db", 2).await?, before);

    cluster.heal().await?;
    cluster.wait_for_node(&lost, true, LIMIT).await?;
    assert_eq!(addresses(&namespace, "app=db", 2).await?, before);
    namespace.kubectl(&["delete", "statefulset", "db"])?;
    holds(&namespace, 0).await?;
    floe::wait_until_ready(&cluster)
}

async fn a_finished_job_holds_nothing(namespace: &TestNamespace<'_>, others: usize) -> Result<()> {
    namespace.apply(&job().to_string())?;
    let told_of = wait::until("the job is done", LIMIT, async || {
        let job = namespace.api::<Job>().get("once").await?;
        let done = job.status.and_then(|status| status.succeeded) == Some(1);
        let pods = namespace.pods("job-name=once").await?;
        Ok(pods.into_iter().next().filter(|_| done))
    })
    .await?;
    ensure!(ip(&told_of)?.starts_with("10.0.80."), "it had an address");
    holds(namespace, others).await?;
    Ok(())
}
