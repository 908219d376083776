//! DigitalOcean's API of reserved IPs, reserved IPv6, droplets, projects and domains, as
//! its documents describe it.
//!
//! What the documents leave open is chosen here and may be different there: the words of
//! refusals, and that an unknown droplet, a droplet that has an address, and an address that
//! is locked or on that droplet already are all answered with 422.

mod addresses;
mod domains;
mod projects;
mod shapes;
mod state;

use std::{
    io,
    sync::{Arc, Mutex},
};

use axum::{
    Router,
    body::Bytes,
    extract::{Request, State as Extracted},
    http::{HeaderValue, header},
    middleware::{self, Next},
    response::Response,
    routing,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::{self, Server, lock};
pub use state::{Failing, Names, Script, State};

/// All that a handler needs.
type Shared = Arc<Mutex<State>>;

/// The server.
pub struct FakeDigitalOcean {
    server: Server,
    state: Shared,
}

impl FakeDigitalOcean {
    /// Starts one that lets this token in.
    pub async fn start(token: &str) -> io::Result<Self> {
        let (state, routes) = make(token);
        let server = Server::start(routes).await?;
        Ok(Self { server, state })
    }

    /// The same where somebody listens already. All that comes passes what `dress` puts
    /// around it.
    pub fn start_on(
        listener: TcpListener,
        token: &str,
        dress: impl FnOnce(Router) -> Router,
    ) -> io::Result<Self> {
        let (state, routes) = make(token);
        let server = Server::on(listener, dress(routes))?;
        Ok(Self { server, state })
    }

    /// Where it is.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Does what other processes ask for at `POST /_fake/script`.
    ///
    /// # Errors
    /// When there is nothing to do it to.
    pub fn script(&self, script: Script) -> Result<(), String> {
        lock(&self.state).apply(script)
    }

    /// Looks at what there is.
    pub fn look<T>(&self, at: impl FnOnce(&State) -> T) -> T {
        at(&lock(&self.state))
    }
}

fn make(token: &str) -> (Shared, Router) {
    let state = Shared::new(Mutex::new(State::new(token)));
    let api = Router::new()
        .merge(addresses::routes())
        .merge(projects::routes())
        .merge(domains::routes())
        .fallback(|| async { not_found() })
        .layer(middleware::from_fn_with_state(Arc::clone(&state), door));
    let routes = Router::new()
        .route("/_fake/script", routing::post(script))
        .fallback_service(api.with_state(Arc::clone(&state)))
        .with_state(Arc::clone(&state));
    (state, routes)
}

async fn script(Extracted(state): Extracted<Shared>, body: Bytes) -> Response {
    let parsed = serde_json::from_slice(&body).map_err(|error| error.to_string());
    match parsed.and_then(|script| lock(&state).apply(script)) {
        Ok(()) => server::json(200, &json!({})),
        Err(words) => server::json(400, &json!({"message": words})),
    }
}

/// Who may come in, and how often: everybody passes here.
async fn door(Extracted(state): Extracted<Shared>, request: Request, next: Next) -> Response {
    let given = request.headers().get(header::AUTHORIZATION).cloned();
    let (refused, failing, left, reset) = {
        let mut state = lock(&state);
        let wanted = format!("Bearer {}", state.token);
        let known = given.is_some_and(|given| given.as_bytes() == wanted.as_bytes());
        let refused = if known {
            (!state.count_call())
                .then(|| error(429, "too_many_requests", "API rate limit exceeded."))
        } else {
            Some(error(401, "Unauthorized", "Unable to authenticate you"))
        };
        let failing = refused.is_none().then(|| state.next_failure()).flatten();
        (refused, failing, state.calls_left, state.calls_reset)
    };
    let mut answer = match (refused, failing) {
        (Some(refused), _) => refused,
        (None, Some(failing)) => {
            if failing.done {
                next.run(request).await;
            }
            fail(&failing)
        }
        (None, None) => next.run(request).await,
    };
    let headers = answer.headers_mut();
    headers.insert("ratelimit-limit", HeaderValue::from_static("5000"));
    headers.insert("ratelimit-remaining", HeaderValue::from(left));
    headers.insert("ratelimit-reset", HeaderValue::from(reset));
    answer
}

fn fail(failing: &Failing) -> Response {
    let mut answer = error(failing.status, "as_told", "It was told to fail.");
    if let Some(seconds) = failing.retry_after {
        let headers = answer.headers_mut();
        headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

/// A refusal as the API writes it.
fn error(status: u16, id: &str, message: &str) -> Response {
    let request = "4d9d8375-3c56-4925-a3e7-eb137fed17e9";
    let body = json!({"id": id, "message": message, "request_id": request});
    server::json(status, &body)
}

fn not_found() -> Response {
    let words = "The resource you were accessing could not be found.";
    error(404, "not_found", words)
}

fn unprocessable(words: &str) -> Response {
    error(422, "unprocessable_entity", words)
}

/// A page of a list, with where the others are.
fn list(path: &str, key: &str, items: &[Value], raw: Option<&str>) -> Response {
    let asked = server::query(raw);
    let (chosen, page, pages) = server::page(items, &asked, 20, 200);
    let mut links = json!({});
    if pages > 1 {
        let per_page = asked.get("per_page").map_or("20", String::as_str);
        let at = |page: usize| {
            format!("https://api.digitalocean.com{path}?page={page}&per_page={per_page}")
        };
        let mut around = serde_json::Map::new();
        if page > 1 {
            around.insert("first".into(), at(1).into());
            around.insert("prev".into(), at(page - 1).into());
        }
        if page < pages {
            around.insert("next".into(), at(page + 1).into());
            around.insert("last".into(), at(pages).into());
        }
        links = json!({"pages": around});
    }
    let body = json!({key: chosen, "links": links, "meta": {"total": items.len()}});
    server::json(200, &body)
}
