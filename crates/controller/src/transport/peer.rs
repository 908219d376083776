//! The way to other replicas, by a client that takes up new certificates.

use std::{
    error::Error,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use axum::body::Body;
use floe_shell::logs;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::{
    client::legacy::{self, connect::HttpConnector},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::watch;
use tracing::{info, warn};

use super::tls::{self, Secrets};

/// How long it may take to reach another host.
const CONNECT: Duration = Duration::from_secs(1);

/// A client of other replicas.
pub type Client = legacy::Client<HttpsConnector<HttpConnector>, Body>;

/// The way to other replicas.
pub struct Peers {
    secrets: Option<watch::Receiver<Arc<Secrets>>>,
    /// How long a connection is kept for the next call. It must be shorter than
    /// what the server keeps, which would otherwise close one under a call.
    keep: Duration,
    /// Made anew for other secrets.
    client: Mutex<(Option<Arc<Secrets>>, Client)>,
    /// Whether the last call came to nothing; repeated failures are not news.
    failing: AtomicBool,
}

impl Peers {
    /// By TLS if there are secrets, and then never without.
    pub fn new(secrets: Option<watch::Receiver<Arc<Secrets>>>, keep: Duration) -> Self {
        let now = secrets.as_ref().map(|secrets| secrets.borrow().clone());
        let client = make(now.as_deref(), keep);
        Self {
            secrets,
            keep,
            client: Mutex::new((now, client)),
            failing: AtomicBool::new(false),
        }
    }

    /// Whether what is sent to others is encrypted.
    pub fn is_private(&self) -> bool {
        self.secrets.is_some()
    }

    /// A client with the secrets that are in force.
    pub fn client(&self) -> Client {
        let mut held = self.client.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(secrets) = &self.secrets {
            let now = secrets.borrow().clone();
            if !held.0.as_ref().is_some_and(|old| Arc::ptr_eq(old, &now)) {
                let client = make(Some(&now), self.keep);
                *held = (Some(now), client);
            }
        }
        held.1.clone()
    }

    /// Tells what came of a call to the leader, if that is news.
    pub fn note<R, E: Error>(&self, leader: &str, result: &Result<R, E>) {
        let failing = self.failing.swap(result.is_err(), Ordering::Relaxed);
        match result {
            Ok(_) if failing => info!(leader, "the leader answers again"),
            Err(error) if !failing => warn!(
                reason = "LeaderUnreachable",
                leader,
                error = logs::with_causes(error),
                "cannot forward to the leader",
            ),
            Ok(_) | Err(_) => {}
        }
    }
}

fn make(secrets: Option<&Secrets>, keep: Duration) -> Client {
    let mut http = HttpConnector::new();
    http.set_connect_timeout(Some(CONNECT));
    http.set_nodelay(true);
    http.enforce_http(false);
    let builder = HttpsConnectorBuilder::new();
    let connector = match secrets {
        // Never without, even if the lease says so.
        Some(secrets) => {
            let mut builder = builder.with_tls_config(secrets.client()).https_only();
            if let Some(name) = secrets.name() {
                builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
            }
            builder
        }
        // A leader with TLS is not to be trusted: nothing here says by what.
        None => builder
            .with_tls_config(tls::trusting_nobody())
            .https_or_http(),
    };
    legacy::Client::builder(TokioExecutor::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(keep)
        .build(connector.enable_http1().wrap_connector(http))
}
