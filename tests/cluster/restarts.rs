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
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::{addresses, ip, records_of, told};
use crate::moving::database;
use crate::segment;
use crate::underlay::{answers, emptied, pod_on};

/// What a node has of pods: a file for each sandbox with what is attached, and links.
const ATTACHED: &str = "{ ls /var/lib/cni/galaxy 2>/dev/null; \
                        ip -o link show | grep -o 'v-h[^@: ]*'; } || true";

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
    let stays = Web::start(&cluster, &namespace, &pod_on("node-3", "stays", &json!({}))).await?;
    let with_stays = lines(&node.shell(ATTACHED)?);
    assert!(with_stays.len() > attached.len(), "{with_stays:?}");
    let goes = Web::start(&cluster, &namespace, &pod_on("node-3", "goes", &json!({}))).await?;
    // Of this one the address stays when it goes.
    let mut kept = database("kept", "galaxy-k8s-vlan");
    kept["spec"]["template"]["spec"]["nodeSelector"] =
        json!({ "kubernetes.io/hostname": "node-3" });
    namespace.apply(&kept.to_string())?;
    let before = addresses(&namespace, "app=kept", 1).await?;

    let comes = pod_on("node-3", "comes", &json!({}));
    let meanwhile = while_away(&cluster, &namespace, [&stays, &goes], &comes).await;
    // Others need the agents, whatever became of this.
    select_nodes(&cluster, &Value::Null)?;
    agent::wait_until_ready(&cluster)?;
    let (attached_then, waited) = meanwhile?;
    assert_eq!(attached_then, with_stays, "nothing but the pods is gone");

    // Whoever waits comes in by himself.
    let came = Web::start(&cluster, &namespace, &comes).await?;
    assert_eq!(came.pod.metadata.uid, waited);
    came.is_as_before(&cluster, &namespace, 0).await?;
    assert_eq!(addresses(&namespace, "app=kept", 1).await?, before);
    stays.is_as_before(&cluster, &namespace, 0).await
}

/// One pod stays, others go and another one comes, while node-3 alone has no agent. Returns
/// what the node says is attached then, and the uid of the pod that came.
async fn while_away(
    cluster: &Cluster,
    namespace: &TestNamespace<'_>,
    [stays, goes]: [&Web; 2],
    comes: &Value,
) -> Result<(BTreeSet<String>, Option<String>)> {
    let node = cluster.host("node-3").await?;
    no_agent(cluster, "node-3").await?;
    namespace.apply(&comes.to_string())?;
    let reason =
        "AgentUnreachable: cannot reach floe-agent of this node at /var/run/galaxy/galaxy.sock";
    let text = told(namespace, "comes", "FailedCreatePodSandBox", reason).await?;
    let help = "see the pods of DaemonSet floe-agent on this node";
    ensure!(text.contains(help), "{text}");
    for web in [stays, goes] {
        web.answers(cluster).await?;
    }
    // What is written on the node is enough to take a pod off.
    namespace.kubectl(&["delete", "pod", "goes", "--timeout=60s"])?;
    ensure!(goes.answers(cluster).await.is_err(), "somebody is there");
    wait::until("its address is free", LIMIT, async || {
        let records = records_of(namespace).await?;
        Ok((!records.contains_key(&goes.ip)).then_some(()))
    })
    .await?;
    let kept = namespace.api::<Pod>().get("kept-0").await?;
    namespace.kubectl(&["delete", "pod", "kept-0", "--timeout=60s"])?;
    wait::until(
        "its successor has the address and waits",
        LIMIT,
        async || {
            let next = namespace.api::<Pod>().get("kept-0").await?;
            let records = records_of(namespace).await?;
            let is_next = next.uid() != kept.uid() && !is_ready(&next);
            let record = records.get(&ip(&kept)?).context("there is no record")?;
            ensure!(
                is_next && Some(&record.uid) == next.uid().as_ref(),
                "{record:?}"
            );
            Ok(Some(()))
        },
    )
    .await?;
    // Other nodes are not concerned.
    let elsewhere = pod_on("node-1", "elsewhere", &json!({}));
    Web::start(cluster, namespace, &elsewhere).await?;
    stays.answers(cluster).await?;
    let waits = namespace.api::<Pod>().get("comes").await?;
    ensure!(!is_ready(&waits), "it runs without an agent");
    Ok((lines(&node.shell(ATTACHED)?), waits.metadata.uid))
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

/// Sends the agent of one node away, and waits until it is gone.
async fn no_agent(cluster: &Cluster, node: &str) -> Result<()> {
    const LABEL: &str = "floe.dev/with-agent";
    let client = cluster.client().await?;
    let nodes: Api<Node> = Api::all(client.clone());
    for other in ["node-1", "node-2", "node-3"] {
        let value = if other == node {
            json!(null)
        } else {
            json!("")
        };
        let label = json!({ "metadata": { "labels": { LABEL: value } } });
        let patch = Patch::Merge(label);
        nodes.patch(other, &PatchParams::default(), &patch).await?;
    }
    select_nodes(cluster, &json!({ LABEL: "" }))?;
    let pods: Api<Pod> = Api::namespaced(client, floe::NAMESPACE);
    let here = ListParams::default().labels(agent::AGENT);
    let here = here.fields(&format!("spec.nodeName={node}"));
    wait::until(&format!("{node} has no agent"), LIMIT, async || {
        let left = pods.list(&here).await?.items;
        ensure!(left.is_empty(), "there is {}", left.len());
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
