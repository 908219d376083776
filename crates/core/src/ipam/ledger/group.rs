//! The books of one group: its spares, and how much of its limits is in use.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;

use super::Promise;
use crate::{config::EntryId, ipam::key::HolderKey};

/// A spare in the order in which spares are used.
///
/// Compat: the address that became a spare last is used first.
pub type SpareRank = (Reverse<Timestamp>, IpAddr);

/// The books of one group: a Deployment, an IP pool, a `StatefulSet` and so on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    /// Spares that can be handed out; no set is empty.
    spares: BTreeMap<EntryId, BTreeSet<SpareRank>>,
    held: Tally,
    promised: Tally,
}

/// The books of all groups. Keys are long and start alike, so a hash finds one
/// much sooner than comparisons do.
#[expect(
    clippy::disallowed_types,
    reason = "groups are looked up and changed one by one: no decision follows their order"
)]
pub(super) type Groups = std::collections::HashMap<HolderKey, Group>;

/// Whose addresses are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope<'a> {
    /// Those of the whole group.
    Group,
    /// Those of one workload, by its app prefix.
    App(&'a HolderKey),
    /// Those of one namespace.
    Namespace(&'a str),
}

impl Group {
    /// The spares of an entry, the most recent first: idle, not reserved and
    /// promised to nobody.
    pub fn spares_of(&self, entry: EntryId) -> impl ExactSizeIterator<Item = SpareRank> {
        static NONE: BTreeSet<SpareRank> = BTreeSet::new();
        self.spares.get(&entry).unwrap_or(&NONE).iter().copied()
    }

    /// The entries that have such spares.
    pub fn entries_with_spares(&self) -> impl Iterator<Item = EntryId> {
        self.spares.keys().copied()
    }

    /// How many addresses pods hold.
    pub fn held(&self, scope: Scope<'_>) -> usize {
        self.held.count(scope)
    }

    /// How many addresses are promised to pods that do not hold them yet.
    pub fn promised(&self, scope: Scope<'_>) -> usize {
        self.promised.count(scope)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.spares.is_empty() && self.held.total == 0 && self.promised.total == 0
    }

    pub(super) fn add_spare(&mut self, entry: EntryId, spare: SpareRank) {
        self.spares.entry(entry).or_default().insert(spare);
    }

    pub(super) fn remove_spare(&mut self, entry: EntryId, spare: SpareRank) {
        if let Some(spares) = self.spares.get_mut(&entry) {
            spares.remove(&spare);
            if spares.is_empty() {
                self.spares.remove(&entry);
            }
        }
    }

    pub(super) fn clear_spares(&mut self) {
        self.spares.clear();
    }

    pub(super) fn add_held(&mut self, place: &Place<'_>) {
        self.held.add(place, 1);
    }

    pub(super) fn remove_held(&mut self, place: &Place<'_>) {
        self.held.remove(place, 1);
    }

    pub(super) fn add_promise(&mut self, promise: &Promise) {
        self.promised
            .add(&Place::of_promise(promise), promise.places);
    }

    pub(super) fn remove_promise(&mut self, promise: &Promise) {
        self.promised
            .remove(&Place::of_promise(promise), promise.places);
    }
}

/// Where a key belongs: parts of its text, so that nothing is copied.
pub(super) struct Place<'a> {
    pub group: &'a str,
    pub app_prefix: &'a str,
    pub namespace: &'a str,
    /// Whether the key is that of the group's spares.
    pub is_spare: bool,
}

impl<'a> Place<'a> {
    /// The place of a key; opaque ones have none.
    pub fn of(key: &'a HolderKey) -> Option<Self> {
        let parts = key.parts()?;
        let text = key.as_str();
        let app_prefix = &text[..text.len() - parts.pod.len()];
        let group = match parts.pool {
            None => app_prefix,
            // The key of a pool's spares is its own group.
            Some(_) if parts.app.is_empty() => text,
            Some(_) => {
                let own = [parts.kind, parts.namespace, parts.app, parts.pod];
                let separators = own.len() - 1;
                let length = own.iter().map(|part| part.len()).sum::<usize>() + separators;
                &text[..text.len() - length]
            }
        };
        Some(Self {
            group,
            app_prefix,
            namespace: parts.namespace,
            is_spare: text == group,
        })
    }

    fn of_promise(promise: &'a Promise) -> Self {
        Self {
            group: promise.group.as_str(),
            app_prefix: promise.app_prefix.as_str(),
            namespace: &promise.namespace,
            is_spare: false,
        }
    }
}

/// Numbers of addresses. Only pools have several apps and namespaces, so only
/// they are told apart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    total: usize,
    apps: BTreeMap<HolderKey, usize>,
    namespaces: BTreeMap<String, usize>,
}

impl Tally {
    fn count(&self, scope: Scope<'_>) -> usize {
        let single = self.apps.is_empty();
        match scope {
            Scope::Group => self.total,
            Scope::App(_) | Scope::Namespace(_) if single => self.total,
            Scope::App(prefix) => self.apps.get(prefix).copied().unwrap_or(0),
            Scope::Namespace(name) => self.namespaces.get(name).copied().unwrap_or(0),
        }
    }

    fn add(&mut self, place: &Place<'_>, count: usize) {
        if count == 0 {
            return;
        }
        self.total += count;
        if place.group == place.app_prefix {
            return;
        }
        match self.apps.get_mut(place.app_prefix) {
            Some(number) => *number += count,
            None => {
                self.apps.insert(place.app_prefix.into(), count);
            }
        }
        match self.namespaces.get_mut(place.namespace) {
            Some(number) => *number += count,
            None => {
                self.namespaces.insert(place.namespace.into(), count);
            }
        }
    }

    fn remove(&mut self, place: &Place<'_>, count: usize) {
        self.total -= count;
        if place.group == place.app_prefix {
            return;
        }
        if let Some(number) = self.apps.get_mut(place.app_prefix) {
            *number -= count;
            if *number == 0 {
                self.apps.remove(place.app_prefix);
            }
        }
        if let Some(number) = self.namespaces.get_mut(place.namespace) {
            *number -= count;
            if *number == 0 {
                self.namespaces.remove(place.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_what_the_key_says() {
        let keys = [
            "dp_ns1_dp_dp-1-2",
            "dp_ns1_dp_",
            "pool__p_",
            "pool__p_dp_ns1_dp_dp-1-2",
            "pool__p_dp_ns1_dp_",
            "NULL_ns1_NULL_pod",
            "sts_ns1_sts_sts-0",
        ];
        for text in keys {
            let key = HolderKey::from(text);
            let place = Place::of(&key).unwrap();
            assert_eq!(place.group, key.group_key().unwrap().as_str(), "{text}");
            assert_eq!(
                place.app_prefix,
                key.app_prefix().unwrap().as_str(),
                "{text}"
            );
            assert_eq!(place.namespace, key.parts().unwrap().namespace, "{text}");
            assert_eq!(place.is_spare, key.is_group(), "{text}");
        }
        for text in ["", "by hand", "pool__a_b_", "pool__x"] {
            assert!(Place::of(&text.into()).is_none(), "{text}");
        }
    }
}
