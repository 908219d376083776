//! What schedules play with: on each node a pod that nodes rewrite for and one that has the
//! addresses itself, and for each kind an object with an address of either family.

use anyhow::{Context, Result, ensure};
use floe_testbed::cluster::namespace::TestNamespace;
use floe_testbed::cluster::{Cluster, wait};
use floe_testbed::floe::{self, agent};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

use crate::LIMIT;
use crate::holdings::FAMILIES;
use crate::moving::node_of;
use crate::underlay;
use crate::vips::ground::{NODES_OF_PODS, holder, readiness, served, status, web};

/// The objects, each for the pods of a label that is called the same.
pub const OBJECTS: [(&str, &[&str]); 2] = [
    ("web", &["10.200.0.228", "fd00:200::228"]),
    ("direct", &["10.200.0.229", "fd00:200::229"]),
];

/// A network of both families for the pods of a node that nodes rewrite for. The one that
/// each pod has by itself knows only one of them.
const BOTH: &str = "both-families";

/// Makes all of it, and waits until both objects are served.
pub async fn set_up(namespace: &TestNamespace<'_>) -> Result<()> {
    let cluster = namespace.cluster();
    for (number, node) in (1..).zip(NODES_OF_PODS) {
        let file = format!("/etc/cni/net.d/20-{BOTH}.conflist");
        let script = format!("echo '{}' > {file}", network(number));
        cluster.host(node).await?.shell(&script)?;
    }
    let networks = json!({ "k8s.v1.cni.cncf.io/networks": BOTH });
    namespace.apply(&daemons("web", web("web", "", &networks)).to_string())?;
    let direct = underlay::pod("direct", &json!({ FAMILIES: "v4,v6" }));
    namespace.apply(&daemons("direct", direct).to_string())?;
    for (name, addresses) in OBJECTS {
        let object = json!({
            "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
            "metadata": { "name": name },
            "spec": {
                "addresses": addresses,
                "selector": { "matchLabels": { "app": name } },
                "failover": { "minSecondsBetweenMoves": 0 },
            },
        });
        namespace.apply(&object.to_string())?;
    }
    settle(namespace).await?;
    for (name, mode) in [("web", "nat"), ("direct", "direct")] {
        let vip = served(namespace, name, |_| true).await?;
        ensure!(holder(&vip)?.mode == mode, "{name} is served otherwise");
    }
    Ok(())
}

/// A network whose packets the node routes.
fn network(node: u8) -> Value {
    json!({
        "cniVersion": "1.0.0", "name": BOTH,
        "plugins": [{
            "type": "ptp", "ipMasq": false, "mtu": 1500,
            "ipam": {
                "type": "host-local",
                "ranges": [
                    [{ "subnet": format!("10.245.{node}.0/24") }],
                    [{ "subnet": format!("fd00:245:{node}::/64") }],
                ],
                "routes": [{ "dst": "0.0.0.0/0" }, { "dst": "::/0" }],
            },
        }],
    })
}

/// Such a pod on each node, again and again.
fn daemons(name: &str, mut pod: Value) -> Value {
    pod["spec"]["terminationGracePeriodSeconds"] = json!(1);
    pod["spec"]["nodeSelector"] = json!({});
    pod["spec"]["containers"][0]["readinessProbe"] = readiness();
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": name },
        "spec": {
            "selector": { "matchLabels": { "app": name } },
            "template": {
                "metadata": {
                    "labels": { "app": name },
                    "annotations": pod["metadata"]["annotations"],
                },
                "spec": pod["spec"],
            },
        },
    })
}

/// Waits until everything that was broken is whole again, and both objects are served, each
/// with a candidate on every node.
pub async fn settle(namespace: &TestNamespace<'_>) -> Result<()> {
    let cluster = namespace.cluster();
    for node in NODES_OF_PODS {
        cluster.wait_for_node(node, true, LIMIT).await?;
    }
    agents_are_ready(cluster).await?;
    for (name, _) in OBJECTS {
        let selector = format!("app={name}");
        let count = NODES_OF_PODS.len();
        for pod in namespace.pods(&selector).await? {
            // Nobody could be asked for it while the API server was away. A pod that is
            // going, or not there yet, does not need it.
            let well = ["exec", &pod.name_any(), "--", "rm", "-f", "/tmp/unready"];
            let _ = namespace.kubectl(&well);
        }
        namespace.ready_pods(&selector, count, LIMIT).await?;
        let all = |vip: &_| status(vip).candidates.len() == count;
        served(namespace, name, all).await?;
    }
    Ok(())
}

/// Waits until each node has an agent that is ready.
async fn agents_are_ready(cluster: &Cluster) -> Result<()> {
    let pods: Api<Pod> = Api::namespaced(cluster.client().await?, floe::NAMESPACE);
    let only = ListParams::default().labels(agent::AGENT);
    wait::until("all agents are ready", LIMIT, async || {
        let agents = pods.list(&only).await?.items;
        for agent in agents.iter().filter(|it| is_put_off(it)) {
            // A node starts what was killed often only after minutes; a new pod at once.
            pods.delete(&agent.name_any(), &DeleteParams::default().grace_period(0))
                .await?;
        }
        let ready = agents
            .iter()
            .filter(|it| floe_testbed::cluster::namespace::is_ready(it));
        Ok((ready.count() == NODES_OF_PODS.len()).then_some(()))
    })
    .await
}

fn is_put_off(pod: &Pod) -> bool {
    let containers = pod
        .status
        .as_ref()
        .and_then(|it| it.container_statuses.as_ref());
    let mut waiting = containers
        .into_iter()
        .flatten()
        .filter_map(|it| it.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
    waiting.any(|reason| reason == "CrashLoopBackOff")
}

/// The pod of an object on a node.
pub async fn pod_on(namespace: &TestNamespace<'_>, object: &str, node: &str) -> Result<Pod> {
    let pods = namespace.pods(&format!("app={object}")).await?;
    let found = pods
        .into_iter()
        .find(|it| node_of(it).is_ok_and(|its| its == node));
    found.with_context(|| format!("{object} has no pod on {node}"))
}
