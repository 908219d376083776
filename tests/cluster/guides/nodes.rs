//! Nodes change from galaxy's daemon to floe's agent and back, by `docs/guide/nodes.md`.
//!
//! galaxy's daemon cannot be had here. In its place there is an agent of floe under galaxy's
//! name and account, with galaxy's socket, folders and state files. That floe reads what
//! galaxy writes there is shown by tests of the agent.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use floe_testbed::host::sibling_program;

use super::{NETWORKS, Walk, administrator};
use crate::LIMIT;
use crate::chart::{BARE, answered, lives};
use crate::cli::terminal::Terminal;
use crate::float_ips::NGINX;
use crate::holdings::{addresses, set};
use crate::vips::ground::NODES_OF_PODS as NODES;

/// It has locks of its own, since galaxy knows nothing of floe's.
const DAEMON: &str = r#"
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
"#;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn nodes_change_from_galaxys_daemon_to_floes_agent_and_back_under_running_pods() -> Result<()>
{
    let cluster = BARE.alone().await;
    cluster.schedule_with_extender(true).await?;
    let terminal = administrator(&cluster)?;
    // Made first, so that a half-done installation is undone, too.
    let both = Both(&cluster, &terminal);
    floe::configure_segment(&cluster)?;
    floe::install(&cluster)?;
    agent::publish(&cluster)?;
    agent::configure(&cluster, NETWORKS)?;
    galaxy_runs(&cluster, &terminal)?;
    let namespace = TestNamespace::create(&cluster, "nodes").await?;
    namespace.apply(NGINX)?;
    let held = addresses(&namespace, "app=nginx", 3).await?;
    let users = Users {
        cluster: &cluster,
        namespace: &namespace,
        held,
    };
    users.are_answered().await?;
    let lives_before = lives(&namespace).await?;

    let mut guide = Walk::of(
        &terminal,
        "guide/nodes.md",
        "## From galaxy on a running node",
    )?;
    guide.run("kubectl apply --server-side --force-conflicts -f deploy/crds/floe.yaml")?;
    // Who is too early is told so, and takes nothing from galaxy.
    terminal.run("kubectl apply -f deploy/agent.yaml")?;
    wait::until("agents say who is there", LIMIT, async || {
        let said = terminal.run(&format!(
            "kubectl -n kube-system logs -l {} -c agent --prefix --tail=20",
            agent::AGENT
        ))?;
        ensure!(said.contains("another daemon answers on"), "{said}");
        Ok(Some(()))
    })
    .await?;
    users.are_answered().await?;
    guide.run("kubectl -n kube-system delete daemonset galaxy")?;
    guide.run("kubectl apply -f deploy/agent.yaml")?;
    agent::wait_until_ready(&cluster)?;
    users.are_answered().await?;
    wait::until("all nodes are in order", LIMIT, async || {
        let shown = terminal.run("kubectl get nodenetworks --no-headers")?;
        let ready = shown.lines().filter(|line| line.contains(" True "));
        ensure!(ready.count() == NODES.len(), "{shown}");
        Ok(Some(()))
    })
    .await?;
    guide.run("kubectl get nodenetworks")?;
    ensure!(
        lives(&namespace).await? == lives_before,
        "pods were disturbed"
    );
    users.lose_one().await?;

    guide.run("kubectl delete -f deploy/agent.yaml")?;
    galaxy_runs(&cluster, &terminal)?;
    guide.end()?;
    users.are_answered().await?;
    users.lose_one().await?;
    namespace.kubectl(&["delete", "deployment", "--all"])?;
    namespace.kubectl(&["wait", "pod", "--all", "--for=delete", "--timeout=90s"])?;
    drop(both);
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
    async fn are_answered(&self) -> Result<()> {
        let now = addresses(self.namespace, "app=nginx", 3).await?;
        ensure!(set(&now) == set(&self.held), "{now:?}");
        answered(self.cluster, self.namespace).await
    }

    /// A pod goes, and with it all that it had on its node; its successor answers.
    async fn lose_one(&self) -> Result<()> {
        let count = async || {
            let mut files = 0;
            for node in NODES {
                let found = self.cluster.host(node).await?;
                let found = found.shell("grep -rl nginx-deployment /var/lib/cni/galaxy || true")?;
                files += found.lines().count();
            }
            Ok::<_, anyhow::Error>(files)
        };
        let pods = self.namespace.pods("app=nginx").await?;
        let pod = pods.first().and_then(|it| it.metadata.name.clone());
        let pod = pod.unwrap_or_default();
        self.namespace
            .kubectl(&["delete", "pod", &pod, "--timeout=60s"])?;
        self.are_answered().await?;
        let files = count().await?;
        ensure!(files == 3, "{files} pods are attached, not 3");
        Ok(())
    }
}

/// The cluster without galaxy and floe when this is dropped.
struct Both<'a>(&'a Cluster, &'a Terminal);

impl Drop for Both<'_> {
    fn drop(&mut self) {
        let agent = sibling_program("floe-agent").unwrap_or_default();
        // Where the host's address was before stands in one of these files.
        let files = format!(
            "{} cleanup && rm -rf /etc/cni/net.d/00-galaxy.conf /opt/cni/bin/galaxy-* \
             /var/lib/cni/galaxy /var/lib/cni/floe",
            agent.display()
        );
        // Who comes next finds out what could not be taken away.
        for line in [
            // While there is an agent that takes addresses off.
            "kubectl delete deployments -A -l app=nginx",
            "kubectl wait pods -A -l app=nginx --for=delete --timeout=60s",
            "kubectl -n kube-system delete daemonset,serviceaccount galaxy --ignore-not-found",
            "kubectl delete clusterrolebinding galaxy --ignore-not-found",
            "kubectl delete -f deploy/agent.yaml --ignore-not-found",
            "kubectl delete -f deploy/controller.yaml --ignore-not-found",
            "kubectl -n kube-system delete service floe-extender --ignore-not-found",
            "kubectl -n kube-system delete configmap floatingip-config galaxy-etc --ignore-not-found",
            "kubectl -n kube-system delete lease galaxy-ipam --ignore-not-found",
            "kubectl delete -f deploy/crds --ignore-not-found --timeout=60s",
        ] {
            let _ = self.1.run(line);
        }
        for node in NODES {
            let host = tokio::task::block_in_place(|| {
                tokio::runtime::Handle::current().block_on(self.0.host(node))
            });
            let _ = host.and_then(|host| host.shell(&files));
        }
    }
}
