//! Figures about rolling updates that need addresses, noted by the leader.

use std::collections::BTreeMap;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Word;

/// Figures about rolling updates.
#[derive(Clone, Debug, Default)]
pub struct Rollouts {
    waiting: Family<Word, Gauge>,
    evictions: Family<Word, Counter>,
}

impl Rollouts {
    /// Notes why Deployments wait, one reason for each of them.
    pub fn waiting(&self, reasons: impl IntoIterator<Item = &'static str>) {
        let mut counts: BTreeMap<&'static str, i64> = BTreeMap::new();
        for reason in reasons {
            *counts.entry(reason).or_default() += 1;
        }
        self.waiting.clear();
        for (reason, count) in counts {
            self.waiting.get_or_create(&[("reason", reason)]).set(count);
        }
    }

    /// Notes that a pod was to be evicted: `evicted`, or a reason why not.
    pub fn evicted(&self, result: &'static str) {
        self.evictions.get_or_create(&[("result", result)]).inc();
    }

    /// Has them served.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "floe_rollouts_waiting",
            "Deployments of which a new pod waits for an address, by reason, told by the leader",
            self.waiting.clone(),
        );
        registry.register(
            "floe_rollout_evictions",
            "Old pods that were to be evicted for their addresses, by what came of it",
            self.evictions.clone(),
        );
    }
}
