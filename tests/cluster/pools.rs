//! Deployments that share the addresses of a pool: a release that replaces blue by
//! green changes no address.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe;
use kube::ResourceExt;
use serde_json::json;

use crate::LIMIT;
use crate::holdings::{POOL, addresses, forget, ip, records, refused, set};
use crate::racks;

/// As printed, without a namespace.
const EXAMPLE_POOL: &str = "
apiVersion: galaxy.k8s.io/v1alpha1
kind: Pool
metadata:
  name: example-pool
size: 4
";

fn deployment(name: &str, replicas: u32, pool: &str) -> String {
    let deployment = racks::workload("Deployment", name, replicas, &json!({ POOL: pool }));
    racks::in_rack(deployment, "document").to_string()
}

/// Blue has all four addresses of a pool, green waits for them, and gets each of
/// them as blue goes.
async fn blue_becomes_green(
    blue: &TestNamespace<'_>,
    green: &TestNamespace<'_>,
    pool: &str,
    reason: &str,
) -> Result<()> {
    let cluster = blue.cluster();
    let key = format!("pool__{pool}_");
    blue.apply(&deployment("blue", 4, pool))?;
    let before = set(&addresses(blue, "app=blue", 4).await?);

    green.apply(&deployment("green", 4, pool))?;
    let waiting = wait::until("green has its pods", LIMIT, async || {
        let pods = green.pods("app=green").await?;
        Ok((pods.len() == 4).then_some(pods))
    })
    .await?;
    let text = format!("reached pool {pool} size limit of 4");
    for pod in &waiting {
        refused(green, &pod.name_any(), reason, &text).await?;
    }

    blue.kubectl(&["scale", "deployment", "blue", "--replicas=3"])?;
    let first = wait::until("one of green runs", LIMIT, async || {
        let pods = green.pods("app=green").await?;
        let ready: Vec<_> = pods.iter().filter(|pod| is_ready(pod)).collect();
        ensure!(ready.len() <= 1, "only one has room");
        ready.first().map(|pod| ip(pod)).transpose()
    })
    .await?;
    assert!(before.contains(&first), "{first} is new");
    used(cluster, &key, &before).await?;

    blue.kubectl(&["scale", "deployment", "blue", "--replicas=0"])?;
    let after = set(&addresses(green, "app=green", 4).await?);
    assert_eq!(after, before, "no address has changed");
    used(cluster, &key, &before).await
}

/// The addresses of a pool are these, in use or spare.
async fn used(cluster: &Cluster, key: &str, wanted: &BTreeSet<String>) -> Result<()> {
    let found = records(cluster, key).await?;
    ensure!(found.values().all(|it| it.policy == 2), "found {found:?}");
    let found: BTreeSet<_> = found.into_keys().collect();
    ensure!(&found == wanted, "the pool has {found:?}");
    Ok(())
}

/// Alone, so that nothing but floe can wake who waits.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn blue_green_with_the_documented_pool_changes_no_address() -> Result<()> {
    let cluster = racks::alone().await?;
    forget(&cluster, "pool__example-pool_").await?;
    let namespace = TestNamespace::create(&cluster, "pool").await?;
    namespace.apply(EXAMPLE_POOL)?;
    let reason = "NamespacePoolLimitReached";
    blue_becomes_green(&namespace, &namespace, "example-pool", reason).await?;
    namespace.kubectl(&["delete", "deployment", "blue", "green"])?;
    gone(&cluster, "pool__example-pool_").await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pool_in_kube_system_limits_deployments_of_all_namespaces_together() -> Result<()> {
    let cluster = racks::together().await?;
    forget(&cluster, "pool__common-pool_").await?;
    let pool = EXAMPLE_POOL.replace("example-pool", "common-pool");
    cluster.apply(&pool, floe::NAMESPACE)?;
    let blue = TestNamespace::create(&cluster, "blue").await?;
    let green = TestNamespace::create(&cluster, "green").await?;
    blue_becomes_green(&blue, &green, "common-pool", "PoolLimitReached").await?;

    // Raising the size makes room for more.
    cluster.apply(&pool.replace("size: 4", "size: 5"), floe::NAMESPACE)?;
    blue.kubectl(&["scale", "deployment", "blue", "--replicas=1"])?;
    addresses(&blue, "app=blue", 1).await?;

    green.kubectl(&["delete", "deployment", "green"])?;
    blue.kubectl(&["delete", "deployment", "blue"])?;
    delete_pool(&green, "common-pool")?;
    gone(&cluster, "pool__common-pool_").await
}

/// Alone, because addresses taken ahead may be those of any rack.
#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_pool_that_is_allocated_ahead_by_kubectl_has_its_addresses_before_its_pods() -> Result<()>
{
    let cluster = racks::alone().await?;
    let key = "pool__ready-pool_";
    forget(&cluster, key).await?;
    let ahead = |size: u32| {
        format!(
            "
apiVersion: galaxy.k8s.io/v1alpha1
kind: Pool
metadata:
  name: ready-pool
size: {size}
preAllocateIP: true
"
        )
    };
    let filled = async |size: usize| {
        wait::until(&format!("{size} addresses are there"), LIMIT, async || {
            let found = records(&cluster, key).await?;
            Ok((found.len() == size).then_some(found))
        })
        .await
    };
    cluster.apply(&ahead(3), floe::NAMESPACE)?;
    let spares = filled(3).await?;
    for record in spares.values() {
        assert_eq!((record.key.as_str(), record.policy), (key, 2));
        assert_eq!(record.state, "Spare");
    }

    let namespace = TestNamespace::create(&cluster, "ahead").await?;
    let web = racks::workload("Deployment", "web", 2, &json!({ POOL: "ready-pool" }));
    namespace.apply(&web.to_string())?;
    let taken = set(&addresses(&namespace, "app=web", 2).await?);
    assert!(taken.iter().all(|ip| spares.contains_key(ip)), "{taken:?}");
    used(&cluster, key, &spares.keys().cloned().collect()).await?;

    cluster.apply(&ahead(5), floe::NAMESPACE)?;
    filled(5).await?;
    // Without the Pool its addresses stay.
    namespace.kubectl(&["delete", "deployment", "web"])?;
    delete_pool(&namespace, "ready-pool")?;
    wait::until("no pod holds one", LIMIT, async || {
        let found = records(&cluster, key).await?;
        Ok(found.values().all(|it| it.key == key).then_some(()))
    })
    .await?;
    assert_eq!(records(&cluster, key).await?.len(), 5);
    forget(&cluster, key).await
}

/// Deletes a Pool that is everybody's.
fn delete_pool(from: &TestNamespace<'_>, name: &str) -> Result<()> {
    from.kubectl(&["delete", "pool", name, "--namespace", floe::NAMESPACE])?;
    Ok(())
}

/// Waits until all of a pool is spare, and frees it.
async fn gone(cluster: &Cluster, key: &str) -> Result<()> {
    wait::until("no pod holds one of the pool", LIMIT, async || {
        let found = records(cluster, key).await?;
        Ok(found.values().all(|it| it.key == key).then_some(()))
    })
    .await?;
    forget(cluster, key).await
}
