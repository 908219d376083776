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
///
/// Several reporters may know of one problem, and not all of it: a CRD lacks ten fields, and an
/// object uses one of them. The problem lasts until each of them has resolved it, and the longest
/// message is shown.
#[derive(Clone, Debug, Default)]
pub struct Installation(Arc<Mutex<Problems>>);

/// Messages by reporter, by reason and subject.
type Problems = BTreeMap<(&'static str, String), BTreeMap<String, String>>;

/// The reporter that knows all of a problem.
const MAIN: &str = "";

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
        self.report_by(MAIN, reason, subject, message)
    }

    /// The same by an object that is concerned, which may know a part of the problem only.
    pub fn report_by(
        &self,
        reporter: &str,
        reason: &'static str,
        subject: &str,
        message: &str,
    ) -> bool {
        let mut problems = self.lock();
        let reports = problems.entry((reason, subject.to_owned())).or_default();
        let is_new = reports.is_empty();
        reports.insert(reporter.to_owned(), message.to_owned());
        is_new
    }

    /// Removes a problem that was fixed, whichever object has reported it.
    pub fn resolve(&self, reason: &'static str, subject: &str) {
        self.lock().remove(&(reason, subject.to_owned()));
    }

    /// Removes what this object has reported.
    pub fn resolve_by(&self, reporter: &str, reason: &'static str, subject: &str) {
        self.retain(reason, subject, |it| it != reporter);
    }

    /// Removes what objects have reported: this process looks after none of them any more.
    pub fn forget_objects(&self, reason: &'static str, subject: &str) {
        self.retain(reason, subject, |it| it == MAIN);
    }

    /// Removes all problems of a reason.
    pub fn forget(&self, reason: &'static str) {
        self.lock().retain(|(it, _), _| *it != reason);
    }

    /// All problems, by reason and subject.
    pub fn problems(&self) -> Vec<Problem> {
        let problems = self.lock();
        let problems = problems.iter().map(|((reason, subject), reports)| {
            let longest = reports.values().max_by_key(|it| it.len());
            Problem {
                reason,
                subject: subject.clone(),
                message: longest.cloned().unwrap_or_default(),
            }
        });
        problems.collect()
    }

    fn retain(&self, reason: &'static str, subject: &str, stays: impl Fn(&str) -> bool) {
        let mut problems = self.lock();
        let key = (reason, subject.to_owned());
        let Some(reports) = problems.get_mut(&key) else {
            return;
        };
        reports.retain(|reporter, _| stays(reporter));
        if reports.is_empty() {
            problems.remove(&key);
        }
    }

    /// A panic in any task ends the process; until then the problems are as good as they were.
    fn lock(&self) -> MutexGuard<'_, Problems> {
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

#[cfg(test)]
mod tests {
    use super::*;

    const CRD: &str = "virtualips.floe.dev";

    fn messages(installation: &Installation) -> Vec<String> {
        let problems = installation.problems().into_iter();
        problems.map(|it| it.message).collect()
    }

    #[test]
    fn a_problem_lasts_until_all_have_resolved_it_and_shows_the_longest_message() {
        let installation = Installation::default();
        assert!(installation.report(SCHEMA_OUTDATED, CRD, "lacks a, b"));
        assert!(!installation.report_by("shop/web", SCHEMA_OUTDATED, CRD, "lacks a"));
        assert_eq!(messages(&installation), ["lacks a, b"]);
        installation.resolve_by("shop/web", SCHEMA_OUTDATED, CRD);
        installation.resolve_by("shop/other", SCHEMA_OUTDATED, CRD);
        assert_eq!(messages(&installation), ["lacks a, b"]);
        installation.resolve(SCHEMA_OUTDATED, CRD);
        assert!(messages(&installation).is_empty());

        installation.report_by("shop/web", SCHEMA_OUTDATED, CRD, "lacks a");
        installation.resolve_by("shop/web", SCHEMA_OUTDATED, CRD);
        assert!(messages(&installation).is_empty());
    }

    #[test]
    fn what_objects_have_reported_ends_with_the_term() {
        let installation = Installation::default();
        installation.report_by("shop/web", SCHEMA_OUTDATED, CRD, "lacks a");
        installation.report(PERMISSION_MISSING, "list nodes", "without it ...");
        installation.forget_objects(SCHEMA_OUTDATED, CRD);
        assert_eq!(messages(&installation), ["without it ..."]);
        installation.forget(PERMISSION_MISSING);
        assert!(messages(&installation).is_empty());
    }
}
