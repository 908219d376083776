//! Cloudflare's API of DNS records, as its documents describe it.
//!
//! A batch is done whole or not at all: deletions, then changes, then new records. What the
//! documents leave open is chosen here: the numbers of some refusals, and which records
//! keep each other out (the same content twice; a CNAME beside anything).

mod records;

use std::{
    collections::BTreeMap,
    io,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Path, RawQuery, Request, State as Extracted},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::Response,
    routing,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::server::{self, Server, lock};
use records::Refused;

type Shared = Arc<Mutex<State>>;

/// What the account has.
pub struct State {
    token: String,
    /// Zones by their identifiers.
    pub zones: BTreeMap<String, Zone>,
    calls_left: u64,
    wait: u64,
    last_id: u64,
}

/// A zone.
pub struct Zone {
    /// Its domain.
    pub name: String,
    /// Its records in the form of the API.
    pub records: Vec<Value>,
}

/// What the fake is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Script {
    /// There is a zone.
    Zone {
        /// Its identifier.
        id: String,
        /// Its domain.
        name: String,
    },
    /// How many calls are left, and for how many seconds nobody gets in afterwards.
    Calls {
        /// So many.
        left: u64,
        /// So long.
        wait: u64,
    },
}

/// The server.
pub struct FakeCloudflare {
    server: Server,
    state: Shared,
}

impl FakeCloudflare {
    /// Starts one that lets this token in.
    pub async fn start(token: &str) -> io::Result<Self> {
        let state = Shared::new(Mutex::new(State {
            token: token.to_owned(),
            zones: BTreeMap::new(),
            calls_left: 1200,
            wait: 300,
            last_id: 0,
        }));
        let api = Router::new()
            .route(
                "/client/v4/zones/{zone}/dns_records",
                routing::get(list).post(create),
            )
            .route(
                "/client/v4/zones/{zone}/dns_records/batch",
                routing::post(batch),
            )
            .route(
                "/client/v4/zones/{zone}/dns_records/{id}",
                routing::get(one).patch(patch).put(put).delete(remove),
            )
            .fallback(|| async { refused(&Refused::ROUTE) })
            .layer(middleware::from_fn_with_state(Arc::clone(&state), door));
        let routes = Router::new()
            .route("/_fake/script", routing::post(script))
            .fallback_service(api.with_state(Arc::clone(&state)))
            .with_state(Arc::clone(&state));
        let server = Server::start(routes).await?;
        Ok(Self { server, state })
    }

    /// Where it is; the API begins at `/client/v4`.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Does what other processes ask for at `POST /_fake/script`.
    pub fn script(&self, script: Script) {
        lock(&self.state).apply(script);
    }

    /// Looks at what there is.
    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&lock(&self.state))
    }

    /// Writes a record, past the API.
    ///
    /// # Errors
    /// When the API would not take it.
    pub fn plant(&self, zone: &str, record: &Value) -> Result<(), String> {
        let planted = lock(&self.state).change(zone, |zone, id| zone.create(id, record));
        planted
            .map(drop)
            .map_err(|refused| refused.message.to_owned())
    }
}

impl State {
    fn apply(&mut self, script: Script) {
        match script {
            Script::Zone { id, name } => {
                let records = Vec::new();
                self.zones.insert(id, Zone { name, records });
            }
            Script::Calls { left, wait } => {
                self.calls_left = left;
                self.wait = wait;
            }
        }
    }

    /// Changes a zone whole or not at all. Each record that is made takes a new number.
    fn change<T>(
        &mut self,
        zone: &str,
        change: impl FnOnce(&mut Zone, &mut u64) -> Result<T, Refused>,
    ) -> Result<T, Refused> {
        let zone = self.zones.get_mut(zone).ok_or(Refused::ROUTE)?;
        let before = zone.records.clone();
        let changed = change(zone, &mut self.last_id);
        if changed.is_err() {
            zone.records = before;
        }
        changed
    }
}

async fn script(Extracted(state): Extracted<Shared>, body: Bytes) -> Response {
    match serde_json::from_slice(&body) {
        Ok(script) => {
            lock(&state).apply(script);
            server::json(200, &json!({}))
        }
        Err(error) => server::json(400, &json!({"message": error.to_string()})),
    }
}

/// Who may come in, and how often: everybody passes here.
async fn door(Extracted(state): Extracted<Shared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).cloned();
    let (known, allowed, wait) = {
        let mut state = lock(&state);
        let wanted = format!("Bearer {}", state.token);
        let known = given.is_some_and(|given| given.as_bytes() == wanted.as_bytes());
        let allowed = state.calls_left > 0;
        state.calls_left = state.calls_left.saturating_sub(1);
        (known, allowed, state.wait)
    };
    if !known {
        return refused(&Refused::TOKEN);
    }
    if !allowed {
        let mut answer = refused(&Refused::LIMIT);
        let headers = answer.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(wait));
        return answer;
    }
    next.run(request).await
}

/// A good answer in its envelope.
fn good(result: &Value) -> Response {
    let body = json!({"result": result, "success": true, "errors": [], "messages": []});
    server::json(200, &body)
}

fn refused(refused: &Refused) -> Response {
    let error = json!({"code": refused.code, "message": refused.message});
    let body = json!({"result": null, "success": false, "errors": [error], "messages": []});
    server::json(refused.status, &body)
}

fn answer(result: Result<Value, Refused>) -> Response {
    match result {
        Ok(result) => good(&result),
        Err(error) => refused(&error),
    }
}

async fn list(
    Extracted(state): Extracted<Shared>,
    Path(zone): Path<String>,
    RawQuery(raw): RawQuery,
) -> Response {
    let state = lock(&state);
    let Some(zone) = state.zones.get(&zone) else {
        return refused(&Refused::ROUTE);
    };
    let asked = server::query(raw.as_deref());
    let chosen = zone.find(&asked);
    let (items, page, pages) = server::page(&chosen, &asked, 100, 5_000_000);
    let info = json!({
        "page": page,
        "per_page": asked.get("per_page").and_then(|text| text.parse().ok()).unwrap_or(100_u64),
        "count": items.len(),
        "total_count": chosen.len(),
        "total_pages": if chosen.is_empty() { 0 } else { pages },
    });
    let body = json!({
        "result": items, "success": true, "errors": [], "messages": [], "result_info": info,
    });
    server::json(200, &body)
}

async fn create(
    Extracted(state): Extracted<Shared>,
    Path(zone): Path<String>,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    answer(lock(&state).change(&zone, |zone, id| zone.create(id, &body)))
}

async fn batch(
    Extracted(state): Extracted<Shared>,
    Path(zone): Path<String>,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    answer(lock(&state).change(&zone, |zone, id| zone.batch(id, &body)))
}

async fn one(
    Extracted(state): Extracted<Shared>,
    Path((zone, id)): Path<(String, String)>,
) -> Response {
    answer(lock(&state).change(&zone, |zone, _| zone.get(&id)))
}

async fn patch(
    Extracted(state): Extracted<Shared>,
    Path((zone, id)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    answer(lock(&state).change(&zone, |zone, _| zone.patch(&id, &body)))
}

async fn put(
    Extracted(state): Extracted<Shared>,
    Path((zone, id)): Path<(String, String)>,
    body: Bytes,
) -> Response {
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    answer(lock(&state).change(&zone, |zone, _| zone.put(&id, &body)))
}

async fn remove(
    Extracted(state): Extracted<Shared>,
    Path((zone, id)): Path<(String, String)>,
) -> Response {
    answer(lock(&state).change(&zone, |zone, _| zone.delete(&id)))
}
