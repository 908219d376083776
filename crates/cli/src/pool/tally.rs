//! What pools have, counted from the records.

use std::collections::{BTreeMap, BTreeSet};

use floe_core::ipam::state::State;

use super::EVERYBODY;
use crate::record::Record;

/// What all pools have.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// By the name of the pool.
    pools: BTreeMap<String, Held>,
}

/// What the holders of one pool name have.
#[derive(Clone, Debug, Default)]
struct Held {
    /// Addresses of pods, by namespace.
    used: BTreeMap<String, u64>,
    /// Addresses that wait for any pod of the pool.
    spare: u64,
}

impl Tally {
    /// Counts. Reservations have keys of pools, but belong to none.
    pub fn of(records: &[Record]) -> Self {
        let mut tally = Self::default();
        for record in records.iter().filter(|it| it.state != State::Reserved) {
            let parts = record.parts();
            let Some(pool) = parts.pool else { continue };
            let held = tally.pools.entry(pool.to_owned()).or_default();
            if record.state == State::Spare {
                held.spare += 1;
            } else {
                *held.used.entry(parts.namespace.to_owned()).or_default() += 1;
            }
        }
        tally
    }

    /// How many addresses pods of the pool have, as far as a limit in that namespace
    /// counts them: in `kube-system` all, elsewhere its own.
    pub fn used(&self, pool: &str, namespace: &str) -> u64 {
        let Some(held) = self.pools.get(pool) else {
            return 0;
        };
        if namespace == EVERYBODY {
            held.used.values().sum()
        } else {
            held.used.get(namespace).copied().unwrap_or_default()
        }
    }

    /// How many addresses wait for any pod of the pool.
    pub fn spare(&self, pool: &str) -> u64 {
        self.pools.get(pool).map_or(0, |held| held.spare)
    }

    /// The names that holders have and that are not among these.
    pub fn others<'a>(&'a self, known: &BTreeSet<String>) -> impl Iterator<Item = &'a str> {
        let names = self.pools.keys().filter(|name| !known.contains(*name));
        let names: Vec<_> = names.map(String::as_str).collect();
        names.into_iter()
    }
}
