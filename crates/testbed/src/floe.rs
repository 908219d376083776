//! floe itself on a cluster: its images made from what was just built, its
//! manifests applied as they are in the tree.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, ListParams};
use serde_json::json;

use crate::cluster::{Cluster, wait};
use crate::command;
use crate::supervisor::addresses::{EXTENDER_PORT, EXTENDER_SERVICE, NODES};
use crate::supervisor::fake_nodes;

pub mod agent;
pub mod build;

use build::Build;

/// The namespace that floe lives in.
pub const NAMESPACE: &str = "kube-system";
/// Selects the pods of the controller.
pub const CONTROLLER: &str = "app.kubernetes.io/name=floe-controller";

const DEPLOY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy");
/// The Service at which the scheduler finds the extender.
const EXTENDER: &str = "floe-extender";
/// The Deployment and the program of the controller.
const DEPLOYMENT: &str = "floe-controller";

/// Installs floe, or upgrades it, and waits until it is ready.
pub fn install(cluster: &Cluster) -> Result<()> {
    install_with(cluster, &[])
}

/// As [`install`], with variables in the controllers' environment.
pub fn install_with(cluster: &Cluster, variables: &[(&str, &str)]) -> Result<()> {
    let digest = publish_controller(cluster)?;
    apply_definitions(cluster)?;
    let manifest = fs::read_to_string(Path::new(DEPLOY).join("controller.yaml"))?;
    let image = format!("floe/controller:{}", tag_of(&digest));
    let manifest = manifest.replace("floe/controller:dev", &image);
    cluster.apply_all(&for_testbed(&manifest, variables)?)?;
    publish_extender(cluster)?;
    wait_until_ready(cluster)
}

/// Makes the image of the controller that was just built, for nodes to pull, and returns
/// its digest.
pub fn publish_controller(cluster: &Cluster) -> Result<String> {
    Build::current().publish_controller(cluster)
}

/// A tag of its own per build: nodes keep what they pulled, and whoever installs
/// again after a change wants to see the change.
pub fn tag_of(digest: &str) -> String {
    let digits = digest.trim_start_matches("sha256:").chars();
    digits.take(12).collect()
}

/// Applies floe's definitions as an administrator would, over whatever definitions
/// are there already.
pub fn apply_definitions(cluster: &Cluster) -> Result<()> {
    let definitions = Path::new(DEPLOY).join("crds");
    let mut kubectl = cluster.kubectl();
    kubectl.args(["apply", "--server-side", "--force-conflicts", "--filename"]);
    command::read(kubectl.arg(definitions))?;
    Ok(())
}

/// Waits until all controllers are ready.
pub fn wait_until_ready(cluster: &Cluster) -> Result<()> {
    wait_for_rollout(cluster, NAMESPACE, DEPLOYMENT)
}

/// Has so many controllers run, and waits until they do, or until all are gone.
/// The records of addresses stay.
pub fn scale(cluster: &Cluster, replicas: u8) -> Result<()> {
    let deployment = format!("deployment/{DEPLOYMENT}");
    let wanted = format!("--replicas={replicas}");
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = cluster.kubectl();
        command::read(kubectl.args(["--namespace", NAMESPACE]).args(arguments))
    };
    kubectl(&["scale", &deployment, &wanted])?;
    if replicas > 0 {
        return wait_until_ready(cluster);
    }
    let gone = ["wait", "pod", "--for=delete", "--timeout=60s", "--selector"];
    kubectl(&[&gone[..], &[CONTROLLER]].concat())?;
    Ok(())
}

/// The management API as galaxy has it, plain and open to everybody, until this is
/// dropped.
pub struct OpenApi<'a>(&'a Cluster);

impl<'a> OpenApi<'a> {
    /// Has all controllers run with `--api-auth=none`.
    pub fn start(cluster: &'a Cluster) -> Result<Self> {
        // Made first, so that a half-done start is undone, too.
        let open = Self(cluster);
        set_variable(cluster, "FLOE_API_AUTH=none")?;
        Ok(open)
    }
}

impl Drop for OpenApi<'_> {
    fn drop(&mut self) {
        // Whoever calls it next with a token finds out.
        let _ = set_variable(self.0, "FLOE_API_AUTH-");
    }
}

/// Sets a variable of the controllers, or removes it, and waits until all run so and
/// nobody is sent to those of before.
fn set_variable(cluster: &Cluster, change: &str) -> Result<()> {
    let deployment = format!("deployment/{DEPLOYMENT}");
    let kubectl = |arguments: &[&str]| {
        let mut kubectl = cluster.kubectl();
        command::read(kubectl.args(["--namespace", NAMESPACE]).args(arguments))
    };
    let before = kubectl(&["get", "pod", "--output=name", "--selector", CONTROLLER])?;
    kubectl(&["set", "env", &deployment, change])?;
    wait_until_ready(cluster)?;
    let gone = ["wait", "--for=delete", "--timeout=60s"];
    let before: Vec<&str> = before.lines().collect();
    kubectl(&[&gone[..], &before].concat())?;
    Ok(())
}

/// Gives the extender the address at which the scheduler looks for it.
pub fn publish_extender(cluster: &Cluster) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(30);
    let (key, name) = CONTROLLER.split_once('=').context("a label has a value")?;
    let service = format!(
        "
apiVersion: v1
kind: Service
metadata: {{ name: {EXTENDER} }}
spec:
  clusterIP: {EXTENDER_SERVICE}
  selector: {{ {key}: {name} }}
  ports: [{{ port: {EXTENDER_PORT} }}]
"
    );
    let deadline = Instant::now() + PATIENCE;
    loop {
        match cluster.apply(&service, NAMESPACE) {
            Ok(()) => return Ok(()),
            // A Service that had the address before may still be going.
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(200)),
            Err(error) => return Err(error).context("cannot publish the extender"),
        }
    }
}

/// Takes the address from the extender, so that another one can have it.
pub fn withdraw_extender(cluster: &Cluster) -> Result<()> {
    let service = ["delete", "service", EXTENDER, "--ignore-not-found"];
    let mut kubectl = cluster.kubectl();
    command::read(kubectl.args(["--namespace", NAMESPACE]).args(service))?;
    Ok(())
}

/// The manifest with variables, and with pods that keep off fake nodes, which start
/// no containers.
fn for_testbed(manifest: &str, variables: &[(&str, &str)]) -> Result<String> {
    const OF_POD: &str = "      serviceAccountName: floe-controller\n";
    const OF_CONTAINER: &str = "          env:\n";
    for anchor in [OF_POD, OF_CONTAINER] {
        let found = manifest.matches(anchor).count();
        anyhow::ensure!(found == 1, "the manifest has {found} times {anchor:?}");
    }
    let affinity = fake_nodes::keep_off();
    // JSON is YAML.
    let affinity = format!("{OF_POD}      affinity: {affinity}\n");
    let mut environment = OF_CONTAINER.to_owned();
    for (name, value) in variables {
        let variable = json!({ "name": name, "value": value });
        writeln!(environment, "            - {variable}")?;
    }
    Ok(manifest
        .replace(OF_POD, &affinity)
        .replace(OF_CONTAINER, &environment))
}

/// Applies one of the samples in `deploy/examples`, and waits for its Deployment.
pub fn install_example(cluster: &Cluster, name: &str, deployment: &str) -> Result<()> {
    cluster.apply(&example(name)?, "default")?;
    wait_for_rollout(cluster, "default", deployment)
}

/// Configures addresses of both families on the segment that the nodes share with the
/// host outside.
pub fn configure_segment(cluster: &Cluster) -> Result<()> {
    let entry = |ips: &str, subnet: &str, gateway: &str| json!({ "nodeSubnets": [NODES], "ips": [ips], "subnet": subnet, "gateway": gateway });
    let entries = json!([
        entry("10.200.0.100~10.200.0.180", "10.200.0.0/24", "10.200.0.1"),
        entry(
            "fd00:200::100~fd00:200::180",
            "fd00:200::/64",
            "fd00:200::1"
        ),
    ]);
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": NAMESPACE },
        "data": { "floatingips": entries.to_string() },
    });
    cluster.apply(&configuration.to_string(), NAMESPACE)
}

fn example(name: &str) -> Result<String> {
    let file = Path::new(DEPLOY)
        .join("examples")
        .join(format!("{name}.yaml"));
    fs::read_to_string(&file).with_context(|| format!("there is no example {}", file.display()))
}

/// A controller that leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leader {
    /// Its pod.
    pub pod: String,
    /// The name of the process in the lease; a new process has a new one.
    pub identity: String,
}

/// Where controllers run, and by which lease one of them leads.
#[derive(Clone, Copy, Debug)]
pub struct Home {
    /// The namespace of pods and lease.
    pub namespace: &'static str,
    /// The lease.
    pub lease: &'static str,
    /// Selects the pods.
    pub pods: &'static str,
}

/// As `deploy/controller.yaml` has it.
pub const HOME: Home = Home {
    namespace: NAMESPACE,
    lease: "galaxy-ipam",
    pods: CONTROLLER,
};

/// Waits until one of the running controllers leads, and names its pod.
pub async fn leader(cluster: &Cluster, limit: Duration) -> Result<String> {
    Ok(leader_after(cluster, HOME, None, limit).await?.pod)
}

/// Waits until another process leads than the one before.
pub async fn leader_after(
    cluster: &Cluster,
    home: Home,
    before: Option<&Leader>,
    limit: Duration,
) -> Result<Leader> {
    let client = cluster.client().await?;
    let leases: Api<Lease> = Api::namespaced(client.clone(), home.namespace);
    let pods: Api<Pod> = Api::namespaced(client, home.namespace);
    wait::until("a controller leads", limit, async || {
        let holder = leases
            .get(home.lease)
            .await?
            .spec
            .and_then(|spec| spec.holder_identity);
        let identity = holder.unwrap_or_default();
        // The identity is the host name, which is the pod's, and a random part.
        let pod = identity.split('_').next().unwrap_or_default().to_owned();
        let controllers = pods.list(&ListParams::default().labels(home.pods)).await?;
        let leads = controllers.items.iter().any(|it| {
            it.metadata.name.as_ref() == Some(&pod) && it.metadata.deletion_timestamp.is_none()
        });
        let is_new = before.is_none_or(|before| before.identity != identity);
        Ok((leads && is_new).then_some(Leader { pod, identity }))
    })
    .await
}

/// Kills the process of a leader without warning. Its node starts it again, as
/// somebody new.
pub async fn kill(cluster: &Cluster, leader: &Leader) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, NAMESPACE);
    cluster.kill_in_pod(&pods.get(&leader.pod).await?, DEPLOYMENT)
}

fn wait_for_rollout(cluster: &Cluster, namespace: &str, deployment: &str) -> Result<()> {
    let deployment = format!("deployment/{deployment}");
    let arguments = [
        "rollout",
        "status",
        &deployment,
        "--timeout=120s",
        "--namespace",
        namespace,
    ];
    command::read(cluster.kubectl().args(arguments))?;
    Ok(())
}
