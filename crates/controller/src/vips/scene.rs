//! For tests: a cluster with two nodes and their agents, an API server, caches and books
//! that are fed by it, and a steward.

use std::time::Duration;

use floe_api::floe::register::{self, VirtualIPRegister};
use floe_core::config::{AddressConfig, Mode};
use floe_shell::{
    mock::Server as Mock,
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::{Needs, Steward, store::Vips};
use crate::{
    cluster::{self, Cluster},
    events,
    leader::Standing,
    metrics::Metrics,
    records::Records,
    store::{self, Store},
};

pub const PODS: &str = "/api/v1/pods";
pub const NODES: &str = "/api/v1/nodes";
pub const VIPS: &str = "/apis/floe.dev/v1alpha1/virtualips";
pub const REGISTERS: &str = "/apis/floe.dev/v1alpha1/virtualipregisters";
pub const FIPS: &str = "/apis/galaxy.k8s.io/v1alpha1/floatingips";
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/leases";
pub const EVENTS: &str = "/apis/events.k8s.io/v1/events";
pub const IP: &str = "10.0.70.20";

/// Anybody may have 10.0.70.20 to .22 and `fd00::20`, and `bank` also 10.0.70.30.
pub const CONFIG: &str = r#"[
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.2~10.0.70.9"],
     "subnet": "10.0.70.0/24", "gateway": "10.0.70.1", "shared": ["10.0.70.20~10.0.70.22"]},
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["10.0.70.10"], "subnet": "10.0.70.0/24",
     "gateway": "10.0.70.1", "shared": ["10.0.70.30"], "allowedNamespaces": ["bank"]},
    {"nodeSubnets": ["10.0.1.0/24"], "ips": ["fd00::10"], "subnet": "fd00::/64",
     "gateway": "fd00::1", "shared": ["fd00::20"]}
]"#;

pub struct Scene {
    pub server: Mock,
    pub store: Store,
    pub metrics: Metrics,
    pub standing: watch::Sender<Standing>,
    pub crd_changes: watch::Sender<u64>,
    stopper: Stopper,
}

impl Scene {
    /// Nodes n1 and n2 with their agents, what `prepare` makes, and a steward that leads.
    pub async fn start(prepare: impl FnOnce(&Mock)) -> Self {
        let server = Mock::default();
        for (number, name) in [(1, "n1"), (2, "n2")] {
            server.put(NODES, node(name, number, "True"));
            server.put(PODS, agent(name, "True"));
        }
        prepare(&server);
        let (stopper, stop) = stop::channel();
        let (cluster, store, vips) = (Cluster::new(), Store::default(), Vips::default());
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
        tokio::spawn(
            vips.clone()
                .feed(server.client(), store.clone(), stop.clone()),
        );
        let (events, inbox) = events::channel();
        tokio::spawn(inbox.write(server.client(), "pod".into(), stop.clone()));
        let metrics = Metrics::default();
        let standing = watch::Sender::new(Standing::Leading);
        let crd_changes = watch::Sender::new(0);
        let steward = Steward::new(Needs {
            client: server.client(),
            records: Records::new(server.client(), store.clone(), metrics.clone()),
            cluster,
            store: store.clone(),
            vips,
            events,
            metrics: metrics.clone(),
            standing: standing.subscribe(),
            crd_changes: crd_changes.subscribe(),
        });
        let scene = Self {
            server,
            store,
            metrics,
            standing,
            crd_changes,
            stopper,
        };
        scene.configure(CONFIG);
        scene.store.warm(|warmth| warmth.configuration = true);
        tokio::spawn(steward.run(stop));
        let warmth = scene.store.warmth();
        scene.until(|_| warmth.borrow().is_warm()).await;
        scene
    }

    pub fn configure(&self, text: &str) {
        let loaded = AddressConfig::parse(text, Mode::Strict).unwrap();
        self.store.change(|books| books.configure(loaded.config));
    }

    /// An object in namespace `shop`; nothing at all if there is none.
    pub fn vip(&self, name: &str) -> Value {
        self.vip_of("shop", name)
    }

    pub fn vip_of(&self, namespace: &str, name: &str) -> Value {
        let path = format!("/apis/floe.dev/v1alpha1/namespaces/{namespace}/virtualips");
        self.server.object(&path, name).unwrap_or_default()
    }

    /// The names of the candidates of an object in namespace `shop`.
    pub fn candidates(&self, name: &str) -> Vec<String> {
        let vip = self.vip(name);
        let all = vip["status"]["candidates"].as_array().cloned();
        let all = all.unwrap_or_default().into_iter();
        all.map(|it| text(&it["pod"])).collect()
    }

    /// Status and reason of the condition Accepted.
    pub fn accepted(&self, namespace: &str, name: &str) -> String {
        let vip = self.vip_of(namespace, name);
        let all = vip["status"]["conditions"].as_array().cloned();
        let mut all = all.unwrap_or_default().into_iter();
        let accepted = all.find(|it| it["type"] == "Accepted").unwrap_or_default();
        format!(
            "{} {}",
            text(&accepted["status"]),
            text(&accepted["reason"])
        )
    }

    /// Who holds an address by its record.
    pub fn key(&self, ip: &str) -> String {
        let record = self.server.object(FIPS, ip).unwrap_or_default();
        text(&record["spec"]["key"])
    }

    /// All Events, each as kind, name and reason.
    pub fn events(&self) -> Vec<String> {
        let all = self.server.objects(EVENTS).into_iter();
        let mut all: Vec<String> = all
            .map(|it| {
                let about = &it["regarding"];
                let parts = [&about["kind"], &about["name"], &it["reason"]];
                parts.map(text).join(" ")
            })
            .collect();
        all.sort();
        all
    }

    /// As an agent writes it: into the register, and then into the status.
    pub fn set_status(&self, name: &str, change: impl FnOnce(&mut Value)) {
        let mut vip = self.vip(name);
        change(&mut vip["status"]);
        set_entry(&self.server, &vip);
        self.server.put(VIPS, vip);
    }

    /// What the register says of an object.
    pub fn entry(&self, name: &str) -> Value {
        self.entry_of_uid(&text(&self.vip(name)["metadata"]["uid"]))
    }

    /// The same for an object that may be gone.
    pub fn entry_of_uid(&self, uid: &str) -> Value {
        let register = self.server.object(REGISTERS, &register::name_for(uid));
        entry_of(register, uid)
    }

    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        self.server.until(|_| condition(self)).await;
    }

    pub fn stop(&self) {
        self.stopper.stop();
    }
}

/// Writes into the register what the status of an object says.
pub fn set_entry(server: &Mock, vip: &Value) {
    let uid = text(&vip["metadata"]["uid"]);
    let name = register::name_for(&uid);
    let known = server.object(REGISTERS, &name);
    let mut register =
        known.unwrap_or_else(|| json!({ "metadata": { "name": name }, "entries": {} }));
    edit(&mut register, &uid, |entry| {
        let (namespace, name) = (&vip["metadata"]["namespace"], &vip["metadata"]["name"]);
        *entry = json!({ "vip": format!("{}/{}", text(namespace), text(name)) });
        for member in ["addresses", "holder", "successor", "moves", "lastMove"] {
            let value = &vip["status"][member];
            if !value.is_null() {
                entry[member] = value.clone();
            }
        }
    });
    server.put(REGISTERS, register);
}

/// Changes an entry of a register, which is null if there is none.
pub fn edit(register: &mut Value, uid: &str, change: impl FnOnce(&mut Value)) {
    let mut known: VirtualIPRegister = serde_json::from_value(register.take()).unwrap();
    let mut entry = json!(known.entries.remove(uid));
    change(&mut entry);
    let entry = serde_json::from_value(entry).unwrap();
    known.entries.insert(uid.to_owned(), entry);
    *register = json!(known);
}

/// An entry of a register; null if there is none.
fn entry_of(register: Option<Value>, uid: &str) -> Value {
    let register = register.map(serde_json::from_value::<VirtualIPRegister>);
    let register = register.map(Result::unwrap).unwrap_or_default();
    json!(register.entries.get(uid))
}

/// Lets so many seconds pass.
pub async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

pub fn node(name: &str, number: u8, ready: &str) -> Value {
    json!({
        "metadata": { "name": name },
        "status": {
            "addresses": [{ "type": "InternalIP", "address": format!("10.0.1.{number}") }],
            "conditions": [{ "type": "Ready", "status": ready }],
        },
    })
}

pub fn agent(node: &str, ready: &str) -> Value {
    let mut pod = pod(&format!("floe-agent-{node}"), node, ready);
    pod["metadata"]["namespace"] = json!("kube-system");
    pod["metadata"]["labels"] = json!({ "app.kubernetes.io/name": "floe-agent" });
    pod
}

/// A pod of namespace `shop`, with label `app: web`, that runs.
pub fn pod(name: &str, node: &str, ready: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": format!("uid-{name}"),
            "labels": { "app": "web" },
        },
        "spec": { "nodeName": node },
        "status": {
            "phase": "Running", "podIP": "10.244.0.5", "podIPs": [{ "ip": "10.244.0.5" }],
            "conditions": [{
                "type": "Ready", "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
        },
    })
}

/// The same with an annotation for addresses.
pub fn asking(name: &str, node: &str, addresses: &[&str]) -> Value {
    let mut pod = pod(name, node, "True");
    let value = json!(addresses).to_string();
    pod["metadata"]["annotations"] = json!({ "cni.projectcalico.org/floatingIPs": value });
    pod
}

/// An object that a person made in namespace `shop`.
pub fn vip(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "VirtualIP",
        "metadata": { "name": name, "namespace": "shop" }, "spec": spec,
    })
}

/// What a holder looks like.
pub fn holding(pod: &str, node: &str, term: i64) -> Value {
    json!({
        "pod": pod, "uid": format!("uid-{pod}"), "node": node, "nodeAddress": "10.0.1.1",
        "addresses": ["10.244.0.5"], "mode": "nat", "term": term,
    })
}

pub fn lease(node: &str, term: i64) -> Value {
    json!({
        "metadata": { "name": format!("floe-vip-{node}"), "namespace": "kube-system" },
        "spec": { "leaseTransitions": term },
    })
}
