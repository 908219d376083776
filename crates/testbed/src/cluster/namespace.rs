//! A Kubernetes namespace for one test.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::{Cluster, wait};

/// A namespace that goes when the test is over.
pub struct TestNamespace<'a> {
    cluster: &'a Cluster,
    client: Client,
    name: String,
}

impl<'a> TestNamespace<'a> {
    /// Creates a namespace whose name starts with `prefix`, ready for pods.
    pub async fn create(cluster: &'a Cluster, prefix: &str) -> Result<Self> {
        let client = cluster.client().await?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = serde_json::from_value(
            json!({ "metadata": { "generateName": format!("{prefix}-") } }),
        )?;
        let name = namespaces
            .create(&PostParams::default(), &namespace)
            .await?
            .name_any();
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), &name);
        wait::until(
            "the namespace has its service account",
            Duration::from_secs(30),
            async || Ok(accounts.get_opt("default").await?),
        )
        .await?;
        Ok(Self {
            cluster,
            client,
            name,
        })
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The cluster it is in.
    pub fn cluster(&self) -> &Cluster {
        self.cluster
    }

    /// Its objects of one kind.
    pub fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>,
        K::DynamicType: Default,
    {
        Api::namespaced(self.client.clone(), &self.name)
    }

    /// Applies a manifest as a person would, with `kubectl apply`.
    pub fn apply(&self, manifest: &str) -> Result<()> {
        self.cluster.apply(manifest, &self.name)
    }

    /// Runs `kubectl` in this namespace and returns what it printed.
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.cluster.kubectl();
        command.args(["--namespace", &self.name]).args(arguments);
        Ok(crate::command::read(&mut command)?)
    }

    /// The pods that a label selects.
    pub async fn pods(&self, selector: &str) -> Result<Vec<Pod>> {
        Ok(self
            .api::<Pod>()
            .list(&ListParams::default().labels(selector))
            .await?
            .items)
    }

    /// Waits until exactly `count` pods of a label are Ready and none is going.
    pub async fn ready_pods(
        &self,
        selector: &str,
        count: usize,
        limit: Duration,
    ) -> Result<Vec<Pod>> {
        wait::until(
            &format!("{count} pods of {selector} are Ready"),
            limit,
            async || {
                let pods = self.pods(selector).await?;
                let ready = pods.iter().filter(|pod| is_ready(pod)).count();
                if pods.len() == count && ready == count {
                    return Ok(Some(pods));
                }
                let seen: Vec<_> = pods.iter().map(describe).collect();
                bail!("seen {}", seen.join(", "))
            },
        )
        .await
    }
}

impl Drop for TestNamespace<'_> {
    fn drop(&mut self) {
        // A failed test has its own story; leftovers end with the cluster.
        let _ = self
            .cluster
            .kubectl()
            .args(["delete", "namespace", &self.name, "--wait=false"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Whether a pod is Ready and stays.
pub fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_deref())
        .unwrap_or_default();
    pod.metadata.deletion_timestamp.is_none()
        && conditions
            .iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

fn describe(pod: &Pod) -> String {
    let status = pod.status.clone().unwrap_or_default();
    let waiting = status
        .container_statuses
        .iter()
        .flatten()
        .find_map(|container| container.state.as_ref()?.waiting.as_ref()?.reason.clone())
        .map(|reason| format!(" ({reason})"))
        .unwrap_or_default();
    let going = if pod.metadata.deletion_timestamp.is_some() {
        ", terminating"
    } else {
        ""
    };
    format!(
        "{} {}{waiting}{going}",
        pod.name_any(),
        status.phase.unwrap_or_default()
    )
}
