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
                let (code, answer) = server.answer(&parts.method, &parts.uri, &body);
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
        assert!(query.contains("force=true"), "{query}");
        if world.is_undefined {
            return (404, missing);
        }
        let sent: Value = serde_json::from_slice(body).unwrap();
        assert_eq!(sent["apiVersion"], "floe.dev/v1alpha1");
        assert_eq!(sent["kind"], "NodeNetwork");
        assert_eq!(sent["metadata"]["name"], "n1");
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
        let Some(object) = &mut world.object else {
            return (404, missing);
        };
        object["status"] = sent["status"].clone();
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

struct Running {
    server: Server,
    conflicts: Conflicts,
    is_up: Arc<AtomicBool>,
    stopper: floe_shell::stop::Stopper,
    task: tokio::task::JoinHandle<()>,
}

impl Running {
    fn start(server: Server) -> Self {
        let text = json!({ "NetworkConf": [
            { "name": "vlan", "type": "galaxy-k8s-vlan", "device": "eth1" },
        ] });
        let is_up = Arc::new(AtomicBool::new(true));
        let seen = Arc::clone(&is_up);
        let conflicts = Conflicts::default();
        let health = Health {
            client: server.client(),
            node: "n1".into(),
            settings: Arc::new(Settings::parse(&text.to_string()).unwrap()),
            missing: Missing::default(),
            conflicts: conflicts.clone(),
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
        let (stopper, stop) = floe_shell::stop::channel();
        let task = tokio::spawn(health.run(stop));
        Self {
            server,
            conflicts,
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
