//! The management API of the controller, for what only the controller knows or does.
//!
//! The API server's own proxy takes tokens away, so calls go through a port-forward to
//! a controller, with TLS inside, and with the token of the user inside of that.
//!
//! - [`forward`]: the way to a controller.
//! - [`trust`]: by what the controller is known.
//! - [`token`]: by what the user is known.
//! - [`call`]: one call over a connection.

use std::{fmt::Write as _, time::Duration};

use floe_api::rest::v2::Problem;
use floe_core::json::{Names, decode};
use futures::future::BoxFuture;
use http::{Method, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep, timeout},
};

use self::{call::Answer, forward::Forward, token::Bearer, trust::Trust};
use crate::{args::ApiAccess, cluster::Cluster, console::Console, failure::Failure};

pub use self::forward::LABEL;

mod call;
pub mod forward;
mod token;
mod trust;

/// How long to try again while no controller can answer: a new leader is found sooner.
const TRIES: Duration = Duration::from_secs(30);

/// The time between two tries, as the controller asks for it.
const PAUSE: Duration = Duration::from_secs(1);

/// A connection to a controller, before any TLS.
pub struct Line {
    stream: Box<dyn Stream>,
    /// What the other end says about the connection, once it is of no more use.
    trouble: BoxFuture<'static, Option<String>>,
}

/// Both ways of a connection.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// Makes connections to a controller.
pub trait Connect {
    /// A new connection.
    async fn connect(&self) -> Result<Line, Failure>;
}

/// The management API.
pub struct Remote<C> {
    connect: C,
    trust: Trust,
    bearer: Bearer,
    /// Whether the controller was found to serve without TLS, and so without tokens.
    is_open: bool,
    /// How long to wait for an answer; for ever if none.
    patience: Option<Duration>,
    /// How long to try, and the time between two tries.
    tries: (Duration, Duration),
}

/// Finds the API; does not connect yet.
pub async fn find<'a>(
    cluster: &'a Cluster,
    access: &'a ApiAccess,
) -> Result<Remote<Forward<'a>>, Failure> {
    let patience = cluster.config.read_timeout;
    Ok(Remote {
        connect: Forward::new(cluster, &access.floe_namespace),
        trust: Trust::read(cluster, access).await?,
        bearer: Bearer::of(cluster, access.as_service_account.as_ref()).await?,
        is_open: false,
        patience,
        tries: (patience.map_or(TRIES, |time| time.min(TRIES)), PAUSE),
    })
}

impl<C: Connect> Remote<C> {
    /// Asks for something.
    pub async fn get<T: DeserializeOwned>(
        &mut self,
        console: &mut Console,
        path: &str,
    ) -> Result<T, Failure> {
        self.ask(console, &Method::GET, path, Vec::new()).await
    }

    /// Has something done. It must do no harm to have it done twice.
    pub async fn post<T: DeserializeOwned>(
        &mut self,
        console: &mut Console,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let body = serde_json::to_vec(body);
        let body = body.map_err(|error| Failure::Unprintable(error.to_string()))?;
        self.ask(console, &Method::POST, path, body).await
    }

    /// Asks until there is an answer other than "not now".
    async fn ask<T: DeserializeOwned>(
        &mut self,
        console: &mut Console,
        method: &Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<T, Failure> {
        let (tries, pause) = self.tries;
        let end = Instant::now() + tries;
        let mut was_told = false;
        loop {
            let failure = match self.once(console, method, path, &body).await {
                Ok(answer) if answer.status.is_success() => return read(&answer.body),
                Ok(answer) => self.refusal(&answer),
                Err(failure) => failure,
            };
            if !failure.is_passing() || Instant::now() + pause > end {
                return Err(failure);
            }
            if !was_told {
                console.remark(&format!("{failure}; trying again for a while"));
                was_told = true;
            }
            sleep(pause).await;
        }
    }

    async fn once(
        &mut self,
        console: &mut Console,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Answer, Failure> {
        let Some(patience) = self.patience else {
            return self.try_once(console, method, path, body).await;
        };
        let answer = timeout(patience, self.try_once(console, method, path, body)).await;
        answer.unwrap_or(Err(Failure::ApiLate {
            seconds: patience.as_secs(),
        }))
    }

    async fn try_once(
        &mut self,
        console: &mut Console,
        method: &Method,
        path: &str,
        body: &[u8],
    ) -> Result<Answer, Failure> {
        if !self.is_open {
            let Line { stream, trouble } = self.connect.connect().await?;
            match self.trust.secure(stream).await {
                Ok(stream) => {
                    let request =
                        call::request(method, path, &self.trust.host(), self.bearer.header(), body);
                    return call::send(stream, request, trouble).await;
                }
                Err(trust::Unsecured::NoTls) => {}
                Err(trust::Unsecured::Untrusted(told)) => {
                    return Err(Failure::ApiUntrusted(told));
                }
                Err(trust::Unsecured::Broken(error)) => {
                    return Err(call::broken(&error, trouble).await);
                }
            }
            self.is_open = true;
            console.warn(
                "the management API is open: it has neither TLS nor tokens (--api-auth=none), \
                 so everybody who reaches it may release addresses",
            );
        }
        // A token is never sent where others could read it.
        let Line { stream, trouble } = self.connect.connect().await?;
        let request = call::request(method, path, &self.trust.host(), None, body);
        call::send(stream, request, trouble).await
    }

    /// What it means that the API refuses.
    fn refusal(&self, answer: &Answer) -> Failure {
        let status = answer.status;
        if status == StatusCode::UNAUTHORIZED
            && let Bearer::Lacking { context, why } = &self.bearer
        {
            return Failure::NoToken {
                context: context.clone(),
                why,
            };
        }
        let problem: Problem = match serde_json::from_slice(&answer.body) {
            Ok(problem) => problem,
            Err(_) => Problem {
                status: status.as_u16(),
                reason: "UnknownAnswer".into(),
                message: format!("it answers {status}, and does not say why"),
                field: None,
            },
        };
        Failure::Api {
            status: status.as_u16(),
            reason: problem.reason,
            message: problem.message,
        }
    }
}

/// A text as a part of a query.
pub fn encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~:/".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Failure> {
    decode(body, Names::Exact).map_err(|error| {
        Failure::Unprintable(format!(
            "the management API answers what this program does not understand: {error}; see \
             whether kubectl floe version names the same version for both"
        ))
    })
}

#[cfg(test)]
pub mod stage;
#[cfg(test)]
mod tests;
