//! The memory of an agent that has nothing to do.
//!
//! It runs on a node of its own, beside a stand-in for the API server ([`Server`])
//! that knows a full node of pods with an address each. No container runtime answers.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use floe_testbed::host::sibling_program;
use serde_json::json;

use super::{
    apiserver::Server,
    node::{self, Node},
};
use crate::table::{Figure, Row, Wanted};

/// The promised memory.
const MEMORY: Wanted = Wanted::AtMost(Figure::Bytes(20.0 * 1024.0 * 1024.0));
/// As many as a kubelet takes, unless told otherwise.
const PODS: u32 = 110;
/// How long a start may take.
const LIMIT: Duration = Duration::from_secs(30);
/// How long memory is looked at, and how often.
const WATCHED: Duration = Duration::from_secs(10);
const LOOK: Duration = Duration::from_millis(100);
const NODE: &str = "node-1";

/// Measures the most that it has while it is idle.
pub fn measure() -> Result<Row> {
    let most = node::on_node(|node| {
        let server = Server::start(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?, PODS, NODE)?;
        let mut agent = Agent::start(node, &server)?;
        server
            .wait_until_quiet(LIMIT)
            .with_context(|| agent.log(node))?;
        let end = Instant::now() + WATCHED;
        let mut most: f64 = 0.0;
        while Instant::now() < end {
            most = most.max(agent.memory().with_context(|| agent.log(node))?);
            thread::sleep(LOOK);
        }
        let ended = agent.0.try_wait()?;
        ensure!(ended.is_none(), "it has ended: {}", agent.log(node));
        Ok(most)
    })?;
    let name = format!("floe-agent, idle: RssAnon, stand-in API server, {PODS} pods");
    Ok(Row::new(name, Figure::Bytes(most), MEMORY))
}

/// A running agent. It ends with this value.
struct Agent(Child);

impl Agent {
    fn start(node: &Node, server: &Server) -> Result<Self> {
        let kubeconfig = node.path("kubeconfig");
        let cluster = json!({ "server": format!("http://{}", server.address) });
        let file = json!({
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{ "name": "it", "cluster": cluster }],
            "users": [{ "name": "it", "user": {} }],
            "contexts": [{ "name": "it", "context": { "cluster": "it", "user": "it" } }],
            "current-context": "it",
        });
        fs::write(&kubeconfig, file.to_string())?;
        let networks = node.path("galaxy.json");
        let vlan =
            json!({ "name": "galaxy-k8s-vlan", "type": "galaxy-k8s-vlan", "device": "uplink" });
        let file = json!({ "NetworkConf": [vlan], "DefaultNetworks": ["galaxy-k8s-vlan"] });
        fs::write(&networks, file.to_string())?;
        let log = fs::File::create(node.path("agent.log"))?;
        // It must not outlive this process, whatever ends it.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(sibling_program("floe-agent")?)
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .arg("--json-config-path")
            .arg(networks)
            .arg("--network-conf-dir")
            .arg(node.path("empty"))
            .arg("--socket")
            .arg(node.path("run/galaxy.sock"))
            .arg("--state-dir")
            .arg(node.path("state"))
            .arg("--container-runtime-endpoint")
            .arg(format!("unix://{}", node.path("run/none.sock").display()))
            .arg(format!("--hostname-override={NODE}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("cannot start the agent")?;
        Ok(Self(child))
    }

    /// The memory that is its own, in bytes.
    fn memory(&self) -> Result<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"));
        let line = line.context("no RssAnon in its status")?;
        let kilobytes: u32 = line.trim_end_matches("kB").trim().parse()?;
        Ok(f64::from(kilobytes) * 1024.0)
    }

    fn log(&self, node: &Node) -> String {
        let log = fs::read_to_string(node.path("agent.log")).unwrap_or_default();
        format!("floe-agent ({}): {log}", self.0.id())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only for a process that was waited for already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
