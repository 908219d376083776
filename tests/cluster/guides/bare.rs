//! The cluster of the chart as these guides find it and leave it: without floe and galaxy.

use std::ops::Deref;

use anyhow::{Context, Result};
use floe_testbed::cluster::Cluster;
use floe_testbed::host::sibling_program;
use tokio::sync::RwLockWriteGuard;

use super::administrator;
use crate::chart::BARE;
use crate::cli::terminal::Terminal;
use crate::vips::ground::NODES_OF_PODS as NODES;

/// Workloads first, while there is an agent that takes addresses off.
const WORKLOADS: [&str; 4] = [
    "kubectl uncordon node-1 node-2 node-3",
    "kubectl delete validatingwebhookconfigurations,mutatingwebhookconfigurations \
     -l app.kubernetes.io/part-of=floe",
    "kubectl delete deployments,pods -A -l 'app in (nginx, web)' --timeout=90s",
    // Where there is no such kind, there is nothing to delete.
    "kubectl delete vip,virtualipregisters --all -A --timeout=30s >/dev/null 2>&1 || true",
];

const PROGRAMS: [&str; 11] = [
    "kubectl -n kube-system delete daemonset,serviceaccount galaxy --ignore-not-found",
    "kubectl -n kube-system delete deployment,service,serviceaccount galaxy-ipam --ignore-not-found",
    "kubectl delete clusterrolebinding galaxy galaxy-ipam --ignore-not-found",
    "kubectl delete -f deploy/agent.yaml --ignore-not-found",
    "kubectl delete -f deploy/webhook.yaml -f deploy/webhook-gates.yaml --ignore-not-found",
    "kubectl delete -f deploy/scheduler/service.yaml --ignore-not-found",
    "kubectl delete -f deploy/controller.yaml --ignore-not-found",
    "kubectl -n kube-system wait pod --for=delete --timeout=90s \
     -l 'app.kubernetes.io/part-of=floe'",
    "kubectl -n kube-system wait pod --for=delete --timeout=90s -l 'app in (galaxy, galaxy-ipam)'",
    "kubectl -n kube-system delete configmap floatingip-config galaxy-etc --ignore-not-found",
    "kubectl -n kube-system delete lease galaxy-ipam --ignore-not-found",
];

const DEFINITIONS: &str = "kubectl delete -f deploy/crds --ignore-not-found --timeout=60s";

/// The cluster, with no other test beside.
pub struct Bare {
    cluster: RwLockWriteGuard<'static, Cluster>,
    pub terminal: Terminal,
}

impl Deref for Bare {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.cluster
    }
}

impl Bare {
    /// Takes away what other tests have left.
    pub async fn begin() -> Result<Self> {
        let cluster = BARE.alone().await;
        cluster.schedule_with_extender(true).await?;
        let bare = Self {
            terminal: administrator(&cluster)?,
            cluster,
        };
        bare.clear().await?;
        Ok(bare)
    }

    /// Takes away what a test has left, however it ended.
    pub async fn end(self, outcome: Result<()>) -> Result<()> {
        outcome.and(self.clear().await)
    }

    async fn clear(&self) -> Result<()> {
        let run = |line: &str| self.terminal.run(line);
        WORKLOADS
            .into_iter()
            .try_for_each(|line| run(line).map(drop))?;
        PROGRAMS
            .into_iter()
            .try_for_each(|line| run(line).map(drop))?;
        let agent = sibling_program("floe-agent")?;
        // Where the host's address was before stands in one of these files.
        let files = format!(
            "{} cleanup && rm -rf /etc/cni/net.d/00-galaxy.conf /opt/cni/bin/galaxy-* \
             /var/lib/cni/galaxy /var/lib/cni/floe /run/floe /run/galaxy",
            agent.display()
        );
        for node in NODES {
            let host = self.cluster.host(node).await?;
            host.shell(&files).with_context(|| node.to_owned())?;
        }
        run(DEFINITIONS)?;
        Ok(())
    }
}
