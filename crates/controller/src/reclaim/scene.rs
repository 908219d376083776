//! For tests: a cluster with an API server, caches and books that are fed by it,
//! and all tasks of the leader that keep the records true.

use std::{sync::Arc, time::Duration};

use floe_core::{
    config::{AddressConfig, Mode},
    ipam::{ledger::Record, names},
};
use floe_providers::IpProvider;
use floe_shell::{
    mock::Server,
    stop::{self, Stop, Stopper},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::Reclaimer;
use crate::{
    actions::Actions,
    adopt::Adopter,
    binder::Binder,
    claims::{
        Claims,
        scene::{NODES, PODS, node, owner, pod},
    },
    cloud::Cloud,
    cluster::{self, Cluster, Workloads},
    config::{Scheduling, SchedulingSettings},
    directory::Directory,
    events::{self, Events},
    evict::Evictor,
    gates::{Calls, Gatekeeper},
    leader::Standing,
    marks::Marker,
    metrics::Metrics,
    pools::{Filler, Preallocator},
    records::Records,
    report::Reporter,
    rest::Rest,
    store::{self, Store},
    turns::Turns,
    vips::store::Vips,
    waiting::{Waiting, Waker},
};

pub const FIPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
pub const POOLS: &str = "/apis/galaxy.k8s.io/v1alpha1/pools";
pub const STATEFUL_SETS: &str = "/apis/apps/v1/statefulsets";

/// Nodes of 10.0.1 can carry 10.0.70.2 to .9, nodes of 10.0.2 10.0.80.2 to .5.
const CONFIG: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.9"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1"},
    {"nodeSubnets": ["10.0.2.0/24"], "ips": ["10.0.80.2~10.0.80.5"],
     "subnet": "10.0.80.0/24", "gateway": "10.0.80.1"}
]"#;

pub struct Scene {
    pub server: Server,
    pub cluster: Cluster,
    pub store: Store,
    pub records: Records,
    pub turns: Turns,
    pub cloud: Cloud,
    pub standing: watch::Sender<Standing>,
    /// Known once a test has them fed.
    pub vips: Vips,
    workloads: Workloads,
    pub waiting: Waiting,
    calls: Calls,
    claims: Claims,
    metrics: Metrics,
    events: Events,
    reporter: Reporter,
    directory: Directory,
    pub stop: Stop,
    _stopper: Stopper,
}

impl Scene {
    /// Nodes n1 and n2, what `prepare` makes, and warm caches. No task runs yet.
    pub async fn start(prepare: impl FnOnce(&Server)) -> Self {
        let server = Server::default();
        server.put(NODES, node("n1", "10.0.1.1"));
        server.put(NODES, node("n2", "10.0.2.1"));
        prepare(&server);
        Self::over(server).await
    }

    /// Another process with the same API server.
    pub async fn over(server: Server) -> Self {
        let (stopper, stop) = stop::channel();
        let (cluster, store) = (Cluster::new(), Store::default());
        let feeds = cluster::Feeds {
            client: server.client(),
            cluster: cluster.clone(),
            store: store.clone(),
        };
        tokio::spawn(cluster::feed(feeds, stop.clone()));
        let feeds = store::Feeds {
            client: server.client(),
            store: store.clone(),
            defined: watch::channel(true).1,
        };
        tokio::spawn(store::feed(feeds, stop.clone()));
        let (waiting, metrics) = (Waiting::default(), Metrics::default());
        let (events, inbox) = events::channel();
        let writer = inbox.write(server.client(), "pod".into(), stop.clone());
        tokio::spawn(writer);
        let workloads = Workloads::new(server.client(), cluster.clone());
        let claims = Claims::new(
            server.client(),
            cluster.clone(),
            workloads.clone(),
            store.clone(),
            waiting.clone(),
        );
        store.warm(|warmth| warmth.configuration = true);
        let scene = Self {
            records: Records::new(server.client(), store.clone(), metrics.clone()),
            reporter: Reporter::new(events.clone(), metrics.clone()),
            directory: Directory::new(store.clone()),
            cloud: Cloud::new(None, &metrics).unwrap(),
            turns: Turns::default(),
            standing: watch::Sender::new(Standing::Leading),
            vips: Vips::default(),
            server,
            cluster,
            store,
            workloads,
            waiting,
            calls: Calls::default(),
            claims,
            metrics,
            events,
            stop,
            _stopper: stopper,
        };
        scene.configure(CONFIG);
        let warmth = scene.store.warmth();
        until("the caches are warm", || warmth.borrow().is_warm()).await;
        // As if all running pods had been looked at.
        scene.store.change(|books| books.round_over(books.round()));
        scene
    }

    pub fn configure(&self, text: &str) {
        let loaded = AddressConfig::parse(text, Mode::Strict).unwrap();
        self.store.change(|books| books.configure(loaded.config));
    }

    pub fn use_cloud(&mut self, provider: Arc<dyn IpProvider>) {
        self.cloud = Cloud::over(provider, &self.metrics);
    }

    pub fn reclaimer(&self) -> Reclaimer {
        Reclaimer {
            client: self.server.client(),
            cluster: self.cluster.clone(),
            workloads: self.workloads.clone(),
            store: self.store.clone(),
            records: self.records.clone(),
            cloud: self.cloud.clone(),
            turns: self.turns.clone(),
            waiting: self.waiting.clone(),
            reporter: self.reporter.clone(),
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
            interval: Duration::from_mins(5),
        }
    }

    /// All that lets pods through their gates, and calls those that may go on.
    pub fn gatekeeper(&self, mode: Scheduling) -> (Gatekeeper, Waker) {
        let binder = Binder {
            client: self.server.client(),
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            records: self.records.clone(),
            cloud: self.cloud.clone(),
            turns: self.turns.clone(),
            waiting: self.waiting.clone(),
            reporter: self.reporter.clone(),
            metrics: self.metrics.clone(),
        };
        let waker = Waker {
            client: self.server.client(),
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            waiting: self.waiting.clone(),
            calls: self.calls.clone(),
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
        };
        let gatekeeper = Gatekeeper {
            binder,
            evictor: Evictor::new(self.server.client()),
            calls: self.calls.clone(),
            settings: SchedulingSettings {
                mode,
                capacity: None,
                patience: Duration::from_mins(2),
            },
            standing: self.standing.subscribe(),
        };
        (gatekeeper, waker)
    }

    pub fn adopter(&self) -> Adopter {
        Adopter {
            claims: self.claims.clone(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            records: self.records.clone(),
            turns: self.turns.clone(),
            reporter: self.reporter.clone(),
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
        }
    }

    pub fn preallocator(&self) -> Preallocator {
        Preallocator {
            filler: Filler {
                store: self.store.clone(),
                records: self.records.clone(),
                turns: self.turns.clone(),
            },
            events: self.events.clone(),
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
        }
    }

    pub fn actions(&self) -> Actions {
        Actions {
            client: self.server.client(),
            cluster: self.cluster.clone(),
            store: self.store.clone(),
            records: self.records.clone(),
            cloud: self.cloud.clone(),
            turns: self.turns.clone(),
            metrics: self.metrics.clone(),
        }
    }

    /// What the routes of the management API need.
    pub fn rest(&self) -> Rest {
        Rest {
            directory: self.directory.clone(),
            store: self.store.clone(),
            cluster: self.cluster.clone(),
            claims: self.claims.clone(),
            vips: self.vips.clone(),
            waiting: self.waiting.clone(),
            actions: self.actions(),
            client: self.server.client(),
        }
    }

    pub fn marker(&self) -> Marker {
        Marker {
            store: self.store.clone(),
            records: self.records.clone(),
            standing: self.standing.subscribe(),
        }
    }

    /// Starts the reclaimer.
    pub fn reclaim(&self) {
        tokio::spawn(self.reclaimer().run(self.stop.clone()));
    }

    /// Key and uid of a record, or nothing.
    pub fn held(&self, ip: &str) -> String {
        let Some(object) = self.server.object(FIPS, ip) else {
            return String::new();
        };
        let record = record_of(&object);
        format!("{} {}", record.key, record.uid)
            .trim_end()
            .to_owned()
    }

    /// The record as the books have it.
    pub fn known(&self, ip: &str) -> Option<Record> {
        let ip = ip.parse().unwrap();
        self.store.read(|books| books.ledger().record(ip).cloned())
    }

    pub async fn until_held(&self, ip: &str, holder: &str) {
        until(&format!("{ip} is held by {holder:?}"), || {
            self.held(ip) == holder
        })
        .await;
    }

    /// Reasons and notes of the Events about an object.
    pub fn told(&self, name: &str) -> Vec<(String, String)> {
        let events = self.server.objects("/apis/events.k8s.io/v1/events");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        events
            .iter()
            .filter(|event| text(&event["regarding"]["name"]) == name)
            .map(|event| (text(&event["reason"]), text(&event["note"])))
            .collect()
    }
}

/// Waits for a condition, for at most ten minutes of the paused clock.
pub async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..60_000 {
        if condition() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("it does not come true: {what}");
}

/// Lets everything happen that happens in so many seconds.
pub async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

pub fn record_of(object: &Value) -> Record {
    let spec = &object["spec"];
    let place: Value =
        serde_json::from_str(spec["attribute"].as_str().unwrap_or("{}")).unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Record {
        ip: text(&object["metadata"]["name"]).parse().unwrap(),
        key: text(&spec["key"]).into(),
        policy: floe_core::ipam::policy::ReleasePolicy::from_stored(
            spec["policy"].as_i64().unwrap_or(0),
        ),
        node: text(&place["NodeName"]),
        uid: text(&place["Uid"]),
        updated: jiff::Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}

/// A record; with a uid the pod runs on n1.
pub fn fip(ip: &str, key: &str, policy: i64, uid: &str) -> Value {
    let node = if uid.is_empty() { "" } else { "n1" };
    let place = json!({ "NodeName": node, "Uid": uid });
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1", "kind": "FloatingIP",
        "metadata": { "name": ip },
        "spec": {
            "key": key, "policy": policy, "attribute": place.to_string(),
            "updateTime": "2026-01-01T00:00:00Z",
        },
    })
}

/// A pod `a-0`, `a-1`, … of the `StatefulSet` `a` that runs on n1.
pub fn numbered(name: &str, uid: &str) -> Value {
    let mut object = running(name, uid, "");
    object["metadata"]["ownerReferences"] = json!([owner("apps/v1", "StatefulSet", "a")]);
    object
}

/// A bare pod that runs on n1; with an address it claims and shows it.
pub fn running(name: &str, uid: &str, ip: &str) -> Value {
    let mut object = pod(name);
    object["metadata"]["uid"] = json!(uid);
    object["spec"]["nodeName"] = json!("n1");
    object["status"] = json!({ "phase": "Running" });
    if !ip.is_empty() {
        let gateway = "10.0.70.1";
        let info = json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": gateway });
        let args = json!({ "common": { "ipinfos": [info] } });
        object["metadata"]["annotations"] = json!({ names::ARGS: args.to_string() });
        object["status"]["podIP"] = json!(ip);
        object["status"]["podIPs"] = json!([{ "ip": ip }]);
    }
    object
}

/// The `StatefulSet` `a`.
pub fn stateful_set(replicas: u32) -> Value {
    json!({
        "metadata": { "name": "a", "namespace": "ns" }, "spec": { "replicas": replicas },
    })
}

/// Another state of a pod.
pub fn finish(server: &Server, name: &str) {
    let mut object = server.object(PODS, name).unwrap();
    object["status"]["phase"] = json!("Failed");
    server.put(PODS, object);
}
