//! The body of a call.

use axum::{
    RequestExt as _,
    body::Bytes,
    extract::Request,
    http::{HeaderMap, StatusCode, header},
};
use floe_core::json::{self, Names};
use serde::de::DeserializeOwned;

use super::problem::Refused;

/// Reads a body. It is read after the caller's rights are known.
pub async fn read<T: DeserializeOwned>(request: Request) -> Result<T, Refused> {
    if !is_json(request.headers()) {
        let text = "the body must be JSON: send Content-Type: application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Refused::new(status, "UnsupportedMediaType", text));
    }
    let bytes: Result<Bytes, _> = request.extract().await;
    let bytes = bytes.map_err(|rejection| {
        let status = rejection.status();
        let reason = if status == StatusCode::PAYLOAD_TOO_LARGE {
            "BodyTooLarge"
        } else {
            "BodyBroken"
        };
        Refused::new(status, reason, rejection.body_text())
    })?;
    json::decode(&bytes, Names::Exact)
        .map_err(|error| Refused::new(StatusCode::BAD_REQUEST, "MalformedBody", error))
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let kind = value.and_then(|value| value.split(';').next());
    kind.is_some_and(|kind| kind.trim().eq_ignore_ascii_case("application/json"))
}
