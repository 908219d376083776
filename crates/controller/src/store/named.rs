//! Which addresses the pods of a name have.

use std::{
    cmp::Ordering,
    collections::BTreeSet,
    net::{IpAddr, Ipv4Addr},
};

use floe_core::ipam::key::HolderKey;

/// The addresses whose keys name a pod, found by the name of the pod, whatever
/// its pool and workload were when the key was stored. The name is the end of the
/// key, so an entry shares its text.
#[derive(Debug, Default)]
pub struct Named(BTreeSet<Entry>);

#[derive(Debug)]
struct Entry {
    key: HolderKey,
    /// Where the name of the pod starts.
    start: usize,
    ip: IpAddr,
}

impl Named {
    /// Notes an address; one whose key names no pod is not noted.
    pub fn insert(&mut self, key: &HolderKey, ip: IpAddr) {
        self.0.extend(Entry::of(key, ip));
    }

    /// Forgets an address.
    pub fn remove(&mut self, key: &HolderKey, ip: IpAddr) {
        if let Some(entry) = Entry::of(key, ip) {
            self.0.remove(&entry);
        }
    }

    /// The addresses of all pods of a name, in any namespace.
    pub fn of<'a>(&'a self, pod: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
        let first = Entry {
            key: pod.into(),
            start: 0,
            // Sorts before all others.
            ip: Ipv4Addr::UNSPECIFIED.into(),
        };
        self.0
            .range(first..)
            .take_while(move |entry| entry.pod() == pod)
            .map(|entry| entry.ip)
    }
}

impl Entry {
    fn of(key: &HolderKey, ip: IpAddr) -> Option<Self> {
        let length = key.parts()?.pod.len();
        (length > 0).then(|| Self {
            key: key.clone(),
            start: key.as_str().len() - length,
            ip,
        })
    }

    fn pod(&self) -> &str {
        &self.key.as_str()[self.start..]
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.pod(), self.ip).cmp(&(other.pod(), other.ip))
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Entry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_by_the_name_of_the_pod() {
        let ip = |last| IpAddr::from([10, 0, 0, last]);
        let mut named = Named::default();
        let keys = [
            ("sts_ns1_a_a-1", 1),
            ("sts_ns1_a_a-1", 2),
            ("pool__p_sts_ns2_a_a-1", 3),
            ("sts_ns1_a_a-10", 4),
            ("sts_ns1_a_a-0", 5),
            ("dp_ns1_a_", 6),
            ("pool__p_", 7),
            ("a-1", 8),
        ];
        for (key, last) in keys {
            named.insert(&key.into(), ip(last));
        }
        let of = |named: &Named, pod: &str| named.of(pod).collect::<Vec<_>>();
        assert_eq!(of(&named, "a-1"), [ip(1), ip(2), ip(3)]);
        assert_eq!(of(&named, "a-10"), [ip(4)]);
        assert!(of(&named, "").is_empty());
        named.remove(&"sts_ns1_a_a-1".into(), ip(1));
        named.remove(&"sts_ns1_a_a-1".into(), ip(9));
        assert_eq!(of(&named, "a-1"), [ip(2), ip(3)]);
    }
}
