//! An API server for tests: lists, watches that go on from a version, reads and
//! writes with preconditions, faults, and every request written down.
//!
//! Paths are those of the API: a collection can be named with or without its
//! namespace (`/api/v1/namespaces/ns/pods` or `/api/v1/pods`), and lists and
//! watches of the latter show the objects of all namespaces. Selectors of labels are
//! followed, those of fields are not.

#![allow(
    clippy::unwrap_used,
    reason = "a test that asks for what cannot be shall fail, also when it lies in another crate"
)]

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use axum::{
    body::Body,
    http::{Method, Request, Response, StatusCode},
};
use floe_core::nodepool::matching::Selector;
use futures::channel::mpsc::unbounded;
use kube::{Client, client};
use serde_json::{Value, json};
use tower::service_fn;

pub use fault::Fault;
use fault::{Act, Faults, Reply};
use place::Place;
use watcher::{Change, Watcher};

mod fault;
mod place;
mod prune;
mod watcher;
mod write;

/// The server; all clones are the same one.
#[derive(Clone, Default)]
pub struct Server(Arc<Mutex<State>>);

/// What the server has, for tests to look at and to tamper with.
#[derive(Default)]
pub struct State {
    version: u64,
    /// By the path of the collection without namespace, then by namespace and name.
    objects: BTreeMap<String, BTreeMap<(String, String), Value>>,
    /// By the path of the collection.
    history: BTreeMap<String, Vec<Change>>,
    watchers: Vec<Watcher>,
    /// The versions before this one are forgotten.
    compacted: u64,
    faults: Faults,
    /// Answers to reads of paths that are no objects: discovery, subresources.
    pub raw: BTreeMap<String, Value>,
    /// Status for every read, instead of doing it.
    pub refuse_reads: Option<u16>,
    /// Whether nobody answers at all.
    pub down: bool,
    /// Status for every write, instead of doing it.
    pub refuse_writes: Option<u16>,
    /// The `openAPIV3Schema` of custom resources, by the path of their collection without a
    /// namespace: what it does not know is dropped from whatever is written.
    pub schemas: BTreeMap<String, Value>,
    /// What reviews of a client's own access deny, each as verb and resource, such as
    /// `patch nodes`. Nothing else is refused by it.
    pub denied: Vec<String>,
    /// Whether a disruption budget protects every pod.
    pub protected: bool,
    /// What comes before the number in each `resourceVersion`. No watch goes on
    /// from such a version.
    pub version_prefix: &'static str,
    /// What was asked, in order: method, a space, and the path with its query.
    pub calls: Vec<String>,
}

/// All objects as they were once, with the version of that moment.
#[derive(Clone)]
pub struct Snapshot {
    version: u64,
    objects: BTreeMap<String, BTreeMap<(String, String), Value>>,
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
                let uri = parts.uri.to_string();
                server.respond(&parts.method, &uri, &body).await
            }
        });
        Client::new(service, "default")
    }

    /// What the server answers, for those who bring requests by themselves.
    ///
    /// # Errors
    /// When a fault, or a server that is down, breaks the connection.
    pub async fn respond(
        &self,
        method: &Method,
        uri: &str,
        body: &[u8],
    ) -> io::Result<Response<Body>> {
        let reply = self.state().answer(method, uri, body);
        match reply {
            Reply::Answer(answer) => Ok(answer),
            Reply::Late(answer) => {
                tokio::time::sleep(fault::LATE).await;
                Ok(answer)
            }
            Reply::Broken => Err(io::Error::from(io::ErrorKind::ConnectionReset)),
            Reply::Never => std::future::pending().await,
        }
    }

    /// What the server has; nobody is answered as long as the guard lives.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// What happens to the next request of this method whose path has this text,
    /// and to which nothing else was to happen that was said before.
    pub fn fault(&self, method: Method, path: &str, fault: Fault) {
        self.state().faults.once(method, path, fault);
    }

    /// What happens to all such requests from now on.
    pub fn always(&self, method: Method, path: &str, fault: Fault) {
        self.state().faults.always(method, path, fault);
    }

    /// No more faults.
    pub fn heal(&self) {
        self.state().faults = Faults::default();
    }

    /// Creates or replaces an object, and tells all watches. Returns it as the
    /// server has it now. Its uid is the one that it says, or that it had.
    pub fn put(&self, path: &str, object: Value) -> Value {
        self.state().put(path, object)
    }

    /// Deletes an object, and tells all watches.
    pub fn delete(&self, path: &str, name: &str) {
        self.state().remove_named(path, name);
    }

    /// Ends all watches, and forgets what happened so far: the next one of an
    /// old version is told that it is gone.
    pub fn compact(&self) {
        let mut state = self.state();
        state.watchers.clear();
        state.history.clear();
        state.compacted = state.next();
    }

    /// Ends all watches.
    pub fn hang_up(&self) {
        self.state().watchers.clear();
    }

    /// What there is now, for [`Server::restore`].
    pub fn snapshot(&self) -> Snapshot {
        let state = self.state();
        Snapshot {
            version: state.version,
            objects: state.objects.clone(),
        }
    }

    /// Goes back to a snapshot, as when etcd is restored: all watches end, versions
    /// count on from then, and a watch from a later one is silent.
    pub fn restore(&self, snapshot: &Snapshot) {
        let mut state = self.state();
        state.watchers.clear();
        state.history.clear();
        state.compacted = 0;
        state.version = snapshot.version;
        state.objects.clone_from(&snapshot.objects);
    }

    /// All objects of a collection.
    pub fn objects(&self, path: &str) -> Vec<Value> {
        self.state().list_of(path)
    }

    /// An object of a collection.
    pub fn object(&self, path: &str, name: &str) -> Option<Value> {
        self.state().get(&Place::of(path), name).cloned()
    }

    /// How many requests of this method had this text in their path.
    pub fn count(&self, method: &Method, path: &str) -> usize {
        let start = format!("{method} ");
        let state = self.state();
        let calls = state.calls.iter();
        calls
            .filter(|call| call.starts_with(&start) && call.contains(path))
            .count()
    }

    /// Waits until something is so. A test for which it never becomes so fails.
    pub async fn until(&self, condition: impl Fn(&Self) -> bool) {
        let wait = async {
            while !condition(self) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await;
        assert!(waited.is_ok(), "it should have become so");
    }
}

impl State {
    /// The same as [`Server::put`].
    pub fn put(&mut self, path: &str, object: Value) -> Value {
        self.store(&Place::of(path), object)
    }

    /// The same as [`Server::delete`].
    pub fn remove_named(&mut self, path: &str, name: &str) {
        let place = Place::of(path);
        let key = self.key_of(&place, name).unwrap();
        self.remove(&place, &key);
    }

    /// The same as [`Server::objects`].
    pub fn list_of(&self, path: &str) -> Vec<Value> {
        self.list(&Place::of(path))
    }

    fn list(&self, place: &Place) -> Vec<Value> {
        let all = self.objects.get(&place.collection).into_iter().flatten();
        all.filter(|((namespace, _), _)| place.shows(namespace))
            .map(|(_, object)| object.clone())
            .collect()
    }

    fn get(&self, place: &Place, name: &str) -> Option<&Value> {
        let key = self.key_of(place, name)?;
        self.objects.get(&place.collection)?.get(&key)
    }

    fn key_of(&self, place: &Place, name: &str) -> Option<(String, String)> {
        let mut keys = self.objects.get(&place.collection)?.keys();
        keys.find(|key| place.shows(&key.0) && key.1 == name)
            .cloned()
    }

    fn store(&mut self, place: &Place, mut object: Value) -> Value {
        self.prune(place, &mut object);
        let version = self.next();
        let meta = &mut object["metadata"];
        if let Some(namespace) = &place.namespace {
            meta["namespace"] = json!(namespace);
        }
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let key = (text(&meta["namespace"]), text(&meta["name"]));
        assert!(!key.1.is_empty(), "an object needs a name");
        let objects = self.objects.entry(place.collection.clone()).or_default();
        if meta["uid"].is_null() {
            let old = objects.get(&key).map(|old| old["metadata"]["uid"].clone());
            meta["uid"] = old.unwrap_or_else(|| json!(format!("uid-{version}")));
        }
        meta["resourceVersion"] = json!(format!("{}{version}", self.version_prefix));
        let before = objects.insert(key.clone(), object.clone());
        self.tell(place, key.0, before, Some(object.clone()));
        object
    }

    fn prune(&self, place: &Place, object: &mut Value) {
        if let Some(schema) = self.schemas.get(&place.collection) {
            prune::prune(object, schema);
        }
    }

    fn remove(&mut self, place: &Place, key: &(String, String)) {
        let objects = self.objects.get_mut(&place.collection).unwrap();
        let object = objects.remove(key).unwrap();
        self.next();
        self.tell(place, key.0.clone(), Some(object), None);
    }

    /// The first is 2: an empty list has version 1, and a watch that goes on from there
    /// misses nothing.
    fn next(&mut self) -> u64 {
        self.version = self.version.max(1) + 1;
        self.version
    }

    fn tell(
        &mut self,
        place: &Place,
        namespace: String,
        before: Option<Value>,
        after: Option<Value>,
    ) {
        let change = Change {
            version: self.version,
            namespace,
            before,
            after,
        };
        self.watchers.retain(|watcher| {
            watcher.place.collection != place.collection
                || watcher.event(&change).is_none_or(|event| {
                    let sent = watcher.sender.unbounded_send(Ok(line(&event)));
                    sent.is_ok()
                })
        });
        let history = self.history.entry(place.collection.clone()).or_default();
        history.push(change);
    }

    fn answer(&mut self, method: &Method, uri: &str, body: &[u8]) -> Reply {
        self.calls.push(format!("{method} {uri}"));
        if self.down {
            return Reply::Broken;
        }
        let (path, _) = uri.split_once('?').unwrap_or((uri, ""));
        let mut then: Option<Act> = None;
        let after = match self.faults.next(method, path) {
            None => None,
            Some(Fault::Refuse(status)) => return Reply::Answer(failure(status)),
            Some(Fault::Break) => return Reply::Broken,
            Some(Fault::Hang) => return Reply::Never,
            Some(Fault::Lose) => Some(Reply::Broken),
            Some(Fault::Swallow) => Some(Reply::Never),
            Some(Fault::Before(act)) => {
                act(self);
                None
            }
            Some(Fault::After(act)) => {
                then = Some(act);
                None
            }
        };
        let answer = if method == Method::GET {
            self.read(path, uri)
        } else if let Some(status) = self.refuse_writes {
            failure(status)
        } else {
            self.write(method, &Place::of(path), body)
        };
        if let Some(act) = then {
            act(self);
            return Reply::Late(answer);
        }
        after.unwrap_or(Reply::Answer(answer))
    }

    fn read(&mut self, path: &str, uri: &str) -> Response<Body> {
        if let Some(status) = self.refuse_reads {
            return failure(status);
        }
        if let Some(answer) = self.raw.get(path) {
            return success(answer);
        }
        let place = Place::of(path);
        if let Some(name) = &place.name {
            return match self.get(&place, name) {
                Some(object) if place.subresource.is_none() => success(object),
                _ => refusal(404, "NotFound"),
            };
        }
        if place.collection.is_empty() {
            return refusal(404, "NotFound");
        }
        let parameters = place::parameters(uri);
        let selector = place::selector(&parameters);
        if parameters.get("watch").is_some_and(|it| it == "true") {
            let from = parameters["resourceVersion"].parse().unwrap();
            return self.watch(place, selector, from);
        }
        let mut items = self.list(&place);
        items.retain(|object| place::selects(&selector, object));
        success(&json!({
            "kind": "List", "apiVersion": "v1",
            "metadata": { "resourceVersion": self.version.max(1).to_string() },
            "items": items,
        }))
    }

    fn watch(&mut self, place: Place, selector: Selector, from: u64) -> Response<Body> {
        let (sender, receiver) = unbounded();
        let watcher = Watcher {
            place,
            selector,
            from,
            sender,
        };
        if from < self.compacted {
            let gone = json!({ "type": "ERROR", "object": {
                "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired", "message": "too old",
            } });
            let sent = watcher.sender.unbounded_send(Ok(line(&gone)));
            sent.unwrap();
        } else {
            let collection = &watcher.place.collection;
            let history = self.history.get(collection).into_iter().flatten();
            for event in history.filter_map(|change| watcher.event(change)) {
                watcher.sender.unbounded_send(Ok(line(&event))).unwrap();
            }
            self.watchers.push(watcher);
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

/// What a test wants.
fn failure(code: u16) -> Response<Body> {
    refusal(code, "Test")
}

fn refusal(code: u16, reason: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "code": code, "reason": reason, "message": "as the test wants it",
    });
    let mut response = success(&status);
    *response.status_mut() = StatusCode::from_u16(code).unwrap();
    response
}
