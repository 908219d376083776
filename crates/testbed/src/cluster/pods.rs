//! Pods and nodes of a cluster, seen from outside of Kubernetes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::Api;

use super::{Cluster, wait};
use crate::host::HostRef;
use crate::supervisor::is_ready;

impl Cluster {
    /// The network of a running pod, addressed like a host.
    ///
    /// Only its network can be entered with the machine's tools; for a process
    /// inside use `kubectl exec`.
    pub fn pod_network(&self, pod: &Pod) -> Result<HostRef> {
        let name = pod.name_any();
        let uid = pod
            .uid()
            .with_context(|| format!("pod {name} was never created"))?;
        let group = format!("pod{uid}");
        let anchor = processes()
            .find(|pid| {
                fs::read_to_string(format!("/proc/{pid}/cgroup"))
                    .is_ok_and(|text| text.contains(&group))
            })
            .with_context(|| format!("pod {name} has no process on this machine"))?;
        Ok(HostRef { name, anchor })
    }

    /// Waits until a node is Ready, or is not.
    pub async fn wait_for_node(&self, node: &str, ready: bool, limit: Duration) -> Result<()> {
        let nodes: Api<Node> = Api::all(self.client().await?);
        let wanted = if ready { "Ready" } else { "not Ready" };
        wait::until(&format!("node {node} is {wanted}"), limit, async || {
            let found = nodes.get(node).await?;
            Ok((is_ready(&found) == ready).then_some(()))
        })
        .await
    }
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
