//! How many addresses each holder has.

use std::{
    cmp::Ordering,
    collections::{BTreeMap, btree_map::Entry},
};

use super::{Row, texts::Cuts};
use crate::ipam::{
    key::{HolderKey, KeyParts},
    state::State,
};

/// What one workload or pool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding<'a> {
    /// What the keys of all its pods start with.
    pub prefix: &'a str,
    /// The parts of that, without a pod.
    pub parts: KeyParts<'a>,
    /// How many addresses it has.
    pub addresses: u64,
    /// With how many of them a pod is bound.
    pub bound: u64,
}

/// All holders in the order of pool, namespace, kind and app. Reserved addresses, and
/// those whose keys name nobody, are not counted.
#[derive(Debug, Default)]
pub(super) struct Holders(BTreeMap<Name, Count>);

/// A holder by the key of one of its addresses: whichever pod that names, it is the
/// same holder. So nothing has to be copied to find one.
#[derive(Clone, Debug)]
struct Name {
    key: HolderKey,
    /// Where to cut the key; none if it is too long to say.
    cuts: Option<Cuts>,
}

/// What one holder has.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    addresses: u64,
    bound: u64,
}

impl Holders {
    /// The holders of these addresses.
    pub fn of<'a>(rows: impl Iterator<Item = &'a Row>) -> Self {
        let mut holders = Self::default();
        rows.for_each(|row| holders.add(row));
        holders
    }

    /// An address has this record from now on.
    pub fn add(&mut self, row: &Row) {
        if let Some(name) = Name::of(row) {
            let count = self.0.entry(name).or_default();
            count.addresses += 1;
            count.bound += u64::from(row.state == State::Bound);
        }
    }

    /// An address has this record no longer.
    pub fn remove(&mut self, row: &Row) {
        let Some(name) = Name::of(row) else {
            return;
        };
        if let Entry::Occupied(mut entry) = self.0.entry(name) {
            let count = entry.get_mut();
            count.addresses -= 1;
            count.bound -= u64::from(row.state == State::Bound);
            if count.addresses == 0 {
                entry.remove();
            }
        }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl Iterator<Item = Holding<'_>> {
        self.0.iter().map(|(name, count)| {
            let (text, parts) = (name.key.as_str(), name.parts());
            Holding {
                prefix: &text[..text.len() - parts.pod.len()],
                parts: KeyParts { pod: "", ..parts },
                addresses: count.addresses,
                bound: count.bound,
            }
        })
    }
}

impl Name {
    /// The holder of an address; none if nobody is counted for it.
    fn of(row: &Row) -> Option<Self> {
        if row.state == State::Reserved {
            return None;
        }
        row.key.parts()?;
        Some(Self {
            key: row.key.clone(),
            cuts: Cuts::of(row.key.as_str()),
        })
    }

    fn parts(&self) -> KeyParts<'_> {
        let key = self.key.as_str();
        match self.cuts {
            Some(cuts) => cuts.parts(key),
            None => KeyParts::of(key).unwrap_or_default(),
        }
    }

    fn rank(&self) -> (&str, &str, &str, &str) {
        let KeyParts {
            pool,
            kind,
            namespace,
            app,
            ..
        } = self.parts();
        (pool.unwrap_or_default(), namespace, kind, app)
    }
}

impl Ord for Name {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Name {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Name {}
