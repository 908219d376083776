//! Problems of the installation that an administrator has to fix: CRDs that lack fields,
//! permissions that this process does not have, and Secrets from which it gets no key.
//!
//! Nothing that floe does can fix them, so they do not make a replica unready. The body of
//! `/readyz` lists them, and each is a value of the metric `floe_installation_problems`.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder, metrics::MetricType};
use serde::Serialize;

/// The reason of a CRD that lacks fields of this floe, so that the API server drops them.
pub const SCHEMA_OUTDATED: &str = "SchemaOutdated";

/// The reason of a permission that this process does not have.
pub const PERMISSION_MISSING: &str = "PermissionMissing";

/// All known problems; all clones are the same ones.
#[derive(Clone, Debug, Default)]
pub struct Installation(Arc<Mutex<BTreeMap<(&'static str, String), String>>>);

/// A problem as `/readyz` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    /// The stable reason.
    pub reason: &'static str,
    /// The CRD, the permission as verb and resource, or the Secret.
    pub subject: String,
    /// What is missing, what does not work without it, and what to apply.
    pub message: String,
}

impl Installation {
    /// Adds a problem, or changes its message. Returns whether its subject had none of this
    /// reason.
    pub fn report(&self, reason: &'static str, subject: &str, message: &str) -> bool {
        let key = (reason, subject.to_owned());
        self.lock().insert(key, message.to_owned()).is_none()
    }

    /// Removes a problem that was fixed.
    pub fn resolve(&self, reason: &'static str, subject: &str) {
        self.lock().remove(&(reason, subject.to_owned()));
    }

    /// All problems, by reason and subject.
    pub fn problems(&self) -> Vec<Problem> {
        let problems = self.lock();
        let problems = problems.iter().map(|((reason, subject), message)| Problem {
            reason,
            subject: subject.clone(),
            message: message.clone(),
        });
        problems.collect()
    }

    /// A panic in any task ends the process; until then the problems are as good as they were.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(&'static str, String), String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Installation {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut family = encoder.encode_descriptor(
            "floe_installation_problems",
            "CRDs that lack fields, permissions that are missing and Secrets without a key: 1 for each.",
            None,
            MetricType::Gauge,
        )?;
        for (reason, subject) in self.lock().keys() {
            let labels = [("reason", *reason), ("subject", subject.as_str())];
            family.encode_family(&labels)?.encode_gauge(&1_i64)?;
        }
        Ok(())
    }
}
