//! Figures about shared addresses, noted by whoever looks after them.

use std::collections::BTreeMap;

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::Word;

/// Figures about shared addresses.
#[derive(Clone, Debug, Default)]
pub struct Vips {
    states: Family<Word, Gauge>,
    moves: Family<Word, Counter>,
}

impl Vips {
    /// Notes how many objects are in which state.
    pub fn states(&self, counts: BTreeMap<&'static str, i64>) {
        self.states.clear();
        for (state, count) in counts {
            self.states.get_or_create(&[("state", state)]).set(count);
        }
    }

    /// Notes that addresses have moved so many times.
    pub fn moved(&self, reason: &'static str, times: u64) {
        self.moves
            .get_or_create(&[("reason", reason)])
            .inc_by(times);
    }

    /// Has them served.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "floe_vips",
            "VirtualIP objects by state, told by the leader",
            self.states.clone(),
        );
        registry.register(
            "floe_vip_moves",
            "Moves of shared addresses that were seen, by reason",
            self.moves.clone(),
        );
    }
}
