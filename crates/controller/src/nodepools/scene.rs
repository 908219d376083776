//! For tests: an API server, a cloud and a name server in memory, and a steward that leads.

use std::{sync::Arc, time::Duration};

use floe_providers::registry::{Provider, Registry};
use floe_shell::{
    mock::Server as Mock,
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::{sync::watch, time::sleep};

use super::{
    Needs, Steward,
    fakes::{FakeCloud, FakeDns},
    l2::{self, L2},
};
use crate::{events, leader::Standing, metrics::Metrics, store::Store};

pub const POOLS: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/ns/floatingippools";
pub const SETS: &str = "/apis/flipop.digitalocean.com/v1alpha1/namespaces/ns/nodednsrecordsets";
pub const NODES: &str = "/api/v1/nodes";
pub const PODS: &str = "/api/v1/namespaces/ingress/pods";
pub const EVENTS: &str = "/apis/events.k8s.io/v1/events";

/// The two addresses of FLIPOP's fixtures.
pub const A: &str = "192.168.1.1";
pub const B: &str = "172.16.2.2";

pub struct Scene {
    pub server: Mock,
    pub cloud: FakeCloud,
    pub dns: FakeDns,
    pub metrics: Metrics,
    pub standing: watch::Sender<Standing>,
    /// Counts changes of CRDs.
    pub crd_changes: watch::Sender<u64>,
    stopper: Stopper,
}

impl Scene {
    pub fn new() -> Self {
        let server = Mock::default();
        server.put(
            "/api/v1/namespaces",
            json!({ "metadata": { "name": "kube-system", "uid": "c-1" } }),
        );
        Self {
            server,
            cloud: FakeCloud::default(),
            dns: FakeDns::default(),
            metrics: Metrics::default(),
            standing: watch::Sender::new(Standing::Leading),
            crd_changes: watch::Sender::new(0),
            stopper: stop::channel().0,
        }
    }

    /// Begins, or begins anew as another process; the one before has no more say.
    pub fn start(&mut self) {
        let (stopper, stop) = stop::channel();
        let both = Provider {
            ips: Some(Arc::new(self.cloud.clone())),
            dns: Some(Arc::new(self.dns.clone())),
        };
        let mut registry = Registry::default();
        registry.insert(
            "only-ips",
            Provider {
                dns: None,
                ..both.clone()
            },
        );
        registry.insert(
            "only-dns",
            Provider {
                ips: None,
                ..both.clone()
            },
        );
        registry.insert("fake", both);
        let l2 = Provider {
            ips: Some(Arc::new(L2::new(self.server.client()))),
            dns: None,
        };
        registry.insert(l2::NAME, l2);
        let (events, inbox) = events::channel();
        tokio::spawn(inbox.write(self.server.client(), "pod".into(), stop.clone()));
        let steward = Steward::new(Needs {
            client: self.server.client(),
            registry,
            events,
            metrics: self.metrics.clone(),
            standing: self.standing.subscribe(),
            crd_changes: self.crd_changes.subscribe(),
        });
        tokio::spawn(steward.run(stop));
        self.stopper = stopper;
    }

    pub fn stop(&self) {
        self.stopper.stop();
    }

    pub fn pool(&self, name: &str) -> Value {
        self.server.object(POOLS, name).unwrap_or_default()
    }

    pub fn status(&self, name: &str) -> Value {
        self.pool(name)["status"].clone()
    }

    /// State and node of an address.
    pub fn ip(&self, pool: &str, ip: &str) -> String {
        let ip = &self.status(pool)["ips"][ip];
        let parts = [text(&ip["state"]), text(&ip["nodeName"])];
        parts.join(" ").trim().to_owned()
    }

    pub fn error(&self, pool: &str) -> String {
        text(&self.status(pool)["error"])
    }

    pub fn set_status(&self, name: &str) -> Value {
        let set = self.server.object(SETS, name).unwrap_or_default();
        set["status"].clone()
    }

    pub fn annotation(&self, node: &str) -> Option<String> {
        let node = self.server.object(NODES, node)?;
        let value = &node["metadata"]["annotations"]["flipop.digitalocean.com/ipv4-reserved-ip"];
        value.as_str().map(str::to_owned)
    }

    /// Status and reason of a condition.
    #[expect(clippy::unused_self, reason = "it reads like its neighbours")]
    pub fn condition(&self, status: &Value, kind: &str) -> String {
        let all = status["conditions"].as_array().cloned();
        let mut all = all.unwrap_or_default().into_iter();
        let found = all.find(|it| it["type"] == kind).unwrap_or_default();
        format!("{} {}", text(&found["status"]), text(&found["reason"]))
    }

    /// All Events, each as kind, name and reason.
    pub fn events(&self) -> Vec<String> {
        let all = self.server.objects(EVENTS).into_iter();
        let told = all.map(|it| {
            let about = &it["regarding"];
            [&about["kind"], &about["name"], &it["reason"]]
                .map(text)
                .join(" ")
        });
        told.collect()
    }

    /// All figures, as they are served.
    pub fn figures(&self) -> String {
        let standing = self.standing.subscribe();
        let registry = self.metrics.registry(Store::default(), standing);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        self.server.until(|_| condition(self)).await;
    }
}

/// Lets so many seconds pass.
pub async fn pass(seconds: u64) {
    sleep(Duration::from_secs(seconds)).await;
}

pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A node of the ingress, with server `fake://<name>`.
pub fn node(name: &str, ready: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "system": "bajor" } },
        "spec": { "providerID": format!("fake://{name}") },
        "status": {
            "conditions": [{ "type": "Ready", "status": ready }],
            "addresses": [
                { "type": "ExternalIP", "address": format!("203.0.113.{}", last(name)) },
                { "type": "InternalIP", "address": format!("10.0.0.{}", last(name)) },
                { "type": "Hostname", "address": name },
            ],
        },
    })
}

fn last(name: &str) -> usize {
    name.bytes().last().map_or(0, |it| usize::from(it - b'0'))
}

/// The same with a taint, as after `kubectl cordon`.
pub fn cordoned(name: &str) -> Value {
    let mut node = node(name, "True");
    node["spec"]["taints"] = json!([
        { "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" },
    ]);
    node
}

/// A pod of namespace `ingress` that fits.
pub fn pod(name: &str, node: &str, ready: &str) -> Value {
    json!({
        "metadata": { "name": name, "labels": { "app": "nginx" } },
        "spec": { "nodeName": node },
        "status": { "phase": "Running", "conditions": [{ "type": "Ready", "status": ready }] },
    })
}

/// A pool with the two addresses, that matches ready nodes of `system=bajor`.
pub fn pool(name: &str) -> Value {
    json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "FloatingIPPool",
        "metadata": { "name": name },
        "spec": {
            "provider": "fake", "region": "alpha", "ips": [A, B],
            "match": { "nodeLabel": "system=bajor" },
        },
    })
}

/// The same with other members of its specification.
#[expect(clippy::needless_pass_by_value, reason = "for json! in tests")]
pub fn pool_with(name: &str, members: Value) -> Value {
    let mut pool = pool(name);
    for (member, value) in members.as_object().unwrap() {
        pool["spec"][member] = value.clone();
    }
    pool
}

/// A record set `nodes.example.com` of ready nodes of `system=bajor`.
#[expect(clippy::needless_pass_by_value, reason = "for json! in tests")]
pub fn record_set(name: &str, members: Value) -> Value {
    let mut set = json!({
        "apiVersion": "flipop.digitalocean.com/v1alpha1", "kind": "NodeDNSRecordSet",
        "metadata": { "name": name },
        "spec": {
            "match": { "nodeLabel": "system=bajor" },
            "dnsRecordSet": {
                "provider": "fake", "zone": "example.com", "recordName": "nodes", "ttl": 30,
            },
        },
    });
    for (member, value) in members.as_object().unwrap() {
        set["spec"][member] = value.clone();
    }
    set
}
