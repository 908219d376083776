//! The ground that the document stands on: a cluster of its own, so that nothing but
//! what the document does is seen in it.
//!
//! Two racks with a fake node each: `fake-1` with addresses 10.0.70.2~9, and `fake-2`
//! with 10.0.80.2~5, which a taint keeps free. One real node with an agent, for addresses
//! that pods share. Three people: `lab` may do everything
//! and has a token, `lab-certificate` may too but has none, `jane` may only look.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::sync::{Mutex, RwLockWriteGuard};

use super::document::Step;
use super::terminal::Terminal;
use crate::LIMIT;

static CLUSTER: Shared = Shared::new(|| ClusterSpec::new("cli").nodes(1).fake_nodes(2));

const PEOPLE: &str = include_str!("people.yaml");

const ENTRIES: &str = r#"[{"nodeSubnets":["10.0.0.0/24"],"ips":["10.0.70.2~10.0.70.9"],"subnet":"10.0.70.0/24","gateway":"10.0.70.1","vlan":2},{"nodeSubnets":["10.1.0.0/24"],"ips":["10.0.80.2~10.0.80.5"],"subnet":"10.0.80.0/24","gateway":"10.0.80.1"},{"nodeSubnets":["10.200.0.0/24"],"ips":[],"shared":["10.200.0.210~10.200.0.211"],"subnet":"10.200.0.0/24","gateway":"10.200.0.1"}]"#;

/// Pods have the primary network, and what floe serves for them is on the node's segment.
const NETWORKS: &str = r#"{
  "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth0" }],
  "DefaultNetworks": ["pods"],
  "ENIIPNetwork": "galaxy-k8s-vlan"
}"#;

/// For how long an output stays the same before it is taken for the last word, when
/// nobody knows what it should be.
const STEADY: Duration = Duration::from_secs(3);

/// The cluster, with no other test beside.
pub async fn alone() -> RwLockWriteGuard<'static, Cluster> {
    CLUSTER.alone().await
}

/// Where commands are run.
pub struct Ground {
    terminal: Terminal,
    /// The command that runs beside others, with the file that it prints to.
    beside: Mutex<Option<Child>>,
}

impl Ground {
    /// Sets everything up as the document finds it.
    pub async fn prepare(cluster: &Cluster) -> Result<Self> {
        stand_in_racks(cluster).await?;
        let configuration = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
            "data": { "floatingips": ENTRIES },
        });
        cluster.apply(&configuration.to_string(), floe::NAMESPACE)?;
        cluster.apply(PEOPLE, floe::NAMESPACE)?;
        floe::install(cluster)?;
        agent::install(cluster, NETWORKS)?;
        let terminal = Terminal::open(cluster)?;
        fs::write(terminal.kubeconfig(), kubeconfig(cluster)?.to_string())?;
        Ok(Self {
            terminal,
            beside: Mutex::new(None),
        })
    }

    /// What a command prints at once.
    pub fn print(&self, command: &str) -> Result<String> {
        self.terminal.run(command)
    }

    /// What a step prints: at once if it changes something, else when the cluster has
    /// settled. If nobody knows what is right, that is when nothing changes any more.
    pub async fn run(&self, step: &Step, unknown: bool) -> Result<String> {
        if let Some(command) = step.command.strip_suffix(" &") {
            return self.start(command).await;
        }
        if step.command == "fg" {
            return self.finish(step, unknown).await;
        }
        if !step.only_looks() {
            return self.terminal.run(&step.command);
        }
        self.settled(step, unknown, || self.terminal.run(&step.command))
            .await
    }

    async fn settled(
        &self,
        step: &Step,
        unknown: bool,
        look: impl Fn() -> Result<String>,
    ) -> Result<String> {
        let limit = if unknown { STEADY * 3 } else { LIMIT };
        let mut last = look()?;
        let mut since = Instant::now();
        let settled = wait::until(&step.command, limit, async || {
            let printed = look()?;
            if step.agrees(&printed) {
                return Ok(Some(printed));
            }
            if !Step::new("", &last).agrees(&printed) {
                since = Instant::now();
            }
            last = printed;
            let is_steady = unknown && since.elapsed() > STEADY;
            Ok(is_steady.then(|| last.clone()))
        })
        .await;
        // What it prints instead is told by who compares.
        Ok(settled.unwrap_or(last))
    }

    /// Starts a command beside others; it must have begun to print before they run.
    async fn start(&self, command: &str) -> Result<String> {
        let file = self.terminal.kubeconfig().with_file_name("beside");
        let child = self
            .terminal
            .command(&format!("exec {command}"))
            .stdout(Stdio::from(fs::File::create(&file)?))
            .spawn()?;
        *self.beside.lock().await = Some(child);
        wait::until("the command beside prints", LIMIT, async || {
            Ok((!self.printed_beside()?.is_empty()).then_some(()))
        })
        .await?;
        Ok(String::new())
    }

    /// What the command beside has printed, which then ends as by Ctrl-C.
    async fn finish(&self, step: &Step, unknown: bool) -> Result<String> {
        let printed = self
            .settled(step, unknown, || self.printed_beside())
            .await?;
        let child = self.beside.lock().await.take();
        let mut child = child.context("nothing runs beside")?;
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
        let status = child.wait()?;
        ensure!(
            status.code().is_none_or(|code| code < 2),
            "it ends with {status}"
        );
        Ok(printed)
    }

    fn printed_beside(&self) -> Result<String> {
        let file = self.terminal.kubeconfig().with_file_name("beside");
        Ok(fs::read_to_string(file)?)
    }
}

/// A kubeconfig with all people.
fn kubeconfig(cluster: &Cluster) -> Result<Value> {
    let kubectl = |arguments: &[&str]| {
        let output = cluster.kubectl().args(arguments).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "kubectl {arguments:?}: {said}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let all = ["config", "view", "--raw", "--flatten", "--output=json"];
    let mut config: Value = serde_json::from_str(&kubectl(&all)?)?;
    let (Some(place), Some(user)) = (
        config["clusters"][0]["name"].as_str().map(str::to_owned),
        config["users"][0]["name"].as_str().map(str::to_owned),
    ) else {
        bail!("the kubeconfig of the cluster names nobody");
    };
    let users = config["users"].as_array_mut().context("a list")?;
    for (name, account) in [("operator", "floe-operator"), ("jane", "jane")] {
        let token = kubectl(&["create", "token", account, "--namespace", floe::NAMESPACE])?;
        users.push(json!({ "name": name, "user": { "token": token.trim() } }));
    }
    let context = |name: &str, user: &str| json!({ "name": name, "context": { "cluster": place, "user": user } });
    config["contexts"] = json!([
        context("lab", "operator"),
        context("lab-certificate", &user),
        context("jane", "jane"),
    ]);
    config["current-context"] = json!("lab");
    Ok(config)
}

/// Gives the fake nodes their addresses, and takes all pods off the second one.
async fn stand_in_racks(cluster: &Cluster) -> Result<()> {
    let nodes: Api<Node> = Api::all(cluster.client().await?);
    let taint = json!([{ "key": "floe.dev/rack", "value": "spare", "effect": "NoSchedule" }]);
    for (name, address, taints) in [
        ("fake-1", "10.0.0.11", json!([])),
        ("fake-2", "10.1.0.12", taint),
    ] {
        let params = PatchParams::default();
        let status = json!({ "status": { "addresses": [
            { "type": "InternalIP", "address": address },
            { "type": "Hostname", "address": name },
        ] } });
        nodes
            .patch_status(name, &params, &Patch::Merge(status))
            .await?;
        let spec = json!({ "spec": { "taints": taints } });
        nodes.patch(name, &params, &Patch::Merge(spec)).await?;
    }
    let edge = json!({ "metadata": { "labels": { "floe.dev/edge": "true" } } });
    let patch = Patch::Merge(edge);
    nodes
        .patch("node-1", &PatchParams::default(), &patch)
        .await?;
    // The taints of a node's first moments are put on by others.
    wait::until("fake-1 takes pods", LIMIT, async || {
        let node = nodes.get("fake-1").await?;
        let taints = node.spec.and_then(|spec| spec.taints).unwrap_or_default();
        ensure!(taints.is_empty(), "it has {taints:?}");
        Ok(Some(()))
    })
    .await
}
