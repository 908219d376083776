//! The records that are asked for: as many and with names as long as in a large
//! cluster.
//!
//! Workloads have ten pods, half of them of a Deployment, and one in five is in a pool
//! that also has addresses that wait. Neighbours among the addresses belong to
//! different workloads, as they do after some months.

use std::{collections::BTreeSet, net::IpAddr};

use anyhow::{Context as _, Result};
use floe_api::{
    galaxy::{FloatingIP, FloatingIPSpec},
    labels::{self, Given},
};
use floe_core::{
    config::Topology,
    ipam::{
        args::IpInfo,
        attribute::Attribute,
        key::{HolderKey, KeyParts},
        ledger::Record,
        names,
        policy::ReleasePolicy,
        state::State,
    },
};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::scene::{self, Size};

/// A text that the keys of all records have.
pub const COMMON: &str = "production";

const PODS: u32 = 10;
const NAMESPACES: u32 = 200;
const POOLS: u32 = 100;
/// One workload in so many is in a pool.
const POOLED: u32 = 5;
/// Has no divisor in common with any size, so that it reaches everybody.
const STRIDE: u32 = 7_919;
/// Some day; records are from then and from some months after.
const START: i64 = 1_700_000_000;

const SERVICES: [&str; 8] = [
    "checkout-payment-gateway",
    "customer-profile-aggregator",
    "recommendation-feature-store",
    "inventory-replication-worker",
    "notification-delivery-scheduler",
    "search-index-segment-merger",
    "fraud-detection-scoring-model",
    "telemetry-ingest-frontend",
];

/// One address and who has it.
pub struct Holding {
    ip: IpAddr,
    number: u32,
    pool: Option<String>,
    kind: &'static str,
    namespace: String,
    app: String,
    /// Empty if the address waits for any pod of its pool.
    pod: String,
    node: String,
}

/// All addresses that are held.
pub fn all(size: Size) -> impl Iterator<Item = Holding> {
    (0..size.held()).map(move |number| Holding::new(size, number))
}

/// The address of a pod that has it, and the pod's name, which nothing else has.
pub fn one(size: Size) -> Result<(IpAddr, String)> {
    let mut pods = all(size).skip(777).filter(|it| !it.pod.is_empty());
    let one = pods.next().context("there are pods")?;
    Ok((one.ip, one.pod))
}

/// How many workloads and pools have addresses.
pub fn holders(size: Size) -> usize {
    let prefixes: BTreeSet<String> = all(size)
        .filter_map(|it| Some(it.key().as_str().strip_suffix(&*it.pod)?.to_owned()))
        .collect();
    prefixes.len()
}

impl Holding {
    fn new(size: Size, number: u32) -> Self {
        let (subnet, nth) = (number / size.held_per_subnet, number % size.held_per_subnet);
        let rank = u64::from(number) * u64::from(STRIDE) % u64::from(size.held());
        let rank = u32::try_from(rank).expect("the rest is smaller than the divisor");
        let (app, ordinal) = (rank / PODS, rank % PODS);
        let service = SERVICES[app as usize % SERVICES.len()];
        let name = format!("{service}-release-{app:05}");
        let pool = app.is_multiple_of(POOLED).then(|| {
            let pool = app / POOLED % POOLS;
            format!("{COMMON}-egress-allowlisted-{pool:03}")
        });
        let kind = if app.is_multiple_of(2) { "dp" } else { "sts" };
        let waits = pool.is_some() && ordinal == 0;
        let pod = if waits {
            String::new()
        } else if kind == "dp" {
            let hash = u64::from(app) * 2_654_435_761 % 0x00ff_ffff_ffff;
            format!("{name}-{hash:010x}-x{ordinal}k7q")
        } else {
            format!("{name}-{ordinal}")
        };
        let node = 1 + rank % size.nodes_per_subnet;
        Self {
            ip: scene::address(subnet, nth),
            number,
            pool,
            kind,
            namespace: format!("team-{:03}-{COMMON}-europe-central", app % NAMESPACES),
            app: name,
            node: if waits {
                String::new()
            } else {
                scene::node_name(subnet, node)
            },
            pod,
        }
    }

    /// The record in the books.
    pub fn record(&self) -> Record {
        Record {
            ip: self.ip,
            key: self.key(),
            policy: self.policy(),
            node: self.node.clone(),
            uid: self.uid(),
            updated: self.updated(),
            reserved: false,
            workload_note: None,
        }
    }

    /// The object that floe would have written.
    pub fn object(&self, topology: &Topology) -> Result<FloatingIP> {
        let record = self.record();
        let attribute = Attribute {
            node_name: record.node.clone(),
            uid: record.uid.clone(),
        };
        let spec = FloatingIPSpec::of(&record.key, &attribute, record.policy, record.updated);
        let mut object = FloatingIP::new(record.ip, spec);
        let annotations = object.metadata.annotations.get_or_insert_default();
        annotations.insert(
            labels::STATE.to_owned(),
            State::of(&record).text().to_owned(),
        );
        if let Some(label) = labels::node_label(&record.node) {
            annotations.insert(labels::NODE.to_owned(), record.node.clone());
            let entry = topology.entry_of(record.ip).context("it is configured")?;
            let entry = topology.entry(entry);
            let info = IpInfo {
                ip: IpNet::new(record.ip, entry.prefix_len())?,
                vlan: entry.vlan(),
                gateway: entry.gateway(),
            };
            let uid = record.uid;
            annotations.insert(
                labels::NETWORK.to_owned(),
                Given {
                    info,
                    uid,
                    assigning: false,
                }
                .value(),
            );
            let labels = object.metadata.labels.get_or_insert_default();
            labels.insert(labels::NODE.to_owned(), label);
        }
        object.metadata.uid = Some(format!("3f2a1b00-0000-4000-8000-{:012x}", self.number));
        object.metadata.resource_version = Some("900".to_owned());
        Ok(object)
    }

    /// The pod that runs with the address, with its namespace and name.
    pub fn pod(&self) -> Option<(&str, &str, Value)> {
        if self.pod.is_empty() {
            return None;
        }
        let pod = json!({
            "metadata": {
                "namespace": self.namespace, "name": self.pod, "uid": self.uid(),
                "resourceVersion": "900", "creationTimestamp": "2024-01-01T00:00:00Z",
            },
            "spec": {
                "nodeName": self.node,
                "containers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }],
            },
            "status": { "phase": "Running", "podIP": self.ip, "podIPs": [{ "ip": self.ip }] },
        });
        Some((&self.namespace, &self.pod, pod))
    }

    fn key(&self) -> HolderKey {
        let pool = self.pool.as_deref();
        if self.pod.is_empty() {
            return HolderKey::lookup(&KeyParts {
                pool,
                ..KeyParts::default()
            });
        }
        HolderKey::lookup(&KeyParts {
            pool,
            kind: self.kind,
            namespace: &self.namespace,
            app: &self.app,
            pod: &self.pod,
        })
    }

    fn policy(&self) -> ReleasePolicy {
        match (&self.pool, self.number % 3) {
            (Some(_), _) | (None, 0) => ReleasePolicy::Never,
            (None, 1) => ReleasePolicy::Immutable,
            (None, _) => ReleasePolicy::OnDelete,
        }
    }

    /// Empty if no pod has the address.
    fn uid(&self) -> String {
        if self.pod.is_empty() {
            return String::new();
        }
        format!("7c9e6679-7425-40de-944b-{:012x}", self.number)
    }

    fn updated(&self) -> Timestamp {
        let seconds = i64::from(self.number) * 104_729 % 10_000_000;
        Timestamp::from_second(START + seconds).expect("some months after a day are a time")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_long_as_real_ones_and_each_pod_has_its_own() {
        let size = Size::QUICK;
        let mut pods = BTreeSet::new();
        let mut waiting = 0;
        for holding in all(size) {
            let record = holding.record();
            let parts = record.key.parts().unwrap();
            assert!(record.key.as_str().contains(COMMON), "{}", record.key);
            if parts.pod.is_empty() {
                assert_eq!(State::of(&record), State::Spare);
                waiting += 1;
                continue;
            }
            assert_eq!(State::of(&record), State::Bound);
            for name in [parts.namespace, parts.app, parts.pod] {
                assert!((30..=63).contains(&name.len()), "{name}");
            }
            let (namespace, name, _) = holding.pod().unwrap();
            assert_eq!((namespace, name), (parts.namespace, parts.pod));
            pods.insert(name.to_owned());
        }
        assert_eq!(waiting + pods.len(), 10_000);
        assert_eq!(waiting, 200);
        assert_eq!(holders(size), 1_000 + 100);
    }
}
