//! Figures for Prometheus, at `/metrics` of `--metrics-addr`.
//!
//! Nothing waits for them: an address that cannot be opened is told, and tried again.

use std::{net::SocketAddr, sync::atomic::AtomicU64, time::Duration};

use floe_api::floe::NodeNetworkStatus;
use floe_core::{
    cni::call::Command,
    vip::keeper::{Role, Serving},
};
use floe_shell::{figures, stop::Stop, version};
use jiff::Timestamp;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};
use tokio::{net::TcpListener, time::sleep};
use tracing::{info, warn};

/// The pause before an address is tried again that cannot be opened.
const AGAIN: Duration = Duration::from_secs(30);

/// How long open connections may take to end when the process stops.
const DRAIN: Duration = Duration::from_secs(2);

/// From some milliseconds to what a plugin may take.
const BUCKETS: [f64; 12] = [
    0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 60.0, 120.0, 240.0,
];

/// One label, one of a few fixed words.
type Word = [(&'static str, &'static str); 1];

/// Where the rest of the process notes what happens.
#[derive(Clone, Debug)]
pub struct Metrics {
    calls: Family<Word, Histogram, fn() -> Histogram>,
    failures: Family<[(&'static str, &'static str); 2], Counter>,
    networks: Family<Word, Gauge>,
    conflicts: Gauge,
    told: Gauge<f64, AtomicU64>,
    leftovers: Family<[(&'static str, &'static str); 2], Counter>,
    taken_off: Counter,
    lost_events: Counter,
    held: Gauge,
    lease_writes: Family<Word, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            calls: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            failures: Family::default(),
            networks: Family::default(),
            conflicts: Gauge::default(),
            told: Gauge::default(),
            leftovers: Family::default(),
            taken_off: Counter::default(),
            lost_events: Counter::default(),
            held: Gauge::default(),
            lease_writes: Family::default(),
        }
    }
}

impl Metrics {
    /// Notes a call of the container runtime, and the reason if it has failed.
    pub fn called(&self, command: Command, took: Duration, failure: Option<&'static str>) {
        let command = command.as_str();
        let seconds = self.calls.get_or_create(&[("command", command)]);
        seconds.observe(took.as_secs_f64());
        drop(seconds);
        if let Some(reason) = failure {
            self.failed(command, reason);
        }
    }

    /// Notes a request that makes no sense, so that nobody knows its command.
    pub fn malformed(&self, reason: &'static str) {
        self.failed("unknown", reason);
    }

    fn failed(&self, command: &'static str, reason: &'static str) {
        let labels = [("command", command), ("reason", reason)];
        self.failures.get_or_create(&labels).inc();
    }

    /// Notes how the node is.
    pub fn health(&self, status: &NodeNetworkStatus) {
        let ready = status.networks.iter().filter(|it| it.ready).count();
        let others = status.networks.len() - ready;
        for (state, count) in [("ready", ready), ("notReady", others)] {
            let gauge = self.networks.get_or_create(&[("state", state)]);
            gauge.set(number(count));
        }
        self.conflicts.set(number(status.conflicts.len()));
    }

    /// Notes that the API server was told how the node is.
    pub fn told(&self, now: Timestamp) {
        self.told.set(now.as_duration().as_secs_f64());
    }

    /// Notes what became of something that was left over: `removed`, `putAside`, `failed`.
    pub fn leftover(&self, reason: &'static str, fate: &'static str) {
        let labels = [("reason", reason), ("fate", fate)];
        self.leftovers.get_or_create(&labels).inc();
    }

    /// Notes that an address was taken off that belongs to another pod by now.
    pub fn taken_off(&self) {
        self.taken_off.inc();
    }

    /// The counter of Events that are never written.
    pub fn lost_events(&self) -> Counter {
        self.lost_events.clone()
    }

    /// Notes which shared addresses the node answers for.
    pub fn serving(&self, serving: &Serving) {
        let held = serving
            .roles
            .values()
            .filter(|it| matches!(it.role, Role::Holder(_)))
            .map(|it| it.addresses.len());
        self.held.set(number(held.sum()));
    }

    /// Notes how a write of the node's lease went: `done`, `refused` or `unknown`.
    pub fn lease_written(&self, result: &'static str) {
        self.lease_writes.get_or_create(&[("result", result)]).inc();
    }

    /// Serves them at this address until `stop`.
    pub async fn serve(self, addr: SocketAddr, mut stop: Stop) {
        let listener = tokio::select! {
            () = stop.requested() => return,
            listener = open(addr) => listener,
        };
        info!(%addr, "metrics are served");
        self.answer(listener, stop).await;
    }

    async fn answer(self, listener: TcpListener, stop: Stop) {
        let (mut draining, mut over) = (stop.clone(), stop);
        let server = axum::serve(listener, figures::router(self.registry(), &[]))
            .with_graceful_shutdown(async move { draining.requested().await });
        tokio::select! {
            _ = server => {}
            // A client that never ends its request must not hold up the stop.
            () = async { over.requested().await; sleep(DRAIN).await } => {}
        }
    }

    /// What is served now.
    #[cfg(test)]
    pub fn text(&self) -> String {
        figures::render(&self.registry()).unwrap()
    }

    /// Whether a line is served now.
    #[cfg(test)]
    pub fn has(&self, line: &str) -> bool {
        self.text().lines().any(|it| it == line)
    }

    fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        let build = [
            ("version", version::VERSION),
            ("commit", version::COMMIT.unwrap_or_default()),
        ];
        registry.register("floe_agent_build", "What was built", Info::new(build));
        registry.register(
            "floe_agent_call_seconds",
            "Seconds to answer the container runtime, whatever the answer is",
            self.calls.clone(),
        );
        registry.register(
            "floe_agent_call_failures",
            "Calls of the container runtime that failed, by reason",
            self.failures.clone(),
        );
        registry.register(
            "floe_agent_networks",
            "Networks of the node, by whether it can serve them",
            self.networks.clone(),
        );
        registry.register(
            "floe_agent_conflicts",
            "Addresses that pods of this node did not get because somebody else has them",
            self.conflicts.clone(),
        );
        registry.register(
            "floe_agent_last_told_timestamp_seconds",
            "When the NodeNetwork object was last written; 0 if never",
            self.told.clone(),
        );
        registry.register(
            "floe_agent_leftovers",
            "Leftovers of containers that are gone, by what became of them",
            self.leftovers.clone(),
        );
        registry.register(
            "floe_agent_addresses_taken_off",
            "Addresses that were taken off because they belong to another pod or node by now",
            self.taken_off.clone(),
        );
        registry.register(
            "floe_agent_lost_events",
            "Events that were never written",
            self.lost_events.clone(),
        );
        registry.register(
            "floe_agent_vip_addresses_held",
            "Shared addresses that this node answers for",
            self.held.clone(),
        );
        registry.register(
            "floe_agent_lease_writes",
            "Writes of the lease by which the node serves shared addresses, by how they went",
            self.lease_writes.clone(),
        );
        registry
    }
}

/// Opens an address, however long that takes.
async fn open(addr: SocketAddr) -> TcpListener {
    let mut told = false;
    loop {
        match TcpListener::bind(addr).await {
            Ok(listener) => return listener,
            Err(error) if !told => {
                let reason = "MetricsNotServed";
                warn!(reason, %addr, %error, "metrics are not served; it is tried again");
                told = true;
            }
            Err(_) => {}
        }
        sleep(AGAIN).await;
    }
}

fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
