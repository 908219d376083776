//! Backup, restore and loss of everything that the API server knows.

use anyhow::Result;

use super::control::{Request, Storage};
use super::wait::{self, SETTLED};
use super::{Cluster, supervisor};

impl Cluster {
    /// Takes a snapshot of etcd, for which it stops for a moment.
    pub async fn save_etcd(&self, snapshot: &str) -> Result<()> {
        self.request(Request::Storage(Storage::Save(snapshot.to_owned())))
            .await?;
        self.wait_for_api_server().await
    }

    /// Has etcd go back to a snapshot. Kubernetes itself is started again, pods run on:
    /// what they have read of the API server is of a future that never was.
    pub async fn restore_etcd(&self, snapshot: &str) -> Result<()> {
        self.replace(Storage::Restore(snapshot.to_owned())).await
    }

    /// Loses everything that etcd has. Nodes come back by themselves, and nothing else;
    /// pods end, because nobody knows them.
    pub async fn lose_etcd(&self) -> Result<()> {
        self.replace(Storage::Lose).await
    }

    async fn replace(&self, change: Storage) -> Result<()> {
        self.request(Request::Storage(change)).await?;
        self.wait_for_api_server().await?;
        self.request(Request::ReadAnew).await
    }

    async fn wait_for_api_server(&self) -> Result<()> {
        let client = self.client().await?;
        wait::until("the API server is ready", SETTLED, async || {
            let is_ready = supervisor::api_server_is_ready(&client).await?;
            Ok(is_ready.then_some(()))
        })
        .await
    }

    /// Waits until all nodes are Ready, fake ones included, and pods can be created.
    pub async fn wait_until_whole(&self) -> Result<()> {
        let client = self.client().await?;
        let spec = self.status().await?.spec;
        let nodes = usize::from(spec.nodes) + usize::try_from(spec.fake_nodes)?;
        wait::until("all nodes are Ready", SETTLED, async || {
            let is_whole = supervisor::nodes_are_ready(&client, nodes).await?
                && supervisor::service_accounts_exist(&client).await?;
            Ok(is_whole.then_some(()))
        })
        .await
    }
}
