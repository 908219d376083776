//! An API server for tests: lists, watches that go on from a version, reads and
//! creates, with every request written down.

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    body::Body,
    http::{Method, Request, Response, StatusCode},
};
use futures::channel::mpsc::{UnboundedSender, unbounded};
use kube::{Client, client};
use serde_json::{Value, json};
use tower::service_fn;

/// The server; all clones are the same one.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

/// What the server has, for tests to look at and to tamper with.
#[derive(Default)]
pub struct State {
    version: u64,
    /// By the path of the collection, then by the name.
    objects: BTreeMap<String, BTreeMap<String, Value>>,
    /// By the path of the collection: version and event.
    history: BTreeMap<String, Vec<(u64, Value)>>,
    watchers: Vec<(String, UnboundedSender<io::Result<Vec<u8>>>)>,
    /// Status for every GET, instead of doing it.
    pub refuse_reads: Option<u16>,
    /// Whether nobody answers at all.
    pub down: bool,
    /// Status for every POST, instead of doing it.
    pub refuse_writes: Option<u16>,
    /// What was asked, in order.
    pub calls: Vec<String>,
}

impl Server {
    /// A client of this server.
    pub fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request: Request<client::Body>| {
            let server = server.clone();
            async move {
                let (parts, body) = request.into_parts();
                let body = body.collect_bytes().await.unwrap();
                server
                    .state()
                    .answer(&parts.method, &parts.uri.to_string(), &body)
            }
        });
        Client::new(service, "default")
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Creates or replaces an object, and tells all watches. Returns it as the
    /// server has it now.
    pub fn put(&self, path: &str, object: Value) -> Value {
        self.state().put(path, object)
    }

    /// Deletes an object, and tells all watches.
    pub fn delete(&self, path: &str, name: &str) {
        let mut state = self.state();
        let mut object = state.objects.get_mut(path).unwrap().remove(name).unwrap();
        state.version += 1;
        object["metadata"]["resourceVersion"] = json!(state.version.to_string());
        state.tell(path, "DELETED", &object);
    }

    /// Ends all watches, and forgets what happened so far: the next one of an
    /// old version is told that it is gone.
    pub fn compact(&self) {
        let mut state = self.state();
        state.watchers.clear();
        for events in state.history.values_mut() {
            events.clear();
        }
    }

    /// All objects of a collection.
    pub fn objects(&self, path: &str) -> Vec<Value> {
        let state = self.state();
        let objects = state.objects.get(path).into_iter();
        objects.flat_map(|all| all.values().cloned()).collect()
    }
}

impl State {
    fn put(&mut self, path: &str, mut object: Value) -> Value {
        self.version += 1;
        let version = self.version;
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let objects = self.objects.entry(path.into()).or_default();
        let old = objects.get(&name).map(|old| old["metadata"]["uid"].clone());
        let kind = if old.is_some() { "MODIFIED" } else { "ADDED" };
        let uid = old.unwrap_or_else(|| json!(format!("uid-{version}")));
        object["metadata"]["uid"] = uid;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        objects.insert(name, object.clone());
        self.tell(path, kind, &object);
        object
    }

    fn tell(&mut self, path: &str, kind: &str, object: &Value) {
        let event = json!({ "type": kind, "object": object });
        let line = line(&event);
        self.watchers.retain(|(watched, sender)| {
            watched != path || sender.unbounded_send(Ok(line.clone())).is_ok()
        });
        let history = self.history.entry(path.into()).or_default();
        history.push((self.version, event));
    }

    fn answer(&mut self, method: &Method, uri: &str, body: &[u8]) -> io::Result<Response<Body>> {
        self.calls.push(format!("{method} {uri}"));
        if self.down {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let parameter = |name: &str| {
            let mut pairs = query.split('&').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        if method == Method::POST {
            return Ok(self.create(path, body));
        }
        if let Some(status) = self.refuse_reads {
            return Ok(failure(status));
        }
        if let Some((collection, name)) = path.rsplit_once('/')
            && let Some(object) = self.objects.get(collection).and_then(|all| all.get(name))
        {
            return Ok(success(object));
        }
        if parameter("watch") == Some("true") {
            let from = parameter("resourceVersion").unwrap().parse().unwrap();
            return Ok(self.watch(path, from));
        }
        // Only definitions are read one by one.
        if path.contains("/customresourcedefinitions/") {
            return Ok(failure(404));
        }
        let items: Vec<&Value> = self
            .objects
            .get(path)
            .into_iter()
            .flat_map(BTreeMap::values)
            .collect();
        Ok(success(&json!({
            "kind": "List", "apiVersion": "v1",
            "metadata": { "resourceVersion": self.version.max(1).to_string() },
            "items": items,
        })))
    }

    fn create(&mut self, path: &str, body: &[u8]) -> Response<Body> {
        if let Some(status) = self.refuse_writes {
            return failure(status);
        }
        let object: Value = serde_json::from_slice(body).unwrap();
        let name = object["metadata"]["name"].as_str().unwrap();
        if self
            .objects
            .get(path)
            .is_some_and(|all| all.contains_key(name))
        {
            return failure(409);
        }
        success(&self.put(path, object))
    }

    fn watch(&mut self, path: &str, from: u64) -> Response<Body> {
        let (sender, receiver) = unbounded();
        let history = self.history.entry(path.into()).or_default();
        let complete = history
            .first()
            .map_or(self.version, |(version, _)| version - 1);
        if from < complete {
            let gone = json!({ "type": "ERROR", "object": {
                "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old",
            } });
            sender.unbounded_send(Ok(line(&gone))).unwrap();
        } else {
            for (_, event) in history.iter().filter(|(version, _)| *version > from) {
                sender.unbounded_send(Ok(line(event))).unwrap();
            }
            self.watchers.push((path.into(), sender));
        }
        Response::new(Body::from_stream(receiver))
    }
}

fn line(event: &Value) -> Vec<u8> {
    format!("{event}\n").into_bytes()
}

fn success(object: &Value) -> Response<Body> {
    Response::new(Body::from(object.to_string().into_bytes()))
}

fn failure(code: u16) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": "Test", "message": "as the test wants it",
    });
    let mut response = success(&status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
