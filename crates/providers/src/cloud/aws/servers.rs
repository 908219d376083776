//! How instances are called: by EC2, and by the nodes of Kubernetes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::wire::{Address, Described};

/// The instance of a node: `aws:///us-east-1a/i-0123456789abcdef0`.
pub(super) struct Instance<'a>(&'a str);

impl<'a> Instance<'a> {
    /// Reads a `spec.providerID`.
    pub(super) fn named(server: &'a str) -> Option<Self> {
        let (_, id) = server.strip_prefix("aws:///")?.split_once('/')?;
        let number = id.strip_prefix("i-")?;
        let plain = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_alphanumeric());
        plain.then_some(Self(id))
    }

    pub(super) fn id(&self) -> &'a str {
        self.0
    }
}

/// The names that nodes have for instances and their interfaces, as far as they are known.
#[derive(Debug, Default)]
pub(super) struct Servers {
    known: Mutex<BTreeMap<String, String>>,
    /// Instances to which an address is just going.
    busy: Mutex<BTreeSet<String>>,
}

/// While this lives, no other address goes to the instance: it was looked up what the
/// instance has, and that has to stay true.
pub(super) struct Turn<'a> {
    servers: &'a Servers,
    id: &'a str,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.servers.busy().remove(self.id);
    }
}

impl Servers {
    /// The turn of an address to go to an instance; none while another has it.
    pub(super) fn turn<'a>(&'a self, id: &'a str) -> Option<Turn<'a>> {
        let first = self.busy().insert(id.to_owned());
        first.then_some(Turn { servers: self, id })
    }

    /// What a node calls this instance or interface.
    pub(super) fn remember(&self, id: &str, server: &str) {
        self.known().insert(id.to_owned(), server.to_owned());
    }

    /// What EC2 says of an instance.
    pub(super) fn learn(&self, instance: &Described) {
        let server = format!("aws:///{}/{}", instance.placement.zone, instance.id);
        self.remember(&instance.id, &server);
    }

    /// Instances that have addresses and whose names are not known.
    pub(super) fn unknown(&self, all: &[Address]) -> Vec<String> {
        let known = self.known();
        let ids = all.iter().map(|address| &address.instance_id);
        let unknown: BTreeSet<&String> = ids
            .filter(|id| !id.is_empty() && !known.contains_key(*id))
            .collect();
        unknown.into_iter().cloned().collect()
    }

    /// Forgets those that have no address any more.
    pub(super) fn forget_all_but(&self, all: &[Address]) {
        let used: BTreeSet<&str> = all
            .iter()
            .flat_map(|address| [address.instance_id.as_str(), &address.interface_id])
            .collect();
        self.known().retain(|id, _| used.contains(id.as_str()));
    }

    /// Who has an address. It may also be an interface of something that is no instance.
    pub(super) fn of(&self, address: &Address) -> Option<String> {
        let ids = [&address.instance_id, &address.interface_id];
        let known = self.known();
        let mut ids = ids.into_iter().filter(|id| !id.is_empty()).peekable();
        let first = (*ids.peek()?).clone();
        let server = ids.find_map(|id| known.get(id)).cloned();
        Some(server.unwrap_or_else(|| format!("aws:////{first}")))
    }

    /// Nobody panics with the lock; if it happens, names stay true.
    fn known(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn busy(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.busy.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
