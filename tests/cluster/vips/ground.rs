//! The ground that shared addresses are tested on: a cluster with an agent on each
//! node, and ranges of both families set aside on the segment that the nodes share with
//! the host outside. Each test has addresses of its own.

use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};

use anyhow::{Context, Result, ensure};
use floe_api::floe::virtualip::{Holding, VirtualIP, VirtualIPStatus};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::shared::Shared;
use floe_testbed::cluster::spec::ClusterSpec;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use floe_testbed::supervisor::addresses::NODES as SEGMENT;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use tokio::sync::{OnceCell, RwLockReadGuard, RwLockWriteGuard};

use crate::LIMIT;
use crate::floe_nodes::FloeNodes;
use crate::http::get;
use crate::moving::node_of;

/// The annotation, as the user document writes it.
pub const CLAIM: &str = "cni.projectcalico.org/floatingIPs";

/// The nodes, each of which has one of the three pods of a test.
pub const NODES_OF_PODS: [&str; 3] = ["node-1", "node-2", "node-3"];

/// The networks of nodes.
pub const NETWORKS: &str = r#"{
  "NetworkConf": [{ "type": "galaxy-k8s-vlan", "device": "eth0" }],
  "DefaultNetworks": ["pods"],
  "ENIIPNetwork": "galaxy-k8s-vlan"
}"#;

/// Frames between the ports of a bridge pass no rules of the node: whatever floe does for
/// shared addresses must not need that.
const BRIDGE_NF: &str = "net.bridge.bridge-nf-call-iptables";

static NODES: FloeNodes = FloeNodes {
    cluster: Shared::new(|| ClusterSpec::new("shared-ips")),
    configure,
    networks: NETWORKS,
    options: &["--bridge-nf-call-iptables=false"],
    // Where one test has a cloud.
    variables: &[("FLOE_FAKE_CLOUD_URL", "http://10.200.0.200:8100")],
    ready: OnceCell::const_new(),
};

/// The cluster with floe on every node, beside other tests.
pub async fn together() -> Result<RwLockReadGuard<'static, Cluster>> {
    let cluster = NODES.together().await?;
    bridges_are_bridges(&cluster).await?;
    Ok(cluster)
}

/// The same, with no other test beside.
pub async fn alone() -> Result<RwLockWriteGuard<'static, Cluster>> {
    let cluster = NODES.alone().await?;
    bridges_are_bridges(&cluster).await?;
    Ok(cluster)
}

/// Waits until no node shows frames of bridges to its rules. A node that was off begins
/// with the default, until its agent has looked.
async fn bridges_are_bridges(cluster: &Cluster) -> Result<()> {
    for name in NODES_OF_PODS {
        let node = cluster.host(name).await?;
        wait::until(&format!("{BRIDGE_NF} of {name} is 0"), LIMIT, async || {
            let found = node.network_script(&format!("sysctl -n {BRIDGE_NF}"))?;
            ensure!(found.trim() == "0", "it is {found}");
            Ok(Some(()))
        })
        .await?;
    }
    Ok(())
}

/// Brings agents back to nodes that have none.
pub fn install_agents(cluster: &Cluster) -> Result<()> {
    agent::install_with(cluster, NODES.networks, NODES.options)
}

/// The usual configuration.
pub fn configure(cluster: &Cluster) -> Result<()> {
    configure_with(cluster, &[])
}

/// The usual configuration, and some entries more.
pub fn configure_with(cluster: &Cluster, more: &[Value]) -> Result<()> {
    let v4 = json!({
        "nodeSubnets": [SEGMENT], "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        "ips": ["10.200.0.100~10.200.0.120"],
        "shared": ["10.200.0.210~10.200.0.229", "10.200.0.232~10.200.0.249"],
    });
    let v6 = json!({
        "nodeSubnets": [SEGMENT], "subnet": "fd00:200::/64", "gateway": "fd00:200::1",
        "ips": ["fd00:200::100~fd00:200::120"], "shared": ["fd00:200::210~fd00:200::229"],
    });
    let restricted = json!({
        "nodeSubnets": [SEGMENT], "subnet": "10.200.0.0/24", "gateway": "10.200.0.1",
        "ips": [], "shared": ["10.200.0.230~10.200.0.231"],
        "allowedNamespaces": ["default"],
    });
    let elsewhere = json!({
        "nodeSubnets": [SEGMENT], "subnet": "172.30.0.0/24", "gateway": "172.30.0.1",
        "ips": [], "shared": ["172.30.0.10~172.30.0.19"],
    });
    let mut entries = vec![v4, v6, restricted, elsewhere];
    entries.extend_from_slice(more);
    let configuration = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "floatingip-config", "namespace": floe::NAMESPACE },
        "data": { "floatingips": json!(entries).to_string() },
    });
    cluster.apply(&configuration.to_string(), floe::NAMESPACE)
}

/// The annotation that claims an address.
pub fn claim(ip: &str) -> Value {
    json!({ CLAIM: format!("[\"{ip}\"]") })
}

/// A web server on a node, which is ready unless `/tmp/unready` is there.
pub fn web(name: &str, node: &str, annotations: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": "web" }, "annotations": annotations },
        "spec": {
            "nodeSelector": { "kubernetes.io/hostname": node },
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "web", "image": "nginx:1.7.9",
                "readinessProbe": readiness(),
            }],
        },
    })
}

/// Asks a web server once a second. A command in the container would say the same, and would
/// keep the processors busier than everything else in the cluster.
pub fn readiness() -> Value {
    json!({
        "httpGet": { "path": "/ready", "port": 80 },
        "periodSeconds": 1, "failureThreshold": 1,
        // A busy machine makes nobody unready.
        "timeoutSeconds": 5,
    })
}

/// Runs such a pod on each node, `web-1` to `web-3`, and waits until one of them has the
/// address that all of them claim and answers at it.
pub async fn three(namespace: &TestNamespace<'_>, ip: &str) -> Result<VirtualIP> {
    webs(namespace, &claim(ip)).await?;
    served(namespace, ip, |_| true).await
}

/// Runs such a pod on each node, and waits until all are ready.
pub async fn webs(namespace: &TestNamespace<'_>, annotations: &Value) -> Result<()> {
    for (number, node) in (1..).zip(NODES_OF_PODS) {
        let web = web(&format!("web-{number}"), node, annotations);
        namespace.apply(&web.to_string())?;
    }
    namespace.ready_pods("app=web", 3, LIMIT).await?;
    Ok(())
}

/// Makes such a pod ready or not.
pub fn make_ready(namespace: &TestNamespace<'_>, pod: &str, ready: bool) -> Result<()> {
    let change = if ready { "rm" } else { "touch" };
    namespace.kubectl(&["exec", pod, "--", change, "/tmp/unready"])?;
    Ok(())
}

/// What there is to tell about an address.
pub fn status(vip: &VirtualIP) -> VirtualIPStatus {
    vip.status.clone().unwrap_or_default()
}

/// Who has an address.
pub fn holder(vip: &VirtualIP) -> Result<Holding> {
    let holder = status(vip).holder;
    holder.with_context(|| format!("nobody has {}", vip.name_any()))
}

/// Waits until an object is as `wanted`, its holder answers at all of its addresses, and
/// the agent there says that it serves them.
pub async fn served(
    namespace: &TestNamespace<'_>,
    name: &str,
    wanted: impl Fn(&VirtualIP) -> bool,
) -> Result<VirtualIP> {
    let outside = namespace.cluster().outside().await?;
    let vips = namespace.api::<VirtualIP>();
    until(namespace, &format!("{name} answers"), async || {
        let vip = vips.get(name).await?;
        let (status, holder) = (status(&vip), holder(&vip)?);
        ensure!(wanted(&vip), "it is {}", words(&vip));
        ensure!(!status.addresses.is_empty(), "it has no address");
        for ip in &status.addresses {
            let answer = get(&outside, SocketAddr::new(*ip, 80))
                .with_context(|| format!("it is {}", words(&vip)))?;
            let expected = format!("pod={} ", holder.pod);
            ensure!(
                answer.contains(&expected),
                "{ip} says {answer:?}, it is {}",
                words(&vip)
            );
        }
        let serving = vip.condition("Serving");
        let serves = serving.is_some_and(|it| it.status == "True");
        ensure!(serves, "it says {serving:?}");
        Ok(Some(vip))
    })
    .await
}

/// Waits for a condition; when it does not come, agents tell what they said last.
pub async fn until<T>(
    namespace: &TestNamespace<'_>,
    what: &str,
    probe: impl AsyncFnMut() -> Result<Option<T>>,
) -> Result<T> {
    let outcome = wait::until(what, LIMIT, probe).await;
    outcome.map_err(|why| {
        let place = ["--namespace", floe::NAMESPACE, "--selector", agent::AGENT];
        let logs = ["logs", "--prefix", "--tail=15"];
        let said = namespace.kubectl(&[&logs[..], &place].concat());
        let said = said.unwrap_or_else(|error| format!("{error:#}"));
        why.context(format!("agents said last:\n{said}"))
    })
}

/// Waits until an object has moved away from a pod for this reason and answers there, and
/// everybody is told.
pub async fn moved(
    namespace: &TestNamespace<'_>,
    before: &VirtualIP,
    reason: &str,
) -> Result<VirtualIP> {
    let (name, old) = (before.name_any(), holder(before)?);
    let moves = status(before).moves;
    let after = served(namespace, &name, |vip| {
        let status = status(vip);
        let elsewhere = status.holder.is_some_and(|it| it.uid != old.uid);
        elsewhere && status.moves > moves
    })
    .await;
    let after = match after {
        Ok(after) => after,
        Err(why) => {
            let about = format!("virtualips.floe.dev/{name}");
            let told = namespace.kubectl(&["events", "--for", &about]);
            let told = told.unwrap_or_else(|error| format!("{error:#}"));
            return Err(why.context(format!("it did not move; what was told:\n{told}")));
        }
    };
    let (new, last) = (holder(&after)?, status(&after).last_move);
    let last = last.with_context(|| format!("{name} tells no move"))?;
    let told = (last.reason.as_str(), last.from.as_str(), last.to.as_str());
    ensure!(
        told == (reason, old.pod.as_str(), new.pod.as_str()),
        "{}",
        words(&after)
    );
    let note = format!("moved from pod {} to pod {}", old.pod, new.pod);
    for about in [&name, &old.pod, &new.pod] {
        crate::holdings::told(namespace, about, reason, &note).await?;
    }
    let row = namespace.kubectl(&["get", "vip", &name, "--no-headers"])?;
    let row: Vec<&str> = row.split_whitespace().collect();
    for word in [new.pod.as_str(), new.node.as_str(), reason] {
        ensure!(
            row.contains(&word),
            "kubectl get vip shows {row:?} without {word}"
        );
    }
    Ok(after)
}

/// Waits until an object is as `wanted`, whether anybody answers or not.
pub async fn seen(
    namespace: &TestNamespace<'_>,
    name: &str,
    what: &str,
    wanted: impl Fn(&VirtualIP) -> bool,
) -> Result<VirtualIP> {
    let vips = namespace.api::<VirtualIP>();
    until(namespace, &format!("{name} {what}"), async || {
        let vip = vips.get(name).await?;
        ensure!(wanted(&vip), "it is {}", words(&vip));
        Ok(Some(vip))
    })
    .await
}

/// Waits until an object is refused for this reason.
pub async fn refused(namespace: &TestNamespace<'_>, name: &str, reason: &str) -> Result<()> {
    let wanted = |vip: &VirtualIP| {
        let accepted = vip.condition("Accepted");
        accepted.is_some_and(|it| it.status == "False" && it.reason == reason)
    };
    let vip = seen(namespace, name, &format!("is refused: {reason}"), wanted).await?;
    ensure!(status(&vip).holder.is_none(), "and yet somebody has it");
    Ok(())
}

/// The agent of a node.
pub async fn agent_of(cluster: &Cluster, node: &str) -> Result<Pod> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let here = ListParams::default()
        .labels(agent::AGENT)
        .fields(&format!("spec.nodeName={node}"));
    let found = pods.list(&here).await?.items.into_iter().next();
    found.with_context(|| format!("no agent runs on {node}"))
}

/// The node on which the controller runs that leads.
pub async fn leading_node(cluster: &Cluster) -> Result<String> {
    let leader = floe::leader(cluster, LIMIT).await?;
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    node_of(&pods.get(&leader).await?)
}

/// Has an address move to the pod of a node, as a person asks for it.
pub async fn move_to_node(
    namespace: &TestNamespace<'_>,
    vip: &VirtualIP,
    node: &str,
) -> Result<VirtualIP> {
    if holder(vip)?.node == node {
        return Ok(vip.clone());
    }
    let on_node = |it: &&Pod| node_of(it).is_ok_and(|its| its == node);
    let pods = namespace.pods("app=web").await?;
    let pod = pods
        .iter()
        .find(on_node)
        .with_context(|| format!("no pod on {node}"))?;
    let wish = format!("floe.dev/move-to={}", pod.name_any());
    namespace.kubectl(&["annotate", "vip", &vip.name_any(), &wish])?;
    moved(namespace, vip, "Requested").await
}

/// Pings an address from the outside host as often as this, five times a second, and
/// returns how many answers came.
pub fn pings(from: &floe_testbed::host::HostRef, ip: IpAddr, count: usize) -> Result<usize> {
    let said = from.network_script(&format!("ping -n -i 0.2 -c {count} -W 5 {ip} || true"))?;
    let answers = format!("bytes from {ip}:");
    let answers = said.lines().filter(|line| line.contains(&answers));
    // A duplicate makes up for none that is missing.
    let numbers = answers.filter_map(|line| line.split("icmp_seq=").nth(1)?.split(' ').next());
    Ok(numbers.collect::<BTreeSet<_>>().len())
}

fn words(vip: &VirtualIP) -> String {
    let status = status(vip);
    let conditions = status.conditions.iter();
    let conditions: Vec<String> = conditions
        .map(|it| format!("{}={} {}: {}", it.type_, it.status, it.reason, it.message))
        .collect();
    let candidates: Vec<&String> = status.candidates.iter().map(|it| &it.pod).collect();
    format!(
        "held by {:?}, next {:?}, candidates {candidates:?}, {} moves, last {:?}, {conditions:?}",
        status.holder.map(|it| (it.pod, it.node, it.term)),
        status.successor.map(|it| (it.pod, it.ready)),
        status.moves,
        status.last_move,
    )
}
