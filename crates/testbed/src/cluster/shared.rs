//! One cluster for all tests of a program.
//!
//! Bringing a cluster up takes longer than most tests, so tests share one.
//! Tests that break something everybody uses ask for it alone.

use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::Cluster;
use super::spec::ClusterSpec;

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
    shared().await.read().await
}

/// The shared cluster, with no other test beside.
///
/// # Panics
/// When it cannot be brought up: no test can go on then.
pub async fn alone() -> RwLockWriteGuard<'static, Cluster> {
    shared().await.write().await
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
