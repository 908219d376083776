//! Clusters with floe on every node, each made once and shared by all tests of a kind.

use anyhow::Result;
use floe_testbed::cluster::Cluster;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::floe::{self, agent};
use tokio::sync::{OnceCell, RwLockReadGuard, RwLockWriteGuard};

/// A cluster with floe on every node.
pub struct FloeNodes {
    /// The cluster itself.
    pub cluster: Shared,
    /// Writes the configuration of addresses.
    pub configure: fn(&Cluster) -> Result<()>,
    /// The networks of each node, as `galaxy.json` has them.
    pub networks: &'static str,
    /// Options of the agents.
    pub options: &'static [&'static str],
    /// Variables in the environment of the controllers.
    pub variables: &'static [(&'static str, &'static str)],
    /// Whether floe is there.
    pub ready: OnceCell<()>,
}

impl FloeNodes {
    /// The cluster, beside other tests.
    pub async fn together(&self) -> Result<RwLockReadGuard<'_, Cluster>> {
        let cluster = self.cluster.together().await;
        self.prepare(&cluster).await?;
        Ok(cluster)
    }

    /// The same, with no other test beside.
    pub async fn alone(&self) -> Result<RwLockWriteGuard<'_, Cluster>> {
        let cluster = self.cluster.alone().await;
        self.prepare(&cluster).await?;
        Ok(cluster)
    }

    async fn prepare(&self, cluster: &Cluster) -> Result<()> {
        let set_up = async || {
            (self.configure)(cluster)?;
            floe::install_with(cluster, self.variables)?;
            agent::install_with(cluster, self.networks, self.options)
        };
        self.ready.get_or_try_init(set_up).await?;
        // A test before may have left a node without its agent for a moment.
        agent::wait_until_ready(cluster)
    }
}
