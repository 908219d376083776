//! Who holds which address: the books that every decision is made from.
//!
//! The API server is the store. The ledger mirrors it, indexed so that each
//! question is answered without a scan, and adds what only this process knows:
//! addresses and places that a decision has promised and no write has confirmed
//! yet ([`Promise`]). Losing the ledger loses nothing but promises.
//!
//! With `n` addresses in the books, everything about one address, key or pod
//! takes O(log n); only [`Ledger::reconfigure`] looks at all of them.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    ops::Bound,
};

use ipnet::IpNet;
use jiff::Timestamp;

use self::{
    free::Free,
    group::{Groups, Place},
    keys::Keys,
};
pub use self::{
    group::{Group, Scope, SpareRank},
    record::{Promise, Record},
};
use super::key::HolderKey;
use crate::{
    addr::{IpRange, canonical},
    config::{AddressConfig, EntryId, Topology},
};

mod free;
mod group;
#[cfg(test)]
mod invariants;
mod keys;
mod record;
#[cfg(test)]
mod tests;

/// The books.
#[derive(Clone, Debug)]
pub struct Ledger {
    topology: Topology,
    records: BTreeMap<IpAddr, Record>,
    keys: Keys,
    groups: Groups,
    /// Per entry: configured, without a record and promised to nobody.
    free: Vec<Free>,
    /// By the uid of the pod. The places are those that the pod does not hold yet.
    promises: BTreeMap<String, Promise>,
    /// How far each promise is carried out, by the uid of the pod.
    progress: BTreeMap<String, Progress>,
    /// To whom an address is promised.
    promised: BTreeMap<IpAddr, String>,
    lapses: BTreeSet<(Timestamp, String)>,
}

/// How far a promise is carried out.
#[derive(Clone, Copy, Debug)]
struct Progress {
    /// The places that were promised.
    places: usize,
    /// How many records the pod got since, less those of them that went.
    gained: usize,
}

impl Ledger {
    /// Empty books over a configuration.
    pub fn new(config: AddressConfig) -> Self {
        let mut ledger = Self {
            topology: Topology::new(config),
            records: BTreeMap::new(),
            keys: Keys::default(),
            groups: Groups::default(),
            free: Vec::new(),
            promises: BTreeMap::new(),
            progress: BTreeMap::new(),
            promised: BTreeMap::new(),
            lapses: BTreeSet::new(),
        };
        ledger.recount();
        ledger
    }

    /// The configuration in force.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Puts another configuration in force. Records and promises stay, also those
    /// of addresses that are no longer configured.
    pub fn reconfigure(&mut self, config: AddressConfig) {
        self.topology = Topology::new(config);
        self.recount();
        #[cfg(test)]
        self.check_invariants();
    }

    /// Whether nodes of a subnet can carry an address.
    pub fn carries(&self, subnet: IpNet, ip: IpAddr) -> bool {
        self.topology
            .node_subnets_of(ip)
            .is_some_and(|subnets| subnets.contains(&subnet))
    }

    /// Enters what the store says about an address.
    pub fn observe(&mut self, mut record: Record) {
        record.ip = canonical(record.ip);
        let (ip, key, uid) = (record.ip, record.key.clone(), record.uid.clone());
        let spare = self.rank_of_spare(&record);
        if let Some(old) = self.records.insert(ip, record) {
            self.unindex(&old);
            self.index(&key, ip, spare);
            if (&old.key, &old.uid) != (&key, &uid) {
                self.carry_out(&old.key, &old.uid, -1);
                self.carry_out(&key, &uid, 1);
            }
        } else {
            self.take_from_free(ip);
            self.index(&key, ip, spare);
            self.carry_out(&key, &uid, 1);
        }
        #[cfg(test)]
        self.check_invariants();
    }

    /// The store has no object for the address any more: it is free.
    pub fn forget(&mut self, ip: IpAddr) -> Option<Record> {
        let old = self.records.remove(&canonical(ip))?;
        self.unindex(&old);
        self.carry_out(&old.key, &old.uid, -1);
        self.return_to_free(old.ip);
        #[cfg(test)]
        self.check_invariants();
        Some(old)
    }

    /// The record of an address.
    pub fn record(&self, ip: IpAddr) -> Option<&Record> {
        self.records.get(&canonical(ip))
    }

    /// All records, in order of their addresses.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }

    /// At most `count` records in order of their addresses, those after `last` if
    /// there is one: all of them piece by piece.
    pub fn records_after(
        &self,
        last: Option<IpAddr>,
        count: usize,
    ) -> impl Iterator<Item = &Record> {
        let start = last.map_or(Bound::Unbounded, Bound::Excluded);
        let records = self.records.range((start, Bound::Unbounded));
        records.map(|(_, record)| record).take(count)
    }

    /// The records of exactly this key, in order of their addresses.
    pub fn held_by(&self, key: &HolderKey) -> impl Iterator<Item = &Record> {
        let addresses = self.keys.of(key);
        addresses.filter_map(|ip| self.records.get(&ip))
    }

    /// The records whose key starts with a text, in order of their keys. Which of
    /// them a list shows is for [`HolderKey::is_selected_by`] to say.
    pub fn starting_with<'a>(&'a self, text: &'a str) -> impl Iterator<Item = &'a Record> {
        let addresses = self.keys.starting_with(text);
        addresses.filter_map(|ip| self.records.get(&ip))
    }

    /// The records that [lie under](HolderKey::is_under) a group key or an app
    /// prefix, spares included, in order of their keys.
    pub fn under<'a>(&'a self, prefix: &'a HolderKey) -> impl Iterator<Item = &'a Record> {
        self.starting_with(prefix.as_str())
            .filter(move |record| record.key.is_under(prefix))
    }

    /// The books of a group; `None` when it has nothing.
    pub fn group(&self, key: &HolderKey) -> Option<&Group> {
        self.groups.get(key)
    }

    /// Whether no entry of the configuration has an address for pods.
    pub fn is_outside(&self, ip: IpAddr) -> bool {
        self.topology.entry_of(ip).is_none()
    }

    /// Whether no entry of the configuration has an address for such a holder: what is
    /// set aside to be shared is for shared addresses, and the rest is for pods.
    pub fn is_outside_for(&self, key: &HolderKey, ip: IpAddr) -> bool {
        if key.is_vip() {
            self.topology.shared_of(ip).is_none()
        } else {
            self.is_outside(ip)
        }
    }

    /// Whether an address was taken out of the configuration. While nothing at all
    /// is configured nobody can tell, and none was.
    pub fn is_taken_out(&self, ip: IpAddr) -> bool {
        !self.topology.config().entries().is_empty() && self.is_outside(ip)
    }

    /// The same for such a holder, see [`Ledger::is_outside_for`].
    pub fn is_taken_out_for(&self, key: &HolderKey, ip: IpAddr) -> bool {
        !self.topology.config().entries().is_empty() && self.is_outside_for(key, ip)
    }

    /// Whether an address is configured, without record and promised to nobody.
    pub fn is_free(&self, ip: IpAddr) -> bool {
        let entry = self.topology.entry_of(ip);
        entry.is_some_and(|entry| self.free[entry.position()].contains(ip))
    }

    /// How many addresses of an entry are free.
    pub fn free_count(&self, entry: EntryId) -> u128 {
        self.free[entry.position()].len()
    }

    /// The free addresses of an entry in the order in which they are handed out:
    /// one that was given back comes after all others.
    pub fn free_in_turn(&self, entry: EntryId) -> impl Iterator<Item = IpAddr> {
        self.free[entry.position()].in_turn()
    }

    /// The free addresses of an entry inside a range, in ascending order.
    pub fn free_within(&self, entry: EntryId, range: IpRange) -> impl Iterator<Item = IpAddr> {
        self.free[entry.position()].within(range)
    }

    /// Sets places and addresses aside for a pod, instead of what was set aside
    /// for it before. An address that is promised to another pod stays with it.
    ///
    /// A record of the pod that is [entered](Ledger::observe) afterwards takes one of the places,
    /// whichever process has written it, so that no address counts twice. The bind that carries
    /// the promise out [withdraws](Ledger::withdraw) it in the step that enters the last record.
    pub fn promise(&mut self, uid: &str, mut promise: Promise) {
        self.withdraw(uid);
        promise
            .addresses
            .retain(|ip| !self.promised.contains_key(ip));
        for &ip in &promise.addresses {
            self.take_from_free(ip);
            self.hide_spare(ip);
            self.promised.insert(ip, uid.to_owned());
        }
        self.group_mut(promise.group.as_str(), |group| group.add_promise(&promise));
        self.lapses.insert((promise.until, uid.to_owned()));
        let progress = Progress {
            places: promise.places,
            gained: 0,
        };
        self.progress.insert(uid.to_owned(), progress);
        self.promises.insert(uid.to_owned(), promise);
        #[cfg(test)]
        self.check_invariants();
    }

    /// What was promised to a pod.
    pub fn promise_to(&self, uid: &str) -> Option<&Promise> {
        self.promises.get(uid)
    }

    /// All promises, by the uid of the pod.
    pub fn promises(&self) -> impl Iterator<Item = (&str, &Promise)> {
        let promises = self.promises.iter();
        promises.map(|(uid, promise)| (uid.as_str(), promise))
    }

    /// The uid of the pod that an address is promised to.
    pub fn promised_to(&self, ip: IpAddr) -> Option<&str> {
        self.promised.get(&canonical(ip)).map(String::as_str)
    }

    /// Takes a promise back; what it set aside is there for others again.
    pub fn withdraw(&mut self, uid: &str) -> Option<Promise> {
        let promise = self.promises.remove(uid)?;
        self.progress.remove(uid);
        self.lapses.remove(&(promise.until, uid.to_owned()));
        self.group_mut(promise.group.as_str(), |group| {
            group.remove_promise(&promise);
        });
        for &ip in &promise.addresses {
            self.promised.remove(&ip);
            if self.records.contains_key(&ip) {
                self.show_spare(ip);
            } else {
                self.return_to_free(ip);
            }
        }
        #[cfg(test)]
        self.check_invariants();
        Some(promise)
    }

    /// Takes all promises back that have lapsed, and tells to whom they were.
    pub fn lapse(&mut self, now: Timestamp) -> Vec<String> {
        let mut lapsed = Vec::new();
        while let Some((until, uid)) = self.lapses.first()
            && *until <= now
        {
            let uid = uid.clone();
            self.withdraw(&uid);
            lapsed.push(uid);
        }
        lapsed
    }

    /// A pod has one record more or less under this key. Where something is promised to it, that
    /// is one place less or more that it still has to get.
    fn carry_out(&mut self, key: &HolderKey, uid: &str, change: isize) {
        let Some(progress) = self.progress.get_mut(uid) else {
            return;
        };
        let Some(mut promise) = self.promises.get(uid).cloned() else {
            return;
        };
        let counts = Place::of(key).is_some_and(|place| {
            !place.is_spare
                && place.group == promise.group.as_str()
                && place.app_prefix == promise.app_prefix.as_str()
        });
        if !counts {
            return;
        }
        // What the pod held before and gives back fills no place, and makes none.
        progress.gained = progress.gained.saturating_add_signed(change);
        let gained = progress.gained;
        let before = promise.clone();
        promise.places = progress.places.saturating_sub(gained);
        self.group_mut(before.group.as_str(), |group| {
            group.remove_promise(&before);
            group.add_promise(&promise);
        });
        self.promises.insert(uid.to_owned(), promise);
    }

    fn index(&mut self, key: &HolderKey, ip: IpAddr, spare: Option<(EntryId, SpareRank)>) {
        self.keys.insert(key, ip);
        let Some(place) = Place::of(key) else {
            return;
        };
        if !place.is_spare {
            self.group_mut(place.group, |group| group.add_held(&place));
        } else if let Some((entry, rank)) = spare {
            self.group_mut(place.group, |group| group.add_spare(entry, rank));
        }
    }

    fn unindex(&mut self, record: &Record) {
        self.keys.remove(&record.key, record.ip);
        let Some(place) = Place::of(&record.key) else {
            return;
        };
        if !place.is_spare {
            self.group_mut(place.group, |group| group.remove_held(&place));
        } else if let Some((entry, rank)) = self.rank_of_spare(record) {
            self.group_mut(place.group, |group| group.remove_spare(entry, rank));
        }
    }

    /// Where a record under a group key stands among the spares that can be
    /// handed out; `None` when it cannot be.
    fn rank_of_spare(&self, record: &Record) -> Option<(EntryId, SpareRank)> {
        let usable =
            record.is_idle() && !record.reserved && !self.promised.contains_key(&record.ip);
        let entry = usable.then(|| self.topology.entry_of(record.ip)).flatten();
        entry.map(|entry| (entry, (Reverse(record.updated), record.ip)))
    }

    fn hide_spare(&mut self, ip: IpAddr) {
        self.change_spare(ip, Group::remove_spare);
    }

    fn show_spare(&mut self, ip: IpAddr) {
        self.change_spare(ip, Group::add_spare);
    }

    fn change_spare(&mut self, ip: IpAddr, change: fn(&mut Group, EntryId, SpareRank)) {
        if let Some(record) = self.records.get(&ip)
            && let Some((entry, rank)) = self.rank_of_spare(record)
        {
            let key = record.key.clone();
            if Place::of(&key).is_some_and(|place| place.is_spare) {
                self.group_mut(key.as_str(), |group| change(group, entry, rank));
            }
        }
    }

    /// Changes the books of a group; there are none of a group that has nothing.
    fn group_mut(&mut self, key: &str, change: impl FnOnce(&mut Group)) {
        if let Some(group) = self.groups.get_mut(key) {
            change(group);
            if group.is_empty() {
                self.groups.remove(key);
            }
            return;
        }
        let mut group = Group::default();
        change(&mut group);
        if !group.is_empty() {
            self.groups.insert(key.into(), group);
        }
    }

    fn take_from_free(&mut self, ip: IpAddr) {
        if let Some(entry) = self.topology.entry_of(ip) {
            self.free[entry.position()].take(ip);
        }
    }

    fn return_to_free(&mut self, ip: IpAddr) {
        if let Some(entry) = self.topology.entry_of(ip)
            && !self.promised.contains_key(&ip)
        {
            self.free[entry.position()].give_back(ip);
        }
    }

    /// Makes anew what depends on the configuration. What rests goes on resting.
    fn recount(&mut self) {
        let entries = self.topology.config().entries().iter();
        let all = entries.map(|entry| Free::new(entry.addresses().clone()));
        let before = std::mem::replace(&mut self.free, all.collect());
        for ip in self.records.keys().chain(self.promised.keys()) {
            if let Some(entry) = self.topology.entry_of(*ip) {
                self.free[entry.position()].take(*ip);
            }
        }
        for ip in before.iter().flat_map(Free::resting) {
            if let Some(entry) = self.topology.entry_of(ip) {
                self.free[entry.position()].rest_all([ip]);
            }
        }
        for group in self.groups.values_mut() {
            group.clear_spares();
        }
        self.groups.retain(|_, group| !group.is_empty());
        let records: Vec<IpAddr> = self.records.keys().copied().collect();
        for ip in records {
            self.show_spare(ip);
        }
    }
}
