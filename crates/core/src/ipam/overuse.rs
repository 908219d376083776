//! Who has more addresses in use than the limits allow.
//!
//! Limits span objects, so two writers who do not know of each other can exceed
//! them. Nothing of a live pod is taken back for that: it is only told. A limit
//! that was lowered looks the same, and so does a workload whose surplus pods
//! are still on their way out; who asks does so twice, with time in between.

use super::{
    families::Family,
    key::{HolderKey, KeyParts},
    ledger::{Ledger, Scope},
    reclaim::standing,
    workload::{State, Workload},
};
use crate::wording::counted;

/// More addresses in use than allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
#[error("{group} has {} in use, at most {at_most} allowed", counted(.held, "address", "addresses"))]
pub struct Overuse {
    /// The group key.
    pub group: HolderKey,
    /// The namespace, when only its part of a pool is bounded.
    pub namespace: Option<String>,
    /// How many are in use.
    pub held: usize,
    /// How many are allowed.
    pub at_most: usize,
}

impl Overuse {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        "LimitExceeded"
    }

    /// Of a pool with a size, everywhere or in one namespace.
    pub fn of_pool(
        ledger: &Ledger,
        pool: &str,
        namespace: Option<&str>,
        size: usize,
    ) -> Option<Self> {
        let group = HolderKey::lookup(&KeyParts {
            pool: Some(pool),
            ..KeyParts::default()
        });
        let scope = namespace.map_or(Scope::Group, Scope::Namespace);
        let held = ledger.group(&group)?.held(scope);
        (held > size).then(|| Self {
            group,
            namespace: namespace.map(str::to_owned),
            held,
            at_most: size,
        })
    }

    /// Of a workload that is bounded by its replicas: one that shares its spares,
    /// keeps its addresses and is in no pool.
    pub fn of_workload(ledger: &Ledger, workload: &Workload) -> Option<Self> {
        let State::Exists { .. } = workload.state else {
            return None;
        };
        let group = workload.app.holder(None, "").key().ok()?;
        let held = ledger
            .under(&group)
            .filter(|record| record.key != group && record.policy.keeps() && !record.reserved)
            .count();
        let per_pod: u64 = [Family::V4, Family::V6]
            .into_iter()
            .filter(|family| {
                let mut held = ledger.under(&group).filter(|record| record.key != group);
                held.any(|record| record.ip.is_ipv4() == (*family == Family::V4))
            })
            .map(|family| u64::from(standing(ledger, &group, family).per_pod.get()))
            .sum();
        let replicas = u64::from(workload.state.replicas()?);
        let at_most = usize::try_from(replicas.saturating_mul(per_pod)).unwrap_or(usize::MAX);
        (workload.app.kind.shares_spares() && held > at_most).then_some(Self {
            group,
            namespace: None,
            held,
            at_most,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        config::fixture,
        ipam::{
            ledger::Record,
            owner::{App, AppKind},
            policy::ReleasePolicy,
            workload::Scale,
        },
    };

    fn ledger(held: &[(&str, &str)]) -> Ledger {
        let mut ledger = Ledger::new(fixture::t());
        for (ip, key) in held {
            ledger.observe(Record {
                ip: ip.parse().unwrap(),
                key: (*key).into(),
                policy: ReleasePolicy::Immutable,
                node: "n".into(),
                uid: "u".into(),
                updated: jiff::Timestamp::UNIX_EPOCH,
                reserved: false,
                workload_note: None,
            });
        }
        ledger
    }

    #[test]
    fn a_pool_is_counted_as_a_whole_or_in_one_namespace() {
        let ledger = ledger(&[
            ("10.0.70.2", "pool__p_dp_ns1_a_a-1"),
            ("10.0.70.3", "pool__p_dp_ns2_a_a-1"),
            ("10.0.70.4", "pool__p_dp_ns2_a_a-2"),
            ("10.0.70.5", "pool__p_"),
        ]);
        let of = |namespace, size| {
            let found = Overuse::of_pool(&ledger, "p", namespace, size);
            found.map(|it| (it.held, it.at_most))
        };
        assert_eq!(of(None, 3), None);
        assert_eq!(of(None, 2), Some((3, 2)));
        assert_eq!(of(Some("ns2"), 2), None);
        assert_eq!(of(Some("ns2"), 1), Some((2, 1)));
        assert_eq!(of(Some("ns1"), 1), None);
        assert_eq!(Overuse::of_pool(&ledger, "q", None, 0), None);
    }

    #[test]
    fn a_deployment_is_counted_against_its_replicas() {
        let held = ledger(&[
            ("10.0.70.2", "dp_ns1_a_a-1"),
            ("10.0.70.3", "dp_ns1_a_a-1"),
            ("10.0.70.4", "dp_ns1_a_a-2"),
            ("10.0.70.6", "dp_ns1_a_a-3"),
            ("10.0.70.5", "dp_ns1_a_"),
        ]);
        let of = |ledger: &Ledger, replicas| {
            let workload = Workload {
                app: App {
                    kind: AppKind::Deployment,
                    namespace: "ns1".into(),
                    name: "a".into(),
                },
                scale: Scale::Yes,
                state: State::Exists {
                    replicas: Some(replicas),
                    first_ordinal: 0,
                },
            };
            Overuse::of_workload(ledger, &workload).map(|it| (it.held, it.at_most))
        };
        assert_eq!(of(&held, 2), None);
        assert_eq!(of(&held, 1), Some((4, 2)));
        assert_eq!(of(&ledger(&[]), 0), None);
    }
}
