//! What all refusals have in common, whatever the shape of their bodies.

use axum::{
    Json,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use serde::Serialize;

/// The stable reason of a refusal: an extension of the answer, for whoever counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reason(pub &'static str);

/// A refusal with a body, and with the headers that its status asks for.
pub fn refused(status: StatusCode, reason: &'static str, body: &impl Serialize) -> Response {
    with_reason((status, Json(body)).into_response(), reason)
}

/// A refusal whose body is a plain text.
pub fn refused_in_text(status: StatusCode, reason: &'static str, text: &'static str) -> Response {
    with_reason((status, text).into_response(), reason)
}

fn with_reason(mut answer: Response, reason: &'static str) -> Response {
    let status = answer.status();
    answer.extensions_mut().insert(Reason(reason));
    let headers = answer.headers_mut();
    if status == StatusCode::UNAUTHORIZED {
        let how = HeaderValue::from_static("Bearer realm=\"floe\"");
        headers.insert(header::WWW_AUTHENTICATE, how);
    }
    if status == StatusCode::SERVICE_UNAVAILABLE {
        headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    answer
}
