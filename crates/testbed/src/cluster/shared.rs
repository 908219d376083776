//! One cluster for all tests of a program.
//!
//! Bringing a cluster up takes longer than most tests, so tests share one.
//! Tests that break something everybody uses ask for it alone. Whatever such a
//! test broke and did not mend, because it failed first, is mended for the next.

use anyhow::Result;
use tokio::sync::{OnceCell, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::spec::ClusterSpec;
use super::wait::SETTLED;
use super::{Cluster, wait};
use crate::supervisor::nodes_are_ready;

/// Names a running cluster that tests shall use instead of an own one, if it has
/// as many nodes as they need.
pub const REUSE: &str = "FLOE_TESTBED_CLUSTER";

/// The name for the cluster that a test program brings up, in place of its usual one. Two
/// programs then test on clusters of the same kind at the same time.
pub const NAME: &str = "FLOE_TESTBED_NAME";

/// The name of the cluster that tests bring up for themselves.
pub const SHARED_NAME: &str = "tests";

static CLUSTER: Shared = Shared::new(|| ClusterSpec::new(SHARED_NAME));

/// The shared cluster, beside other tests.
///
/// # Panics
/// When it cannot be brought up: no test can go on then.
pub async fn together() -> RwLockReadGuard<'static, Cluster> {
    CLUSTER.together().await
}

/// The shared cluster, with no other test beside.
///
/// # Panics
/// When it cannot be brought up: no test can go on then.
pub async fn alone() -> RwLockWriteGuard<'static, Cluster> {
    CLUSTER.alone().await
}

/// A cluster that comes up with the first test that asks for it. A program may
/// have several, of different names.
pub struct Shared {
    spec: fn() -> ClusterSpec,
    cluster: OnceCell<RwLock<Cluster>>,
}

impl Shared {
    /// A cluster of that form.
    pub const fn new(spec: fn() -> ClusterSpec) -> Self {
        Self {
            spec,
            cluster: OnceCell::const_new(),
        }
    }

    /// The cluster, beside other tests.
    ///
    /// # Panics
    /// When it cannot be brought up: no test can go on then.
    pub async fn together(&self) -> RwLockReadGuard<'_, Cluster> {
        let shared = self.get().await;
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

    /// The cluster, with no other test beside.
    ///
    /// # Panics
    /// When it cannot be brought up: no test can go on then.
    pub async fn alone(&self) -> RwLockWriteGuard<'_, Cluster> {
        let cluster = self.get().await.write().await;
        if !is_whole(&cluster).await {
            mend(&cluster).await;
        }
        cluster
    }

    async fn get(&self) -> &RwLock<Cluster> {
        let up = async || {
            let mut spec = (self.spec)();
            if let Ok(name) = std::env::var(NAME) {
                spec.name = name;
            }
            let cluster = match reused(&spec).await {
                Ok(None) => Cluster::up(&spec),
                Ok(Some(running)) => Ok(running),
                Err(error) => Err(error),
            };
            RwLock::new(cluster.unwrap_or_else(|error| panic!("no cluster to test on: {error:#}")))
        };
        self.cluster.get_or_init(up).await
    }
}

/// The running cluster that shall be used, if it is large enough.
async fn reused(spec: &ClusterSpec) -> Result<Option<Cluster>> {
    let Ok(name) = std::env::var(REUSE) else {
        return Ok(None);
    };
    let Some(running) = Cluster::attach(&name).await? else {
        anyhow::bail!("{REUSE} names {name}, which is not running");
    };
    let found = running.status().await?.spec;
    let enough = found.nodes >= spec.nodes && found.fake_nodes >= spec.fake_nodes;
    Ok(enough.then_some(running))
}

async fn is_whole(cluster: &Cluster) -> bool {
    let (Ok(status), Ok(client)) = (cluster.status().await, cluster.client().await) else {
        return false;
    };
    !status.is_broken && matches!(nodes_are_ready(&client, all(&status.spec)).await, Ok(true))
}

async fn mend(cluster: &Cluster) {
    let healed = async {
        cluster.heal().await?;
        let client = cluster.client().await?;
        let nodes = all(&cluster.status().await?.spec);
        wait::until("the cluster is whole again", SETTLED, async || {
            Ok(nodes_are_ready(&client, nodes).await?.then_some(()))
        })
        .await
    };
    if let Err(error) = healed.await {
        panic!("the shared cluster cannot be mended: {error:#}");
    }
}

/// All nodes of a cluster, fake ones included.
fn all(spec: &ClusterSpec) -> usize {
    usize::from(spec.nodes) + usize::try_from(spec.fake_nodes).unwrap_or(usize::MAX)
}
