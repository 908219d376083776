//! A pool of a cloud where agents run and floe has its own account: what it buys and gives
//! back, what a name says, and that a node without power is missed although nobody calls it
//! not ready.

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::FloatingIPPool;
use floe_api::flipop::records::NodeDNSRecordSet;
use floe_providers::fake::digitalocean::FakeDigitalOcean;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::agent;
use floe_testbed::supervisor::addresses::CONTROL_PLANE;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::Api;
use serde_json::json;

use super::ground::{NODES_OF_PODS, alone, leading_node};
use super::standstill::{Frozen, process};
use crate::LIMIT;
use crate::nodepools::ground::{A, B, CLOUD, REGION, ZONE, enlist, furnish, places, said};

/// What lets controllers in that were told nothing else.
const TOKEN: &str = "fake";

/// The program that calls silent nodes not ready, as the kernel shortens its name.
const JUDGE: &str = "kube-controller";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_clouds_address_leaves_a_node_without_power_before_anybody_calls_it_not_ready()
-> Result<()> {
    let cluster = alone().await?;
    let listener = cluster.outside().await?.network()?.listen(CLOUD.parse()?)?;
    let cloud = FakeDigitalOcean::start_on(listener, TOKEN, |it| it)?;
    furnish(&cloud)?;
    let namespace = TestNamespace::create(&cluster, "clouds").await?;
    // Whoever decides goes on to do so.
    let leading = leading_node(&cluster).await?;
    let nodes: Vec<&str> = NODES_OF_PODS
        .into_iter()
        .filter(|node| *node != leading)
        .collect();
    let label = format!("cloud={}", namespace.name());
    for node in &nodes {
        enlist(&cluster, node).await?;
        namespace.kubectl(&["label", "--overwrite", "node", node, &label])?;
    }
    namespace.apply(&objects(&label))?;
    let [first, second] = nodes[..] else {
        anyhow::bail!("all but one of three nodes are {nodes:?}");
    };
    let bought = is_on(&cloud, first).await?;
    let pool = wait::until("the pool lists what it has bought", LIMIT, async || {
        let pool = namespace.api::<FloatingIPPool>().get("edge").await?;
        Ok((pool.spec.ips == [bought.to_string()]).then_some(pool))
    })
    .await?;
    ensure!(pool.is_held(), "nothing holds the pool");
    for (name, count) in [("edge", 1), ("nodes", 2)] {
        wait::until(&format!("{name} is in DNS"), LIMIT, async || {
            let said = said(&cloud, name);
            ensure!(said.len() == count, "it says {said:?}");
            Ok(Some(()))
        })
        .await?;
    }
    wait::until("the record set says so", LIMIT, async || {
        let set = namespace.api::<NodeDNSRecordSet>().get("nodes").await?;
        let status = set.status.context("it says nothing")?;
        ensure!(status.records == 2, "{status:?}");
        Ok(Some(()))
    })
    .await?;
    // Only who has an address speaks, and has been heard to.
    let silent = renewed(&cluster, second).await?;
    ensure!(silent.is_none(), "{second} renews a lease for nothing");
    for _ in 0..2 {
        let last = renewed(&cluster, first).await?;
        wait::until(&format!("{first} is heard"), LIMIT, async || {
            Ok((renewed(&cluster, first).await? > last).then_some(()))
        })
        .await?;
    }

    // Nobody changes the condition of a node from now on.
    let judge = Frozen::new(process(&cluster, CONTROL_PLANE, JUDGE).await?)?;
    cluster.power_off(first).await?;
    ensure!(is_on(&cloud, second).await? == bought, "another address");
    ensure!(
        is_ready(&cluster, first).await?,
        "somebody has called it so"
    );
    drop(judge);
    cluster.power_on(first).await?;
    cluster.wait_for_node(first, true, LIMIT).await?;
    agent::wait_until_ready(&cluster)?;

    // It goes back to where it was bought, and its name with it.
    namespace.kubectl(&["delete", "floatingippool", "edge", "--timeout=60s"])?;
    let left: Vec<IpAddr> = places(&cloud).into_keys().collect();
    ensure!(
        left == [A.parse::<IpAddr>()?, B.parse()?],
        "the account has {left:?}"
    );
    ensure!(said(&cloud, "edge").is_empty(), "its name is left");
    namespace.kubectl(&["delete", "nodedns", "nodes"])?;
    for node in nodes {
        namespace.kubectl(&["label", "node", node, "cloud-"])?;
    }
    Ok(())
}

/// A pool that buys an address, and a name for all nodes that could have it.
fn objects(label: &str) -> String {
    let version = "flipop.digitalocean.com/v1alpha1";
    let pool = json!({
        "apiVersion": version, "kind": "FloatingIPPool", "metadata": { "name": "edge" },
        "spec": {
            "provider": "fake", "region": REGION, "desiredIPs": 1, "reclaimPolicy": "Delete",
            "match": { "nodeLabel": label },
            "dnsRecordSet": { "zone": ZONE, "recordName": "edge", "ttl": 60 },
        },
    });
    let names = json!({
        "apiVersion": version, "kind": "NodeDNSRecordSet", "metadata": { "name": "nodes" },
        "spec": {
            "match": { "nodeLabel": label }, "addressType": "InternalIP",
            "dnsRecordSet": { "provider": "fake", "zone": ZONE, "recordName": "nodes" },
        },
    });
    format!("{pool}\n---\n{names}")
}

/// Waits until the cloud has one address on a node, and none on others.
async fn is_on(cloud: &FakeDigitalOcean, node: &str) -> Result<IpAddr> {
    wait::until(&format!("{node} has an address"), LIMIT, async || {
        let used = places(cloud).into_iter();
        let used: BTreeMap<IpAddr, String> =
            used.filter_map(|(ip, node)| Some((ip, node?))).collect();
        let mut on = used.iter();
        let (Some((ip, its)), None) = (on.next(), on.next()) else {
            anyhow::bail!("the cloud has {used:?}");
        };
        ensure!(its == node, "the cloud has {used:?}");
        Ok(Some(*ip))
    })
    .await
}

/// When the agent of a node was last heard for having an address.
async fn renewed(cluster: &Cluster, node: &str) -> Result<Option<MicroTime>> {
    let leases: Api<Lease> = Api::namespaced(cluster.client().await?, "kube-system");
    let lease = leases.get_opt(&format!("floe-node-{node}")).await?;
    Ok(lease.and_then(|it| it.spec?.renew_time))
}

async fn is_ready(cluster: &Cluster, node: &str) -> Result<bool> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let status = nodes.get(node).await?.status;
    let mut conditions = status.and_then(|it| it.conditions).into_iter().flatten();
    let ready = conditions.find(|it| it.type_ == "Ready");
    Ok(ready.is_some_and(|it| it.status == "True"))
}
