//! One cluster for all tests of a program.
//!
//! Bringing a cluster up takes longer than most tests, so tests share one.
//! Tests that break something everybody uses ask for it alone. Whatever such a
//! test broke and did not mend, because it failed first, is mended for the next.

use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::spec::ClusterSpec;
use super::wait::SETTLED;
use super::{Cluster, wait};
use crate::supervisor::nodes_are_ready;

/// Names a running cluster that tests shall use instead of an own one.
pub const REUSE: &str = "FLOE_TESTBED_CLUSTER";

/// The name of the cluster that tests bring up for themselves.
pub const SHARED_NAME: &str = "tests";

static CLUSTER: OnceCell<RwLock<Cluster>> = OnceCell::const_new();

/// The shared cluster, beside other tests.
///
/// # Panics
/// When it cannot be brought up: no test can go on then.
pub async fn together() -> RwLockReadGuard<'static, Cluster> {
    let shared = shared().await;
    loop {
        let cluster = shared.read().await;
        if is_whole(&cluster).await {
            return cluster;
        }
        drop(cluster);
        // Only somebody alone may mend: others are at work otherwise.
        let alone = shared.write().await;
        if !is_whole(&alone).await {
            mend(&alone).await;
        }
    }
}

/// The shared cluster, with no other test beside.
///
/// # Panics
/// When it cannot be brought up: no test can go on then.
pub async fn alone() -> RwLockWriteGuard<'static, Cluster> {
    let cluster = shared().await.write().await;
    if !is_whole(&cluster).await {
        mend(&cluster).await;
    }
    cluster
}

async fn shared() -> &'static RwLock<Cluster> {
    CLUSTER
        .get_or_init(async || {
            let cluster = match std::env::var(REUSE) {
                Ok(name) => Cluster::attach(&name).await.map(|found| {
                    found.unwrap_or_else(|| panic!("{REUSE} names {name}, which is not running"))
                }),
                Err(_) => Cluster::up(&ClusterSpec::new(SHARED_NAME)),
            };
            RwLock::new(cluster.unwrap_or_else(|error| panic!("no cluster to test on: {error:#}")))
        })
        .await
}

async fn is_whole(cluster: &Cluster) -> bool {
    let (Ok(status), Ok(client)) = (cluster.status().await, cluster.client().await) else {
        return false;
    };
    !status.is_broken
        && matches!(
            nodes_are_ready(&client, usize::from(status.spec.nodes)).await,
            Ok(true)
        )
}

async fn mend(cluster: &Cluster) {
    let healed = async {
        cluster.heal().await?;
        let client = cluster.client().await?;
        let nodes = usize::from(cluster.status().await?.spec.nodes);
        wait::until("the cluster is whole again", SETTLED, async || {
            Ok(nodes_are_ready(&client, nodes).await?.then_some(()))
        })
        .await
    };
    if let Err(error) = healed.await {
        panic!("the shared cluster cannot be mended: {error:#}");
    }
}
