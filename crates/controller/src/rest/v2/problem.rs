//! What is answered when something is wrong.

use std::fmt;

use axum::{
    extract::rejection::PathRejection,
    http::StatusCode,
    response::{IntoResponse, Response},
};
use floe_api::rest::v2::Problem;

use crate::{
    actions::pool::PoolError,
    rest::{access::Denied, refused::refused, setting::SetError},
};

/// Why a call is not answered: the one shape of all refusals.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    status: StatusCode,
    reason: &'static str,
    message: String,
    field: Option<String>,
}

impl Refused {
    /// A refusal that is about the call as such.
    pub fn new(status: StatusCode, reason: &'static str, why: impl fmt::Display) -> Self {
        Self {
            status,
            reason,
            message: why.to_string(),
            field: None,
        }
    }

    /// A parameter, or a member of the body, cannot be what it is.
    pub fn parameter(field: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::invalid("InvalidParameter", field, why)
    }

    /// The same, with a reason of its own.
    pub fn invalid(reason: &'static str, field: impl Into<String>, why: impl fmt::Display) -> Self {
        Self {
            field: Some(field.into()),
            ..Self::new(StatusCode::BAD_REQUEST, reason, why)
        }
    }

    /// There is no such thing.
    pub fn not_found(reason: &'static str, what: impl fmt::Display) -> Self {
        Self::new(StatusCode::NOT_FOUND, reason, what)
    }

    /// It does not work now.
    pub fn unavailable(reason: &'static str, why: impl fmt::Display) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, reason, why)
    }
}

impl From<Denied> for Refused {
    fn from(denied: Denied) -> Self {
        let status = StatusCode::from_u16(denied.status());
        let status = status.unwrap_or(StatusCode::FORBIDDEN);
        Self::new(status, denied.reason(), &denied)
    }
}

impl From<PathRejection> for Refused {
    fn from(rejection: PathRejection) -> Self {
        let why = rejection.body_text();
        Self::new(StatusCode::BAD_REQUEST, "InvalidParameter", why)
    }
}

impl From<PoolError> for Refused {
    fn from(error: PoolError) -> Self {
        let (status, field) = match &error {
            PoolError::Name(_) => (StatusCode::BAD_REQUEST, Some("name")),
            PoolError::NoObjectName { .. } => (StatusCode::BAD_REQUEST, Some("namespace, name")),
            PoolError::NegativeSize { .. } => (StatusCode::BAD_REQUEST, Some("size")),
            PoolError::Invalid { .. } => (StatusCode::BAD_REQUEST, None),
            PoolError::NoNamespace { .. } => (StatusCode::BAD_REQUEST, Some("namespace")),
            PoolError::Missing { .. } => (StatusCode::NOT_FOUND, None),
            PoolError::Conflict { .. } => (StatusCode::CONFLICT, None),
            PoolError::Refused { .. } | PoolError::Record(_) => {
                (StatusCode::SERVICE_UNAVAILABLE, None)
            }
        };
        let message = if let PoolError::Missing { name } = &error {
            format!("there is no pool {name:?}")
        } else {
            error.to_string()
        };
        Self {
            field: field.map(ToOwned::to_owned),
            ..Self::new(status, error.reason(), message)
        }
    }
}

impl From<SetError> for Refused {
    fn from(error: SetError) -> Self {
        match error {
            SetError::Denied(denied) => denied.into(),
            SetError::Pool(error) => error.into(),
        }
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        let Self {
            status,
            reason,
            message,
            field,
        } = self;
        let problem = Problem {
            status: status.as_u16(),
            reason: reason.to_owned(),
            message,
            field,
        };
        refused(status, reason, &problem)
    }
}

/// The path is one of the API, the method is not.
pub async fn wrong_method() -> Refused {
    let text = "this path does not take this method; the header Allow has those it takes";
    Refused::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", text)
}
