//! Figures for Prometheus, at `/metrics`.
//!
//! What is in the books is read from them at each scrape; the rest is noted as
//! it happens.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use axum::{
    Router, extract::State, http::StatusCode, http::header, response::IntoResponse, routing::get,
};
use jiff::Timestamp;
use prometheus_client::{
    encoding::text,
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};
use tokio::sync::watch;

use crate::{addresses::Outcome, definitions, leader::Standing, store::Store, version};

mod books;

/// One label.
type Label = [(&'static str, String); 1];

/// Where the rest of the process notes what happens.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    problems: Family<Label, Gauge>,
    applied: Family<Label, Counter>,
    last_applied: Gauge<f64, AtomicU64>,
    found: Gauge,
    definitions: Family<Label, Gauge>,
}

impl Metrics {
    /// Notes what came of an address configuration.
    pub fn configuration(&self, outcome: &Outcome) {
        let result = match outcome {
            Outcome::Applied(_) => "applied",
            Outcome::Refused { .. } => "refused",
            Outcome::Absent { .. } => "absent",
        };
        self.found.set(i64::from(result != "absent"));
        self.applied
            .get_or_create(&[("result", result.into())])
            .inc();
        if matches!(outcome, Outcome::Applied(_)) {
            let now = Timestamp::now().as_duration();
            self.last_applied.set(now.as_secs_f64());
        }
        self.problems.clear();
        for problem in outcome.problems() {
            let reason = [("reason", problem.reason().to_owned())];
            self.problems.get_or_create(&reason).inc();
        }
    }

    /// Notes how a definition stands.
    pub fn definition(&self, name: &str, state: definitions::State) {
        let served = state == definitions::State::Served;
        let label = [("crd", name.to_owned())];
        self.definitions
            .get_or_create(&label)
            .set(i64::from(served));
    }

    /// Everything that is served, with the books and the standing.
    pub fn registry(&self, store: Store, standing: watch::Receiver<Standing>) -> Registry {
        let mut registry = Registry::default();
        let build = [
            ("version", version::VERSION),
            ("commit", version::COMMIT.unwrap_or_default()),
        ];
        registry.register("floe_build", "What was built", Info::new(build));
        registry.register(
            "floe_config_problems",
            "Problems in the address configuration that was read last",
            self.problems.clone(),
        );
        registry.register(
            "floe_config_applied",
            "Address configurations that were read, by what came of them",
            self.applied.clone(),
        );
        registry.register(
            "floe_config_last_applied_timestamp_seconds",
            "When an address configuration was last put in force; 0 if never",
            self.last_applied.clone(),
        );
        registry.register(
            "floe_config_found",
            "Whether there is an address configuration, good or bad",
            self.found.clone(),
        );
        registry.register(
            "floe_crd_served",
            "Whether a definition is served with the schema of this floe",
            self.definitions.clone(),
        );
        registry.register_collector(Box::new(books::Collector { store, standing }));
        registry
    }
}

/// The route, as a value.
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

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

fn render(registry: &Registry) -> Result<String, fmt::Error> {
    let mut text = String::new();
    text::encode(&mut text, registry)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
