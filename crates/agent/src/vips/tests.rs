//! An agent of node `n1` with an API server and a kernel that are not real, and a clock that
//! the test drives.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::http::Method;
use floe_api::floe::register::VirtualIPRegister;
use floe_core::{
    lease::Moment,
    vip::{
        VipId,
        forwarding::Obstacle,
        keeper::{Role, Serving},
    },
};
use floe_shell::{
    mock::{Fault, Server},
    stop::{self, Stopper},
};
use serde_json::{Value, json};
use tokio::{task::JoinHandle, time::Instant};

use crate::{events, metrics::Metrics};

use super::{
    plan::{Finding, Order, Trouble, Unreachable},
    plane::{Findings, PlaneError},
    promise::{Heard, Said},
    *,
};

mod moving;
mod promises;
mod registers;
mod serving;

const VIPS: &str = "/apis/floe.dev/v1alpha1/namespaces/shop/virtualips";
const REGISTERS: &str = "/apis/floe.dev/v1alpha1/virtualipregisters";
const REGISTER: &str = "floe-vips-0";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const NODES: &str = "/api/v1/nodes";

/// A kernel that does everything at once.
#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Told>>);

#[derive(Default)]
struct Told {
    last: Option<Serving>,
    was_prepared: bool,
    trouble: Option<Trouble>,
    unreachable: Option<Unreachable>,
    /// Whether nothing can be told.
    is_broken: bool,
}

impl Fake {
    fn findings(&self) -> Findings {
        let told = self.0.lock().unwrap();
        let roles = told.last.iter().flat_map(|it| &it.roles);
        let ours = roles
            .filter(|(_, it)| matches!(it.role, Role::Holder(_) | Role::Prepared(_)))
            .map(|(id, _)| {
                let finding = Finding {
                    trouble: told.trouble.clone(),
                    unreachable: told.unreachable.clone(),
                    ..Finding::default()
                };
                (id.clone(), finding)
            });
        ours.collect()
    }

    fn role(&self, vip: &str) -> Option<Role> {
        let told = self.0.lock().unwrap();
        let served = told.last.as_ref()?.roles.get(&id(vip))?;
        Some(served.role.clone())
    }
}

impl Plane for Fake {
    async fn serve(&mut self, order: Arc<Order>) -> Result<Findings, PlaneError> {
        if self.0.lock().unwrap().is_broken {
            return Err(PlaneError {
                reason: "Test",
                text: "as the test wants it".into(),
            });
        }
        let mut told = self.0.lock().unwrap();
        told.last = Some(order.serving.clone());
        let mut roles = order.serving.roles.values();
        told.was_prepared |= roles.any(|it| matches!(it.role, Role::Prepared(_)));
        drop(told);
        Ok(self.findings())
    }

    async fn check(&mut self) -> Result<Findings, PlaneError> {
        Ok(self.findings())
    }
}

/// An address that a pod of this node and one of another can have, and nobody has.
fn shared_by_two() -> Server {
    let server = Server::default();
    put_pod(&server, "a", true);
    put_vip(
        &server,
        "web",
        &[candidate("a", "n1"), candidate("b", "n2")],
        &Value::Null,
    );
    server
}

/// The agent of `n1`, and the world around it.
struct Scene {
    server: Server,
    kernel: Fake,
    clock: Clock,
    said: mpsc::Receiver<Said>,
    heard: mpsc::Sender<Heard>,
    stopper: Stopper,
    task: JoinHandle<()>,
    doubts: watch::Sender<u64>,
    inbox: events::Inbox,
    metrics: Metrics,
    _pods: Stopper,
}

impl Scene {
    /// Starts an agent on what the server has.
    fn start(server: &Server) -> Self {
        let begin = Instant::now();
        let clock = Clock::new(move || Moment(Duration::from_secs(1000) + begin.elapsed()));
        let kernel = Fake::default();
        let pods = Pods::new(server.client());
        let (pods_stopper, stop) = stop::channel();
        let (events, inbox) = events::channel();
        let (doubts, doubted) = watch::channel(0);
        let regained = doubts.clone();
        tokio::spawn(pods.clone().run("n1".into(), doubted.clone(), stop));
        let (says, said) = mpsc::channel(promise::QUEUE);
        let (heard, incoming) = mpsc::channel(promise::QUEUE);
        let (stopper, stop) = stop::channel();
        let metrics = Metrics::default();
        let vips = Vips {
            client: server.client(),
            node: "n1".into(),
            pods,
            port: 0,
            doubts: doubted,
            regained: Box::new(move || regained.send_modify(|count| *count += 1)),
            events,
            metrics: metrics.clone(),
        };
        let timing = Timing::default();
        let work = vips.work(
            kernel.clone(),
            clock.clone(),
            timing,
            (says, incoming),
            stop,
        );
        Self {
            server: server.clone(),
            kernel,
            clock,
            said,
            heard,
            stopper,
            metrics,
            task: tokio::spawn(work),
            doubts,
            inbox,
            _pods: pods_stopper,
        }
    }

    /// Whether this node answers for an address now.
    fn serves(&self, vip: &str) -> bool {
        let told = self.kernel.0.lock().unwrap();
        let Some(serving) = &told.last else {
            return false;
        };
        let role = serving.roles.get(&id(vip)).map(|it| &it.role);
        let lives = serving.deadline.is_some_and(|it| self.clock.now() < it);
        matches!(role, Some(Role::Holder(_))) && lives
    }

    async fn until_it_serves(&self, vip: &str) {
        self.server.until(|_| self.serves(vip)).await;
    }

    /// What the register says of an object.
    fn status(&self, vip: &str) -> Value {
        status(&self.server, vip)
    }

    /// What the status of an object shows.
    fn shown(&self, vip: &str) -> Value {
        self.server.object(VIPS, vip).unwrap()["status"].clone()
    }

    fn condition(&self, vip: &str, kind: &str) -> Option<(String, String)> {
        let status = self.shown(vip);
        let all = status["conditions"].as_array()?.clone();
        let found = all.into_iter().find(|it| it["type"] == kind)?;
        let text = |name: &str| found[name].as_str().unwrap().to_owned();
        Some((text("status"), text("reason")))
    }

    /// Changes the entry of an object, as somebody else would.
    fn write(&self, vip: &str, change: impl FnOnce(&mut Value)) {
        let mut register = self.server.object(REGISTERS, REGISTER).unwrap();
        edit(&mut register, &uid(vip), change);
        self.server.put(REGISTERS, register);
    }
}

fn status(server: &Server, vip: &str) -> Value {
    entry_of(server.object(REGISTERS, REGISTER), &uid(vip))
}

/// Changes an entry of a register, which is null if there is none.
fn edit(register: &mut Value, uid: &str, change: impl FnOnce(&mut Value)) {
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

fn uid(vip: &str) -> String {
    format!("0-{vip}")
}

fn id(name: &str) -> VipId {
    VipId {
        namespace: "shop".into(),
        name: name.into(),
    }
}

/// A pod that could have addresses.
fn candidate(pod: &str, node: &str) -> Value {
    json!({
        "pod": pod, "uid": format!("uid-{pod}"), "node": node,
        "nodeAddress": if node == "n1" { "10.0.0.1" } else { "10.0.0.2" },
        "addresses": ["10.244.0.5"], "mode": "nat", "readySince": "2024-01-01T00:00:00Z",
    })
}

/// A pod that has addresses.
fn holding(pod: &str, node: &str, term: i64) -> Value {
    let mut holding = candidate(pod, node);
    holding.as_object_mut().unwrap().remove("readySince");
    holding["term"] = json!(term);
    holding
}

fn put_vip(server: &Server, name: &str, candidates: &[Value], holder: &Value) {
    let mut entry = json!({ "vip": name, "addresses": ["10.9.0.100"], "moves": 0 });
    if !holder.is_null() {
        entry["holder"] = holder.clone();
    }
    let register = server.object(REGISTERS, REGISTER);
    let mut register =
        register.unwrap_or_else(|| json!({ "metadata": { "name": REGISTER }, "entries": {} }));
    edit(&mut register, &uid(name), |it| *it = entry);
    server.put(REGISTERS, register);
    server.put(
        VIPS,
        json!({
            "metadata": { "name": name, "uid": uid(name) },
            "spec": {}, "status": { "candidates": candidates },
        }),
    );
}

fn put_pod(server: &Server, name: &str, ready: bool) {
    let ready = if ready { "True" } else { "False" };
    server.put(
        PODS,
        json!({
            "metadata": { "name": name, "uid": format!("uid-{name}") },
            "spec": { "nodeName": "n1" },
            "status": {
                "phase": "Running", "podIPs": [{ "ip": "10.244.0.5" }],
                "conditions": [{ "type": "Ready", "status": ready }],
            },
        }),
    );
}

fn put_lease(server: &Server, node: &str, term: i64, peers: &str) {
    server.put(
        LEASES,
        json!({
            "metadata": {
                "name": format!("floe-vip-{node}"),
                "labels": { "floe.dev/vip-lease": "true" },
                "annotations": { "floe.dev/peers": peers },
            },
            "spec": { "leaseTransitions": term },
        }),
    );
}
