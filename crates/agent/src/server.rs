//! The socket on which the shim asks. Compat: galaxy's path, protocol and answers.
//!
//! | answer | meaning |
//! |---|---|
//! | 400 text | the request makes no sense |
//! | 500 text | it failed; the text begins with the stable reason |
//! | 200 JSON | the result of an ADD; nothing for all other commands |

use std::{io, sync::Arc, time::Duration};

use axum::{
    Json, Router,
    body::{Body, to_bytes},
    extract::State,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::get,
};
use floe_core::cni::{call::Command, version::Version};
use floe_shell::{logs, stop::Stop, version};
use serde_json::{Value, json};
use tokio::{
    net::UnixListener,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{sleep, timeout},
};
use tracing::{debug, error, warn};

use crate::{
    attach::{AttachError, Attacher},
    request::Request,
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

/// How long requests that are worked on may take when the process stops.
const DRAIN: Duration = Duration::from_mins(4);

/// How long connections may take to end after that.
const GOODBYE: Duration = Duration::from_secs(2);

/// Answers the shim.
#[derive(Clone)]
pub struct Server {
    attacher: Attacher,
    turns: Turns,
    slots: Arc<Semaphore>,
}

/// The right to work on a request. It is given back when the work is done, also when
/// nobody waits for the answer any more.
struct Leave {
    _slot: OwnedSemaphorePermit,
    _turn: Option<Turn>,
}

impl Server {
    /// Answers by this attacher, in the turns of these containers.
    pub fn new(attacher: Attacher, turns: Turns) -> Self {
        let slots = Arc::new(Semaphore::new(SLOTS as usize));
        Self {
            attacher,
            turns,
            slots,
        }
    }

    /// Serves until `stop`. What is being worked on then is finished.
    pub async fn serve(self, listener: UnixListener, stop: Stop) -> io::Result<()> {
        let slots = Arc::clone(&self.slots);
        let (mut draining, mut over) = (stop.clone(), stop);
        let server = axum::serve(listener, self.router())
            .with_graceful_shutdown(async move { draining.requested().await });
        let quiet = async {
            over.requested().await;
            if timeout(DRAIN, slots.acquire_many(SLOTS)).await.is_err() {
                warn!(reason = "StopIncomplete", "requests are left unfinished");
            }
        };
        let ended = async {
            quiet.await;
            sleep(GOODBYE).await;
        };
        let result = tokio::select! {
            result = server => result,
            // A client that never ends its request must not hold up the stop.
            () = ended => Ok(()),
        };
        // Whose client has gone is still worked on.
        let _ = timeout(DRAIN, slots.acquire_many(SLOTS)).await;
        result
    }

    /// The routes, as a value.
    fn router(self) -> Router {
        Router::new()
            .route("/cni", get(cni).post(cni))
            .route("/health", get(health))
            .with_state(self)
    }

    async fn answer(self, request: Request) -> Response {
        let container = request.call.container.clone();
        // All that waits is in here, and is given up when the client gives up: what
        // was begun is not.
        let Ok(leave) = timeout(PATIENCE, self.leave(&container)).await else {
            return refuse(&AttachError::Busy);
        };
        let work = tokio::spawn(async move {
            let answer = self.work(&request).await;
            drop(leave);
            answer
        });
        work.await.unwrap_or_else(|failure| {
            error!(error = %failure, "a request has failed in an unforeseen way");
            let text = "Internal: the agent has failed; see its log";
            (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
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

    async fn work(&self, request: &Request) -> Response {
        let attacher = &self.attacher;
        let done = match request.call.command {
            Command::Add => match attacher.add(request).await {
                Ok(result) => return Json(result).into_response(),
                Err(error) => Err(error),
            },
            Command::Del => attacher.del(request).await,
            Command::Check => attacher.check(request).await,
            Command::Status => attacher.status(request).await,
            Command::Gc => match self.turns.pause(PAUSE).await {
                Some(_pause) => attacher.collect(request).await,
                None => Err(AttachError::Busy),
            },
            Command::Version => return Json(Version::answer()).into_response(),
        };
        match done {
            Ok(()) => StatusCode::OK.into_response(),
            Err(error) => refuse(&error),
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

async fn cni(State(server): State<Server>, body: Body) -> Response {
    let request = match to_bytes(body, LONGEST_BODY).await {
        Ok(body) => Request::parse(&body),
        Err(error) => {
            let text = format!("MalformedRequest: {}", logs::with_causes(&error));
            return (StatusCode::BAD_REQUEST, text).into_response();
        }
    };
    match request {
        Ok(request) => server.answer(request).await,
        Err(error) => {
            let reason = error.reason();
            warn!(reason, error = %error, "request makes no sense");
            let text = format!("{reason}: {error}");
            (StatusCode::BAD_REQUEST, text).into_response()
        }
    }
}

async fn health(State(server): State<Server>) -> impl IntoResponse {
    Json(server.health())
}

fn refuse(error: &AttachError) -> Response {
    let text = format!("{}: {}", error.reason(), logs::with_causes(error));
    debug!(reason = error.reason(), text, "request has failed");
    (StatusCode::INTERNAL_SERVER_ERROR, text).into_response()
}

#[cfg(test)]
mod tests;
