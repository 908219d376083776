//! An API server with room for one lease, and replicas that use it.

use std::{
    future::pending,
    sync::{Arc, Mutex, MutexGuard},
};

use axum::{
    body::Body,
    http::{Method, Request, Response, StatusCode, Uri},
};
use futures::{StreamExt as _, channel::mpsc, stream};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tower::service_fn;

use super::*;
use crate::stop::{self, Stopper};

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
    /// Lines that are no events.
    Garbage,
}

#[derive(Default)]
pub struct State {
    version: u64,
    lease: Option<Value>,
    pub calls: Vec<String>,
    pub fault: Option<Fault>,
    /// Stored by somebody else just before the next write arrives.
    pub before_write: Option<Value>,
    pub watch_fault: Option<WatchFault>,
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

    /// Deletes the lease.
    pub fn delete(&mut self) {
        let lease = self.lease.take().expect("there is a lease");
        self.show("DELETED", &lease);
    }

    /// Shows to those who watch what is not stored.
    pub fn pretend(&mut self, spec: &Value) {
        let lease = self.lease_of(spec);
        self.show("MODIFIED", &lease);
    }

    /// Cuts off those who watch.
    pub fn end_watches(&mut self) {
        self.watchers.clear();
    }

    fn show(&mut self, kind: &str, lease: &Value) {
        let line = event(kind, lease);
        self.watchers
            .retain(|watcher| watcher.unbounded_send(line.clone()).is_ok());
    }

    fn lease_of(&self, spec: &Value) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {
                "name": "the-lease",
                "namespace": "floe-test",
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
            ("POST", PATH, None) => self.put(&body["spec"]),
            ("POST", PATH, Some(_)) => return failure(StatusCode::CONFLICT, "AlreadyExists"),
            ("PUT", LEASE, Some(lease)) => {
                let version = &lease["metadata"]["resourceVersion"];
                if body["metadata"]["resourceVersion"] != *version {
                    return failure(StatusCode::CONFLICT, "Conflict");
                }
                self.put(&body["spec"]);
            }
            unexpected => panic!("unexpected request {unexpected:?}"),
        }
        (
            StatusCode::OK,
            self.lease.clone().expect("stored or found above"),
        )
    }

    /// The lines of a watch: the present state, then what comes.
    fn watch(&mut self) -> Body {
        let (sender, lines) = mpsc::unbounded();
        if let Some(lease) = &self.lease {
            let sent = sender.unbounded_send(event("ADDED", lease));
            sent.expect("the receiver is alive");
        }
        self.watchers.push(sender);
        Body::from_stream(lines.map(Ok::<_, std::io::Error>))
    }
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

    /// All requests but the watches.
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

    pub fn start_with(&self, dice: fn() -> f64) -> Replica {
        let election = Election {
            namespace: "floe-test".into(),
            name: "the-lease".into(),
        };
        let contact = Contact::new();
        let mut elector = Elector::new(self.client(), election, Timing::default(), contact.clone());
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

    fn client(&self) -> Client {
        let server = self.clone();
        let service = service_fn(move |request| server.clone().answer(request));
        Client::new(service, "default")
    }

    async fn answer(self, request: Request<kube::client::Body>) -> std::io::Result<Response<Body>> {
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
        state.calls.push(parts.method.to_string());
        let (status, value) = state.answer(&parts.method, parts.uri.path(), &body);
        Ok(response(status, value.to_string().into()))
    }

    async fn answer_watch(self, uri: &Uri) -> std::io::Result<Response<Body>> {
        let query: Vec<_> = uri.query().unwrap_or_default().split('&').collect();
        for wanted in ["watch=true", "fieldSelector=metadata.name%3Dthe-lease"] {
            assert!(query.contains(&wanted), "{query:?} has no {wanted}");
        }
        self.state().watches += 1;
        let fault = self.state().watch_fault;
        let body = match fault {
            None => self.state().watch(),
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
                let body = state.watch();
                state.watchers.pop();
                body
            }
            Some(WatchFault::Error) => {
                event("ERROR", &failure(StatusCode::GONE, "Expired").1).into()
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

fn event(kind: &str, object: &Value) -> String {
    format!("{}\n", json!({"type": kind, "object": object}))
}
