//! The four calls of the scheduler: how each is answered, and what it is told
//! when there is no decision.

use std::time::Duration;

use axum::{
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use floe_api::extender::{
    BindAnswer, BindRequest, HostScore, MalformedBody, Nodes, Offer, PreemptRequest, parse,
};
use serde::Serialize;
use tokio::{
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};
use tracing::{debug, error};

use super::{Answers, Excuse};

/// How long an answer may take. A scheduler waits for five seconds unless it is
/// told otherwise; a follower adds some time of its own.
pub const LIMIT: Duration = Duration::from_secs(4);

/// A call of the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Filter,
    Prioritize,
    Bind,
    Preempt,
}

/// Why a call has no answer at all.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The body cannot be read.
    #[error(transparent)]
    Malformed(#[from] MalformedBody),
    /// The answer cannot be written.
    #[error("cannot write the answer")]
    Unwritable(#[from] serde_json::Error),
}

impl Failure {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(malformed) => malformed.reason(),
            Self::Unwritable(_) => "InternalError",
        }
    }
}

impl Call {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Filter, Self::Prioritize, Self::Bind, Self::Preempt];

    /// Its path.
    pub fn path(self) -> &'static str {
        match self {
            Self::Filter => "/v1/filter",
            Self::Prioritize => "/v1/priority",
            Self::Bind => "/v1/bind",
            Self::Preempt => "/v1/preempt",
        }
    }

    /// Answers this body with JSON before the deadline. A bind keeps the permit
    /// until it is done.
    pub(super) async fn answer<A: Answers>(
        self,
        answers: &A,
        body: &[u8],
        permit: OwnedSemaphorePermit,
        deadline: Instant,
    ) -> Result<Vec<u8>, Failure> {
        let late = || {
            debug!(call = ?self, reason = Excuse::Late.reason(), "no answer in time");
            Excuse::Late.told()
        };
        match self {
            Self::Filter => {
                let offer: Offer = parse(body)?;
                let answer = timeout_at(deadline, answers.filter(&offer)).await;
                json(&answer.unwrap_or_else(|_| offer.nodes.refuse(late())))
            }
            Self::Prioritize => {
                let offer: Offer = parse(body)?;
                let answer = timeout_at(deadline, answers.prioritize(&offer)).await;
                json(&answer.unwrap_or_else(|_| {
                    late();
                    Vec::new()
                }))
            }
            Self::Preempt => {
                let request: PreemptRequest = parse(body)?;
                let answer = timeout_at(deadline, answers.preempt(&request)).await;
                json(&answer.unwrap_or_else(|_| {
                    late();
                    request.keep(|_| true)
                }))
            }
            Self::Bind => {
                let bound = bind(answers.clone(), parse(body)?, permit);
                let answer = timeout_at(deadline, bound).await;
                json(&answer.unwrap_or_else(|_| BindAnswer::refused(late())))
            }
        }
    }

    /// The answer to a caller that is not taken for the scheduler, without a look at the body.
    /// Filter and bind have a place for the text, which the scheduler shows in its Event; of an
    /// HTTP status it would show the number only.
    pub fn decline(self, text: String) -> Response {
        let answer = match self {
            Self::Filter => json(&Nodes::Names(Vec::new()).refuse(text)),
            Self::Bind => json(&BindAnswer::refused(text)),
            Self::Prioritize | Self::Preempt => {
                return (StatusCode::FORBIDDEN, text).into_response();
            }
        };
        match answer {
            Ok(json) => ([(header::CONTENT_TYPE, "application/json")], json).into_response(),
            Err(_) => StatusCode::FORBIDDEN.into_response(),
        }
    }

    /// The answer to this body when nobody decides: one that changes nothing,
    /// and tells why where there is a place for it.
    pub fn excuse(self, body: &[u8], excuse: &Excuse) -> Result<Vec<u8>, Failure> {
        let told = excuse.told();
        debug!(call = ?self, reason = excuse.reason(), error = told, "nobody decides");
        match self {
            Self::Filter => json(&parse::<Offer>(body)?.nodes.refuse(told)),
            Self::Prioritize => {
                parse::<Offer>(body)?;
                json(&Vec::<HostScore>::new())
            }
            Self::Preempt => json(&parse::<PreemptRequest>(body)?.keep(|_| true)),
            Self::Bind => {
                parse::<BindRequest>(body)?;
                json(&BindAnswer::refused(told))
            }
        }
    }
}

/// Binds in a task of its own, which goes on when nobody waits any more: a
/// caller that leaves must not stop it between two writes.
async fn bind<A: Answers>(
    answers: A,
    request: BindRequest,
    permit: OwnedSemaphorePermit,
) -> BindAnswer {
    let task = tokio::spawn(async move {
        let answer = answers.bind(&request).await;
        drop(permit);
        answer
    });
    task.await.unwrap_or_else(|failed| {
        let excuse = Excuse::Failed;
        error!(reason = excuse.reason(), error = %failed, "a bind has failed");
        BindAnswer::refused(excuse.told())
    })
}

fn json(answer: &impl Serialize) -> Result<Vec<u8>, Failure> {
    Ok(serde_json::to_vec(answer)?)
}
