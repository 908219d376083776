//! Figures about objects that the API server asked about.

use prometheus_client::{
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::Word;

/// Figures about objects that the API server asked about.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    reviews: Family<Word, Counter>,
    refusals: Family<Word, Counter>,
}

impl Admission {
    /// Notes that a question was answered: `allowed`, `warned`, `refused` or `gated`.
    pub fn reviewed(&self, result: &'static str) {
        self.reviews.get_or_create(&[("result", result)]).inc();
    }

    /// Notes why an object was refused.
    pub fn refused(&self, reason: &'static str) {
        self.refusals.get_or_create(&[("reason", reason)]).inc();
    }

    /// Has them served.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "floe_admission_reviews",
            "Objects that the API server asked about, by what it was told",
            self.reviews.clone(),
        );
        registry.register(
            "floe_admission_refusals",
            "Reasons for which objects were refused before they were stored",
            self.refusals.clone(),
        );
    }
}
