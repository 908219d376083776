//! Why a call is not answered before it reaches its route.

use axum::http::StatusCode;
use floe_shell::logs;

use super::{
    body::{BODY, LARGEST},
    forward::ForwardError,
};
use crate::rest::access::Denied;

/// Why a call is not answered.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// He is not known, or may not.
    #[error(transparent)]
    Denied(#[from] Denied),
    /// Others are being answered.
    #[error("too many calls at once")]
    Overloaded,
    /// Others are following.
    #[error("too many follow the changes already")]
    TooManyWatches,
    /// The body is too long.
    #[error("the body is longer than {LARGEST} bytes")]
    TooLarge,
    /// The body does not come.
    #[error("the body did not come within {BODY:?}")]
    Slow,
    /// The body has ended too early.
    #[error("the body cannot be read: {0}")]
    Broken(axum::Error),
    /// The lease is free.
    #[error("no replica leads at the moment")]
    NoLeader,
    /// The lease was not read yet.
    #[error("this replica does not know yet who leads")]
    StandingUnknown,
    /// The one who forwarded the call took this replica for the leader.
    #[error("the call was forwarded to a replica that does not lead")]
    Misdirected,
    /// Another one leads, but not where.
    #[error("the leader {holder} does not tell in its lease where it answers")]
    NoAddress {
        /// The leader.
        holder: String,
    },
    /// The leader gave no answer.
    #[error("the leader does not answer: {}", logs::with_causes(.0))]
    Unreachable(#[from] ForwardError),
    /// This replica leads, but does not know all yet.
    #[error("the leader has not read all of the cluster yet: {}", .0.join(", "))]
    NotReady(Vec<&'static str>),
    /// It takes too long.
    #[error("there was no answer in time")]
    Late,
    /// The code that answers has failed.
    #[error("answering has failed, see the log of the controller")]
    Failed,
}

impl Refusal {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Denied(denied) => denied.reason(),
            Self::Overloaded => "Overloaded",
            Self::TooManyWatches => "TooManyWatches",
            Self::TooLarge => "BodyTooLarge",
            Self::Slow => "BodyTooSlow",
            Self::Broken(_) => "BodyBroken",
            Self::NoLeader | Self::StandingUnknown => "NoLeader",
            Self::Misdirected => "Misdirected",
            Self::NoAddress { .. } | Self::Unreachable(_) => "LeaderUnreachable",
            Self::NotReady(_) => "NotReady",
            Self::Late => "DeadlinePassed",
            Self::Failed => "InternalError",
        }
    }

    /// The status of the answer.
    pub fn status(&self) -> StatusCode {
        match self {
            Self::Denied(denied) => {
                let status = StatusCode::from_u16(denied.status());
                status.unwrap_or(StatusCode::FORBIDDEN)
            }
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::Broken(_) => StatusCode::BAD_REQUEST,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Overloaded
            | Self::TooManyWatches
            | Self::NoLeader
            | Self::StandingUnknown
            | Self::Misdirected
            | Self::NoAddress { .. }
            | Self::Unreachable(_)
            | Self::NotReady(_)
            | Self::Late => StatusCode::SERVICE_UNAVAILABLE,
        }
    }
}
