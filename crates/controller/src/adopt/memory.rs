//! Which pod shows which address, and what was told.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Mutex, PoisonError},
};

use crate::cluster::Pod;

/// Namespace and name of a pod.
pub type Name = (String, String);

/// Which running pod shows which address.
#[derive(Debug, Default)]
pub struct Shown {
    by_address: BTreeMap<IpAddr, Name>,
    by_name: BTreeMap<Name, Vec<IpAddr>>,
}

impl Shown {
    /// Notes what a running pod shows now.
    pub fn set(&mut self, pod: &Pod) {
        self.forget(pod);
        let name = (pod.namespace.clone(), pod.name.clone());
        for ip in &pod.addresses {
            self.by_address.insert(*ip, name.clone());
        }
        self.by_name.insert(name, pod.addresses.clone());
    }

    /// A pod of that name shows nothing any more.
    pub fn forget(&mut self, pod: &Pod) {
        let name = (pod.namespace.clone(), pod.name.clone());
        for ip in self.by_name.remove(&name).unwrap_or_default() {
            if self.by_address.get(&ip) == Some(&name) {
                self.by_address.remove(&ip);
            }
        }
    }

    /// The pod that shows an address.
    pub fn pod_with(&self, ip: IpAddr) -> Option<Name> {
        self.by_address.get(&ip).cloned()
    }
}

/// What was told already, by the uid of the pod.
#[derive(Debug, Default)]
pub struct Told(Mutex<BTreeMap<String, BTreeSet<String>>>);

impl Told {
    /// Whether this was not told about the pod before.
    pub fn is_news(&self, uid: &str, words: &str) -> bool {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let about = told.entry(uid.to_owned()).or_default();
        about.insert(words.to_owned())
    }

    /// All other pods are gone.
    pub fn keep(&self, uids: &BTreeSet<&str>) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.retain(|uid, _| uids.contains(uid.as_str()));
    }

    /// The pod is gone.
    pub fn forget(&self, uid: &str) {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.remove(uid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_told_is_remembered_as_long_as_the_pod_is_there() {
        let told = Told::default();
        assert!(told.is_news("a", "x"));
        assert!(told.is_news("b", "x"));
        assert!(!told.is_news("a", "x"));
        told.keep(&BTreeSet::from(["a"]));
        assert!(!told.is_news("a", "x"));
        assert!(told.is_news("b", "x"));
        told.forget("a");
        assert!(told.is_news("a", "x"));
    }
}
