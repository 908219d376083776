//! A server on a free local port, and the small things that all fakes share.

use std::{
    collections::BTreeMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::{Mutex, MutexGuard, PoisonError},
};

use axum::{
    Router,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use serde_json::Value;
use tokio::{net::TcpListener, task::JoinHandle};

/// A server. It ends when it is dropped.
pub struct Server {
    address: SocketAddr,
    running: JoinHandle<()>,
}

impl Server {
    /// Serves these routes on a free port of 127.0.0.1.
    pub async fn start(routes: Router) -> io::Result<Self> {
        Self::on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, routes)
    }

    /// Serves these routes where somebody listens already, in another network perhaps.
    pub fn on(listener: TcpListener, routes: Router) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let running = tokio::spawn(async move {
            // It ends with the runtime or by being aborted, never by itself.
            let _ = axum::serve(listener, routes).await;
        });
        Ok(Self { address, running })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The same as `http://address:port`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// An answer in JSON.
pub fn json(status: u16, body: &Value) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let kind = [(header::CONTENT_TYPE, "application/json; charset=utf-8")];
    (status, kind, body.to_string()).into_response()
}

/// The words of a query, with what `%` and `+` stand for.
pub fn query(raw: Option<&str>) -> BTreeMap<String, String> {
    let url = format!("http://localhost/?{}", raw.unwrap_or_default());
    let parsed = reqwest::Url::parse(&url).ok();
    let pairs = parsed.iter().flat_map(reqwest::Url::query_pairs);
    pairs
        .map(|(name, value)| (name.into_owned(), value.into_owned()))
        .collect()
}

/// The page of a list that a query asks for, and how many pages there are: `per_page` is
/// `usual` if it does not say, and never more than `most`.
pub fn page<T: Clone>(
    items: &[T],
    asked: &BTreeMap<String, String>,
    usual: usize,
    most: usize,
) -> (Vec<T>, usize, usize) {
    let number = |name: &str| asked.get(name).and_then(|text| text.parse::<usize>().ok());
    let per_page = number("per_page").unwrap_or(usual).clamp(1, most);
    let page = number("page").unwrap_or(1).max(1);
    let pages = items.len().div_ceil(per_page).max(1);
    let chosen = items.iter().skip((page - 1) * per_page).take(per_page);
    (chosen.cloned().collect(), page, pages)
}

/// Nobody panics with a lock; if it happens, what was written stays true.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
