//! What every call passes: who calls, limits, and the way to the leader.
//!
//! - The documentation and the figures are open, on every replica.
//! - Calls of `/v1` and `/v2` need a caller. Only the leader answers them, so that
//!   everybody reads what he wrote; others forward the whole call to it.
//!
//! Guarantees: the body of a stranger is not read. A slow body holds no more than
//! what it has sent so far. A change that has begun goes on when its caller leaves,
//! and a stop waits for it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::{self, Next},
    response::{IntoResponse as _, Response},
};
use floe_api::rest::{v1, v2};
use floe_shell::stop::Stop;
use futures::StreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tracing::{debug, error, info};

use super::access::{Caller, Denied, Reviewer};
use crate::{
    leader::Standing,
    store::Warmth,
    transport::{FORWARDED, peer::Peers, serve::Limits},
};

mod body;
mod forward;
mod refusal;

use body::Room;
use forward::Forwarder;
use refusal::Refusal;

/// How much people and tools may take of the connections. Clients keep them for
/// minutes, but there are many clients: who is idle for long has to connect again.
pub const LIMITS: Limits = Limits {
    idle: Duration::from_secs(10),
    hurried: Duration::from_secs(2),
    connections: 1024,
    from_one: 256,
    unread: Some(Duration::from_secs(30)),
    half_closed: true,
    drain: Duration::from_secs(10),
};

/// How long a connection between replicas is kept: shorter than any idle one lives.
pub const KEEP: Duration = Duration::from_secs(1);

/// How many calls are answered at once.
const CALLS: u32 = 128;

/// How many followers of changes there are at once.
const WATCHES: usize = 256;

/// How long a call waits for others.
const QUEUE: Duration = Duration::from_secs(2);

/// How long an answer to a question may take. Changes take the time they need.
const ANSWER: Duration = Duration::from_secs(30);

/// The one path whose answer has no end.
const WATCH: &str = "/v2/watch";

/// What stands before the routes.
#[derive(Clone)]
pub struct Front {
    /// Who says who callers are; `None`: nobody asks.
    reviewer: Option<Reviewer>,
    standing: watch::Receiver<Standing>,
    warmth: watch::Receiver<Warmth>,
    forwarder: Forwarder,
    calls: Arc<Semaphore>,
    watches: Arc<Semaphore>,
    room: Room,
    stop: Stop,
}

impl Front {
    /// Asks the reviewer for callers, or nobody; streams end at `stop`.
    pub fn new(
        reviewer: Option<Reviewer>,
        standing: watch::Receiver<Standing>,
        warmth: watch::Receiver<Warmth>,
        peers: Peers,
        stop: Stop,
    ) -> Self {
        Self {
            reviewer,
            standing,
            warmth,
            forwarder: Forwarder::new(peers),
            calls: Arc::new(Semaphore::new(CALLS as usize)),
            watches: Arc::new(Semaphore::new(WATCHES)),
            room: Room::default(),
            stop,
        }
    }

    /// The routes with this before them.
    pub fn before(self, router: Router) -> Router {
        let router = router.fallback(async |request: Request| {
            let (path, text) = (request.uri().path(), "there is nothing at this path");
            refuse(path, StatusCode::NOT_FOUND, "PathNotFound", text)
        });
        router.layer(middleware::from_fn_with_state(self, pass))
    }

    /// Waits until all calls are answered and all changes are done.
    pub async fn empty(&self) {
        // It is never closed, so that this cannot fail.
        let _ = self.calls.acquire_many(CALLS).await;
    }

    /// Who calls.
    async fn caller(&self, headers: &HeaderMap) -> Result<Caller, Denied> {
        let Some(reviewer) = &self.reviewer else {
            return Ok(Caller::anybody());
        };
        let person = reviewer.who(token(headers)?).await?;
        Ok(Caller::known(person, reviewer.clone()))
    }

    /// The leader to forward to; none if it is this replica.
    fn leader(&self, forwarded: bool) -> Result<Option<String>, Refusal> {
        match self.standing.borrow().clone() {
            Standing::Leading => match self.warmth.borrow().missing() {
                missing if missing.is_empty() => Ok(None),
                missing => Err(Refusal::NotReady(missing)),
            },
            Standing::Unknown => Err(Refusal::StandingUnknown),
            Standing::Following { .. } if forwarded => Err(Refusal::Misdirected),
            Standing::Following { holder: None, .. } => Err(Refusal::NoLeader),
            Standing::Following {
                api: Some(leader), ..
            } => Ok(Some(leader)),
            Standing::Following {
                holder: Some(holder),
                api: None,
                ..
            } => Err(Refusal::NoAddress { holder }),
        }
    }

    async fn take(&self, request: Request, next: Next) -> Result<Response, Refusal> {
        let caller = self.caller(request.headers()).await?;
        let leader = self.leader(request.headers().contains_key(FORWARDED))?;
        let (mut parts, body) = request.into_parts();
        let (bytes, held) = self.room.read(&parts.headers, body).await?;
        let endless = parts.method == Method::GET && parts.uri.path() == WATCH;
        if endless {
            let watches = Arc::clone(&self.watches);
            let permit = watches
                .try_acquire_owned()
                .map_err(|_| Refusal::TooManyWatches)?;
            let answer = if let Some(leader) = leader {
                self.forwarder.send(&leader, parts, bytes).await?
            } else {
                parts.extensions.insert(caller);
                answered(next, Request::from_parts(parts, Body::from(bytes))).await?
            };
            return Ok(self.bounded(answer, permit));
        }
        let permit = (self.permit().await?, held);
        if let Some(leader) = leader {
            return Ok(self.forwarder.send(&leader, parts, bytes).await?);
        }
        let (method, path) = (parts.method.clone(), parts.uri.path().to_owned());
        let user = caller.name().map(str::to_owned);
        parts.extensions.insert(caller);
        let request = Request::from_parts(parts, Body::from(bytes));
        if method == Method::GET || method == Method::HEAD {
            return answered(next, request).await;
        }
        let change = tokio::spawn(async move {
            let answer = next.run(request).await;
            drop(permit);
            answer
        });
        match change.await {
            Ok(answer) => {
                let status = answer.status().as_u16();
                info!(user, %method, path, status, "answered a call for a change");
                Ok(answer)
            }
            Err(failed) => {
                error!(reason = "InternalError", error = %failed, %method, path, "a call has failed");
                Err(Refusal::Failed)
            }
        }
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = timeout(QUEUE, Arc::clone(&self.calls).acquire_owned()).await;
        // It is never closed, so that an error is only the time.
        permit.ok().and_then(Result::ok).ok_or(Refusal::Overloaded)
    }

    /// An answer without an end: it ends with the process, and takes one of few places.
    fn bounded(&self, answer: Response, permit: OwnedSemaphorePermit) -> Response {
        let mut stop = self.stop.clone();
        answer.map(|body| {
            let stopped = Box::pin(async move { stop.requested().await });
            let chunks = body.into_data_stream().take_until(stopped);
            Body::from_stream(chunks.inspect(move |_| {
                // Held as long as somebody reads.
                let _ = &permit;
            }))
        })
    }
}

/// A refusal in the shape that the path has: galaxy's for its API, ours for all
/// others.
pub fn refuse(path: &str, status: StatusCode, reason: &str, message: &str) -> Response {
    let body = if is_under(path, "/v1") {
        serde_json::to_vec(&v1::Answer {
            code: status.as_u16(),
            message: format!("{reason}: {message}"),
        })
    } else {
        serde_json::to_vec(&v2::Problem {
            status: status.as_u16(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            field: None,
        })
    };
    // Numbers and texts always have a form in JSON.
    let body = body.unwrap_or_default();
    let kind = [(header::CONTENT_TYPE, "application/json")];
    let mut answer = (status, kind, body).into_response();
    let headers = answer.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        let how = header::HeaderValue::from_static("Bearer realm=\"floe\"");
        headers.insert(header::WWW_AUTHENTICATE, how);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, header::HeaderValue::from_static("1"));
    }
    answer
}

async fn pass(State(front): State<Front>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let result = if is_under(&path, "/v1") || is_under(&path, "/v2") {
        front.take(request, next).await
    } else {
        match front.permit().await {
            Ok(_permit) => answered(next, request).await,
            Err(refusal) => Err(refusal),
        }
    };
    result.unwrap_or_else(|refusal| {
        debug!(reason = refusal.reason(), error = %refusal, path, "call not answered");
        refuse(
            &path,
            refusal.status(),
            refusal.reason(),
            &refusal.to_string(),
        )
    })
}

/// An answer within its time.
async fn answered(next: Next, request: Request) -> Result<Response, Refusal> {
    let answer = timeout(ANSWER, next.run(request)).await;
    answer.map_err(|_| Refusal::Late)
}

fn is_under(path: &str, root: &str) -> bool {
    let rest = path.strip_prefix(root);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The one token of a call.
fn token(headers: &HeaderMap) -> Result<&str, Denied> {
    let lacking = |text: &str| Denied::Unauthenticated(text.to_owned());
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else {
        return Err(lacking("send one header Authorization: Bearer TOKEN"));
    };
    let (scheme, token) = value
        .to_str()
        .ok()
        .and_then(|value| value.trim().split_once(' '))
        .ok_or_else(|| lacking("the header Authorization is malformed"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(lacking("only bearer tokens are known here"));
    }
    Ok(token.trim())
}

#[cfg(test)]
mod tests;
