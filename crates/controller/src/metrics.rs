//! Figures for Prometheus, at `/metrics`.
//!
//! What is in the books is read from them at each scrape; the rest is noted as
//! it happens.

use std::{sync::atomic::AtomicU64, time::Duration};

use floe_shell::version;
use jiff::Timestamp;
use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram, info::Info},
    registry::Registry,
};
use tokio::sync::watch;

use crate::{
    addresses::Outcome, definitions, installation::Installation, leader::Standing, store::Store,
};

mod admission;
mod books;
mod nodepools;
mod rollouts;
mod vips;

pub use admission::Admission;
pub use nodepools::{IpFigures, NodePools, PLAIN_COUNTERS, PoolFigures, RecordFigures};
pub use rollouts::Rollouts;
pub use vips::Vips;

/// One label.
type Label = [(&'static str, String); 1];

/// One label, one of a few fixed words.
type Word = [(&'static str, &'static str); 1];

/// Compat: galaxy's buckets, in seconds.
const GALAXY_BUCKETS: [f64; 7] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4];

/// From a tenth of a millisecond on: most answers come before galaxy's first one.
const FINE_BUCKETS: [f64; 12] = [
    0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0,
];

/// Where the rest of the process notes what happens.
#[derive(Clone, Debug)]
pub struct Metrics {
    problems: Family<Label, Gauge>,
    applied: Family<Label, Counter>,
    last_applied: Gauge<f64, AtomicU64>,
    found: Gauge,
    definitions: Family<Label, Gauge>,
    scheduling: Histograms,
    asked: Histograms,
    cloud: Histograms,
    allocated: Family<Word, Counter>,
    refused: Family<Word, Counter>,
    refused_calls: Family<Word, Counter>,
    reclaimed: Family<[(&'static str, &'static str); 2], Counter>,
    conflicts: Counter,
    woken: Counter,
    lost_events: Counter,
    certificates: Family<Label, Gauge<f64, AtomicU64>>,
    adopted: Family<Word, Counter>,
    overused: Gauge,
    pool_shortage: Family<Label, Gauge>,
    api_calls: Family<[(&'static str, String); 3], Counter>,
    api_refusals: Family<Word, Counter>,
    admission: Admission,
    rollouts: Rollouts,
    vips: Vips,
    node_pools: NodePools,
    installation: Installation,
}

type Histograms = Family<Word, Histogram, fn() -> Histogram>;

impl Default for Metrics {
    fn default() -> Self {
        let galaxy = || Histograms::new_with_constructor(|| Histogram::new(GALAXY_BUCKETS));
        Self {
            problems: Family::default(),
            applied: Family::default(),
            last_applied: Gauge::default(),
            found: Gauge::default(),
            definitions: Family::default(),
            scheduling: galaxy(),
            asked: Histograms::new_with_constructor(|| Histogram::new(FINE_BUCKETS)),
            cloud: galaxy(),
            allocated: Family::default(),
            refused: Family::default(),
            refused_calls: Family::default(),
            reclaimed: Family::default(),
            conflicts: Counter::default(),
            woken: Counter::default(),
            lost_events: Counter::default(),
            certificates: Family::default(),
            adopted: Family::default(),
            overused: Gauge::default(),
            pool_shortage: Family::default(),
            api_calls: Family::default(),
            api_refusals: Family::default(),
            admission: Admission::default(),
            rollouts: Rollouts::default(),
            vips: Vips::default(),
            node_pools: NodePools::default(),
            installation: Installation::default(),
        }
    }
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

    /// Notes that a question of the scheduler was answered: `filter`, `bind` and
    /// so on. Compat: galaxy counts only filter and bind, and only those that
    /// succeeded for a pod that wants an address.
    pub fn answered(&self, func: &'static str, took: Duration, succeeded: bool) {
        let seconds = took.as_secs_f64();
        let func = [("func", func)];
        self.asked.get_or_create(&func).observe(seconds);
        if succeeded && matches!(func[0].1, "filter" | "bind") {
            self.scheduling.get_or_create(&func).observe(seconds);
        }
    }

    /// Notes a call to the cloud provider: `assign` or `unassign`.
    pub fn cloud_called(&self, func: &'static str, took: Duration) {
        let histogram = self.cloud.get_or_create(&[("func", func)]);
        histogram.observe(took.as_secs_f64());
    }

    /// Notes that a pod got an address: `own`, `spare` or `new`.
    pub fn allocated(&self, kind: &'static str) {
        self.allocated.get_or_create(&[("kind", kind)]).inc();
    }

    /// Notes that a pod was refused, wherever it could run.
    pub fn refused(&self, reason: &'static str) {
        self.refused.get_or_create(&[("reason", reason)]).inc();
    }

    /// Counts a call of the scheduler extender that was refused for its caller.
    pub fn call_refused(&self, reason: &'static str) {
        self.refused_calls
            .get_or_create(&[("reason", reason)])
            .inc();
    }

    /// Notes what became of an address whose pod is gone, and why.
    pub fn reclaimed(&self, fate: &'static str, reason: &'static str) {
        let labels = [("fate", fate), ("reason", reason)];
        self.reclaimed.get_or_create(&labels).inc();
    }

    /// Notes that another writer was faster.
    pub fn conflict(&self) {
        self.conflicts.inc();
    }

    /// Notes that a waiting pod was woken.
    pub fn woken(&self) {
        self.woken.inc();
    }

    /// The counter of Events that are never written.
    pub fn lost_events(&self) -> Counter {
        self.lost_events.clone()
    }

    /// Notes until when the certificate of a Secret is good that is in force.
    pub fn certificate(&self, secret: &str, end: Timestamp) {
        let label = [("secret", secret.to_owned())];
        let end = end.as_duration().as_secs_f64();
        self.certificates.get_or_create(&label).set(end);
    }

    /// Notes what came of a running pod without record: `adopted`, or a reason.
    pub fn adoption(&self, result: &'static str) {
        self.adopted.get_or_create(&[("result", result)]).inc();
    }

    /// Notes how many groups have more addresses in use than they may have.
    pub fn overused(&self, groups: usize) {
        self.overused.set(i64::try_from(groups).unwrap_or(i64::MAX));
    }

    /// Notes how many addresses pools lack that shall have them ahead of pods.
    pub fn pool_shortages<'a>(&self, lacking: impl Iterator<Item = (&'a str, usize)>) {
        self.pool_shortage.clear();
        for (pool, missing) in lacking {
            let missing = i64::try_from(missing).unwrap_or(i64::MAX);
            let label = [("pool", pool.to_owned())];
            self.pool_shortage.get_or_create(&label).set(missing);
        }
    }

    /// Notes that a call of the management API was answered. The route is the template
    /// of its path.
    pub fn api_called(&self, route: &str, method: &'static str, status: u16) {
        let labels = [
            ("route", route.to_owned()),
            ("method", method.to_owned()),
            ("status", status.to_string()),
        ];
        self.api_calls.get_or_create(&labels).inc();
    }

    /// Notes that a call of the management API, or one address of it, was refused.
    pub fn api_refused(&self, reason: &'static str) {
        self.api_refusals.get_or_create(&[("reason", reason)]).inc();
    }

    /// The figures about objects that the API server asked about.
    pub fn admission(&self) -> &Admission {
        &self.admission
    }

    /// The figures about rolling updates that need addresses.
    pub fn rollouts(&self) -> &Rollouts {
        &self.rollouts
    }

    /// The figures about shared addresses.
    pub fn vips(&self) -> &Vips {
        &self.vips
    }

    /// The figures about pools of node addresses.
    pub fn node_pools(&self) -> &NodePools {
        &self.node_pools
    }

    /// The problems of the installation, which are served as well.
    pub fn installation(&self) -> &Installation {
        &self.installation
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
        registry.register(
            "floe_api_calls",
            "Calls of the management API that were answered",
            self.api_calls.clone(),
        );
        registry.register(
            "floe_api_refusals",
            "Calls of the management API that were refused, and addresses in them, by reason",
            self.api_refusals.clone(),
        );
        registry.register(
            "floe_certificate_not_after_timestamp_seconds",
            "Until when the certificate is good that floe made itself and that is in force",
            self.certificates.clone(),
        );
        self.register_scheduling(&mut registry);
        self.admission.register(&mut registry);
        self.rollouts.register(&mut registry);
        self.vips.register(&mut registry);
        self.node_pools.register(&mut registry);
        registry.register_collector(Box::new(self.installation.clone()));
        registry.register_collector(Box::new(books::Collector { store, standing }));
        registry
    }

    fn register_scheduling(&self, registry: &mut Registry) {
        registry.register(
            "galaxy_schedule_latency",
            "Seconds to answer filter and bind for pods that want an address",
            self.scheduling.clone(),
        );
        registry.register(
            "galaxy_cloud_provider_latency",
            "Seconds to an answer of the cloud provider",
            self.cloud.clone(),
        );
        registry.register(
            "floe_extender_seconds",
            "Seconds to answer the scheduler, whatever the answer is",
            self.asked.clone(),
        );
        registry.register(
            "floe_extender_refused_calls",
            "Calls of the scheduler extender whose caller is not taken for the scheduler, by reason",
            self.refused_calls.clone(),
        );
        registry.register(
            "floe_allocations",
            "Addresses that pods got, by where they came from",
            self.allocated.clone(),
        );
        registry.register(
            "floe_refusals",
            "Questions about pods that cannot run anywhere, by reason",
            self.refused.clone(),
        );
        registry.register(
            "floe_reclaims",
            "Addresses whose pods are gone, by what became of them and why",
            self.reclaimed.clone(),
        );
        registry.register(
            "floe_conflicts",
            "Writes of records that lost against another writer",
            self.conflicts.clone(),
        );
        registry.register(
            "floe_wakes",
            "Waiting pods that were woken",
            self.woken.clone(),
        );
        registry.register(
            "floe_lost_events",
            "Events that were never written",
            self.lost_events.clone(),
        );
        registry.register(
            "floe_adoptions",
            "Running pods that were found without a record, by what came of it",
            self.adopted.clone(),
        );
        registry.register(
            "floe_groups_over_limit",
            "Workloads and pools with more addresses in use than they may have",
            self.overused.clone(),
        );
        registry.register(
            "floe_pool_missing_addresses",
            "Addresses that a pool shall have ahead of pods and that are not there",
            self.pool_shortage.clone(),
        );
    }
}

#[cfg(test)]
mod tests;
