//! The socket on which the shim asks. Compat: galaxy's path, protocol and answers.
//!
//! | answer | meaning |
//! |---|---|
//! | 400 text | the request makes no sense |
//! | 500 text | it failed; the text begins with the stable reason |
//! | 200 JSON | the result of an ADD; nothing for all other commands |
//!
//! Who accepts JSON, as floe's shim does, gets the error object of the CNI specification
//! instead of a text: with the code and the details of the plugin that has failed.

use std::{io, pin::pin, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    http::{HeaderMap, StatusCode, header::ACCEPT},
    response::{IntoResponse, Response},
    routing::get,
};
use floe_core::cni::{
    call::Command,
    error::{CniError, Code},
    version::Version,
};
use floe_shell::{logs, stop::Stop, version};
use serde_json::{Value, json};
use tokio::{
    net::UnixListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep, timeout},
};
use tracing::{debug, error, warn};

use crate::{
    attach::{AttachError, Attacher},
    metrics::Metrics,
    request::{Request, RequestError},
    turns::{Turn, Turns},
};

pub mod door;

/// How much a request may have.
const LONGEST_BODY: usize = 1 << 20;

/// How many requests are worked on at once; the others wait.
const SLOTS: u32 = 64;

/// How long a request waits until it is worked on.
const PATIENCE: Duration = Duration::from_mins(4);

/// How long those that attach and detach may wait for a GC.
const PAUSE: Duration = Duration::from_secs(5);

/// How long requests that are worked on may take when the process stops: longer than a
/// plugin may take, and shorter than the grace period of the agent's pod, 240 s, after
/// which everything is ended in the middle.
const DRAIN: Duration = Duration::from_secs(230);

/// How long connections may take to end when nothing is worked on any more.
const GOODBYE: Duration = Duration::from_secs(2);

/// Answers the shim.
#[derive(Clone)]
pub struct Server {
    attacher: Attacher,
    turns: Turns,
    slots: Arc<Semaphore>,
    metrics: Metrics,
}

/// The right to work on a request. It is given back when the work is done, also when
/// nobody waits for the answer any more.
struct Leave {
    _slot: OwnedSemaphorePermit,
    _turn: Option<Turn>,
}

impl Server {
    /// Answers by this attacher, in the turns of these containers, and counts.
    pub fn new(attacher: Attacher, turns: Turns, metrics: Metrics) -> Self {
        let slots = Arc::new(Semaphore::new(SLOTS as usize));
        Self {
            attacher,
            turns,
            slots,
            metrics,
        }
    }

    /// Serves until `stop`. What is being worked on then is finished.
    pub async fn serve(self, listener: UnixListener, stop: Stop) -> io::Result<()> {
        let slots = Arc::clone(&self.slots);
        let (mut draining, mut asked, mut over) = (stop.clone(), stop.clone(), stop);
        let server = axum::serve(listener, self.router())
            .with_graceful_shutdown(async move { draining.requested().await });
        let mut limit = pin!(async {
            over.requested().await;
            sleep(DRAIN).await;
            warn!(reason = "StopIncomplete", "requests are left unfinished");
        });
        let quiet = async {
            asked.requested().await;
            let _ = slots.acquire_many(SLOTS).await;
            sleep(GOODBYE).await;
        };
        let result = tokio::select! {
            result = server => result,
            // A client that never ends its request must not hold up the stop.
            () = quiet => return Ok(()),
            () = &mut limit => return Ok(()),
        };
        // Whose client has gone is still worked on.
        tokio::select! {
            _ = slots.acquire_many(SLOTS) => {}
            () = limit => {}
        }
        result
    }

    /// The routes, as a value.
    fn router(self) -> Router {
        Router::new()
            .route("/cni", get(cni).post(cni))
            .route("/health", get(health))
            .with_state(self)
    }

    async fn answer(self, request: Request) -> Result<Response, CniError> {
        let container = request.call.container.clone();
        let (command, begun) = (request.call.command, Instant::now());
        // All that waits is in here, and is given up when the client gives up: what
        // was begun is not.
        let Ok(leave) = timeout(PATIENCE, self.leave(&container)).await else {
            let error = refusal(&AttachError::Busy, command);
            let took = begun.elapsed();
            self.metrics.called(command, took, Some(error.reason));
            return Err(error);
        };
        // Counted in here, where it is also counted when the client has gone.
        let work = tokio::spawn(async move {
            let answer = self.work(&request).await;
            let failure = answer.as_ref().err().map(|error| error.reason);
            self.metrics.called(command, begun.elapsed(), failure);
            drop(leave);
            answer
        });
        work.await.unwrap_or_else(|failure| {
            error!(error = %failure, "a request has failed in an unforeseen way");
            let message = "the agent has failed; see its log";
            Err(CniError::of(Code::Agent, message))
        })
    }

    async fn leave(&self, container: &str) -> Leave {
        let turn = if container.is_empty() {
            None
        } else {
            Some(self.turns.wait(container).await)
        };
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        Leave {
            _turn: turn,
            _slot: slot.expect("nobody closes the semaphore"),
        }
    }

    async fn work(&self, request: &Request) -> Result<Response, CniError> {
        let attacher = &self.attacher;
        let command = request.call.command;
        let done = match command {
            Command::Add => match attacher.add(request).await {
                Ok(result) => return Ok(Json(result).into_response()),
                Err(error) => Err(error),
            },
            Command::Del => attacher.del(request).await,
            Command::Check => attacher.check(request).await,
            Command::Status => attacher.status(request).await,
            Command::Gc => match self.turns.pause(PAUSE).await {
                Some(_pause) => attacher.collect(request).await,
                None => Err(AttachError::Busy),
            },
            Command::Version => return Ok(Json(Version::answer()).into_response()),
        };
        match done {
            Ok(()) => Ok(StatusCode::OK.into_response()),
            Err(error) => Err(refusal(&error, command)),
        }
    }

    fn health(&self) -> Value {
        json!({
            "alive": true,
            "version": version::VERSION,
            "podsKnown": self.attacher.pods.synced(),
            "networks": self.attacher.networks.settings().networks.len(),
        })
    }
}

async fn cni(State(server): State<Server>, headers: HeaderMap, body: Body) -> Response {
    let request = match to_bytes(body, LONGEST_BODY).await {
        Ok(body) => Request::parse(&body),
        Err(error) => Err(RequestError::Malformed(logs::with_causes(&error))),
    };
    let (status, version, error) = match request {
        Ok(request) => {
            let version = request.config.version;
            match server.answer(request).await {
                Ok(response) => return response,
                Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, version, error),
            }
        }
        Err(error) => {
            warn!(reason = error.reason(), error = %error, "request makes no sense");
            server.metrics.malformed(error.reason());
            let error = error.for_runtime();
            (StatusCode::BAD_REQUEST, Version::LATEST, error)
        }
    };
    if accepts_json(&headers) {
        (status, Json(error.to_json(version))).into_response()
    } else {
        (status, error.to_string()).into_response()
    }
}

fn accepts_json(headers: &HeaderMap) -> bool {
    let mut all = headers.get_all(ACCEPT).iter();
    all.any(|it| it.to_str().is_ok_and(|it| it.contains("application/json")))
}

async fn health(State(server): State<Server>) -> impl IntoResponse {
    Json(server.health())
}

fn refusal(error: &AttachError, command: Command) -> CniError {
    let error = error.for_runtime(command);
    debug!(reason = error.reason, error = %error, "request has failed");
    error
}

#[cfg(test)]
mod tests;
