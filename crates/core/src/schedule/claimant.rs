//! A pod that wants addresses, with everything that a decision needs to know.

use std::{collections::BTreeSet, net::IpAddr};

use jiff::Timestamp;

use crate::{
    ipam::{
        choice::Wish,
        key::{HolderKey, KeyError, PoolName},
        ledger::{Ledger, Promise, Record},
        policy::ReleasePolicy,
        workload::{Unsupported, Workload},
    },
    schedule::{limit::Limit, refusal::Refusal},
};

/// A pod that wants addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key under which it holds addresses.
    pub key: HolderKey,
    /// The key under which galaxy stored its addresses, where that differs.
    pub galaxy_key: Option<HolderKey>,
    /// The key under which the addresses wait that its group does not use.
    pub group_key: HolderKey,
    /// The prefix of the keys of its own workload.
    pub app_prefix: HolderKey,
    /// How long it keeps addresses.
    pub policy: ReleasePolicy,
    /// The addresses that it asks for, in the order in which it gets them.
    pub wishes: Vec<Wish>,
    /// Whether its group passes addresses on from pod to pod, as the pods of a
    /// Deployment do that keeps its addresses.
    pub shares_spares: bool,
    /// What bounds the number of addresses that its group uses. Looked at only
    /// where spares are shared.
    pub limits: Vec<Limit>,
    /// Why its workload cannot have the policy.
    pub unsupported: Option<Unsupported>,
    /// A pod of a newer revision of the same workload that waits as well, and
    /// goes first, see [`wake`](super::wake).
    pub yields_to: Option<String>,
}

impl Claimant {
    /// A pod of a workload. It has no limits, no key of galaxy, and yields to
    /// nobody, until that is set.
    pub fn new(
        workload: &Workload,
        pool: Option<PoolName>,
        name: &str,
        uid: &str,
        policy: ReleasePolicy,
        wishes: Vec<Wish>,
    ) -> Result<Self, KeyError> {
        let key = workload.app.holder(pool, name).key()?;
        // Only an empty workload name makes a key that belongs to no group.
        let group_key = key.group_key().unwrap_or_else(|| key.clone());
        let app_prefix = key.app_prefix().unwrap_or_else(|| key.clone());
        Ok(Self {
            uid: uid.into(),
            namespace: workload.app.namespace.clone(),
            name: name.into(),
            key,
            galaxy_key: None,
            group_key,
            app_prefix,
            policy,
            wishes,
            shares_spares: policy.keeps() && workload.app.kind.shares_spares(),
            limits: Vec::new(),
            unsupported: workload.supports(policy, name).err(),
            yields_to: None,
        })
    }

    /// The records under its keys: usable ones and others.
    pub fn held<'a>(&self, ledger: &'a Ledger) -> Vec<&'a Record> {
        let galaxys = self.galaxy_key.as_ref().filter(|key| **key != self.key);
        let keys = [Some(&self.key), galaxys];
        keys.into_iter()
            .flatten()
            .flat_map(|key| ledger.held_by(key))
            .collect()
    }

    /// Whether the addresses that it holds decide where it can run. Otherwise it
    /// may get others, for nobody relies on which ones it has before it runs.
    pub fn is_pinned(&self) -> bool {
        self.policy.keeps() && !self.shares_spares
    }

    /// Whether it may have addresses beside those that it holds, if `idle` others
    /// of its group lie where it cannot use them.
    pub(super) fn admission(
        &self,
        own: &[&Record],
        idle: usize,
        ledger: &Ledger,
    ) -> Result<(), Refusal> {
        if let Some(unsupported) = &self.unsupported {
            return Err(unsupported.clone().into());
        }
        if !self.shares_spares {
            return Ok(());
        }
        if let Some(newer) = &self.yields_to {
            return Err(Refusal::YieldsToNewer { pod: newer.clone() });
        }
        self.limits
            .iter()
            .try_for_each(|limit| limit.admits(self, own, idle, ledger))
    }

    /// A promise to it.
    pub(super) fn promise(
        &self,
        places: usize,
        addresses: BTreeSet<IpAddr>,
        until: Timestamp,
    ) -> Promise {
        Promise {
            group: self.group_key.clone(),
            namespace: self.namespace.clone(),
            app_prefix: self.app_prefix.clone(),
            places,
            addresses,
            until,
        }
    }
}
