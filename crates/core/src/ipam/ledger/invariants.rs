//! What holds for the books at any time, computed the slow and plain way.

use super::*;
use crate::addr::IpSet;

impl Ledger {
    /// Panics when the indexes do not say what records and promises say.
    pub(crate) fn check_invariants(&self) {
        self.check_keys();
        self.check_promises();
        self.check_free();
        self.check_groups();
    }

    fn check_keys(&self) {
        let mut keys = Keys::default();
        for (ip, record) in &self.records {
            assert_eq!(*ip, record.ip);
            keys.insert(&record.key, *ip);
        }
        assert_eq!(self.keys, keys);
    }

    fn check_promises(&self) {
        let promised: Vec<(IpAddr, String)> = self
            .promises
            .iter()
            .flat_map(|(uid, promise)| promise.addresses.iter().map(|ip| (*ip, uid.clone())))
            .collect();
        let distinct: BTreeMap<IpAddr, String> = promised.iter().cloned().collect();
        assert_eq!(
            distinct.len(),
            promised.len(),
            "one address, two promises: {promised:?}"
        );
        assert_eq!(self.promised, distinct);
        assert!(self.progress.keys().eq(self.promises.keys()));
        let lapses = self.promises.iter();
        let lapses: BTreeSet<_> = lapses.map(|(uid, it)| (it.until, uid.clone())).collect();
        assert_eq!(self.lapses, lapses);
    }

    fn check_free(&self) {
        let taken = self.records.keys().chain(self.promised.keys());
        let taken: IpSet = taken.copied().collect();
        let entries = self.topology.config().entries();
        assert_eq!(self.free.len(), entries.len());
        for (free, entry) in self.free.iter().zip(entries) {
            free.check_invariants();
            assert_eq!(free.all(), entry.addresses().difference(&taken));
        }
    }

    fn check_groups(&self) {
        let keys = self.records.values().filter_map(|it| it.key.group_key());
        let promises = self.promises.values().map(|promise| promise.group.clone());
        let keys: BTreeSet<HolderKey> = keys.chain(promises).collect();
        for key in self.groups.keys() {
            assert!(keys.contains(key), "{key} has nothing");
            assert!(!self.groups[key].is_empty(), "{key} has nothing");
        }
        for key in &keys {
            self.check_group(key);
        }
    }

    fn check_group(&self, key: &HolderKey) {
        let nothing = Group::default();
        let group = self.groups.get(key).unwrap_or(&nothing);
        let mut scopes = vec![(Scope::Group, self.count(|_| true, key))];
        let holders: Vec<&Record> = self.under(key).filter(|it| it.key != *key).collect();
        let apps: BTreeSet<HolderKey> = holders
            .iter()
            .filter_map(|record| record.key.app_prefix())
            .collect();
        for app in &apps {
            scopes.push((Scope::App(app), self.count(|it| it.key.is_under(app), key)));
        }
        for record in &holders {
            let namespace = record.key.parts().unwrap().namespace;
            let of = |it: &Record| it.key.parts().unwrap().namespace == namespace;
            scopes.push((Scope::Namespace(namespace), self.count(of, key)));
        }
        for (scope, held) in scopes {
            assert_eq!(group.held(scope), held, "{key} {scope:?}");
        }
        let promises = self.promises.values().filter(|it| it.group == *key);
        let places: usize = promises.map(|promise| promise.places).sum();
        assert_eq!(group.promised(Scope::Group), places, "{key}");

        let indexed: BTreeSet<SpareRank> = group
            .entries_with_spares()
            .flat_map(|entry| {
                assert!(group.spares_of(entry).len() > 0);
                group
                    .spares_of(entry)
                    .inspect(move |(_, ip)| assert_eq!(self.topology.entry_of(*ip), Some(entry)))
            })
            .collect();
        let spares = self.held_by(key).filter(|it| {
            key.is_group()
                && it.is_idle()
                && !it.reserved
                && !self.is_outside(it.ip)
                && self.promised_to(it.ip).is_none()
        });
        let spares: BTreeSet<SpareRank> = spares.map(|it| (Reverse(it.updated), it.ip)).collect();
        assert_eq!(indexed, spares, "{key}");
    }

    fn count(&self, counts: impl Fn(&Record) -> bool, key: &HolderKey) -> usize {
        let held = self.under(key).filter(|record| record.key != *key);
        held.filter(|record| counts(record)).count()
    }
}
