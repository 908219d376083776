//! What does not fit together: records, pods, pools, nodes and the configuration.
//!
//! [`audit`] takes plain values and returns every inconsistency by name. Some can be
//! mended without harm: such a finding has a [`Fix`], which is a value as well. No fix
//! ever takes an address from a pod, and none is made where only a person or the
//! controller can know what is right.
//!
//! - [`finding`]: what can be found, and what mends it.
//! - [`world`]: what is looked at.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

pub use self::{
    finding::{Finding, Fix, Label},
    shared::SharedFinding,
    world::{Content, Life, Marks, Missing, Node, Pod, Pool, StoredRecord, Vip, World},
};
use crate::{
    addr::{canonical, name},
    config::{AddressConfig, Loaded, Mode},
    ipam::{
        key::PoolName,
        ledger::Ledger,
        overuse::Overuse,
        preallocate::{Declared, Order, next},
    },
};

pub mod finding;
mod pods;
mod records;
mod shared;
pub mod world;

#[cfg(test)]
mod tests;

/// Looks at everything. The findings come in a fixed order: configuration, nodes,
/// pools, records, pods, what pods lack, shared addresses; each by name.
pub fn audit(world: &World<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let config = configuration(world, &mut findings);
    let mut sight = Sight {
        ledger: Ledger::new(config),
        pods: BTreeMap::new(),
        claims: BTreeMap::new(),
        shown: BTreeSet::new(),
        world,
    };
    for pod in world.pods {
        sight.pods.insert((&pod.namespace, &pod.name), pod);
        // What a finished pod claims or shows is nobody's.
        if pod.life == Life::Finished {
            continue;
        }
        sight.shown.extend(pod.shown.iter().copied().map(canonical));
        for ip in pod.claimed.iter().flatten() {
            let claimants = sight.claims.entry(canonical(*ip)).or_default();
            claimants.insert((&pod.namespace, &pod.name));
        }
    }
    let mut records: Vec<&StoredRecord> = world.records.iter().collect();
    records.sort_by(|one, other| place(one).cmp(&place(other)));
    for record in &records {
        if let Some(entered) = record.entered() {
            sight.ledger.observe(entered);
        }
    }
    sight.nodes(&mut findings);
    sight.pools(&mut findings);
    for record in records {
        sight.record(record, &mut findings);
    }
    sight.pods(&mut findings);
    sight.missing(&mut findings);
    sight.vips(&mut findings);
    findings
}

/// Numeric order of addresses, then names that are none.
fn place(record: &StoredRecord) -> (bool, Option<IpAddr>, &str) {
    let ip = name::parse(&record.name).ok();
    (ip.is_none(), ip, &record.name)
}

/// What there is, prepared for questions.
struct Sight<'a> {
    world: &'a World<'a>,
    ledger: Ledger,
    /// By namespace and name.
    pods: BTreeMap<(&'a str, &'a str), &'a Pod>,
    /// Which pods claim an address.
    claims: BTreeMap<IpAddr, BTreeSet<(&'a str, &'a str)>>,
    /// What the status of some pod shows, whatever its annotation claims.
    shown: BTreeSet<IpAddr>,
}

fn configuration(world: &World<'_>, findings: &mut Vec<Finding>) -> AddressConfig {
    let Some(text) = world.configuration else {
        findings.push(Finding::NoConfiguration);
        return AddressConfig::default();
    };
    let (config, problems) = match AddressConfig::parse(text, Mode::Lenient) {
        Ok(Loaded { config, problems }) => (config, problems),
        Err(refused) => (AddressConfig::default(), refused.problems),
    };
    findings.extend(problems.into_iter().map(Finding::Configuration));
    config
}

impl Sight<'_> {
    /// Without a configuration every address is outside, which says nothing.
    fn is_configured(&self) -> bool {
        !self.ledger.topology().config().entries().is_empty()
    }

    fn nodes(&self, findings: &mut Vec<Finding>) {
        if !self.is_configured() {
            return;
        }
        let mut used = BTreeMap::<&str, usize>::new();
        for pod in self.world.pods {
            if let (Some(node), true) = (&pod.node, pod.life != Life::Finished) {
                *used.entry(node).or_default() += 1;
            }
        }
        let nodes = self.world.nodes.iter();
        let nodes: BTreeMap<&str, &Node> = nodes.map(|it| (it.name.as_str(), it)).collect();
        for (name, node) in nodes {
            let subnet = node
                .address
                .and_then(|ip| self.ledger.topology().node_subnet(ip));
            if let (Some(pods), None) = (used.get(name), subnet) {
                findings.push(Finding::NodeNotConfigured {
                    node: name.to_owned(),
                    address: node.address,
                    pods: *pods,
                });
            }
        }
    }

    fn pools(&self, findings: &mut Vec<Finding>) {
        let mut by_name = BTreeMap::<&str, Vec<&Pool>>::new();
        for pool in self.world.pools {
            by_name.entry(&pool.name).or_default().push(pool);
        }
        for (name, mut pools) in by_name {
            pools.sort_by_key(|pool| &pool.namespace);
            let Ok(checked) = PoolName::new(name) else {
                findings.extend(pools.iter().map(|pool| Finding::InvalidPoolName {
                    namespace: pool.namespace.clone(),
                    pool: name.to_owned(),
                }));
                continue;
            };
            let declared: Vec<_> = pools.iter().map(|pool| self.declared(pool)).collect();
            for (pool, declared) in pools.iter().zip(&declared) {
                let scope = declared.namespace.as_deref();
                let over = Overuse::of_pool(&self.ledger, name, scope, declared.size);
                findings.extend(over.map(|over| Finding::PoolOverLimit {
                    namespace: pool.namespace.clone(),
                    pool: name.to_owned(),
                    held: over.held,
                    at_most: over.at_most,
                }));
            }
            if !self.is_configured() {
                continue;
            }
            let none_free = match next(&self.ledger, &checked, &declared) {
                Order::Enough => continue,
                Order::Take(_) => false,
                Order::Short { .. } => true,
            };
            if let Some(pool) = pools.iter().find(|pool| pool.preallocate) {
                findings.push(Finding::PoolShort {
                    namespace: pool.namespace.clone(),
                    pool: name.to_owned(),
                    none_free,
                });
            }
        }
    }

    fn declared(&self, pool: &Pool) -> Declared {
        let everywhere = pool.namespace == self.world.everywhere;
        Declared {
            namespace: (!everywhere).then(|| pool.namespace.clone()),
            size: usize::try_from(pool.size).unwrap_or(0),
            ahead: pool.preallocate,
        }
    }
}
