//! For tests: a small cluster with an API server, caches that are fed, and books.

use std::time::Duration;

use floe_api::{extender::PodRef, galaxy::FloatingIP};
use floe_core::{
    config::{AddressConfig, Mode},
    ipam::names,
};
use floe_shell::{
    mock::Server,
    stop::{self, Stopper},
};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::{sync::watch, time::timeout};

use super::*;
use crate::{
    cluster::{self, feed},
    desk::Desk,
    events,
    leader::Standing,
    metrics::Metrics,
    report::Reporter,
    store::Seen,
    turns::Turns,
    waiting::Waker,
};

pub const PODS: &str = "/api/v1/pods";
pub const NODES: &str = "/api/v1/nodes";
pub const DEPLOYMENTS: &str = "/apis/apps/v1/deployments";
pub const REPLICA_SETS: &str = "/apis/apps/v1/replicasets";
pub const EVENTS: &str = "/apis/events.k8s.io/v1/events";

/// n1 can carry 10.0.70.2 to .4, n2 10.0.80.2 and .3; n3 is in no subnet.
const CONFIG: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.4"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"},
    {"nodeSubnets": ["10.0.2.0/24"], "ips": ["10.0.80.2~10.0.80.3"],
     "subnet": "10.0.80.0/24", "gateway": "10.0.80.1"}
]"#;

pub struct Scene {
    pub server: Server,
    pub cluster: Cluster,
    pub store: Store,
    pub waiting: Waiting,
    pub turns: Turns,
    pub claims: Claims,
    pub metrics: Metrics,
    pub reporter: Reporter,
    pub standing: watch::Sender<Standing>,
    pub stop: stop::Stop,
    _stopper: Stopper,
}

impl Scene {
    /// Nodes n1, n2 and n3, and nothing else. All caches are warm.
    pub async fn start() -> Self {
        let server = Server::default();
        for (name, address) in [("n1", "10.0.1.1"), ("n2", "10.0.2.1"), ("n3", "10.0.3.1")] {
            server.put(NODES, node(name, address));
        }
        let (stopper, stop) = stop::channel();
        let (cluster, store) = (Cluster::new(), Store::default());
        let feeds = cluster::Feeds {
            client: server.client(),
            cluster: cluster.clone(),
            store: store.clone(),
        };
        tokio::spawn(feed(feeds, stop.clone()));
        let (waiting, metrics) = (Waiting::default(), Metrics::default());
        let (told, inbox) = events::channel();
        tokio::spawn(inbox.write(server.client(), "pod".into(), stop.clone()));
        let workloads = Workloads::new(server.client(), cluster.clone());
        let claims = Claims::new(
            server.client(),
            cluster.clone(),
            workloads,
            store.clone(),
            waiting.clone(),
        );
        let loaded = AddressConfig::parse(CONFIG, Mode::Strict).unwrap();
        store.change(|books| books.configure(loaded.config));
        store.warm(|warmth| {
            warmth.records = true;
            warmth.pools = true;
            warmth.configuration = true;
        });
        let mut warmth = store.warmth();
        let warm = timeout(Duration::from_mins(1), warmth.wait_for(|it| it.is_warm()));
        warm.await.unwrap().unwrap();
        Self {
            server,
            cluster,
            store,
            waiting,
            turns: Turns::default(),
            claims,
            reporter: Reporter::new(told, metrics.clone()),
            metrics,
            standing: watch::Sender::new(Standing::Leading),
            stop,
            _stopper: stopper,
        }
    }

    pub fn desk(&self) -> Desk {
        Desk {
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            waiting: self.waiting.clone(),
            turns: self.turns.clone(),
            reporter: self.reporter.clone(),
            metrics: self.metrics.clone(),
        }
    }

    pub fn waker(&self) -> Waker {
        Waker {
            client: self.server.client(),
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            waiting: self.waiting.clone(),
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
        }
    }

    /// A Deployment `web` with two `ReplicaSets`, `web-1` and the newer `web-2`.
    pub async fn deployment(&self, replicas: u32) {
        let scaled = json!({
            "metadata": { "name": "web", "namespace": "ns" }, "spec": { "replicas": replicas },
        });
        self.server.put(DEPLOYMENTS, scaled);
        for revision in ["1", "2"] {
            let set = json!({
                "metadata": {
                    "name": format!("web-{revision}"), "namespace": "ns",
                    "ownerReferences": [owner("apps/v1", "Deployment", "web")],
                    "annotations": { "deployment.kubernetes.io/revision": revision },
                },
                "spec": { "replicas": replicas },
            });
            self.server.put(REPLICA_SETS, set);
        }
        settle().await;
    }

    /// A pod of that Deployment that keeps its address.
    pub async fn web(&self, name: &str, revision: u32) -> PodRef {
        let mut object = pod(name);
        object["metadata"]["ownerReferences"] =
            json!([owner("apps/v1", "ReplicaSet", &format!("web-{revision}"))]);
        object["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "immutable" });
        self.add(object).await
    }

    /// A pod of that Deployment that is bound to n1 and has an address, ready or not.
    pub async fn runs(&self, name: &str, revision: u32, ip: &str, ready: bool) -> PodRef {
        let mut object = pod(name);
        object["metadata"]["ownerReferences"] =
            json!([owner("apps/v1", "ReplicaSet", &format!("web-{revision}"))]);
        object["metadata"]["annotations"] = json!({ names::RELEASE_POLICY: "immutable" });
        object["spec"]["nodeName"] = json!("n1");
        let ready = if ready { "True" } else { "False" };
        object["status"] = json!({
            "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }],
        });
        let pod = self.add(object).await;
        self.hold(ip, &format!("dp_ns_web_{name}"), &pod.uid);
        pod
    }

    /// A pod that belongs to nothing.
    pub async fn bare(&self, name: &str) -> PodRef {
        self.add(pod(name)).await
    }

    pub async fn add(&self, object: Value) -> PodRef {
        let object = self.server.put(PODS, object);
        settle().await;
        serde_json::from_value(object["metadata"].clone()).unwrap()
    }

    /// Enters a record, as a watch does.
    pub fn hold(&self, ip: &str, key: &str, uid: &str) {
        let node = if uid.is_empty() { "" } else { "n1" };
        let place = json!({ "NodeName": node, "Uid": uid });
        let object = json!({
            "metadata": { "name": ip, "uid": format!("uid-{ip}"), "resourceVersion": version() },
            "spec": {
                "key": key, "policy": 1, "attribute": place.to_string(),
                "updateTime": "2026-01-01T00:00:00Z",
            },
        });
        let object: FloatingIP = serde_json::from_value(object).unwrap();
        self.store
            .change(|books| books.record(&Seen::Whole(object)));
    }

    /// The record is gone.
    pub fn free(&self, ip: &str) {
        let metadata = json!({
            "name": ip, "uid": format!("uid-{ip}"), "resourceVersion": version(),
        });
        let metadata = serde_json::from_value(metadata).unwrap();
        self.store.change(|books| books.record_gone(&metadata));
    }

    pub fn promised(&self, pod: &PodRef) -> bool {
        self.store
            .read(|books| books.ledger().promise_to(&pod.uid).is_some())
    }

    /// The names of the pods that were woken, in the order of their names.
    pub fn woken(&self) -> Vec<String> {
        let pods = self.server.objects(PODS).into_iter();
        let woken = pods.filter(|pod| pod["metadata"]["annotations"]["floe.dev/woken"].is_string());
        woken
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// What was told to people about pods.
    pub fn told(&self) -> Vec<String> {
        let mut events = self.server.objects(EVENTS);
        events.sort_by_key(|event| event["eventTime"].as_str().map(ToOwned::to_owned));
        let text = |event: &Value, name: &str| event[name].as_str().unwrap().to_owned();
        events
            .iter()
            .map(|event| {
                let pod = text(&event["regarding"], "name");
                format!("{pod} {} {}", text(event, "type"), text(event, "reason"))
            })
            .collect()
    }

    /// The figure of a metric, with its labels.
    pub fn figure(&self, name: &str) -> Option<String> {
        let registry = self
            .metrics
            .registry(self.store.clone(), self.standing.subscribe());
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.map(|figure| figure.trim().to_owned())
    }
}

/// Lets everything happen that can happen without time.
pub async fn settle() {
    tokio::time::sleep(Duration::from_millis(5)).await;
}

pub fn node(name: &str, address: &str) -> Value {
    json!({ "metadata": { "name": name }, "status": {
        "addresses": [{ "type": "InternalIP", "address": address }],
        "conditions": [{ "type": "Ready", "status": "True" }],
    } })
}

pub fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "ns", "uid": format!("uid-{name}"),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "containers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }] },
        "status": { "phase": "Pending" },
    })
}

pub fn owner(api_version: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": api_version, "kind": kind, "name": name, "uid": "o", "controller": true,
    })
}

/// Each one higher than the last.
fn version() -> String {
    use std::sync::atomic::{AtomicU64, Ordering};
    static LAST: AtomicU64 = AtomicU64::new(1);
    LAST.fetch_add(1, Ordering::Relaxed).to_string()
}

/// When a promise ends that does not end in a test.
pub fn later() -> Timestamp {
    Timestamp::now()
        .saturating_add(Duration::from_mins(10))
        .unwrap()
}
