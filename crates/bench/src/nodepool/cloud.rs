//! A cloud with Hetzner's API that does every order at once, and notes when.
//!
//! Only what the controller asks for here: lists in pages, one address, and assignments. The fake of the
//! tests has all of the API, and room for some 250 addresses.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use anyhow::Result;
use axum::{
    Json, Router,
    extract::{Path, Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
    routing,
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::watch, task::JoinHandle};

/// The cloud; it ends with this value.
pub struct Cloud {
    port: u16,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

struct Shared {
    addresses: Mutex<Vec<(IpAddr, u64)>>,
    /// How many calls there were.
    calls: Mutex<u32>,
    /// When an address was last assigned.
    assigned: watch::Sender<Option<Instant>>,
}

impl Cloud {
    /// One with these addresses on these servers.
    pub async fn start(addresses: Vec<(IpAddr, u64)>) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let port = listener.local_addr()?.port();
        let shared = Arc::new(Shared {
            addresses: Mutex::new(addresses),
            calls: Mutex::default(),
            assigned: watch::Sender::new(None),
        });
        let router = Router::new()
            .route("/v1/floating_ips", routing::get(list))
            .route("/v1/floating_ips/{id}", routing::get(one))
            .route(
                "/v1/floating_ips/{id}/actions/assign",
                routing::post(assign),
            )
            .with_state(Arc::clone(&shared));
        let serve = axum::serve(listener, router);
        let task = tokio::spawn(async move {
            // It ends with the task only.
            let _ = serve.await;
        });
        Ok(Self { port, shared, task })
    }

    /// Where it is.
    pub fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}/v1", self.port)
    }

    /// How many calls there were.
    pub fn calls(&self) -> u32 {
        *lock(&self.shared.calls)
    }

    /// Waits until an address is assigned after that moment; when that was.
    pub async fn assigned_after(&self, moment: Instant) -> Option<Instant> {
        let mut assigned = self.shared.assigned.subscribe();
        let later = |at: &Option<Instant>| at.is_some_and(|at| at > moment);
        assigned.wait_for(later).await.ok().and_then(|at| *at)
    }
}

impl Drop for Cloud {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn list(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<BTreeMap<String, usize>>,
) -> Response {
    *lock(&shared.calls) += 1;
    let number = |name: &str, usual| asked.get(name).copied().unwrap_or(usual);
    let (page, size) = (number("page", 1), number("per_page", 25));
    let addresses = lock(&shared.addresses);
    let found: Vec<Value> = addresses
        .iter()
        .enumerate()
        .skip((page - 1) * size)
        .take(size)
        .map(|(number, place)| shown(number, place))
        .collect();
    let next = (page * size < addresses.len()).then_some(page + 1);
    let pagination = json!({ "page": page, "next_page": next });
    Json(json!({ "floating_ips": found, "meta": { "pagination": pagination } })).into_response()
}

/// The client looks at an address before it gives an order for it.
async fn one(State(shared): State<Arc<Shared>>, Path(id): Path<usize>) -> Response {
    *lock(&shared.calls) += 1;
    let addresses = lock(&shared.addresses);
    match id.checked_sub(1).and_then(|number| addresses.get(number)) {
        Some(place) => Json(json!({ "floating_ip": shown(id - 1, place) })).into_response(),
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn shown(number: usize, (ip, server): &(IpAddr, u64)) -> Value {
    json!({ "id": number + 1, "ip": ip, "server": server })
}

async fn assign(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<usize>,
    Json(body): Json<Value>,
) -> Response {
    *lock(&shared.calls) += 1;
    if let (Some(place), Some(server)) = (
        lock(&shared.addresses).get_mut(id - 1),
        body["server"].as_u64(),
    ) {
        place.1 = server;
    }
    shared.assigned.send_replace(Some(Instant::now()));
    let action = json!({ "id": 1, "status": "success", "error": null });
    Json(json!({ "action": action })).into_response()
}

/// Nobody holds it across an await.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
