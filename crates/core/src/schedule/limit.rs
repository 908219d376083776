//! How many addresses a group may use.

use crate::{
    ipam::{
        key::PoolName,
        ledger::{Ledger, Record, Scope},
    },
    schedule::{claimant::Claimant, refusal::Refusal},
};

/// A bound on the number of addresses in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The workload may use this many.
    Workload {
        /// The name of the workload.
        app: String,
        /// Its replicas, as people know the limit.
        replicas: u32,
        /// The addresses that this makes.
        at_most: usize,
    },
    /// The pool may have this many in use, by whomever.
    Pool {
        /// The name of the pool.
        pool: String,
        /// Its size.
        at_most: usize,
    },
    /// One namespace may use this many of the pool.
    PoolInNamespace {
        /// The name of the pool.
        pool: String,
        /// The namespace.
        namespace: String,
        /// Its size.
        at_most: usize,
    },
}

/// The sizes that Pool objects give to the pool of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolSizes {
    /// Of the Pool in `kube-system`, which counts for everybody.
    pub everywhere: Option<usize>,
    /// Of the Pool in the namespace of the pod.
    pub in_namespace: Option<usize>,
}

impl Limit {
    /// What bounds the group of a pod that keeps its addresses.
    ///
    /// Compat: a pool that has a size is bounded by it, and replicas do not count.
    /// Otherwise each workload may use what its replicas need.
    pub fn list(
        namespace: &str,
        app: &str,
        replicas: u32,
        wishes: usize,
        pool: Option<(&PoolName, PoolSizes)>,
    ) -> Vec<Self> {
        let mut limits = Vec::new();
        if let Some((pool, sizes)) = pool {
            limits.extend(sizes.everywhere.map(|at_most| Self::Pool {
                pool: pool.to_string(),
                at_most,
            }));
            limits.extend(sizes.in_namespace.map(|at_most| Self::PoolInNamespace {
                pool: pool.to_string(),
                namespace: namespace.into(),
                at_most,
            }));
        }
        if limits.is_empty() {
            let pods = usize::try_from(replicas).unwrap_or(usize::MAX);
            limits.push(Self::Workload {
                app: app.into(),
                replicas,
                at_most: pods.saturating_mul(wishes),
            });
        }
        limits
    }

    /// Whether the claimant may have all that it asks for, beside `idle` addresses
    /// of the group that lie where it cannot use them.
    pub(super) fn admits(
        &self,
        claimant: &Claimant,
        own: &[&Record],
        idle: usize,
        ledger: &Ledger,
    ) -> Result<(), Refusal> {
        let mine = own.iter().filter(|it| self.counts(claimant, it)).count();
        let others = self.used(claimant, ledger).saturating_sub(mine);
        let after = others
            .saturating_add(claimant.wishes.len())
            .saturating_add(idle);
        if after <= self.at_most() {
            return Ok(());
        }
        Err(match self {
            Self::Workload { app, replicas, .. } => Refusal::WorkloadLimit {
                app: app.clone(),
                used: others + mine,
                replicas: *replicas,
            },
            Self::Pool { pool, at_most } => Refusal::PoolLimit {
                pool: pool.clone(),
                size: *at_most,
            },
            Self::PoolInNamespace {
                pool,
                namespace,
                at_most,
            } => Refusal::NamespacePoolLimit {
                pool: pool.clone(),
                namespace: namespace.clone(),
                size: *at_most,
            },
        })
    }

    fn at_most(&self) -> usize {
        match self {
            Self::Workload { at_most, .. }
            | Self::Pool { at_most, .. }
            | Self::PoolInNamespace { at_most, .. } => *at_most,
        }
    }

    /// Addresses that pods hold, and places that are promised to others.
    fn used(&self, claimant: &Claimant, ledger: &Ledger) -> usize {
        let Some(group) = ledger.group(&claimant.group_key) else {
            return 0;
        };
        let scope = self.scope(claimant);
        let promised_to_it = ledger
            .promise_to(&claimant.uid)
            .filter(|promise| {
                promise.group == claimant.group_key && promise.app_prefix == claimant.app_prefix
            })
            .map_or(0, |promise| promise.places);
        let promised = group.promised(scope).saturating_sub(promised_to_it);
        group.held(scope) + promised
    }

    fn scope<'a>(&'a self, claimant: &'a Claimant) -> Scope<'a> {
        match self {
            Self::Workload { .. } => Scope::App(&claimant.app_prefix),
            Self::Pool { .. } => Scope::Group,
            Self::PoolInNamespace { namespace, .. } => Scope::Namespace(namespace),
        }
    }

    /// Whether a record of the claimant is among the used ones.
    fn counts(&self, claimant: &Claimant, record: &Record) -> bool {
        let key = &record.key;
        match self.scope(claimant) {
            Scope::Group => key.is_under(&claimant.group_key),
            Scope::App(prefix) => key.is_under(prefix),
            Scope::Namespace(namespace) => {
                key.is_under(&claimant.group_key)
                    && key.parts().is_some_and(|it| it.namespace == namespace)
            }
        }
    }
}
