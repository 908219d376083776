//! Records, pools and the configuration, always consistent with each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_api::{
    galaxy::{FloatingIP, Pool},
    labels::{self, Given},
};
use floe_core::{
    addr::name,
    config::{AddressConfig, Change},
    ipam::{
        ledger::{Ledger, Promise, Record},
        state::State,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use tokio::sync::broadcast;

use super::{
    Seen,
    named::Named,
    order::{Order, Stamp},
};

mod changes;
mod pools;
mod reading;
mod runners;

use self::{changes::Log, runners::Runners};
pub use self::{
    changes::{Changed, Changes},
    pools::EVERYWHERE,
    reading::UNREADABLE_RECORD,
};

/// Everything this process decides from.
#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    records: Order<IpAddr>,
    named: Named,
    /// Records that are marked as outside of the configuration, rightly or not.
    marked: BTreeSet<IpAddr>,
    /// Records whose label names another node than they do.
    misplaced: BTreeSet<IpAddr>,
    /// Records of pods that do not say which network the pod was given.
    bare: BTreeSet<IpAddr>,
    /// Records whose annotations for `kubectl get` are missing or say something else.
    unshown: BTreeSet<IpAddr>,
    /// Records whose addresses the cloud has still to bring to their nodes.
    assigning: BTreeSet<IpAddr>,
    tally: Tally,
    pools: BTreeMap<PoolKey, Pool>,
    pool_order: Order<PoolKey>,
    /// Records that say nothing usable, by name, with the reason.
    strange: BTreeMap<String, &'static str>,
    /// While a list comes in: names in it that are no addresses.
    strange_listed: BTreeSet<String>,
    news: broadcast::Sender<News>,
    log: Log,
    runners: Runners,
}

/// Something that others may have to act on, told whoever has caused it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// An address has no record any more.
    Freed(IpAddr),
    /// A record is new, or its key, uid or reservation is different.
    Changed(IpAddr),
    /// Another configuration is in force.
    Configured,
    /// A pool of this name is new, different or gone.
    Pool(String),
    /// A complete list of records has replaced what was known.
    Relisted,
}

/// Namespace and name of a pool.
pub type PoolKey = (String, String);

/// How many records lie where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// By the place of the entry in the configuration.
    entries: Vec<u64>,
    /// In what is set aside to be shared.
    shared: u64,
    outside: u64,
}

impl Books {
    /// Empty books that tell what changes in them.
    pub fn telling(news: broadcast::Sender<News>) -> Self {
        Self {
            ledger: Ledger::new(AddressConfig::default()),
            records: Order::default(),
            named: Named::default(),
            marked: BTreeSet::new(),
            misplaced: BTreeSet::new(),
            bare: BTreeSet::new(),
            unshown: BTreeSet::new(),
            assigning: BTreeSet::new(),
            tally: Tally::default(),
            pools: BTreeMap::new(),
            pool_order: Order::default(),
            strange: BTreeMap::new(),
            strange_listed: BTreeSet::new(),
            news,
            log: Log::default(),
            runners: Runners::default(),
        }
    }

    /// Who holds which address.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The records of the pods that have or had this name, whatever their pool and
    /// workload were.
    pub fn of_pod<'a>(
        &'a self,
        namespace: &'a str,
        pod: &'a str,
    ) -> impl Iterator<Item = &'a Record> {
        let records = self.named.of(pod).filter_map(|ip| self.ledger.record(ip));
        records.filter(move |record| record.key.names_pod(namespace, pod))
    }

    /// Whether the record of an address is marked as outside of the configuration,
    /// rightly or not.
    pub fn is_marked(&self, ip: IpAddr) -> bool {
        self.marked.contains(&ip)
    }

    /// Whether the label of a record names another node than the record does.
    pub fn is_misplaced(&self, ip: IpAddr) -> bool {
        self.misplaced.contains(&ip)
    }

    /// Whether the record of a pod does not say which network the pod was given, or one that
    /// cannot be set up.
    pub fn is_bare(&self, ip: IpAddr) -> bool {
        self.bare.contains(&ip)
    }

    /// Whether the annotations that `kubectl get` shows are missing or say something else than
    /// the record: galaxy writes none, and a reservation made with `kubectl apply` has none.
    pub fn is_unshown(&self, ip: IpAddr) -> bool {
        self.unshown.contains(&ip)
    }

    /// Whether the cloud has still to bring an address to the node of its pod.
    pub fn is_assigning(&self, ip: IpAddr) -> bool {
        self.assigning.contains(&ip)
    }

    /// Sets places and addresses aside for a pod, or takes that back.
    pub fn promise(&mut self, uid: &str, promise: Option<Promise>) {
        match promise {
            Some(promise) => self.ledger.promise(uid, promise),
            None => {
                self.ledger.withdraw(uid);
            }
        }
    }

    /// Lets a decision of the core try things out in the ledger. It must leave the
    /// ledger as it was.
    pub fn try_out<R>(&mut self, trial: impl FnOnce(&mut Ledger) -> R) -> R {
        trial(&mut self.ledger)
    }

    /// Takes all promises back that have lapsed; true if there were some.
    pub fn lapse(&mut self, now: Timestamp) -> bool {
        !self.ledger.lapse(now).is_empty()
    }

    /// What has changed since this was last asked, at first everything. There is one
    /// log, so only one may ask.
    pub fn take_changes(&mut self) -> Changes {
        self.log.take()
    }

    /// Whether there is something to [take](Books::take_changes).
    pub fn has_changes(&self) -> bool {
        self.log.has_some()
    }

    /// The pools of all namespaces.
    pub fn pools(&self) -> &BTreeMap<PoolKey, Pool> {
        &self.pools
    }

    /// Records that say nothing usable, with the reason.
    pub fn strange(&self) -> &BTreeMap<String, &'static str> {
        &self.strange
    }

    /// How many records each entry has, in the order of the configuration.
    pub fn used(&self) -> &[u64] {
        &self.tally.entries
    }

    /// How many records the configuration has no place for.
    pub fn outside(&self) -> u64 {
        self.tally.outside
    }

    /// Puts another configuration in force and tells what that changes. Records
    /// stay, also those of addresses that are no longer configured.
    pub fn configure(&mut self, config: AddressConfig) -> Change {
        let change = Change::between(self.ledger.topology().config(), &config);
        self.ledger.reconfigure(config);
        let mut tally = Tally {
            entries: vec![0; self.ledger.topology().config().entries().len()],
            ..Tally::default()
        };
        for record in self.ledger.records() {
            *tally.place(&self.ledger, record) += 1;
        }
        self.tally = tally;
        self.log.configured();
        self.tell(News::Configured);
        change
    }

    /// Enters a record as the API server has it, from a watch or as the answer
    /// to an own write. Ignores what is older than what the books have.
    pub fn record(&mut self, object: &Seen<FloatingIP>) {
        let metadata = object.meta();
        let Some(ip) = self.address(metadata) else {
            return;
        };
        if !self.records.exists(&ip, &Stamp::of(metadata)) {
            return;
        }
        let labels = metadata.labels.as_ref();
        let marked = labels.is_some_and(|all| all.contains_key(labels::OUTSIDE_CONFIGURATION));
        if marked {
            self.marked.insert(ip);
        } else {
            self.marked.remove(&ip);
        }
        let node = labels.and_then(|all| all.get(labels::NODE)).cloned();
        let record = match object {
            Seen::Whole(object) => self.readable(ip, object),
            Seen::Part { error, .. } => self.unreadable(ip, metadata, error),
        };
        if node == labels::node_label(&record.node) {
            self.misplaced.remove(&ip);
        } else {
            self.misplaced.insert(ip);
        }
        let annotations = metadata.annotations.as_ref();
        let annotation = |name| {
            annotations
                .and_then(|all| all.get(name))
                .map(String::as_str)
        };
        let address = ip.to_canonical().to_string();
        let is_shown = annotation(labels::ADDRESS) == Some(address.as_str())
            && annotation(labels::STATE) == Some(State::of(&record).text());
        // The state of a record that cannot be read is unknown.
        if is_shown || matches!(object, Seen::Part { .. }) {
            self.unshown.remove(&ip);
        } else {
            self.unshown.insert(ip);
        }
        let network = annotations.and_then(|all| all.get(labels::NETWORK));
        let given = network.and_then(|value| Given::parse(value));
        let given = given.filter(|it| it.uid == record.uid);
        // One with prefix length 0 comes from a configuration that is refused by now; no pod
        // was ever set up with it, so the one in force can take its place.
        let usable = given.as_ref().is_some_and(|it| it.info.ip.prefix_len() > 0);
        if record.uid.is_empty() || usable {
            self.bare.remove(&ip);
        } else {
            self.bare.insert(ip);
        }
        if given.is_some_and(|it| it.assigning && !record.uid.is_empty()) {
            self.assigning.insert(ip);
        } else {
            self.assigning.remove(&ip);
        }
        let before = self.ledger.record(ip);
        let same = before.is_some_and(|before| {
            (&before.key, &before.uid, before.reserved)
                == (&record.key, &record.uid, record.reserved)
        });
        if before != Some(&record) {
            self.log.changed(ip);
        }
        *self.tally.place(&self.ledger, &record) += 1;
        if let Some(before) = before {
            *self.tally.place(&self.ledger, before) -= 1;
            self.named.remove(&before.key, ip);
        }
        self.named.insert(&record.key, ip);
        self.ledger.observe(record);
        if !same {
            self.tell(News::Changed(ip));
        }
    }

    /// The watch says that a record was deleted.
    pub fn record_gone(&mut self, metadata: &ObjectMeta) {
        let name = metadata.name.as_deref().unwrap_or_default();
        match name::parse(name) {
            Ok(ip) => {
                if self.records.gone(&ip, &Stamp::of(metadata)) {
                    self.forget(ip);
                }
            }
            Err(_) => {
                self.strange.remove(name);
            }
        }
    }

    /// This process has deleted a record in this state.
    pub fn record_deleted(&mut self, metadata: &ObjectMeta) {
        if let Ok(ip) = name::parse(metadata.name.as_deref().unwrap_or_default())
            && self.records.deleted(&ip, Stamp::of(metadata))
        {
            self.forget(ip);
        }
    }

    /// Which version of its object the record of an address is from, if there is a
    /// record and the version is a number.
    pub fn version(&self, ip: IpAddr) -> Option<u64> {
        self.records.version(&ip.to_canonical())
    }

    /// A read says that an address has no record, when the books had this
    /// [version](Books::version) of it, at the latest. Something newer stays: the
    /// watch knows better.
    pub fn record_missing(&mut self, ip: IpAddr, version: Option<u64>) {
        if version.is_none() && self.version(ip).is_some() {
            // It has come since.
            return;
        }
        self.record_deleted(&ObjectMeta {
            name: Some(name::name(ip)),
            resource_version: version.map(|version| version.to_string()),
            ..ObjectMeta::default()
        });
    }

    /// The largest version of any record so far.
    pub fn newest(&self) -> u64 {
        self.records.newest()
    }

    /// The API server counts anew, from an older version.
    pub fn forget_versions(&mut self) {
        self.records.forget_newest();
    }

    /// A list of all records is asked for.
    pub fn begin_records(&mut self) {
        self.records.begin_list();
        self.strange_listed.clear();
    }

    /// The list of all records is complete. What it lacks may be in use all the same,
    /// so running pods come first now.
    pub fn end_records(&mut self) {
        self.want_round();
        for ip in self.records.end_list() {
            self.forget(ip);
        }
        let listed = std::mem::take(&mut self.strange_listed);
        self.strange
            .retain(|name, _| name::parse(name).is_ok() || listed.contains(name));
        self.tell(News::Relisted);
    }

    fn forget(&mut self, ip: IpAddr) {
        self.strange.remove(&name::name(ip));
        self.marked.remove(&ip);
        self.misplaced.remove(&ip);
        self.bare.remove(&ip);
        self.unshown.remove(&ip);
        self.assigning.remove(&ip);
        if let Some(record) = self.ledger.forget(ip) {
            self.named.remove(&record.key, ip);
            *self.tally.place(&self.ledger, &record) -= 1;
            self.log.changed(ip);
            self.lost(ip);
            self.tell(News::Freed(ip));
        }
    }

    fn tell(&self, news: News) {
        // An error means that nobody listens.
        let _ = self.news.send(news);
    }
}

impl Tally {
    fn place(&mut self, ledger: &Ledger, record: &Record) -> &mut u64 {
        match ledger.topology().entry_of(record.ip) {
            Some(entry) => &mut self.entries[entry.position()],
            None if ledger.is_outside_for(&record.key, record.ip) => &mut self.outside,
            None => &mut self.shared,
        }
    }
}

#[cfg(test)]
mod tests;
