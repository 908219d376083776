//! Nodes change from galaxy's daemon to floe's agent and back, by `docs/guide/nodes.md`.
//!
//! galaxy's daemon cannot be had here. In its place there is an agent of floe under galaxy's
//! name and account, with galaxy's socket, folders and state files. That floe reads what
//! galaxy writes there is shown by tests of the agent.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use kube::ResourceExt;

use super::Walk;
use super::bare::Bare;
use crate::LIMIT;
use crate::chart::{answered, lives};
use crate::cli::terminal::Terminal;
use crate::float_ips::NGINX;
use crate::holdings::{addresses, set};
use crate::vips::ground::{NETWORKS, NODES_OF_PODS as NODES, agent_of};

/// It has locks of its own, since galaxy knows nothing of floe's.
const DAEMON: &str = "
apiVersion: v1
kind: ServiceAccount
metadata: { name: galaxy, namespace: kube-system }
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: { name: galaxy }
roleRef: { apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin }
subjects: [{ kind: ServiceAccount, name: galaxy, namespace: kube-system }]
---
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: galaxy, namespace: kube-system }
spec:
  selector: { matchLabels: { app: galaxy } }
  template:
    metadata: { labels: { app: galaxy } }
    spec:
      serviceAccountName: galaxy
      hostNetwork: true
      tolerations: [{ operator: Exists }]
      initContainers:
      - name: install
        image: floe/agent:galaxy
        args: [install]
        volumeMounts:
        - { name: bin, mountPath: /opt/cni/bin }
        - { name: conf, mountPath: /etc/cni/net.d }
      containers:
      - name: galaxy
        image: floe/agent:galaxy
        args: [--vip=false]
        env: [{ name: MY_NODE_NAME, valueFrom: { fieldRef: { fieldPath: spec.nodeName } } }]
        readinessProbe: { exec: { command: [/floe-agent, ask] }, periodSeconds: 2, timeoutSeconds: 6 }
        securityContext: { privileged: true }
        volumeMounts:
        - { name: settings, mountPath: /etc/galaxy }
        - { name: bin, mountPath: /opt/cni/bin }
        - { name: conf, mountPath: /etc/cni/net.d }
        - { name: state, mountPath: /var/lib/cni }
        - { name: run, mountPath: /run, mountPropagation: HostToContainer }
        - { name: run, mountPath: /var/run, mountPropagation: HostToContainer }
        - { name: own, mountPath: /run/floe }
        - { name: own, mountPath: /var/run/floe }
      volumes:
      - { name: settings, configMap: { name: galaxy-etc } }
      - { name: bin, hostPath: { path: /opt/cni/bin } }
      - { name: conf, hostPath: { path: /etc/cni/net.d } }
      - { name: state, hostPath: { path: /var/lib/cni } }
      - { name: run, hostPath: { path: /run } }
      - { name: own, emptyDir: {} }
";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nodes_change_from_galaxys_daemon_to_floes_agent_and_back_under_running_pods() -> Result<()>
{
    let cluster = Bare::begin().await?;
    let outcome = there_and_back(&cluster).await;
    cluster.end(outcome).await
}

async fn there_and_back(cluster: &Bare) -> Result<()> {
    let terminal = &cluster.terminal;
    floe::configure_segment(cluster)?;
    floe::install(cluster)?;
    // Of these galaxy knows nothing, and agents write them.
    terminal.run("kubectl delete -f deploy/crds/floe.yaml")?;
    agent::publish(cluster)?;
    agent::configure(cluster, NETWORKS)?;
    galaxy_runs(cluster, terminal)?;
    let namespace = TestNamespace::create(cluster, "nodes").await?;
    namespace.apply(NGINX)?;
    let users = Users {
        cluster,
        namespace: &namespace,
        held: addresses(&namespace, "app=nginx", 3).await?,
    };
    let first = users.are_answered().await?;
    too_early(cluster, &users).await?;
    let lives_before = lives(&namespace).await?;

    let mut guide = Walk::of(
        terminal,
        "guide/nodes.md",
        "## From galaxy on a running node",
    )?;
    guide.run("kubectl apply --server-side --force-conflicts -f deploy/crds/floe.yaml")?;
    guide.run("kubectl -n kube-system delete daemonset galaxy")?;
    guide.run("kubectl apply -f deploy/agent.yaml")?;
    agent::wait_until_ready(cluster)?;
    let look = guide.next("kubectl get nodenetworks")?;
    wait::until("all nodes are in order", LIMIT, async || {
        let shown = terminal.run(&look)?;
        let ready = shown.lines().filter(|line| line.contains(" True "));
        ensure!(ready.count() == NODES.len(), "{shown}");
        Ok(Some(()))
    })
    .await?;
    users.are_answered().await?;
    ensure!(
        lives(&namespace).await? == lives_before,
        "pods were disturbed"
    );
    // One that galaxy has attached goes, and floe attaches its successor.
    let of_galaxy = first.first().context("there is no pod")?;
    let of_floe = users.lose(of_galaxy).await?;

    guide.run("kubectl delete -f deploy/agent.yaml")?;
    galaxy_runs(cluster, terminal)?;
    guide.end()?;
    users.lose(&of_floe).await?;
    Ok(())
}

/// Agents that come while galaxy answers say so, on each node, and galaxy goes on.
async fn too_early(cluster: &Bare, users: &Users<'_>) -> Result<()> {
    let terminal = &cluster.terminal;
    terminal.run("kubectl apply -f deploy/agent.yaml")?;
    wait::until("agents say who is there", LIMIT, async || {
        for node in NODES {
            let agent = agent_of(cluster, node).await?.name_any();
            let log = format!("kubectl -n kube-system logs {agent} -c agent --tail=20");
            let said = terminal.run(&log)?;
            ensure!(said.contains("another daemon answers on"), "{node}: {said}");
        }
        Ok(Some(()))
    })
    .await?;
    let last = users.are_answered().await?.pop_last();
    users.lose(&last.context("there is no pod")?).await?;
    terminal.run("kubectl delete -f deploy/agent.yaml")?;
    terminal.run(&format!(
        "kubectl -n kube-system wait pod -l {} --for=delete --timeout=60s",
        agent::AGENT
    ))?;
    Ok(())
}

fn galaxy_runs(cluster: &Cluster, terminal: &Terminal) -> Result<()> {
    cluster.apply_all(DAEMON)?;
    terminal.run("kubectl -n kube-system rollout status daemonset galaxy --timeout=120s")?;
    Ok(())
}

/// Those who ask pods for something.
struct Users<'a> {
    cluster: &'a Cluster,
    namespace: &'a TestNamespace<'a>,
    /// What the pods have had from the beginning.
    held: BTreeMap<String, String>,
}

impl Users<'_> {
    /// All pods answer, at the addresses that their Deployment has had from the beginning.
    /// Returns the pods.
    async fn are_answered(&self) -> Result<BTreeSet<String>> {
        let now = addresses(self.namespace, "app=nginx", 3).await?;
        ensure!(set(&now) == set(&self.held), "{now:?}");
        answered(self.cluster, self.namespace).await?;
        Ok(now.into_keys().collect())
    }

    /// A pod goes, and with it all that it had on its node; its successor, which is returned,
    /// answers.
    async fn lose(&self, pod: &str) -> Result<String> {
        let before = self.are_answered().await?;
        ensure!(before.contains(pod), "{pod} is not among {before:?}");
        self.namespace
            .kubectl(&["delete", "pod", pod, "--timeout=60s"])?;
        let after = self.are_answered().await?;
        wait::until("only these three are attached", LIMIT, async || {
            let mut files = 0;
            for node in NODES {
                let host = self.cluster.host(node).await?;
                let found = host.shell("grep -rl nginx-deployment /var/lib/cni/galaxy || true")?;
                files += found.lines().count();
            }
            ensure!(files == 3, "{files} pods are attached, not 3");
            Ok(Some(()))
        })
        .await?;
        let mut new = after.difference(&before);
        new.next().cloned().context("nobody came after it")
    }
}
