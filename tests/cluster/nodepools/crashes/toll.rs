//! The ways out of the controller, to the cloud and to the API server. Each call is counted,
//! and one of them can be held up for good, before it is done or after: whoever is killed
//! then was killed at exactly that call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Request;
use axum::http::header::{ACCEPT_ENCODING, HOST};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use kube::Client;
use tokio::sync::Notify;

/// The longest body of a request.
const LONGEST: usize = 4 << 20;

/// Whether a call is held up before it is done, or when nobody was told yet that it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    Before,
    After,
}

/// The counter of calls.
#[derive(Clone, Default)]
pub struct Toll(Arc<Inner>);

#[derive(Default)]
struct Inner {
    book: Mutex<Book>,
    reached: Notify,
}

#[derive(Default)]
struct Book {
    /// How many calls the process has made.
    count: usize,
    stop: Option<(usize, Moment)>,
    /// The call that is held up. Nobody else passes then.
    held: Option<String>,
    /// All calls that were done, and what came of them.
    done: Vec<(String, StatusCode)>,
}

impl Toll {
    /// A new process begins, which is to be held up there.
    pub fn begin(&self, stop: Option<(usize, Moment)>) {
        let mut book = self.book();
        (book.count, book.stop, book.held) = (0, stop, None);
    }

    /// Waits until a call is held up, and says which.
    pub async fn reached(&self) -> String {
        loop {
            let reached = self.0.reached.notified();
            if let Some(held) = self.book().held.clone() {
                return held;
            }
            reached.await;
        }
    }

    /// All calls so far that were done, of all processes.
    pub fn done(&self) -> Vec<(String, StatusCode)> {
        self.book().done.clone()
    }

    /// Puts it around the cloud.
    pub fn around(&self, cloud: Router) -> Router {
        let toll = self.clone();
        cloud.layer(middleware::from_fn(move |request: Request, next: Next| {
            let toll = toll.clone();
            async move {
                let what = format!("{} {}", request.method(), request.uri().path());
                toll.pass(what, next.run(request)).await
            }
        }))
    }

    /// The way to the API server, with the rights of that user. Only what changes something
    /// counts.
    pub fn before(&self, client: Client, user: &'static str) -> Router {
        let toll = self.clone();
        Router::new().fallback(move |request: Request| {
            let (toll, client) = (toll.clone(), client.clone());
            async move {
                let what = format!("{} {}", request.method(), request.uri().path());
                let writes = !matches!(*request.method(), Method::GET | Method::HEAD);
                let forward = forward(client, user, request);
                if writes {
                    return toll.pass(what, forward).await;
                }
                let answer = forward.await;
                toll.note(what, answer.status());
                answer
            }
        })
    }

    async fn pass(&self, what: String, forward: impl Future<Output = Response>) -> Response {
        let number = {
            let mut book = self.book();
            book.count += 1;
            book.count - 1
        };
        self.hold((number, Moment::Before), &what).await;
        let answer = forward.await;
        self.note(what.clone(), answer.status());
        self.hold((number, Moment::After), &what).await;
        answer
    }

    async fn hold(&self, at: (usize, Moment), what: &str) {
        {
            let mut book = self.book();
            if book.stop == Some(at) {
                book.held = Some(format!("{:?} call {}, {what}", at.1, at.0));
                self.0.reached.notify_one();
            }
            if book.held.is_none() {
                return;
            }
        }
        std::future::pending::<()>().await;
    }

    fn note(&self, what: String, status: StatusCode) {
        self.book().done.push((what, status));
    }

    /// Nobody panics with it; if it happens, what was written stays true.
    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn forward(client: Client, user: &'static str, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LONGEST).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    for name in [HOST, ACCEPT_ENCODING] {
        parts.headers.remove(name);
    }
    let user = HeaderValue::from_static(user);
    parts.headers.insert("impersonate-user", user);
    let body = kube::client::Body::from(body.to_vec());
    match client.send(Request::from_parts(parts, body)).await {
        Ok(answer) => answer.map(Body::new),
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}
