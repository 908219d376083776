//! Records, pools and the configuration, always consistent with each other.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_api::{
    galaxy::{FloatingIP, Pool},
    labels,
};
use floe_core::{
    addr::name,
    config::{AddressConfig, Change},
    ipam::{
        key::HolderKey,
        ledger::{Ledger, Record},
        policy::ReleasePolicy,
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource as _;
use tracing::warn;

use super::{
    order::{Order, Stamp},
    seen::Seen,
};

/// Everything this process decides from.
#[derive(Debug)]
pub struct Books {
    ledger: Ledger,
    records: Order<IpAddr>,
    tally: Tally,
    pools: BTreeMap<PoolKey, Pool>,
    pool_order: Order<PoolKey>,
    /// Records that say nothing usable, by name, with the reason.
    strange: BTreeMap<String, &'static str>,
    /// While a list comes in: names in it that are no addresses.
    strange_listed: BTreeSet<String>,
}

/// Namespace and name of a pool.
pub type PoolKey = (String, String);

/// How many records lie where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tally {
    /// By the place of the entry in the configuration.
    entries: Vec<u64>,
    outside: u64,
}

impl Default for Books {
    fn default() -> Self {
        Self {
            ledger: Ledger::new(AddressConfig::default()),
            records: Order::default(),
            tally: Tally::default(),
            pools: BTreeMap::new(),
            pool_order: Order::default(),
            strange: BTreeMap::new(),
            strange_listed: BTreeSet::new(),
        }
    }
}

impl Books {
    /// Who holds which address.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
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

    /// How many records are in no entry of the configuration.
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
            outside: 0,
        };
        for record in self.ledger.records() {
            *tally.place(&self.ledger, record.ip) += 1;
        }
        self.tally = tally;
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
        let record = match object {
            Seen::Whole(object) => self.readable(ip, object),
            Seen::Part { error, .. } => self.unreadable(ip, metadata, error),
        };
        if self.ledger.record(ip).is_none() {
            *self.tally.place(&self.ledger, ip) += 1;
        }
        self.ledger.observe(record);
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
    #[cfg_attr(not(test), expect(dead_code, reason = "nothing is released yet"))]
    pub fn record_deleted(&mut self, metadata: &ObjectMeta) {
        if let Ok(ip) = name::parse(metadata.name.as_deref().unwrap_or_default())
            && self.records.deleted(&ip, Stamp::of(metadata))
        {
            self.forget(ip);
        }
    }

    /// A list of all records is asked for.
    pub fn begin_records(&mut self) {
        self.records.begin_list();
        self.strange_listed.clear();
    }

    /// The list of all records is complete.
    pub fn end_records(&mut self) {
        for ip in self.records.end_list() {
            self.forget(ip);
        }
        let listed = std::mem::take(&mut self.strange_listed);
        self.strange
            .retain(|name, _| name::parse(name).is_ok() || listed.contains(name));
    }

    /// Enters a pool.
    pub fn pool(&mut self, object: Seen<Pool>) {
        let key = pool_key(object.meta());
        if !self.pool_order.exists(&key, &Stamp::of(object.meta())) {
            return;
        }
        match object {
            Seen::Whole(mut pool) => {
                pool.metadata.managed_fields = None;
                self.pools.insert(key, pool);
            }
            Seen::Part { error, .. } => {
                let (namespace, pool) = &key;
                warn!(
                    reason = UNREADABLE_POOL,
                    namespace, pool, error, "pool cannot be read and does not count"
                );
                self.pools.remove(&key);
            }
        }
    }

    /// The watch says that a pool was deleted.
    pub fn pool_gone(&mut self, metadata: &ObjectMeta) {
        let key = pool_key(metadata);
        if self.pool_order.gone(&key, &Stamp::of(metadata)) {
            self.pools.remove(&key);
        }
    }

    /// A list of all pools is asked for.
    pub fn begin_pools(&mut self) {
        self.pool_order.begin_list();
    }

    /// The list of all pools is complete.
    pub fn end_pools(&mut self) {
        for key in self.pool_order.end_list() {
            self.pools.remove(&key);
        }
    }

    fn forget(&mut self, ip: IpAddr) {
        self.strange.remove(&name::name(ip));
        if self.ledger.forget(ip).is_some() {
            *self.tally.place(&self.ledger, ip) -= 1;
        }
    }

    /// The address that an object is about; an object that is about none cannot
    /// hold one, and is only told of.
    fn address(&mut self, metadata: &ObjectMeta) -> Option<IpAddr> {
        let name = metadata.name.as_deref().unwrap_or_default();
        match name::parse(name) {
            Ok(ip) => Some(ip),
            Err(error) => {
                self.strange_listed.insert(name.to_owned());
                if self
                    .strange
                    .insert(name.to_owned(), error.reason())
                    .is_none()
                {
                    warn!(
                        reason = error.reason(),
                        floatingip = name,
                        error = %error,
                        "FloatingIP is the record of no address",
                    );
                }
                None
            }
        }
    }

    fn readable(&mut self, ip: IpAddr, object: &FloatingIP) -> Record {
        let place = object.spec.place();
        let name = name::name(ip);
        if !place.malformed {
            self.strange.remove(&name);
        } else if self.strange.insert(name, MALFORMED_ATTRIBUTE).is_none() {
            warn!(
                reason = MALFORMED_ATTRIBUTE,
                %ip,
                attribute = object.spec.attribute,
                "record does not say where its holder runs",
            );
        }
        let annotations = object.metadata.annotations.as_ref();
        Record {
            ip,
            key: object.spec.holder(),
            policy: object.spec.release_policy(),
            node: place.attribute.node_name,
            uid: place.attribute.uid,
            updated: object.spec.updated(),
            reserved: object.is_reserved(),
            workload_note: annotations
                .and_then(|all| all.get(labels::WORKLOAD))
                .cloned(),
        }
    }

    /// An address is held if its object exists, whatever the object says. Nobody
    /// knows by whom, so it is nobody's to hand out: as if it were reserved.
    fn unreadable(&mut self, ip: IpAddr, metadata: &ObjectMeta, error: &str) -> Record {
        if self
            .strange
            .insert(name::name(ip), UNREADABLE_RECORD)
            .is_none()
        {
            warn!(
                reason = UNREADABLE_RECORD,
                %ip,
                error,
                "record cannot be read; its address is left alone",
            );
        }
        let created = metadata.creation_timestamp.as_ref();
        Record {
            ip,
            key: HolderKey::from(""),
            policy: ReleasePolicy::Never,
            node: String::new(),
            uid: String::new(),
            updated: created.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            reserved: true,
            workload_note: None,
        }
    }
}

const MALFORMED_ATTRIBUTE: &str = "MalformedAttribute";
const UNREADABLE_RECORD: &str = "UnreadableRecord";
const UNREADABLE_POOL: &str = "UnreadablePool";

impl Tally {
    fn place(&mut self, ledger: &Ledger, ip: IpAddr) -> &mut u64 {
        match ledger.topology().entry_of(ip) {
            Some(entry) => &mut self.entries[entry.position()],
            None => &mut self.outside,
        }
    }
}

fn pool_key(metadata: &ObjectMeta) -> PoolKey {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    (text(&metadata.namespace), text(&metadata.name))
}

#[cfg(test)]
mod tests;
