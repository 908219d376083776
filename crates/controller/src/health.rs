//! Liveness, readiness and version over HTTP.
//!
//! - `/healthz` answers 200 while the process can answer at all.
//! - `/readyz` answers 200 or 503, with a body that names each check, whether
//!   it holds and a stable reason. Followers are ready too: they take over. The
//!   body also tells how the address configuration stands, and which problems of the
//!   installation are known. Readiness does not depend on them: to be not ready would
//!   fix neither.
//! - `/version` says what was built.

use std::time::Duration;

use axum::{Json, Router, extract::State, http::StatusCode, response::IntoResponse, routing::get};
use floe_shell::{stop::Stop, version};
use serde::Serialize;
use serde_json::json;
use tokio::{net::TcpListener, sync::watch, time::sleep};

use crate::{
    addresses,
    contact::Contact,
    installation::{Installation, Problem},
    leader::Standing,
    store::Warmth,
};

/// How long open connections may take to end when the process stops.
const DRAIN: Duration = Duration::from_secs(2);

/// What readiness is judged from.
#[derive(Clone)]
pub struct Probes {
    /// The last answer of the API server.
    pub apiserver: Contact,
    /// The last look at the lease; `None` without leader election.
    pub lease: Option<Contact>,
    /// Whether this process leads.
    pub standing: watch::Receiver<Standing>,
    /// Which first lists are in.
    pub warmth: watch::Receiver<Warmth>,
    /// How the address configuration stands.
    pub configuration: watch::Receiver<addresses::State>,
    /// What an administrator has to fix.
    pub installation: Installation,
    /// How old a contact may be.
    pub limit: Duration,
}

/// The routes, as a value.
pub fn router(probes: Probes) -> Router {
    Router::new()
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/version", get(version))
        .with_state(probes)
}

/// Serves the routes until `stop`.
pub async fn serve(listener: TcpListener, router: Router, stop: Stop) -> std::io::Result<()> {
    let (mut draining, mut over) = (stop.clone(), stop);
    let server = axum::serve(listener, router)
        .with_graceful_shutdown(async move { draining.requested().await });
    tokio::select! {
        result = server => result,
        // A client that never ends its request must not hold up the stop.
        () = async { over.requested().await; sleep(DRAIN).await } => Ok(()),
    }
}

async fn healthz() -> impl IntoResponse {
    Json(json!({ "alive": true }))
}

async fn version() -> impl IntoResponse {
    Json(json!({ "version": version::VERSION, "commit": version::COMMIT }))
}

async fn readyz(State(probes): State<Probes>) -> impl IntoResponse {
    let readiness = probes.readiness();
    let status = if readiness.ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    (status, Json(readiness))
}

#[derive(Debug, Serialize)]
struct Readiness {
    ready: bool,
    checks: [Check; 3],
    configuration: addresses::State,
    problems: Vec<Problem>,
    #[serde(flatten)]
    standing: Standing,
}

#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    ok: bool,
    reason: &'static str,
    message: String,
}

impl Probes {
    fn readiness(&self) -> Readiness {
        let checks = [self.apiserver(), self.lease(), self.store()];
        Readiness {
            ready: checks.iter().all(|check| check.ok),
            checks,
            configuration: self.configuration.borrow().clone(),
            problems: self.installation.problems(),
            standing: self.standing.borrow().clone(),
        }
    }

    fn apiserver(&self) -> Check {
        let age = self.apiserver.age();
        let ok = self.is_fresh(age);
        Check {
            name: "apiserver",
            ok,
            reason: if ok {
                "ApiServerReached"
            } else {
                "ApiServerUnreachable"
            },
            message: told("the API server answered", age),
        }
    }

    fn lease(&self) -> Check {
        let name = "lease";
        let Some(lease) = &self.lease else {
            return Check {
                name,
                ok: true,
                reason: "LeaderElectionDisabled",
                message: "this process always leads".into(),
            };
        };
        let age = lease.age();
        let ok = self.is_fresh(age);
        Check {
            name,
            ok,
            reason: if ok { "LeaseKnown" } else { "LeaseUnknown" },
            message: told("the lease was read", age),
        }
    }

    fn store(&self) -> Check {
        let missing = self.warmth.borrow().missing();
        let ok = missing.is_empty();
        Check {
            name: "store",
            ok,
            reason: if ok { "StoreWarm" } else { "StoreCold" },
            message: if ok {
                "all first lists are in".into()
            } else {
                format!("not listed yet: {}", missing.join(", "))
            },
        }
    }

    fn is_fresh(&self, age: Option<Duration>) -> bool {
        age.is_some_and(|age| age <= self.limit)
    }
}

fn told(what: &str, age: Option<Duration>) -> String {
    match age {
        Some(age) => format!("{what} {:.1} s ago", age.as_secs_f64()),
        None => format!("not once since the start: {what}"),
    }
}

#[cfg(test)]
mod tests;
