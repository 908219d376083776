//! What is answered when something is wrong: galaxy's envelope.

use std::fmt;

use axum::{
    body::Bytes,
    extract::{
        Request,
        rejection::{BytesRejection, PathRejection},
    },
    http::{
        HeaderMap, Method, StatusCode,
        header::{ACCEPT, CONTENT_TYPE},
    },
    middleware::Next,
    response::{IntoResponse, Response},
};
use floe_api::rest::v1::Answer;
use floe_core::json::{self, Names};
use serde::de::DeserializeOwned;

use crate::rest::{
    access::Denied,
    refused::{refused, refused_in_text},
};

const JSON: &str = "application/json";

/// Why a call is not answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    status: StatusCode,
    /// For figures; galaxy's bodies have none.
    reason: &'static str,
    message: String,
}

impl Refusal {
    /// The caller has asked for something that cannot be.
    pub fn bad_request(reason: &'static str, why: impl fmt::Display) -> Self {
        Self {
            status: StatusCode::BAD_REQUEST,
            reason,
            message: format!("bad request: {why}"),
        }
    }

    /// There is no such thing.
    pub fn not_found(reason: &'static str, what: impl fmt::Display) -> Self {
        Self {
            status: StatusCode::NOT_FOUND,
            reason,
            message: format!("not found: {what}"),
        }
    }

    /// It does not work now.
    pub fn server_error(reason: &'static str, why: impl fmt::Display) -> Self {
        Self {
            status: StatusCode::INTERNAL_SERVER_ERROR,
            reason,
            message: format!("server error: {why}"),
        }
    }
}

impl From<Denied> for Refusal {
    fn from(denied: Denied) -> Self {
        let status = StatusCode::from_u16(denied.status());
        Self {
            status: status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            reason: denied.reason(),
            // In the form that the front gives to its refusals.
            message: format!("{}: {denied}", denied.reason()),
        }
    }
}

impl From<PathRejection> for Refusal {
    fn from(rejection: PathRejection) -> Self {
        Self::bad_request("InvalidParameter", rejection.body_text())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let answer = Answer {
            code: self.status.as_u16(),
            message: self.message,
        };
        refused(self.status, self.reason, &answer)
    }
}

/// Reads a body, with names of members in any case as galaxy does.
pub fn parse<T: DeserializeOwned>(body: Result<Bytes, BytesRejection>) -> Result<T, Refusal> {
    let body = body.map_err(|rejection| match rejection.status() {
        StatusCode::BAD_REQUEST => Refusal::bad_request("BodyBroken", rejection.body_text()),
        status => Refusal {
            status,
            reason: "BodyTooLarge",
            message: rejection.body_text(),
        },
    })?;
    let malformed = |error| Refusal::bad_request("MalformedBody", error);
    json::decode(&body, Names::Go).map_err(malformed)
}

/// The path is one of the API, the method is not.
pub async fn wrong_method() -> Refusal {
    Refusal {
        status: StatusCode::METHOD_NOT_ALLOWED,
        reason: "MethodNotAllowed",
        message: "method not allowed: the header Allow has those that are".into(),
    }
}

/// Refuses bodies that are no JSON, and callers that do not take any.
pub async fn speaks_json(request: Request, next: Next) -> Response {
    // Compat: galaxy's router refuses these before galaxy sees them, as plain texts.
    if *request.method() == Method::POST && !brings_json(request.headers()) {
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let text = "415: Unsupported Media Type";
        return refused_in_text(status, "UnsupportedMediaType", text);
    }
    if !takes_json(request.headers()) {
        let (status, text) = (StatusCode::NOT_ACCEPTABLE, "406: Not Acceptable");
        return refused_in_text(status, "NotAcceptable", text);
    }
    next.run(request).await
}

fn brings_json(headers: &HeaderMap) -> bool {
    let value = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok());
    value.is_some_and(|value| media_type(value).eq_ignore_ascii_case(JSON))
}

/// Nothing said means that everything is taken.
fn takes_json(headers: &HeaderMap) -> bool {
    let mut values = headers.get_all(ACCEPT).iter().peekable();
    if values.peek().is_none() {
        return true;
    }
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(',')).any(|range| {
        let kind = media_type(range);
        let admits = ["", "*/*", "application/*", JSON];
        admits.iter().any(|it| kind.eq_ignore_ascii_case(it)) && !is_unwanted(range)
    })
}

fn media_type(text: &str) -> &str {
    text.split(';').next().unwrap_or_default().trim()
}

/// Whether a weight of nothing says that this is not taken (RFC 9110, 12.4.2).
fn is_unwanted(range: &str) -> bool {
    let weights = range.split(';').skip(1).map(str::trim);
    let mut weights = weights.filter_map(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")));
    weights.any(|weight| weight.trim().parse::<f32>().is_ok_and(|it| it <= 0.0))
}
