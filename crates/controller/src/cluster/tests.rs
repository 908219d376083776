use std::time::Duration;

use floe_core::ipam::{
    names,
    owner::{AppKind, GroupKind},
};
use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::{
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::*;
use crate::store::Store;

const PODS: &str = "/api/v1/pods";
const NODES: &str = "/api/v1/nodes";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
pub const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
pub const STATEFUL_SETS: &str = "/apis/apps/v1/statefulsets";

/// Caches that are fed, and what they tell.
pub struct Running {
    pub cluster: Cluster,
    store: Store,
    changes: broadcast::Receiver<Change>,
    stopper: Stopper,
    task: JoinHandle<()>,
}

/// Feeds caches, and waits for the first lists.
pub async fn start(server: &Server) -> Running {
    let (stopper, stop) = stop::channel();
    let (cluster, store) = (Cluster::new(), Store::default());
    let changes = cluster.changes();
    let feeds = Feeds {
        client: server.client(),
        cluster: cluster.clone(),
        store: store.clone(),
    };
    let task = tokio::spawn(feed(feeds, stop));
    let mut running = Running {
        cluster,
        store,
        changes,
        stopper,
        task,
    };
    let mut warmth = running.store.warmth();
    let warm = warmth.wait_for(|it| it.pods && it.nodes && it.workloads);
    timeout(Duration::from_mins(1), warm)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(running.told().await, ["Relisted"; 5], "one for each list");
    running
}

impl Running {
    /// What was told until nothing more happens, in words.
    pub async fn told(&mut self) -> Vec<String> {
        let mut told = Vec::new();
        // Time is paused: it passes when nothing else is left to do.
        while let Ok(change) = timeout(Duration::from_millis(1), self.changes.recv()).await {
            told.push(words(change.unwrap()));
        }
        told
    }
}

fn words(change: Change) -> String {
    let uid = |pod: Arc<Pod>| format!("{}/{} {}", pod.namespace, pod.name, pod.uid);
    match change {
        Change::Pod { now, before: None } => format!("Pod {}", uid(now)),
        Change::Pod {
            now,
            before: Some(before),
        } => {
            let (old, new) = (before.phase, now.phase);
            format!("Pod {} {old:?} {new:?}", uid(now))
        }
        Change::PodGone(pod) => format!("PodGone {} {:?}", uid(pod.clone()), pod.phase),
        Change::PodMissing(pod) => format!("PodMissing {}", uid(pod)),
        Change::Workload(app) => format!("Workload {:?} {}/{}", app.kind, app.namespace, app.name),
        Change::Node(name) => format!("Node {name}"),
        Change::NodeLooks(name) => format!("NodeLooks {name}"),
        Change::NodeReadiness(name) => format!("NodeReadiness {name}"),
        Change::Relisted => "Relisted".into(),
    }
}

fn pod(name: &str, uid: &str, phase: &str) -> Value {
    json!({
        "metadata": { "name": name, "namespace": "ns", "uid": uid },
        "spec": { "containers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }] },
        "status": { "phase": phase },
    })
}

fn node(name: &str, address: &str, ready: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": {
        "addresses": [
            { "type": "Hostname", "address": "10.9.9.9" },
            { "type": "InternalIP", "address": "not an address" },
            { "type": "InternalIP", "address": address },
            { "type": "InternalIP", "address": "10.0.0.99" },
        ],
        "conditions": [{ "type": "MemoryPressure", "status": "True" }, { "type": "Ready", "status": ready }],
    } })
}

pub fn scaled(name: &str, replicas: u32) -> Value {
    json!({ "metadata": { "name": name, "namespace": "ns" }, "spec": { "replicas": replicas } })
}

pub fn replica_set(name: &str, owner: Option<(&str, &str, &str)>, revision: &str) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(api_version, kind, name)| {
            json!({ "apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": true })
        })
        .collect();
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "ownerReferences": owners,
            "annotations": { "deployment.kubernetes.io/revision": revision },
        },
        "spec": { "replicas": 3 },
    })
}

#[tokio::test(start_paused = true)]
async fn pods_that_want_an_address_are_known() {
    let server = Server::default();
    server.put(PODS, pod("a", "a1", "Pending"));
    let mut other = pod("b", "b1", "Pending");
    other["spec"] = json!({ "containers": [{}] });
    server.put(PODS, other.clone());
    let mut running = start(&server).await;
    let cluster = running.cluster.clone();
    assert_eq!(cluster.pods().len(), 1);
    assert_eq!(cluster.pod("ns", "a").unwrap().uid, "a1");
    assert_eq!(cluster.pod("ns", "b"), None);

    server.put(PODS, pod("a", "a1", "Running"));
    other["status"] = json!({ "phase": "Running" });
    server.put(PODS, other);
    server.put(PODS, pod("c", "c1", "Pending"));
    server.delete(PODS, "b");
    assert_eq!(
        running.told().await,
        ["Pod ns/a a1 Pending Running", "Pod ns/c c1"]
    );

    let mut labelled = pod("a", "a1", "Running");
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    let version = server.put(PODS, labelled)["metadata"]["resourceVersion"].clone();
    assert_eq!(running.told().await, [""; 0], "nothing that matters");
    assert_eq!(json!(cluster.pod("ns", "a").unwrap().version), version);

    server.delete(PODS, "a");
    assert_eq!(running.told().await, ["PodGone ns/a a1 Running"]);
    assert_eq!(cluster.pod("ns", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn another_pod_of_the_same_name_is_another_pod() {
    let server = Server::default();
    server.put(PODS, pod("a", "a1", "Running"));
    let mut running = start(&server).await;
    server.put(PODS, pod("a", "a2", "Pending"));
    assert_eq!(
        running.told().await,
        ["PodGone ns/a a1 Running", "Pod ns/a a2"]
    );

    let mut plain = pod("a", "a3", "Pending");
    plain["spec"] = json!({ "containers": [{}] });
    server.put(PODS, plain);
    assert_eq!(running.told().await, ["PodGone ns/a a2 Pending"]);
    assert_eq!(running.cluster.pod("ns", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn what_a_new_list_does_not_have_is_gone() {
    let server = Server::default();
    for name in ["a", "b", "c", "d"] {
        server.put(PODS, pod(name, &format!("{name}1"), "Pending"));
    }
    server.put(NODES, node("n1", "10.0.0.1", "True"));
    server.put(DEPLOYMENTS, scaled("web", 2));
    let mut running = start(&server).await;
    server.state().down = true;
    server.compact();
    server.delete(PODS, "a");
    server.put(PODS, pod("b", "b1", "Succeeded"));
    server.put(PODS, pod("c", "c2", "Pending"));
    server.put(PODS, pod("e", "e1", "Pending"));
    server.delete(NODES, "n1");
    server.delete(DEPLOYMENTS, "web");
    server.compact();
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(running.told().await, [""; 0]);
    server.state().down = false;
    tokio::time::sleep(Duration::from_secs(10)).await;
    let told = running.told().await;
    let pods: Vec<&String> = told.iter().filter(|it| it.starts_with("Pod")).collect();
    assert_eq!(
        pods,
        [
            "Pod ns/b b1 Pending Finished",
            "PodGone ns/c c1 Pending",
            "Pod ns/c c2",
            "Pod ns/e e1",
            "PodMissing ns/a a1",
        ]
    );
    assert!(told.contains(&"Node n1".into()), "{told:?}");
    assert!(
        told.contains(&"Workload Deployment ns/web".into()),
        "{told:?}"
    );
    let relisted = told.iter().filter(|it| *it == "Relisted").count();
    assert_eq!(relisted, 5);
    let last_gone = told.iter().rposition(|it| it.starts_with("PodMissing"));
    let last_list = told.iter().rposition(|it| it == "Relisted");
    assert!(last_gone < last_list, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_makes_no_sense_stops_nothing() {
    let server = Server::default();
    server.put(PODS, pod("a", "a1", "Running"));
    server.put(NODES, node("n1", "10.0.0.1", "True"));
    let mut running = start(&server).await;
    let mut broken = pod("a", "a1", "Running");
    broken["spec"] = json!("nonsense");
    server.put(PODS, broken);
    server.put(NODES, json!({ "metadata": { "name": "n1" }, "status": 7 }));
    server.put(
        DEPLOYMENTS,
        json!({ "metadata": { "name": "web", "namespace": "ns" }, "spec": "nonsense" }),
    );
    server.put(PODS, pod("b", "b1", "Pending"));
    assert_eq!(running.told().await, ["Pod ns/b b1"]);
    // Nor does it in a list.
    server.compact();
    tokio::time::sleep(Duration::from_mins(6)).await;
    assert_eq!(running.told().await, ["Relisted"; 5]);
    assert_eq!(
        running.cluster.pod("ns", "a").unwrap().phase,
        Phase::Running
    );
    assert!(running.cluster.node("n1").unwrap().ready);
    // Another pod of that name proves that the old one is gone.
    let mut other = pod("a", "a2", "Running");
    other["spec"] = json!("nonsense");
    server.put(PODS, other);
    assert_eq!(running.told().await, ["PodGone ns/a a1 Running"]);
    assert_eq!(running.cluster.pod("ns", "a"), None);
}

#[tokio::test(start_paused = true)]
async fn nodes_are_known_by_their_first_readable_address() {
    let server = Server::default();
    server.put(NODES, node("n1", "10.0.0.1", "True"));
    server.put(NODES, node("n2", "fd00::1", "Unknown"));
    server.put(NODES, json!({ "metadata": { "name": "n3" } }));
    let mut running = start(&server).await;
    let cluster = running.cluster.clone();
    let address = |text: &str| Some(text.parse::<IpAddr>().unwrap());
    let looked = cluster.nodes(|look| ["n1", "n2", "n3", "n4"].map(look));
    assert_eq!(
        looked,
        [address("10.0.0.1"), address("fd00::1"), None, None]
    );
    assert_eq!(cluster.node("n2").map(|it| it.ready), Some(false));
    assert_eq!(cluster.node("n4"), None);
    let mut all = cluster.all_nodes();
    all.sort();
    assert_eq!(all.len(), 3);
    assert_eq!(all[0], ("n1".into(), address("10.0.0.1")));

    server.put(NODES, node("n1", "10.0.0.1", "False"));
    server.put(NODES, node("n2", "fd00::2", "Unknown"));
    server.put(NODES, node("n2", "fd00::2", "False"));
    server.put(NODES, node("n5", "10.0.0.5", "False"));
    server.delete(NODES, "n3");
    let told = running.told().await;
    assert_eq!(told, ["NodeReadiness n1", "Node n2", "Node n5", "Node n3"]);
    // A look goes on with the nodes of its moment.
    cluster.nodes(|look| {
        let event = kube::runtime::watcher::Event::InitDone;
        nodes::enter(&cluster, kube::runtime::watcher::Event::Init);
        nodes::enter(&cluster, event);
        assert_eq!(look("n1"), address("10.0.0.1"));
        assert_eq!(cluster.node("n1"), None);
    });
}

#[tokio::test(start_paused = true)]
async fn changes_of_built_in_workloads_are_told() {
    let server = Server::default();
    server.put(DEPLOYMENTS, scaled("web", 2));
    server.put(STATEFUL_SETS, scaled("db", 2));
    let deployment = Some(("apps/v1", "Deployment", "web"));
    server.put(REPLICA_SETS, replica_set("web-1", deployment, "1"));
    server.put(REPLICA_SETS, replica_set("alone", None, ""));
    let mut running = start(&server).await;

    server.put(DEPLOYMENTS, scaled("web", 3));
    assert_eq!(running.told().await, ["Workload Deployment ns/web"]);
    server.put(DEPLOYMENTS, scaled("web", 3));
    assert_eq!(running.told().await, [""; 0]);
    let mut numbered = scaled("db", 2);
    numbered["spec"]["ordinals"] = json!({ "start": 5 });
    server.put(STATEFUL_SETS, numbered);
    assert_eq!(running.told().await, ["Workload StatefulSet ns/db"]);

    let mut set = replica_set("web-1", deployment, "1");
    set["spec"]["replicas"] = json!(0);
    server.put(REPLICA_SETS, set);
    assert_eq!(
        running.told().await,
        [""; 0],
        "the Deployment says what is wanted"
    );
    server.put(REPLICA_SETS, replica_set("web-1", deployment, "3"));
    assert_eq!(running.told().await, ["Workload Deployment ns/web"]);
    let mut set = replica_set("alone", None, "");
    set["spec"]["replicas"] = json!(0);
    server.put(REPLICA_SETS, set);
    assert_eq!(running.told().await, ["Workload ReplicaSet ns/alone"]);
    let rollout = Some(("argoproj.io/v1", "Rollout", "r"));
    server.put(REPLICA_SETS, replica_set("r-1", rollout, "1"));
    let kind = AppKind::ReplicaSetOf(GroupKind {
        group: "argoproj.io".into(),
        kind: "Rollout".into(),
    });
    assert_eq!(running.told().await, [format!("Workload {kind:?} ns/r")]);
    server.delete(STATEFUL_SETS, "db");
    assert_eq!(running.told().await, ["Workload StatefulSet ns/db"]);
}

#[tokio::test(start_paused = true)]
async fn warmth_comes_with_each_list_and_a_stop_ends_all() {
    let server = Server::default();
    server.always(
        http_get(),
        STATEFUL_SETS,
        floe_shell::mock::Fault::Refuse(500),
    );
    let (stopper, stop) = stop::channel();
    let store = Store::default();
    let feeds = Feeds {
        client: server.client(),
        cluster: Cluster::new(),
        store: store.clone(),
    };
    let task = tokio::spawn(feed(feeds, stop));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let warmth = *store.warmth().borrow();
    assert_eq!(
        (warmth.pods, warmth.nodes, warmth.workloads),
        (true, true, false)
    );
    server.heal();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert!(store.warmth().borrow().workloads);
    let begin = Instant::now();
    stopper.stop();
    task.await.unwrap();
    assert_eq!(begin.elapsed(), Duration::ZERO);
}

pub fn http_get() -> axum::http::Method {
    axum::http::Method::GET
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop();
        self.task.abort();
    }
}
