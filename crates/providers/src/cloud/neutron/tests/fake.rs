//! A Keystone that grants tokens, and a Neutron that knows two addresses and asks for a
//! token. What a real Neutron does is tested against a real one.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex},
};

use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, StatusCode, Uri},
    response::{IntoResponse, Response},
};
use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};

/// What both remember.
#[derive(Default)]
pub struct Book {
    /// What was sent to get tokens.
    pub asked: Vec<Value>,
    /// The token that is believed.
    pub good: String,
    /// How long tokens live, in seconds.
    pub life: i64,
    /// All requests to Neutron, as method and path with query, and the bodies of orders.
    pub seen: Vec<String>,
    /// What Neutron answers to all but lists of floating IPs and ports.
    pub answer: Option<(u16, Value)>,
    /// The floating IPs.
    pub floating_ips: Vec<Value>,
    /// The ports.
    pub ports: Vec<Value>,
    /// The routers.
    pub routers: Vec<Value>,
    /// Where both are.
    url: String,
}

/// The two of them.
pub struct Fake {
    pub url: String,
    pub book: Arc<Mutex<Book>>,
    running: JoinHandle<()>,
}

impl Fake {
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let book = Arc::new(Mutex::new(Book {
            life: 3600,
            url: url.clone(),
            ..Book::default()
        }));
        let router = Router::new().fallback(answer).with_state(Arc::clone(&book));
        let running = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url, book, running }
    }

    /// How many tokens were granted.
    pub fn tokens(&self) -> usize {
        self.book.lock().unwrap().asked.len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.running.abort();
    }
}

async fn answer(
    State(book): State<Arc<Mutex<Book>>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut book = book.lock().unwrap();
    if uri.path() == "/identity/v3/auth/tokens" {
        return grant(&mut book, &body);
    }
    let path = uri.path_and_query().map(ToString::to_string);
    let body = String::from_utf8_lossy(&body);
    let call = format!("{method} {} {body}", path.unwrap_or_default());
    book.seen.push(call.trim().to_owned());
    let given = headers
        .get("x-auth-token")
        .map(|value| value.to_str().unwrap());
    if given.is_some_and(|given| given != book.good) {
        let body = json!({ "error": { "code": 401, "title": "Unauthorized",
            "message": "The request you have made requires authentication." } });
        return (StatusCode::UNAUTHORIZED, Json(body)).into_response();
    }
    let list = |key: &str, all: &[Value]| Json(json!({ key: all })).into_response();
    match uri.path() {
        "/network/v2.0/floatingips" if method == Method::GET => {
            list("floatingips", &book.floating_ips)
        }
        "/network/v2.0/ports" => {
            let of = uri.query().and_then(|query| {
                let device = query
                    .split('&')
                    .find_map(|pair| pair.strip_prefix("device_id="));
                device.map(str::to_owned)
            });
            let fits = |port: &&Value| of.as_ref().is_none_or(|of| port["device_id"] == **of);
            let ports: Vec<Value> = book.ports.iter().filter(fits).cloned().collect();
            list("ports", &ports)
        }
        "/network/v2.0/routers" => list("routers", &book.routers),
        _ => match &book.answer {
            Some((status, body)) => {
                (StatusCode::from_u16(*status).unwrap(), Json(body.clone())).into_response()
            }
            None => StatusCode::NOT_FOUND.into_response(),
        },
    }
}

fn grant(book: &mut Book, body: &[u8]) -> Response {
    book.asked.push(serde_json::from_slice(body).unwrap());
    book.good = format!("token-{}", book.asked.len());
    let issued = "2026-01-01T00:00:00.000000Z";
    let end: jiff::Timestamp = issued.parse().unwrap();
    let end = end + jiff::SignedDuration::from_secs(book.life);
    let endpoint = |region: &str, interface: &str, path: &str| {
        json!({ "region": region, "region_id": region, "interface": interface,
            "url": format!("{}/{path}", book.url) })
    };
    let body = json!({ "token": {
        "issued_at": issued,
        "expires_at": end.to_string(),
        "project": { "id": "project-1", "name": "demo" },
        "catalog": [
            { "type": "compute", "endpoints": [endpoint("one", "public", "compute")] },
            { "type": "network", "endpoints": [
                endpoint("one", "public", "network/v2.0/"),
                endpoint("one", "internal", "internal"),
                endpoint("two", "public", "elsewhere"),
            ]},
        ],
    }});
    let token = [("x-subject-token", book.good.clone())];
    (StatusCode::CREATED, token, Json(body)).into_response()
}
