//! Pods and nodes of a cluster, seen from outside of Kubernetes.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::Api;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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
        // The first one holds the pod's namespaces; others may be those of a probe, which are
        // gone in a moment.
        let anchor = processes_of(pod)?
            .filter_map(|pid| Some((begun(pid)?, pid)))
            .min()
            .map(|(_, pid)| pid)
            .with_context(|| format!("pod {name} has no process on this machine"))?;
        Ok(HostRef { name, anchor })
    }

    /// Kills a program inside a running pod, without warning; its node starts the
    /// container again.
    pub fn kill_in_pod(&self, pod: &Pod, program: &str) -> Result<()> {
        kill(
            Pid::from_raw(self.process_in_pod(pod, program)?),
            Signal::SIGKILL,
        )?;
        Ok(())
    }

    /// The process of a program inside a running pod, as the machine sees it.
    pub fn process_in_pod(&self, pod: &Pod, program: &str) -> Result<i32> {
        let is_it = |pid: &i32| {
            fs::read_to_string(format!("/proc/{pid}/comm"))
                // The kernel keeps fifteen letters of a name.
                .is_ok_and(|name| program.get(..15).unwrap_or(program) == name.trim_end())
        };
        processes_of(pod)?
            .find(is_it)
            .with_context(|| format!("{program} does not run in pod {}", pod.name_any()))
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

/// The processes of a pod, as the machine sees them.
fn processes_of(pod: &Pod) -> Result<impl Iterator<Item = i32> + use<>> {
    let uid = pod.uid();
    let uid = uid.with_context(|| format!("pod {} was never created", pod.name_any()))?;
    let group = format!("pod{uid}");
    Ok(processes().filter(move |pid| {
        fs::read_to_string(format!("/proc/{pid}/cgroup")).is_ok_and(|text| text.contains(&group))
    }))
}

/// When a process began, in the ticks of the kernel.
fn begun(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before may have spaces; behind it this is the twentieth word.
    let (_, rest) = stat.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}
