//! Which addresses a key has.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    net::IpAddr,
    ops::Bound,
};

use crate::ipam::key::HolderKey;

/// The addresses of each key that has some.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Keys(BTreeMap<HolderKey, Addresses>);

/// The addresses of one key. Pods have one, mostly, and there are many of them.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Addresses {
    One(IpAddr),
    /// Never fewer than two.
    Several(BTreeSet<IpAddr>),
}

impl Keys {
    pub fn insert(&mut self, key: &HolderKey, ip: IpAddr) {
        match self.0.entry(key.clone()) {
            Entry::Vacant(vacant) => {
                vacant.insert(Addresses::One(ip));
            }
            Entry::Occupied(mut occupied) => match occupied.get_mut() {
                Addresses::One(other) if *other == ip => {}
                Addresses::One(other) => {
                    let both = BTreeSet::from([*other, ip]);
                    occupied.insert(Addresses::Several(both));
                }
                Addresses::Several(addresses) => {
                    addresses.insert(ip);
                }
            },
        }
    }

    pub fn remove(&mut self, key: &HolderKey, ip: IpAddr) {
        // Most keys have one address, and go with it.
        let left = match self.0.remove(key) {
            None => return,
            Some(Addresses::One(other)) if other == ip => return,
            Some(Addresses::One(other)) => Addresses::One(other),
            Some(Addresses::Several(mut addresses)) => {
                addresses.remove(&ip);
                match addresses.first() {
                    Some(first) if addresses.len() == 1 => Addresses::One(*first),
                    _ => Addresses::Several(addresses),
                }
            }
        };
        self.0.insert(key.clone(), left);
    }

    /// The addresses of a key, in ascending order.
    pub fn of(&self, key: &HolderKey) -> impl Iterator<Item = IpAddr> {
        self.0.get(key).into_iter().flat_map(Addresses::iter)
    }

    /// The addresses of all keys that start with a text, in order of the keys.
    pub fn starting_with<'a>(&'a self, text: &'a str) -> impl Iterator<Item = IpAddr> {
        self.0
            .range::<str, _>((Bound::Included(text), Bound::Unbounded))
            .take_while(move |(key, _)| key.as_str().starts_with(text))
            .flat_map(|(_, addresses)| addresses.iter())
    }
}

impl Addresses {
    fn iter(&self) -> impl Iterator<Item = IpAddr> {
        static NONE: BTreeSet<IpAddr> = BTreeSet::new();
        let (one, several) = match self {
            Self::One(ip) => (Some(*ip), &NONE),
            Self::Several(addresses) => (None, addresses),
        };
        one.into_iter().chain(several.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_and_go() {
        let key = HolderKey::from("dp_ns1_a_");
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let mut keys = Keys::default();
        let of = |keys: &Keys| keys.of(&key).collect::<Vec<_>>();
        for last in [3, 3, 2, 4] {
            keys.insert(&key, ip(last));
        }
        assert_eq!(of(&keys), [ip(2), ip(3), ip(4)]);
        keys.remove(&key, ip(9));
        keys.remove(&key, ip(3));
        keys.remove(&key, ip(2));
        assert_eq!(of(&keys), [ip(4)]);
        keys.remove(&key, ip(2));
        assert_eq!(keys.starting_with("dp_").collect::<Vec<_>>(), [ip(4)]);
        keys.remove(&key, ip(4));
        keys.remove(&key, ip(4));
        assert_eq!(keys, Keys::default());
    }
}
