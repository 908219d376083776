//! Figures for Prometheus, as they are served.

use std::{fmt, sync::Arc};

use axum::{
    Router,
    extract::State,
    http::{StatusCode, header},
    response::IntoResponse,
    routing::get,
};
use prometheus_client::{encoding::text, registry::Registry};

/// What is said to be served.
pub const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The route `/metrics`, as a value.
pub fn router(registry: Registry) -> Router {
    Router::new()
        .route("/metrics", get(metrics))
        .with_state(Arc::new(registry))
}

async fn metrics(State(registry): State<Arc<Registry>>) -> impl IntoResponse {
    match render(&registry) {
        Ok(text) => (StatusCode::OK, [(header::CONTENT_TYPE, OPEN_METRICS)], text),
        Err(error) => (
            StatusCode::INTERNAL_SERVER_ERROR,
            [(header::CONTENT_TYPE, "text/plain; charset=utf-8")],
            format!("cannot write the metrics: {error}"),
        ),
    }
}

/// What is served now.
///
/// # Errors
///
/// A figure that cannot be written.
pub fn render(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}
