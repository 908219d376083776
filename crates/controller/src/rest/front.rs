//! What every call passes: who calls, limits, and the way to the leader.
//!
//! - The documentation and the figures are open, on every replica.
//! - Calls of `/v1` and `/v2` need a caller. Only the leader answers them, so that
//!   everybody reads what he wrote; others forward the whole call to it.
//!
//! Guarantees: the body of a stranger is not read. A slow body holds no more than
//! what it has sent so far, and all bodies of one caller no more than his share. A change that has begun goes on when its caller leaves,
//! and a stop waits for it.

use std::{sync::Arc, time::Duration};

use axum::{
    Router,
    body::Body,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    middleware::{self, Next},
    response::Response,
};
use floe_api::rest::{v1, v2};
use floe_shell::stop::Stop;
use futures::StreamExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use tracing::{debug, error, info};

use super::{
    access::{Caller, Denied, Reviewer},
    refused::refused,
};
use crate::{
    leader::Standing,
    metrics::Metrics,
    store::Warmth,
    transport::{FORWARDED, peer::Peers, serve::Limits},
};

mod body;
mod forward;
mod refusal;
mod shares;
mod tally;

use body::Room;
use forward::Forwarder;
use refusal::Refusal;
use shares::{Share, Shares};
use tally::Tally;

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

/// How many of them one caller may be.
const WATCHES_OF_ONE: usize = 64;

/// How long a call waits for others.
const QUEUE: Duration = Duration::from_secs(2);

/// How long an answer to a question may take. Changes take the time they need.
const ANSWER: Duration = Duration::from_secs(30);

/// The one path whose answer has no end.
const WATCH: &str = "/v2/watch";

/// What is known of this replica, and where calls are counted.
#[derive(Clone)]
pub struct Replica {
    /// Whether it leads.
    pub standing: watch::Receiver<Standing>,
    /// What it has read of the cluster.
    pub warmth: watch::Receiver<Warmth>,
    /// Where calls are counted.
    pub metrics: Metrics,
}

/// What stands before the routes.
#[derive(Clone)]
pub struct Front {
    /// Who says who callers are; `None`: nobody asks.
    reviewer: Option<Reviewer>,
    replica: Replica,
    forwarder: Forwarder,
    calls: Arc<Semaphore>,
    watches: Shares,
    room: Room,
    stop: Stop,
}

impl Front {
    /// Asks the reviewer for callers, or nobody; streams end at `stop`.
    pub fn new(reviewer: Option<Reviewer>, replica: Replica, peers: Peers, stop: Stop) -> Self {
        Self {
            reviewer,
            replica,
            forwarder: Forwarder::new(peers),
            calls: Arc::new(Semaphore::new(CALLS as usize)),
            watches: Shares::new(WATCHES, WATCHES_OF_ONE),
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
        Caller::with_token(token(headers)?, reviewer.clone()).await
    }

    /// The leader to forward to; none if it is this replica.
    fn leader(&self, forwarded: bool) -> Result<Option<String>, Refusal> {
        match self.replica.standing.borrow().clone() {
            Standing::Leading => match self.replica.warmth.borrow().missing() {
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

    async fn take(&self, request: Request, next: Next, tally: &Tally) -> Result<Response, Refusal> {
        let caller = self.caller(request.headers()).await?;
        let leader = self.leader(request.headers().contains_key(FORWARDED))?;
        let (mut parts, body) = request.into_parts();
        let read = self.room.read(caller.name(), &parts.headers, body);
        let (bytes, held) = read.await?;
        let endless = parts.method == Method::GET && parts.uri.path() == WATCH;
        if endless {
            let mut share = self.watches.of(caller.name());
            share.up_to(1).ok_or(Refusal::TooManyWatches)?;
            let answer = if let Some(leader) = leader {
                self.forwarder.send(&leader, parts, bytes).await?
            } else {
                parts.extensions.insert(caller);
                answered(next, Request::from_parts(parts, Body::from(bytes))).await?
            };
            return Ok(self.bounded(answer, share));
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
        let tally = tally.clone();
        let change = tokio::spawn(async move {
            let answer = next.run(request).await;
            drop(permit);
            // Here, because it is told and counted also when the caller has left.
            let status = answer.status().as_u16();
            info!(user, %method, path, status, "answered a call for a change");
            tally.note(answer)
        });
        change.await.map_err(|failed| {
            error!(reason = "InternalError", error = %failed, "a call has failed");
            Refusal::Failed
        })
    }

    async fn permit(&self) -> Result<OwnedSemaphorePermit, Refusal> {
        let permit = timeout(QUEUE, Arc::clone(&self.calls).acquire_owned()).await;
        // It is never closed, so that an error is only the time.
        permit.ok().and_then(Result::ok).ok_or(Refusal::Overloaded)
    }

    /// An answer without an end: it ends with the process, and takes one of few places.
    fn bounded(&self, answer: Response, share: Share) -> Response {
        let mut stop = self.stop.clone();
        answer.map(|body| {
            let stopped = Box::pin(async move { stop.requested().await });
            let chunks = body.into_data_stream().take_until(stopped);
            Body::from_stream(chunks.inspect(move |_| {
                // Held as long as somebody reads.
                let _ = &share;
            }))
        })
    }
}

/// A refusal in the shape that the path has: galaxy's for its API, ours for all
/// others.
pub fn refuse(path: &str, status: StatusCode, reason: &'static str, message: &str) -> Response {
    if is_under(path, "/v1") {
        let answer = v1::Answer {
            code: status.as_u16(),
            message: format!("{reason}: {message}"),
        };
        return refused(status, reason, &answer);
    }
    let problem = v2::Problem {
        status: status.as_u16(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        field: None,
    };
    refused(status, reason, &problem)
}

async fn pass(State(front): State<Front>, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let tally = Tally::of(front.replica.metrics.clone(), &request);
    let result = if is_under(&path, "/v1") || is_under(&path, "/v2") {
        front.take(request, next, &tally).await
    } else {
        match front.permit().await {
            Ok(_permit) => answered(next, request).await,
            Err(refusal) => Err(refusal),
        }
    };
    let answer = result.unwrap_or_else(|refusal| {
        debug!(reason = refusal.reason(), error = %refusal, path, "call not answered");
        refuse(
            &path,
            refusal.status(),
            refusal.reason(),
            &refusal.to_string(),
        )
    });
    tally.note(answer)
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
