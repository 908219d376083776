//! An API server with room for one lease, and replicas that use it.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    body::Body,
    http::{Method, Request, Response, StatusCode, Uri},
};
use floe_shell::stop::{self, Stopper};
use futures::{StreamExt as _, channel::mpsc, stream};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/floe-test/leases";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/floe-test/leases/the-lease";

/// A running elector.
pub struct Replica {
    pub identity: String,
    pub standing: watch::Receiver<Standing>,
    pub contact: Contact,
    stopper: Stopper,
    task: JoinHandle<()>,
}

impl Replica {
    /// Waits for a standing, but no longer than any election may take.
    pub async fn until(&mut self, wanted: impl FnMut(&Standing) -> bool) -> Standing {
        let limit = Duration::from_mins(5);
        let reached = timeout(limit, self.standing.wait_for(wanted)).await;
        reached
            .expect("reached in time")
            .expect("the elector runs")
            .clone()
    }

    pub async fn stop(&mut self) {
        self.stopper.stop();
        (&mut self.task).await.expect("the elector does not panic");
    }
}

/// What the server does instead of answering.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    Refuse,
    Hang,
}

/// What the server does with a watch instead of serving it.
#[derive(Clone, Copy, Debug)]
pub enum WatchFault {
    /// The role lacks the right.
    Forbid,
    /// No connection.
    Refuse,
    /// No answer at all.
    Hang,
    /// An answer, and then never an event.
    Mute,
    /// An answer that ends at once.
    End,
    /// The present state, and then the end.
    ShowAndEnd,
    /// An event that tells of an error.
    Error,
    /// An event that tells that the version is too old.
    Gone,
    /// The same as the status of the answer.
    GoneStatus,
    /// Lines that are no events.
    Garbage,
}

#[derive(Default)]
pub struct State {
    version: u64,
    lease: Option<Value>,
    /// Those of the lease.
    pub annotations: Value,
    /// All events with their versions.
    history: Vec<(u64, String)>,
    /// Requests of the election.
    pub calls: Vec<String>,
    /// How often the lookout has read the lease.
    pub looks: usize,
    pub fault: Option<Fault>,
    /// Stored by somebody else just before the next write arrives.
    pub before_write: Option<Value>,
    /// Stored by somebody else just before the next watch is asked for.
    pub before_watch: Option<Value>,
    pub watch_fault: Option<WatchFault>,
    /// Watches from earlier versions are answered as with this fault.
    pub forgotten: Option<(u64, WatchFault)>,
    /// As a server whose etcd is too old: no watches with initial events.
    pub lacks_progress: bool,
    /// How many watches were asked for.
    pub watches: usize,
    watchers: Vec<mpsc::UnboundedSender<String>>,
}

impl State {
    /// Stores a lease and shows it to those who watch.
    pub fn put(&mut self, spec: &Value) {
        self.version += 1;
        let kind = if self.lease.is_some() {
            "MODIFIED"
        } else {
            "ADDED"
        };
        let lease = self.lease_of(spec);
        self.show(kind, &lease);
        self.lease = Some(lease);
    }

    fn store(&mut self, lease: &Value) {
        self.annotations = lease["metadata"]["annotations"].clone();
        self.put(&lease["spec"]);
    }

    /// Deletes the lease.
    pub fn delete(&mut self) {
        let mut lease = self.lease.take().expect("there is a lease");
        self.version += 1;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.show("DELETED", &lease);
    }

    /// Shows to those who watch what is not stored.
    pub fn pretend(&mut self, spec: &Value) {
        let lease = self.lease_of(spec);
        self.send(&event("MODIFIED", &lease));
    }

    /// Goes on with a version that is higher by this much.
    pub fn skip_versions(&mut self, count: u64) {
        self.version += count;
    }

    /// Cuts off those who watch.
    pub fn end_watches(&mut self) {
        self.watchers.clear();
    }

    fn show(&mut self, kind: &str, lease: &Value) {
        let line = event(kind, lease);
        self.send(&line);
        self.history.push((self.version, line));
    }

    fn send(&mut self, line: &str) {
        self.watchers
            .retain(|watcher| watcher.unbounded_send(line.to_owned()).is_ok());
    }

    fn lease_of(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "the-lease",
                "namespace": "floe-test",
                "annotations": self.annotations,
                "resourceVersion": self.version.to_string(),
            },
            "spec": spec,
        })
    }

    fn answer(&mut self, method: &Method, path: &str, body: &Value) -> (StatusCode, Value) {
        if method != Method::GET
            && let Some(spec) = self.before_write.take()
        {
            self.put(&spec);
        }
        match (method.as_str(), path, &self.lease) {
            ("GET", LEASE, Some(_)) => {}
            ("GET", LEASE, None) => return failure(StatusCode::NOT_FOUND, "NotFound"),
            ("POST", PATH, None) => self.store(body),
            ("POST", PATH, Some(_)) => return failure(StatusCode::CONFLICT, "AlreadyExists"),
            ("PUT", LEASE, Some(lease)) => {
                let version = &lease["metadata"]["resourceVersion"];
                if body["metadata"]["resourceVersion"] != *version {
                    return failure(StatusCode::CONFLICT, "Conflict");
                }
                self.store(body);
            }
            unexpected => panic!("unexpected request {unexpected:?}"),
        }
        (
            StatusCode::OK,
            self.lease.clone().expect("stored or found above"),
        )
    }

    /// The lines of a watch: what came after the version, then what comes.
    /// Version 0 is the present state.
    fn watch(&mut self, version: u64) -> Body {
        let (sender, lines) = mpsc::unbounded();
        let past = if version == 0 {
            let lease = self.lease.iter();
            lease.map(|lease| event("ADDED", lease)).collect()
        } else {
            let later = self.history.iter().filter(|(at, _)| *at > version);
            later.map(|(_, line)| line.clone()).collect::<Vec<_>>()
        };
        for line in past {
            let sent = sender.unbounded_send(line);
            sent.expect("the receiver is alive");
        }
        self.watchers.push(sender);
        Body::from_stream(lines.map(Ok::<_, std::io::Error>))
    }
}

/// Who sends a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sender {
    Election,
    Lookout,
}

/// An API server with room for one lease.
#[derive(Clone)]
pub struct Server(Arc<Mutex<State>>);

impl Server {
    pub fn new() -> Self {
        Self(Arc::default())
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0
            .lock()
            .expect("no test panics while it holds the lock")
    }

    /// All requests of the election.
    pub fn calls(&self) -> Vec<String> {
        self.state().calls.clone()
    }

    pub fn spec(&self) -> Value {
        let lease = self.state().lease.clone();
        lease.expect("there is a lease")["spec"].clone()
    }

    /// A replica that never rolls more than zero.
    pub fn start(&self) -> Replica {
        self.start_with(|| 0.0)
    }

    /// One that answers the scheduler at this address.
    pub fn start_at(&self, extender: Option<&str>) -> Replica {
        self.start_elector(|| 0.0, extender)
    }

    pub fn start_with(&self, dice: fn() -> f64) -> Replica {
        self.start_elector(dice, None)
    }

    fn start_elector(&self, dice: fn() -> f64, extender: Option<&str>) -> Replica {
        let election = Election {
            namespace: "floe-test".into(),
            name: "the-lease".into(),
        };
        let contact = Contact::new();
        let client = self.client(Sender::Election);
        let mut elector = Elector::new(
            client,
            election,
            Timing::default(),
            contact.clone(),
            Addresses {
                extender: extender.map(str::to_owned),
                api: extender.map(|address| address.replace("9040", "9041")),
            },
        );
        elector.watched = self.watched();
        elector.dice = dice;
        let (stopper, stop) = stop::channel();
        Replica {
            identity: elector.candidate.identity().to_owned(),
            standing: elector.standing(),
            contact,
            stopper,
            task: tokio::spawn(elector.run(stop)),
        }
    }

    /// The leases as the lookout sees them.
    pub fn watched(&self) -> Api<Lease> {
        Api::namespaced(self.client(Sender::Lookout), "floe-test")
    }

    fn client(&self, sender: Sender) -> Client {
        let server = self.clone();
        let service = service_fn(move |request| server.clone().answer(sender, request));
        Client::new(service, "default")
    }

    async fn answer(
        self,
        sender: Sender,
        request: Request<kube::client::Body>,
    ) -> std::io::Result<Response<Body>> {
        let (parts, body) = request.into_parts();
        let body = body.collect_bytes().await.expect("bodies are in memory");
        let body = serde_json::from_slice(&body).unwrap_or_default();
        let fault = self.state().fault;
        match fault {
            Some(Fault::Refuse) => return Err(std::io::ErrorKind::ConnectionRefused.into()),
            Some(Fault::Hang) => pending().await,
            None => {}
        }
        if parts.method == Method::GET && parts.uri.path() == PATH {
            return self.answer_watch(&parts.uri).await;
        }
        let mut state = self.state();
        match sender {
            Sender::Election => state.calls.push(parts.method.to_string()),
            Sender::Lookout => {
                assert_eq!(parts.method, Method::GET, "it only looks");
                state.looks += 1;
            }
        }
        let (status, value) = state.answer(&parts.method, parts.uri.path(), &body);
        Ok(response(status, value.to_string().into()))
    }

    async fn answer_watch(self, uri: &Uri) -> std::io::Result<Response<Body>> {
        let query: Vec<_> = uri.query().unwrap_or_default().split('&').collect();
        for wanted in ["watch=true", "fieldSelector=metadata.name%3Dthe-lease"] {
            assert!(query.contains(&wanted), "{query:?} has no {wanted}");
        }
        let version = query
            .iter()
            .find_map(|pair| pair.strip_prefix("resourceVersion="));
        let version = version.expect("a version").parse().expect("a number");
        let fault = {
            let mut state = self.state();
            state.watches += 1;
            if let Some(spec) = state.before_watch.take() {
                state.put(&spec);
            }
            if version == 0 && state.lacks_progress {
                return Ok(response(StatusCode::OK, lacks_progress().into()));
            }
            let forgotten = state.forgotten.filter(|(first, _)| version < *first);
            forgotten.map(|(_, fault)| fault).or(state.watch_fault)
        };
        let body = match fault {
            None => self.state().watch(version),
            Some(WatchFault::Refuse) => return Err(std::io::ErrorKind::ConnectionRefused.into()),
            Some(WatchFault::Hang) => pending().await,
            Some(WatchFault::Forbid) => {
                let (status, value) = failure(StatusCode::FORBIDDEN, "Forbidden");
                return Ok(response(status, value.to_string().into()));
            }
            Some(WatchFault::Mute) => {
                Body::from_stream(stream::pending::<std::io::Result<String>>())
            }
            Some(WatchFault::End) => Body::empty(),
            Some(WatchFault::ShowAndEnd) => {
                let mut state = self.state();
                let body = state.watch(0);
                state.watchers.pop();
                body
            }
            Some(WatchFault::Error) => {
                let (_, value) = failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
                event("ERROR", &value).into()
            }
            Some(WatchFault::Gone) => {
                event("ERROR", &failure(StatusCode::GONE, "Expired").1).into()
            }
            Some(WatchFault::GoneStatus) => {
                let (status, value) = failure(StatusCode::GONE, "Expired");
                return Ok(response(status, value.to_string().into()));
            }
            Some(WatchFault::Garbage) => "tea\n{\"type\":\"ADDED\"}\n".into(),
        };
        Ok(response(StatusCode::OK, body))
    }
}

pub fn spec_of(holder: &str, seconds: u32) -> Value {
    json!({
        "holderIdentity": holder,
        "leaseDurationSeconds": seconds,
        "acquireTime": "2020-01-01T00:00:00.000000Z",
        "renewTime": "2020-01-01T00:00:00.000000Z",
        "leaseTransitions": 7,
    })
}

fn response(status: StatusCode, body: Body) -> Response<Body> {
    let response = Response::builder().status(status).body(body);
    response.expect("the parts are valid")
}

fn failure(status: StatusCode, reason: &str) -> (StatusCode, Value) {
    let value = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure",
        "reason": reason, "message": reason, "code": status.as_u16(),
    });
    (status, value)
}

/// The only line of a watch with initial events where etcd is too old.
fn lacks_progress() -> String {
    let (_, mut value) = failure(StatusCode::INTERNAL_SERVER_ERROR, "InternalError");
    value["message"] = json!(
        "a watch stream was requested by the client but the required storage feature \
         RequestWatchProgress is disabled"
    );
    event("ERROR", &value)
}

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}
