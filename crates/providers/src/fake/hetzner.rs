//! Hetzner Cloud on a local port: floating IPs, their actions, servers and locations, as
//! the documentation of the API has them, with its codes and headers.
//!
//! It is told what to do by [`FakeHetzner::tell`], or over HTTP by `POST /_fake/script` with an
//! [`Order`] as JSON.

mod forms;
mod objects;
mod selector;
mod state;

use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri, header::AUTHORIZATION},
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

use objects::Fault;
use state::Project;

/// The token that may do everything.
pub const TOKEN: &str = "fake-hetzner-token-that-may-write";

/// The token that may only read.
pub const READ_ONLY_TOKEN: &str = "fake-hetzner-token-that-may-read";

/// What the cloud is told behind the back of its clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// There is one server more; the answer is its id.
    AddServer(String),
    /// A server is deleted, and its addresses are on none.
    RemoveServer(u64),
    /// Actions stay as they are until they are told to end; otherwise the next request
    /// finds them done.
    Hold(bool),
    /// All actions that run are done.
    Finish,
    /// All actions that run fail with this code and message.
    Fail(String, String),
    /// So many floating IPs the project may have.
    Quota(Option<usize>),
    /// So many calls are left, and none is regained; without a number they last for ever.
    Calls(Option<u64>),
}

/// The cloud with its one project. It ends when it is dropped.
pub struct FakeHetzner {
    address: SocketAddr,
    project: Arc<Mutex<Project>>,
    running: JoinHandle<()>,
}

impl FakeHetzner {
    /// Starts one on a free port of 127.0.0.1.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let project = Arc::new(Mutex::new(Project::default()));
        let router = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&project));
        let running = tokio::spawn(async move {
            // It ends with the task only.
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self {
            address,
            project,
            running,
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The endpoint for clients.
    pub fn endpoint(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Does something behind the back of clients; the answer is an id, where there is one.
    pub fn tell(&self, order: Order) -> Option<u64> {
        lock(&self.project).obey(order)
    }

    /// How many floating IPs the project has.
    pub fn floating_ips(&self) -> usize {
        lock(&self.project).floating_ips.len()
    }
}

impl Drop for FakeHetzner {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn answer(
    State(project): State<Arc<Mutex<Project>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut project = lock(&project);
    if uri.path() == "/_fake/script" {
        return match serde_json::from_slice(&body) {
            Ok(order) => axum::Json(json!({ "id": project.obey(order) })).into_response(),
            Err(error) => (StatusCode::BAD_REQUEST, error.to_string()).into_response(),
        };
    }
    let reply = admit(&mut project, &method, &headers).and_then(|()| {
        let body = if body.is_empty() {
            json!({})
        } else {
            serde_json::from_slice(&body)
                .map_err(|_| Fault::new(400, "json_error", "Invalid JSON in request body"))?
        };
        let path = uri.path().strip_prefix("/v1/").unwrap_or_default();
        let segments: Vec<&str> = path.split('/').collect();
        let query = pairs(uri.query().unwrap_or_default());
        project.answer(&method, &segments, &query, &body)
    });
    let (status, body) = match reply {
        Ok((status, body)) => (status, body),
        Err(fault) => (fault.status, Some(fault.body())),
    };
    let limits = project.limits();
    match body {
        Some(body) => (status, limits, axum::Json(body)).into_response(),
        None => (status, limits).into_response(),
    }
}

/// Who may come in at all.
fn admit(project: &mut Project, method: &Method, headers: &HeaderMap) -> Result<(), Fault> {
    let given = headers
        .get(AUTHORIZATION)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| value.strip_prefix("Bearer "))
        .unwrap_or_default();
    if given != TOKEN && given != READ_ONLY_TOKEN {
        let words = "unable to authenticate";
        return Err(Fault::new(401, "unauthorized", words));
    }
    project.count()?;
    if given == READ_ONLY_TOKEN && method != Method::GET {
        let words = "token is only allowed to perform GET requests";
        return Err(Fault::new(401, "token_readonly", words));
    }
    Ok(())
}

/// A query, with names and values decoded.
fn pairs(query: &str) -> Vec<(String, String)> {
    let url = reqwest::Url::parse(&format!("http://host/?{query}"));
    url.map_or_else(
        |_| Vec::new(),
        |url| url.query_pairs().into_owned().collect(),
    )
}

/// What is answered: a status, and a body unless it has none.
type Answer = Result<(StatusCode, Option<Value>), Fault>;

/// Nobody panics with the lock; if it happens, the project stays as it is.
fn lock(project: &Mutex<Project>) -> MutexGuard<'_, Project> {
    project.lock().unwrap_or_else(PoisonError::into_inner)
}
