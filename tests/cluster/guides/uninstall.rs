//! floe without Helm, by `docs/guide/install.md`, and away again by `docs/guide/uninstall.md`:
//! once so that workloads get the same addresses when it comes back, and once so that nothing
//! is left in the API server nor on a node.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::build::Build;
use floe_testbed::floe::{self, agent};
use kube::ResourceExt;
use serde_json::json;

use super::Walk;
use super::bare::Bare;
use crate::LIMIT;
use crate::chart::release::{KINDS, PLAIN};
use crate::cli::terminal::Terminal;
use crate::float_ips::NGINX;
use crate::holdings::{addresses, set};
use crate::vips::ground::{NETWORKS, NODES_OF_PODS as NODES, agent_of, three};

const PAGE: &str = "guide/uninstall.md";
/// One that several pods share.
const SHARED: &str = "10.200.0.210";

/// What is not of the chart.
const FURTHER_KINDS: &str = "leases,priorityclasses,customresourcedefinitions";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn what_was_applied_by_the_guide_goes_by_the_guide_and_addresses_stay_or_nothing_does()
-> Result<()> {
    let cluster = Bare::begin().await?;
    let outcome = there_and_away(&cluster).await;
    cluster.end(outcome).await
}

async fn there_and_away(cluster: &Bare) -> Result<()> {
    let terminal = &cluster.terminal;
    let bare = Traces::of(cluster, terminal).await?;
    installed(cluster, terminal)?;
    let namespace = TestNamespace::create(cluster, "leaving").await?;
    namespace.apply(NGINX)?;
    let held = addresses(&namespace, "app=nginx", 3).await?;
    three(&namespace, SHARED).await?;
    let full = Traces::of(cluster, terminal).await?.beside(&bare);
    ensure!(full.objects.len() > 20, "{full:?}");
    let on_nodes = |trace: &str| {
        full.on_nodes
            .iter()
            .filter(|it| it.ends_with(trace))
            .count()
    };
    for trace in ["00-galaxy.conf", "bin/galaxy-sdn", "table inet floe-vip"] {
        ensure!(on_nodes(trace) == NODES.len(), "{trace} in {full:?}");
    }
    ensure!(on_nodes("link docker:") > 0, "{full:?}");

    uninstalled(cluster, terminal, &namespace, Fate::Kept).await?;
    installed(cluster, terminal)?;
    cluster.schedule_with_extender(true).await?;
    namespace.apply(NGINX)?;
    let again = addresses(&namespace, "app=nginx", 3).await?;
    ensure!(set(&again) == set(&held), "{held:?} became {again:?}");

    uninstalled(cluster, terminal, &namespace, Fate::Released).await?;
    wait::until("nothing is left", LIMIT, async || {
        let left = Traces::of(cluster, terminal).await?.beside(&bare);
        ensure!(
            left.objects.is_empty() && left.on_nodes.is_empty(),
            "{left:?}"
        );
        Ok(Some(()))
    })
    .await?;
    // Ordinary pods start.
    namespace.apply(PLAIN)?;
    namespace.ready_pods("app=plain", 1, LIMIT).await?;
    Ok(())
}

/// Addresses and networks are the reader's own; images are found under any name here.
fn installed(cluster: &Cluster, terminal: &Terminal) -> Result<()> {
    Build::current().publish(cluster)?;
    let mut guide = Walk::of(terminal, "guide/install.md", "## Without Helm")?;
    guide.run("kubectl apply --server-side --force-conflicts -f deploy/crds")?;
    guide.next("kubectl apply -f deploy/examples/addresses.yaml")?;
    agent::configure(cluster, NETWORKS)?;
    let entry = json!({
        "nodeSubnets": ["10.200.0.0/24"], "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        "ips": ["10.200.0.100~10.200.0.180"], "shared": [SHARED],
    });
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": json!([entry]).to_string() },
    });
    cluster.apply(&configuration.to_string(), floe::NAMESPACE)?;
    guide.run("sed 's|floe/controller:dev|")?;
    guide.run("sed 's|floe/agent:dev|")?;
    guide.run("kubectl -n kube-system rollout status deployment/floe-controller")?;
    guide.run("kubectl apply -f deploy/webhook.yaml")?;
    guide.end()?;
    terminal.run("kubectl apply -f deploy/scheduler/service.yaml")?;
    agent::wait_until_ready(cluster)
}

/// What becomes of addresses when floe goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Released,
}

async fn uninstalled(
    cluster: &Cluster,
    terminal: &Terminal,
    namespace: &TestNamespace<'_>,
    fate: Fate,
) -> Result<()> {
    namespace.kubectl(&["delete", "deployment,pod", "--all", "--timeout=90s"])?;
    let mut guide = Walk::of(terminal, PAGE, "## 1. Pods with addresses")?;
    let bound = guide.next("kubectl floe ip list -A --state bound")?;
    wait::until("no pod has an address", LIMIT, async || {
        let told = terminal.run(&bound)?;
        ensure!(!told.contains("10.200.0."), "{told}");
        Ok(Some(()))
    })
    .await?;
    guide.end()?;
    cluster.schedule_with_extender(false).await?;

    let mut guide = Walk::of(terminal, PAGE, "## 2. Shared addresses and node addresses")?;
    guide.run("kubectl delete vip --all -A")?;
    guide.run("kubectl delete floatingippools,nodednsrecordsets --all -A")?;
    guide.run("kubectl delete virtualipregisters --all")?;
    let left = guide.run("kubectl get vip,virtualipregisters")?;
    ensure!(left.trim() == "No resources found", "{left}");
    guide.end()?;

    let mut guide = Walk::of(terminal, PAGE, "## 3. Nodes")?;
    let [drain, cleanup, uncordon] = [
        guide.next("kubectl drain node-1")?,
        guide.next("kubectl -n kube-system exec floe-agent-x7k2p -- /floe-agent cleanup")?,
        guide.next("kubectl uncordon node-1")?,
    ];
    for node in NODES {
        // A budget may let it wait, which it tells as an error and goes on.
        let drained = terminal.command(&drain.replace("node-1", node)).output()?;
        let told = String::from_utf8_lossy(&drained.stdout);
        ensure!(drained.status.success(), "{node} is not drained: {told}");
        let agent = agent_of(cluster, node).await?.name_any();
        terminal.run(&cleanup.replace("floe-agent-x7k2p", &agent))?;
        terminal.run(&uncordon.replace("node-1", node))?;
    }
    guide.run("kubectl delete -f deploy/agent.yaml")?;
    guide.run("kubectl -n kube-system wait pod -l app.kubernetes.io/name=floe-agent")?;
    for _ in 0..2 {
        let line = guide.next("ssh node-1 '")?;
        let line = line.strip_prefix("ssh node-1 '");
        let line = line.and_then(|it| it.strip_suffix('\''));
        let line = line.context("a command for the node")?;
        for node in NODES {
            cluster.host(node).await?.shell(line)?;
        }
    }
    guide.end()?;

    let mut guide = Walk::of(terminal, PAGE, "## 4. Controller")?;
    guide.run("kubectl delete -f deploy/webhook.yaml -f deploy/webhook-gates.yaml")?;
    guide.run("kubectl delete -f deploy/scheduler/service.yaml")?;
    guide.run("kubectl delete -f deploy/controller.yaml")?;
    // For others than the readers of this test.
    guide.next("kubectl delete -f k8s/floe.yaml")?;
    guide.end()?;

    let mut guide = Walk::of(terminal, PAGE, "## 5. What is left in the API server")?;
    guide.run("kubectl -n kube-system delete lease galaxy-ipam")?;
    guide.run("kubectl -n kube-system delete lease -l floe.dev/vip-lease")?;
    guide.run("kubectl delete nodenetworks --all")?;
    for line in [
        "kubectl -n kube-system delete configmap floatingip-config galaxy-etc",
        "kubectl delete -f deploy/crds",
    ] {
        match fate {
            Fate::Kept => drop(guide.next(line)?),
            Fate::Released => drop(guide.run(line)?),
        }
    }
    guide.end()
}

/// What can be seen of floe.
#[derive(Debug)]
struct Traces {
    /// In the API server.
    objects: BTreeSet<String>,
    /// Files, links, addresses and rules, each with its node.
    on_nodes: BTreeSet<String>,
}

impl Traces {
    /// Those that were not there before.
    fn beside(mut self, before: &Self) -> Self {
        self.objects.retain(|it| !before.objects.contains(it));
        self.on_nodes.retain(|it| !before.on_nodes.contains(it));
        self
    }

    async fn of(cluster: &Cluster, terminal: &Terminal) -> Result<Self> {
        let get = format!(
            "kubectl get {KINDS},{FURTHER_KINDS} -A --no-headers -o custom-columns=A:.kind,B:.metadata.name"
        );
        let objects = terminal.run(&get)?;
        let ours = |line: &&str| {
            ["floe", "galaxy", "flipop"]
                .iter()
                .any(|it| line.contains(it))
        };
        let objects = objects.lines().filter(ours).map(str::to_owned).collect();
        let mut on_nodes = BTreeSet::new();
        for node in NODES {
            // Ends of pods' veths come and go with floe's own pods.
            let seen = cluster.host(node).await?.shell(
                "for folder in /etc/cni/net.d /opt/cni/bin /var/lib/cni/galaxy /var/lib/cni/floe /run/floe /run/galaxy; do
                     find $folder -maxdepth 1 2>/dev/null || true
                 done
                 ip -o link show | awk '{ print \"link\", $2 }' | grep -v veth
                 ip -o address show scope global | awk '{ print \"address\", $2, $4 }' | grep -v veth
                 nft list tables; ip rule show; ip -6 rule show",
            )?;
            on_nodes.extend(seen.lines().map(|line| format!("{node} {line}")));
        }
        Ok(Self { objects, on_nodes })
    }
}
