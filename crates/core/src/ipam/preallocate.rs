//! Which addresses a pool gets ahead of its pods.
//!
//! A Pool that asks for it has addresses until those in use and the spares reach
//! its size. Spares are shared by all namespaces. So a Pool outside of
//! `kube-system` counts what its own namespace uses, and all spares; of several
//! Pools of one name the one that lacks most decides; and the Pool in
//! `kube-system` bounds them all, whether it asks for addresses itself or not.
//!
//! Spares are spread: the next one comes from the entry that has the fewest of
//! this pool, so that pods find some wherever they run. Those of IPv4 come first,
//! for that is what a pod asks for who says nothing else; of IPv6 only where
//! nothing else is configured.

use std::net::IpAddr;

use super::{
    key::{HolderKey, KeyParts, PoolName},
    ledger::{Ledger, Promise, Record, Scope},
};
use crate::config::EntryId;

/// What one Pool object says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// Its namespace; `None` for the one that counts for everybody.
    pub namespace: Option<String>,
    /// Its size.
    pub size: usize,
    /// Whether it asks for addresses ahead of pods.
    pub ahead: bool,
}

/// What to do for a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// It has what it asks for.
    Enough,
    /// Take this address.
    Take(IpAddr),
    /// It lacks addresses and none is free.
    Short {
        /// How many it lacks.
        missing: usize,
    },
}

/// The key under which the spares of a pool wait.
pub fn spare_key(pool: &PoolName) -> HolderKey {
    HolderKey::lookup(&KeyParts {
        pool: Some(pool.as_str()),
        ..KeyParts::default()
    })
}

/// Decides on the next address of a pool, by all Pool objects of its name.
pub fn next(ledger: &Ledger, pool: &PoolName, sizes: &[Declared]) -> Order {
    let key = spare_key(pool);
    let missing = missing(ledger, &key, sizes);
    if missing == 0 {
        return Order::Enough;
    }
    let group = ledger.group(&key);
    let spares = |entry| group.map_or(0, |group| group.spares_of(entry).len());
    let fewest = entries(ledger)
        .filter(|entry| ledger.free_count(*entry) > 0)
        .min_by_key(|entry| (spares(*entry), *entry));
    let ip = fewest.and_then(|entry| ledger.free_in_turn(entry).next());
    ip.map_or(Order::Short { missing }, Order::Take)
}

/// Whether a pool would lack an address if this one were free, so that another is taken for
/// it at once. The ledger is the same before and after.
pub fn is_missed(ledger: &mut Ledger, pool: &PoolName, sizes: &[Declared], ip: IpAddr) -> bool {
    let Some(record) = ledger.forget(ip) else {
        return false;
    };
    let is_missed = missing(ledger, &spare_key(pool), sizes) > 0;
    ledger.observe(record);
    is_missed
}

fn missing(ledger: &Ledger, key: &HolderKey, sizes: &[Declared]) -> usize {
    let spares = ledger
        .held_by(key)
        .filter(|record| is_spare(ledger, record))
        .count();
    let used = |namespace: Option<&str>| {
        let scope = namespace.map_or(Scope::Group, Scope::Namespace);
        let held = ledger.group(key).map_or(0, |group| group.held(scope));
        held + spares + coming(ledger, key, namespace)
    };
    let asked = sizes
        .iter()
        .filter(|pool| pool.ahead)
        .map(|pool| pool.size.saturating_sub(used(pool.namespace.as_deref())))
        .max()
        .unwrap_or(0);
    sizes
        .iter()
        .filter(|pool| pool.namespace.is_none())
        .map(|pool| pool.size.saturating_sub(used(None)))
        .fold(asked, usize::min)
}

/// Addresses that are promised to pods and have no record of the pool yet.
fn coming(ledger: &Ledger, key: &HolderKey, namespace: Option<&str>) -> usize {
    let counts = |promise: &&Promise| {
        promise.group == *key && namespace.is_none_or(|name| promise.namespace == name)
    };
    let promises = ledger.promises().map(|(_, promise)| promise);
    promises
        .filter(counts)
        .map(|promise| {
            let spares = promise.addresses.iter();
            let spares = spares.filter(|ip| ledger.record(**ip).is_some_and(|it| it.key == *key));
            promise.places.saturating_sub(spares.count())
        })
        .sum()
}

/// Whether a pod can get a record under the spares' key, now or after a promise.
fn is_spare(ledger: &Ledger, record: &Record) -> bool {
    record.is_idle() && !record.reserved && !ledger.is_outside(record.ip)
}

/// The entries of IPv4 if there are some, otherwise those of IPv6.
fn entries(ledger: &Ledger) -> impl Iterator<Item = EntryId> {
    let config = ledger.topology().config();
    let v4 = config.entries().iter().any(|it| it.gateway().is_ipv4());
    config
        .enumerate()
        .filter(move |(_, entry)| entry.gateway().is_ipv4() == v4)
        .map(|(id, _)| id)
}

#[cfg(test)]
mod tests;
