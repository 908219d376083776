//! The documentation: the description for tools, and a page for people that needs
//! nothing from anywhere else; and an index of both and of the APIs at `/`.
//!
//! It is the same in every cluster and tells nothing of this one, so it needs no
//! token.

use std::sync::LazyLock;

use axum::{
    Json, Router,
    http::{HeaderMap, HeaderName, header},
    response::{IntoResponse, Redirect, Response},
    routing::get,
};
use serde_json::json;

use super::{Rest, openapi};

/// The routes.
pub fn router() -> Router<Rest> {
    Router::new()
        .route("/", get(root))
        .route("/openapi.json", get(description))
        .route("/docs", get(index))
        .route("/docs/", get(async || Redirect::permanent("/docs")))
        .route("/docs/style.css", get(style))
        .route("/docs/script.js", get(script))
}

/// What the page may do: what it came with, and calls of this API.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

static DESCRIPTION: LazyLock<String> = LazyLock::new(openapi::json);

/// Leads browsers to the page, and tells tools what there is.
async fn root(headers: HeaderMap) -> Response {
    let accepts = headers.get_all(header::ACCEPT).iter();
    let mut accepts = accepts.filter_map(|value| value.to_str().ok());
    if accepts.any(|value| value.contains("text/html")) {
        return Redirect::to("/docs").into_response();
    }
    let index = json!({
        "name": "floe",
        "version": env!("CARGO_PKG_VERSION"),
        "paths": {
            "/docs": "documentation of both APIs, for browsers",
            "/openapi.json": "description of both APIs (OpenAPI 3.1)",
            "/v1/ip": "galaxy's API: addresses; /v1/pool: pools",
            "/v2/ips": "floe's API: addresses; all other paths are in /docs",
            "/apidocs.json": "description of galaxy's API (Swagger 1.2)",
            "/metrics": "metrics for Prometheus",
        },
    });
    Json(index).into_response()
}

async fn description() -> impl IntoResponse {
    file("application/json", &DESCRIPTION)
}

async fn index() -> impl IntoResponse {
    file("text/html; charset=utf-8", include_str!("page/index.html"))
}

async fn style() -> impl IntoResponse {
    file("text/css; charset=utf-8", include_str!("page/style.css"))
}

async fn script() -> impl IntoResponse {
    file(
        "text/javascript; charset=utf-8",
        include_str!("page/script.js"),
    )
}

fn file(kind: &'static str, text: &'static str) -> impl IntoResponse {
    let headers: [(HeaderName, &str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // Another version of floe may answer next.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    (headers, text)
}

#[cfg(test)]
mod tests;
