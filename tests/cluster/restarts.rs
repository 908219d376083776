//! Containers, kubelets and agents are killed and come back; pods keep answering at
//! the addresses that they have.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result, anyhow, ensure};
use floe_testbed::cluster::namespace::{TestNamespace, is_ready};
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use floe_testbed::host::HostRef;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{addresses, ip, told};
use crate::segment;
use crate::underlay::{answers, emptied, pod_on};

/// Where a node remembers what is attached, with a file for each sandbox.
const ATTACHED: &str = "ls /var/lib/cni/galaxy 2>/dev/null || true";

/// What has to be the same before and after, and where it is asked for.
struct Web {
    pod: Pod,
    ip: String,
    /// The network namespace, which lives as long as the sandbox.
    sandbox: PathBuf,
}

impl Web {
    async fn start(
        cluster: &Cluster,
        namespace: &TestNamespace<'_>,
        manifest: &Value,
    ) -> Result<Self> {
        namespace.apply(&manifest.to_string())?;
        let name = manifest["metadata"]["name"]
            .as_str()
            .context("it has a name")?;
        addresses(namespace, &format!("app={name}"), 1).await?;
        let pod = namespace.api::<Pod>().get(name).await?;
        let (ip, sandbox) = (ip(&pod)?, sandbox(cluster, &pod)?);
        let web = Self { pod, ip, sandbox };
        web.answers(cluster).await?;
        Ok(web)
    }

    async fn answers(&self, cluster: &Cluster) -> Result<()> {
        answers(&cluster.outside().await?, &self.pod.name_any(), &self.ip)
    }

    /// It answers as before, its sandbox is the same one, and its container was
    /// started again so many times.
    async fn is_as_before(
        &self,
        cluster: &Cluster,
        namespace: &TestNamespace<'_>,
        restarts: i32,
    ) -> Result<()> {
        let pod = namespace.api::<Pod>().get(&self.pod.name_any()).await?;
        assert_eq!(pod.metadata.uid, self.pod.metadata.uid);
        assert_eq!(restarts_of(&pod), restarts);
        assert_eq!(ip(&pod)?, self.ip);
        assert_eq!(sandbox(cluster, &pod)?, self.sandbox);
        self.answers(cluster).await
    }
}

fn sandbox(cluster: &Cluster, pod: &Pod) -> Result<PathBuf> {
    let process = cluster.pod_network(pod)?.anchor;
    Ok(fs::read_link(format!("/proc/{process}/ns/net"))?)
}

fn restarts_of(pod: &Pod) -> i32 {
    let statuses = pod
        .status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref());
    statuses
        .into_iter()
        .flatten()
        .map(|it| it.restart_count)
        .sum()
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_killed_container_comes_back_at_its_address_and_in_its_sandbox() -> Result<()> {
    let cluster = segment::together().await?;
    let namespace = TestNamespace::create(&cluster, "killed").await?;
    // Under a name of its own: the process that holds the sandbox has the other.
    let mut manifest = pod_on("node-1", "web", &json!({}));
    manifest["spec"]["containers"][0]["command"] = json!([
        "sh",
        "-c",
        "cp /standin /tmp/server && exec /tmp/server serve 80"
    ]);
    let web = Web::start(&cluster, &namespace, &manifest).await?;

    cluster.kill_in_pod(&web.pod, "server")?;
    let what = "the container runs again";
    wait::until(what, LIMIT, async || {
        let pod = namespace.api::<Pod>().get("web").await?;
        Ok((is_ready(&pod) && restarts_of(&pod) == 1).then_some(()))
    })
    .await?;
    // Ready is said before the program listens.
    wait::until("it answers", LIMIT, async || {
        web.answers(&cluster).await.map(Some)
    })
    .await?;
    web.is_as_before(&cluster, &namespace, 1).await
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn a_killed_kubelet_finds_its_pods_as_they_were() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "kubelet").await?;
    let node = cluster.host("node-2").await?;
    let web = Web::start(&cluster, &namespace, &pod_on("node-2", "web", &json!({}))).await?;
    // Those of other pods may go: a test before may have left some that end just now.
    let uid = web.pod.metadata.uid.as_deref().unwrap_or_default();
    let noted = format!("grep -l {uid} /var/lib/cni/galaxy/*");
    let attached = lines(&node.shell(&noted)?);
    assert_eq!(attached.len(), 1, "{attached:?}");

    cluster.kill("node-2", "kubelet").await?;
    cluster.wait_for_node("node-2", false, LIMIT).await?;
    web.answers(&cluster).await?;
    cluster.start("node-2", "kubelet").await?;
    cluster.wait_for_node("node-2", true, LIMIT).await?;
    // Whoever starts new pods has looked through the old ones.
    let next = Web::start(&cluster, &namespace, &pod_on("node-2", "next", &json!({}))).await?;
    assert_ne!(next.ip, web.ip);
    web.is_as_before(&cluster, &namespace, 0).await?;
    assert_eq!(lines(&node.shell(&noted)?), attached);
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn running_pods_answer_throughout_a_restart_of_all_agents() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "agents").await?;
    let mut webs = Vec::new();
    for (name, node) in [("one", "node-1"), ("two", "node-2"), ("three", "node-3")] {
        webs.push(Web::start(&cluster, &namespace, &pod_on(node, name, &json!({}))).await?);
    }
    let before = agents(&cluster).await?;
    assert_eq!(before.len(), 3);

    let outside = cluster.outside().await?;
    let visitors: Vec<_> = webs
        .iter()
        .map(|web| Visitor::start(&outside, web))
        .collect();
    let restarted = agent::restart(&cluster);
    for visitor in visitors {
        let asked = visitor.leave()?;
        ensure!(asked >= 10, "asked only {asked} times");
    }
    restarted?;
    let after = agents(&cluster).await?;
    assert_eq!(after.len(), 3);
    assert!(
        before.is_disjoint(&after),
        "{before:?} before, {after:?} after"
    );
    for web in &webs {
        web.is_as_before(&cluster, &namespace, 0).await?;
    }
    Ok(())
}

#[tokio::test]
#[ignore = "needs a cluster: cargo xtask test --only cluster"]
async fn pods_come_and_go_while_their_agent_is_away() -> Result<()> {
    let cluster = segment::alone().await?;
    let namespace = TestNamespace::create(&cluster, "away").await?;
    let node = cluster.host("node-3").await?;
    emptied(&cluster, "node-3").await?;
    let attached = lines(&node.shell(ATTACHED)?);
    let goes = Web::start(&cluster, &namespace, &pod_on("node-3", "goes", &json!({}))).await?;
    let comes = pod_on("node-3", "comes", &json!({}));

    let meanwhile = while_away(&cluster, &namespace, &goes, &comes).await;
    // Others need the agents, whatever became of this.
    select_nodes(&cluster, &Value::Null)?;
    agent::wait_until_ready(&cluster)?;
    assert_eq!(meanwhile?, attached, "nothing but the pod is gone");

    let came = Web::start(&cluster, &namespace, &comes).await?;
    came.is_as_before(&cluster, &namespace, 0).await
}

/// A pod goes and another one comes. Returns what the node says is attached then.
async fn while_away(
    cluster: &Cluster,
    namespace: &TestNamespace<'_>,
    goes: &Web,
    comes: &Value,
) -> Result<BTreeSet<String>> {
    let node = cluster.host("node-3").await?;
    no_agents(cluster).await?;
    namespace.apply(&comes.to_string())?;
    told(
        namespace,
        "comes",
        "FailedCreatePodSandBox",
        "AgentUnreachable",
    )
    .await?;
    goes.answers(cluster).await?;
    // What is written on the node is enough to take a pod off.
    namespace.kubectl(&["delete", "pod", "goes", "--timeout=60s"])?;
    let links = node.shell("ip -o link show")?;
    ensure!(!links.contains("v-h"), "a link is left: {links}");
    ensure!(goes.answers(cluster).await.is_err(), "somebody is there");
    Ok(lines(&node.shell(ATTACHED)?))
}

/// Somebody outside who asks a pod again and again.
struct Visitor {
    leaves: Arc<AtomicBool>,
    asking: JoinHandle<Result<usize>>,
}

impl Visitor {
    fn start(outside: &HostRef, web: &Web) -> Self {
        let leaves = Arc::new(AtomicBool::new(false));
        let (outside, name, ip) = (outside.clone(), web.pod.name_any(), web.ip.clone());
        let told = Arc::clone(&leaves);
        let asking = thread::spawn(move || {
            let mut asked = 0;
            while !told.load(Ordering::Relaxed) {
                answers(&outside, &name, &ip).with_context(|| format!("after {asked} answers"))?;
                asked += 1;
            }
            Ok(asked)
        });
        Self { leaves, asking }
    }

    /// How often it asked; an error if it once got no answer.
    fn leave(self) -> Result<usize> {
        self.leaves.store(true, Ordering::Relaxed);
        self.asking
            .join()
            .map_err(|_| anyhow!("the visitor panicked"))?
    }
}

/// The uids of all agents.
async fn agents(cluster: &Cluster) -> Result<BTreeSet<String>> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let listed = pods
        .list(&ListParams::default().labels(agent::AGENT))
        .await?;
    Ok(listed.items.iter().filter_map(ResourceExt::uid).collect())
}

/// Sends all agents away, and waits until they are gone.
async fn no_agents(cluster: &Cluster) -> Result<()> {
    select_nodes(cluster, &json!({ "floe.dev/no-such-node": "true" }))?;
    wait::until("all agents are gone", LIMIT, async || {
        let left = agents(cluster).await?;
        ensure!(left.is_empty(), "there is {left:?}");
        Ok(Some(()))
    })
    .await
}

/// Says on which nodes agents run; null for all.
fn select_nodes(cluster: &Cluster, selector: &Value) -> Result<()> {
    let patch = json!({ "spec": { "template": { "spec": { "nodeSelector": selector } } } });
    let done = cluster
        .kubectl()
        .args([
            "--namespace",
            floe::NAMESPACE,
            "patch",
            "daemonset",
            "floe-agent",
        ])
        .args(["--type=merge", "--patch", &patch.to_string()])
        .output()?;
    ensure!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    Ok(())
}

fn lines(text: &str) -> BTreeSet<String> {
    text.lines().map(str::to_owned).collect()
}
