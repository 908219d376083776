//! Addresses that floe buys, and gives back.

use std::net::IpAddr;

use anyhow::{Context, Result, ensure};
use floe_api::flipop::pool::FloatingIPPool;
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::wait;

use super::ground::{A, B, ZONE, ground, is_ready, pool};
use crate::LIMIT;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_was_bought_stands_in_the_pool_and_is_given_back_with_it() -> Result<()> {
    let ground = ground().await?;
    let namespace = TestNamespace::create(&ground.cluster, "buying").await?;
    for node in ["node-1", "node-2"] {
        ground.label(node, Some(namespace.name()))?;
    }
    let mut ingress = pool(&namespace);
    ingress["spec"]["ips"] = serde_json::json!([A]);
    ingress["spec"]["desiredIPs"] = 2.into();
    ingress["spec"]["reclaimPolicy"] = "Delete".into();
    namespace.apply(&ingress.to_string())?;
    let pool = is_ready(&namespace, "True", "Served").await?;
    let [first, bought] = &pool.spec.ips[..] else {
        anyhow::bail!("the pool has {:?}", pool.spec.ips);
    };
    ensure!(
        first == A && bought != B,
        "the pool has {:?}",
        pool.spec.ips
    );
    let bought: IpAddr = bought.parse()?;
    let places = ground.places();
    ensure!(places.len() == 3 && places[&bought].is_some(), "{places:?}");
    ensure!(pool.is_held(), "nothing holds the pool");
    ground.says("www", &[A, &bought.to_string()]).await?;
    ensure!(pool.status.context("it has one")?.memory.purchase.is_none());

    // What somebody else has bought is not floe's to give back.
    namespace.kubectl(&["delete", "floatingippool", "ingress", "--timeout=60s"])?;
    wait::until("the pool is gone", LIMIT, async || {
        let left = namespace.api::<FloatingIPPool>().get_opt("ingress").await?;
        Ok(left.is_none().then_some(()))
    })
    .await?;
    let left: Vec<IpAddr> = ground.places().into_keys().collect();
    ensure!(
        left == [A.parse::<IpAddr>()?, B.parse()?],
        "the account has {left:?}"
    );
    let projects = ground.cloud.look(|state| state.projects.len());
    ensure!(projects == 1, "{projects} projects are left");
    // Nobody is led to an address that may be somebody else's by now.
    let records = ground.cloud.look(|state| state.domains[ZONE].clone());
    ensure!(records.is_empty(), "the zone has {records:?}");
    Ok(())
}
