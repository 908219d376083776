use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use axum::{
    body::Body,
    http::{Request, Response},
};
use floe_core::node::state::PodId;
use floe_shell::unkept::merge;
use kube::client;
use serde_json::{Value, json};
use tower::service_fn;

use super::*;

const PATH: &str = "/apis/floe.dev/v1alpha1/nodenetworks/n1";

/// An API server that has one object, and notes what was written.
#[derive(Clone, Default)]
struct Server(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    object: Option<Value>,
    /// Whether the kind is not defined.
    is_undefined: bool,
    /// A field of the status that the CRD does not have.
    lacks: Option<&'static str>,
    writes: Vec<String>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<client::Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                let kind = parts.headers["content-type"].to_str().unwrap_or_default();
                let is_apply = kind.starts_with("application/apply-patch");
                let (code, answer) = server.answer(&parts.method, &parts.uri, is_apply, &body);
                let body = Body::from(answer.to_string());
                let response = Response::builder().status(code).body(body);
                Ok::<_, io::Error>(response.unwrap())
            }
        });
        Client::new(service, "default")
    }

    fn answer(
        &self,
        method: &axum::http::Method,
        uri: &axum::http::Uri,
        is_apply: bool,
        body: &[u8],
    ) -> (u16, Value) {
        let mut world = self.0.lock().unwrap();
        let missing = json!({
            "kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound", "message": "",
        });
        let path = uri.path();
        if path == "/api/v1/nodes/n1" {
            let node = json!({
                "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
                "metadata": { "name": "n1", "uid": "node-uid" },
            });
            return (200, node);
        }
        assert_eq!(method, axum::http::Method::PATCH, "{path}");
        let query = uri.query().unwrap_or_default();
        assert!(query.contains("fieldManager=floe-agent"), "{query}");
        if world.is_undefined {
            return (404, missing);
        }
        let sent: Value = serde_json::from_slice(body).unwrap();
        if is_apply {
            assert!(query.contains("force=true"), "{query}");
            assert_eq!(sent["apiVersion"], "floe.dev/v1alpha1");
            assert_eq!(sent["kind"], "NodeNetwork");
            assert_eq!(sent["metadata"]["name"], "n1");
        }
        if path == PATH {
            assert!(sent.get("status").is_none());
            world.writes.push("object".into());
            let status = world.object.as_ref().map(|it| it["status"].clone());
            let mut object = sent;
            if let Some(status) = status {
                object["status"] = status;
            }
            world.object = Some(object.clone());
            return (200, object);
        }
        assert_eq!(path, format!("{PATH}/status"));
        let lacks = world.lacks;
        let Some(object) = &mut world.object else {
            return (404, missing);
        };
        // What a schema does not know is dropped from a merge, and refused in an apply.
        let is_unknown = |field: &&str| !sent["status"][field].is_null();
        if let Some(field) = lacks.filter(is_unknown).filter(|_| is_apply) {
            let text = format!(
                "failed to create typed patch object (/n1; floe.dev/v1alpha1, Kind=NodeNetwork): \
                 .status.{field}: field not declared in schema"
            );
            let refused = json!({
                "kind": "Status", "status": "Failure", "code": 500, "message": text,
            });
            return (500, refused);
        }
        let status = &mut object["status"];
        if is_apply {
            *status = sent["status"].clone();
        } else {
            merge(status, &sent["status"]);
        }
        if let (Some(field), Some(members)) = (lacks, status.as_object_mut()) {
            members.remove(field);
        }
        let object = object.clone();
        world.writes.push("status".into());
        (200, object)
    }

    fn status(&self) -> Value {
        let world = self.0.lock().unwrap();
        world
            .object
            .as_ref()
            .map_or(Value::Null, |it| it["status"].clone())
    }

    fn writes(&self) -> Vec<String> {
        self.0.lock().unwrap().writes.clone()
    }

    /// Waits until something is so.
    async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        timeout(Duration::from_mins(10), wait)
            .await
            .expect("it should have become so");
    }
}

/// The task of node n1, and whether its only link is up.
fn health(server: &Server) -> (Health, Arc<AtomicBool>) {
    let text = json!({ "NetworkConf": [
        { "name": "vlan", "type": "galaxy-k8s-vlan", "device": "eth1" },
    ] });
    let is_up = Arc::new(AtomicBool::new(true));
    let seen = Arc::clone(&is_up);
    let health = Health {
        client: server.client(),
        node: "n1".into(),
        settings: Arc::new(Settings::parse(&text.to_string()).unwrap()),
        missing: Missing::default(),
        conflicts: Conflicts::default(),
        metrics: Metrics::default(),
        look_up: Arc::new(move |name| {
            let up = seen.load(Ordering::SeqCst);
            Ok(Some(LinkStatus {
                name: name.into(),
                up,
                carrier: up,
            }))
        }),
    };
    (health, is_up)
}

struct Running {
    server: Server,
    conflicts: Conflicts,
    missing: Missing,
    is_up: Arc<AtomicBool>,
    stopper: floe_shell::stop::Stopper,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(server: Server) -> Self {
        let (health, is_up) = health(&server);
        let (conflicts, missing) = (health.conflicts.clone(), health.missing.clone());
        let (stopper, stop) = floe_shell::stop::channel();
        let task = tokio::spawn(health.run(stop));
        Self {
            server,
            conflicts,
            missing,
            is_up,
            stopper,
            task,
        }
    }

    async fn stop(self) {
        self.stopper.stop();
        self.task.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_object_is_made_with_its_node_as_owner_and_told_how_the_node_is() {
    let running = Running::start(Server::default());
    running.server.until(|it| !it.status().is_null()).await;
    let object = running.server.0.lock().unwrap().object.clone().unwrap();
    let owner = &object["metadata"]["ownerReferences"][0];
    assert_eq!(owner["kind"], "Node");
    assert_eq!(
        (&owner["name"], &owner["uid"]),
        (&json!("n1"), &json!("node-uid"))
    );
    let status = &object["status"];
    assert_eq!(
        status["summary"],
        json!({ "networks": "1/1", "conflicts": 0 })
    );
    assert_eq!(status["conditions"][0]["type"], "Ready");
    assert_eq!(status["conditions"][0]["status"], "True");
    assert_eq!(
        status["links"],
        json!([{ "name": "eth1", "up": true, "carrier": true }])
    );
    assert_eq!(running.server.writes(), ["object", "status"]);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_change_is_told_and_without_one_there_is_a_beat_every_minute() {
    let running = Running::start(Server::default());
    running.server.until(|it| !it.status().is_null()).await;
    let start = Instant::now();
    running.is_up.store(false, Ordering::SeqCst);
    let ready = |it: &Server| it.status()["conditions"][0]["status"].clone();
    running.server.until(|it| ready(it) == "False").await;
    assert!(start.elapsed() <= PERIOD + Duration::from_secs(1));
    assert_eq!(running.server.writes().len(), 3);

    let start = Instant::now();
    running.server.until(|it| it.writes().len() == 4).await;
    assert!(
        start.elapsed() >= Duration::from_secs(50),
        "{:?}",
        start.elapsed()
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_conflict_is_told_at_once() {
    let running = Running::start(Server::default());
    running.server.until(|it| !it.status().is_null()).await;
    let start = Instant::now();
    let pod = PodId {
        namespace: "default".into(),
        name: "web-0".into(),
        uid: "u".into(),
    };
    let error = "AddressConflict: 10.0.0.5 is already in use by 02:42:0a:00:00:05";
    assert!(running.conflicts.report(&pod, error));
    running
        .server
        .until(|it| it.status()["summary"]["conflicts"] == 1)
        .await;
    assert!(start.elapsed() < Duration::from_secs(1));
    let status = running.server.status();
    assert_eq!(status["conflicts"][0]["pod"], "default/web-0");
    assert_eq!(status["conditions"][1]["status"], "True");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_starts_again_keeps_the_times_of_conditions() {
    let server = Server::default();
    let since = "2020-01-01T00:00:00Z";
    server.0.lock().unwrap().object = Some(json!({
        "apiVersion": "floe.dev/v1alpha1", "kind": "NodeNetwork", "metadata": { "name": "n1" },
        "status": { "conditions": [
            { "type": "Ready", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": since },
            { "type": "AddressConflict", "status": "True", "reason": "a", "message": "b", "lastTransitionTime": since },
        ] },
    }));
    let running = Running::start(server);
    running
        .server
        .until(|it| it.status()["agentVersion"].is_string())
        .await;
    let conditions = running.server.status()["conditions"].clone();
    assert_eq!(conditions[0]["lastTransitionTime"], since);
    assert_ne!(
        conditions[1]["lastTransitionTime"], since,
        "it was true, and is false now"
    );
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_definition_is_waited_for_and_a_deleted_object_made_again() {
    let server = Server::default();
    server.0.lock().unwrap().is_undefined = true;
    let running = Running::start(server);
    tokio::time::sleep(BEAT).await;
    assert_eq!(running.server.writes(), Vec::<String>::new());
    running.server.0.lock().unwrap().is_undefined = false;
    running.server.until(|it| !it.status().is_null()).await;
    running.server.0.lock().unwrap().object = None;
    running.is_up.store(false, Ordering::SeqCst);
    running.server.until(|it| !it.status().is_null()).await;
    assert_eq!(
        running.server.writes(),
        ["object", "status", "object", "status"]
    );
    running.stop().await;
}

fn web() -> PodId {
    PodId {
        namespace: "default".into(),
        name: "web-0".into(),
        uid: "u".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_crd_that_lacks_a_field_costs_nothing_but_that_field() {
    let server = Server::default();
    server.0.lock().unwrap().lacks = Some("missing");
    let running = Running::start(server);
    let lacked = [([10, 0, 0, 5].into(), web())];
    running.missing.replace(lacked.into_iter());
    running.server.until(|it| !it.status().is_null()).await;
    running.is_up.store(false, Ordering::SeqCst);
    let ready = |it: &Server| it.status()["conditions"][0]["status"].clone();
    running.server.until(|it| ready(it) == "False").await;
    assert!(running.server.status()["missing"].is_null());
    let before = running.server.writes().len();
    tokio::time::sleep(BEAT * 5).await;
    let more = running.server.writes().len() - before;
    assert!(more <= 5, "{more} writes in five minutes");

    // The new CRD is applied.
    running.server.0.lock().unwrap().lacks = None;
    let missing = |it: &Server| it.status()["missing"][0]["pod"].clone();
    let pod = "default/web-0";
    running.server.until(|it| missing(it) == pod).await;
    running.missing.replace(std::iter::empty());
    running
        .server
        .until(|it| it.status()["missing"].is_null())
        .await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn fields_that_the_crd_lacks_are_known_until_it_has_them() {
    let server = Server::default();
    let (health, _) = health(&server);
    let lacked = [([10, 0, 0, 5].into(), web())];
    health.missing.replace(lacked.into_iter());
    let mut told = Told::default();
    for lacks in [Some("missing"), None] {
        server.0.lock().unwrap().lacks = lacks;
        let status = health.look(&told).await;
        health.tell(status, &mut told).await;
        assert!(!told.failed);
        let fields: Vec<_> = told.unkept.fields().iter().map(String::as_str).collect();
        assert_eq!(fields, lacks.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_patch_has_every_field_of_the_crd_so_that_nothing_old_stays() {
    let crd = json!(floe_api::floe::nodenetwork::definition().spec.versions[0].schema);
    let status = &crd["openAPIV3Schema"]["properties"]["status"]["properties"];
    let patch = merge_patch(&NodeNetworkStatus::default());
    for field in status.as_object().unwrap().keys() {
        assert!(patch.get(field).is_some(), "{field}: {patch}");
    }
}
