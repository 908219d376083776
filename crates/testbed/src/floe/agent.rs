//! The node side of floe on a cluster: an agent on every node.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use super::build::Build;
use super::{DEPLOY, NAMESPACE, apply_definitions, example, tag_of};
use crate::cluster::Cluster;
use crate::command;
use crate::supervisor::fake_nodes;

/// Selects the pods of the agent.
pub const AGENT: &str = "app.kubernetes.io/name=floe-agent";

/// Installs the agents with a `galaxy.json`, or upgrades them, and waits until all are
/// ready. From then on every new pod comes to them.
pub fn install(cluster: &Cluster, networks: &str) -> Result<()> {
    install_with(cluster, networks, &[])
}

/// As [`install`], with options of the agents.
pub fn install_with(cluster: &Cluster, networks: &str, options: &[&str]) -> Result<()> {
    configure(cluster, networks)?;
    roll_out(cluster, options)
}

/// As [`install`], with the sample in `deploy/examples`.
pub fn install_example(cluster: &Cluster) -> Result<()> {
    cluster.apply(&example("networks")?, NAMESPACE)?;
    roll_out(cluster, &[])
}

fn roll_out(cluster: &Cluster, options: &[&str]) -> Result<()> {
    let digest = publish(cluster)?;
    apply_definitions(cluster)?;
    let manifest = fs::read_to_string(Path::new(DEPLOY).join("agent.yaml"))?;
    let manifest = manifest.replace("floe/agent:dev", &format!("floe/agent:{}", tag_of(&digest)));
    cluster.apply(&for_testbed(&manifest, options)?, NAMESPACE)?;
    wait_until_ready(cluster)
}

/// Makes the image of the agent that was just built, for nodes to pull, and returns its
/// digest.
pub fn publish(cluster: &Cluster) -> Result<String> {
    Build::current().publish_agent(cluster)
}

/// Writes the `galaxy.json` of all nodes. Agents read it when they start.
pub fn configure(cluster: &Cluster, networks: &str) -> Result<()> {
    let settings = serde_json::json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "galaxy-etc", "namespace": NAMESPACE },
        "data": { "galaxy.json": networks },
    });
    cluster.apply(&settings.to_string(), NAMESPACE)
}

/// Starts all agents again, one after the other, and waits until they are ready.
pub fn restart(cluster: &Cluster) -> Result<()> {
    let arguments = [
        "rollout",
        "restart",
        "daemonset/floe-agent",
        "--namespace",
        NAMESPACE,
    ];
    command::read(cluster.kubectl().args(arguments))?;
    wait_until_ready(cluster)
}

/// Waits until all agents are ready.
pub fn wait_until_ready(cluster: &Cluster) -> Result<()> {
    let arguments = [
        "rollout",
        "status",
        "daemonset/floe-agent",
        "--timeout=120s",
        "--namespace",
        NAMESPACE,
    ];
    command::read(cluster.kubectl().args(arguments))?;
    Ok(())
}

/// The manifest with pods that keep off fake nodes, which start no containers, and with
/// options of the agents, of which it has none itself.
fn for_testbed(manifest: &str, options: &[&str]) -> Result<String> {
    const OF_POD: &str = "      serviceAccountName: floe-agent\n";
    const OF_AGENT: &str = "          env:\n            - name: MY_NODE_NAME\n";
    for part in [OF_POD, OF_AGENT] {
        let found = manifest.matches(part).count();
        ensure!(found == 1, "the manifest has {found} times {part:?}");
    }
    let affinity = fake_nodes::keep_off();
    let options = serde_json::json!(options);
    Ok(manifest
        .replace(OF_POD, &format!("{OF_POD}      affinity: {affinity}\n"))
        .replace(OF_AGENT, &format!("          args: {options}\n{OF_AGENT}")))
}
