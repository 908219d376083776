//! Stories about pods on the nodes of the shared configuration.

use std::net::IpAddr;

use ipnet::IpNet;
use jiff::Timestamp;

use super::{
    bind::{Grant, bind},
    claimant::Claimant,
    filter::{Offer, Sorted, filter},
    limit::Limit,
    refusal::{NodeRefusal, Refusal},
};
use crate::{
    config::{AddressConfig, fixture},
    ipam::{
        choice::{Choice, Wish},
        families::Family,
        key::{HolderKey, PoolName},
        ledger::{Ledger, Record},
        owner::{App, AppKind},
        policy::ReleasePolicy,
        slot::Fate,
        workload::{Scale, State, Workload},
    },
};

mod binds;
mod filters;
mod gates;
mod limits;
mod model;
mod scores;
mod spares;
mod wakes;

/// The nodes of the stories. n2 is in no configured subnet, n0 has no address.
const NODES: [(&str, &str); 7] = [
    ("n0", ""),
    ("n1", "10.180.1.3"),
    ("n2", "10.48.28.2"),
    ("n3", "10.49.27.3"),
    ("n4", "10.173.13.4"),
    ("n5", "10.49.28.3"),
    ("n6", "10.49.29.3"),
];

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn offers<'a>(nodes: &'a str) -> Vec<Offer<'a>> {
    let offer = |node: &'a str| {
        let known = NODES.iter().find(|(name, _)| *name == node);
        Offer {
            node,
            address: known.unwrap().1.parse().ok(),
        }
    };
    nodes.split_whitespace().map(offer).collect()
}

fn workload(kind: AppKind, namespace: &str, name: &str, replicas: u32) -> Workload {
    Workload {
        app: App {
            kind,
            namespace: namespace.into(),
            name: name.into(),
        },
        scale: Scale::No,
        state: State::Exists {
            replicas: Some(replicas),
            first_ordinal: 0,
        },
    }
}

fn one_v4() -> Vec<Wish> {
    vec![Wish::Any(Family::V4)]
}

/// Range lists: blanks between ranges, `|` between lists.
fn ranges(text: &str) -> Vec<Wish> {
    text.split('|')
        .map(|list| list.split_whitespace().map(|it| it.parse().unwrap()))
        .map(|list| Wish::OutOf(list.collect()))
        .collect()
}

/// A pod of a `StatefulSet` `sts` in `ns1`.
fn sts(name: &str, policy: ReleasePolicy) -> Claimant {
    pod_of(
        &workload(AppKind::StatefulSet, "ns1", "sts", 1),
        name,
        policy,
    )
}

/// A pod of any workload, without pool and limits, that wants one address.
fn pod_of(workload: &Workload, name: &str, policy: ReleasePolicy) -> Claimant {
    let uid = format!("uid-{name}");
    Claimant::new(workload, None, name, &uid, policy, one_v4()).unwrap()
}

/// A pod of a Deployment, limited by its replicas.
fn dp(app: &str, name: &str, policy: ReleasePolicy, replicas: u32) -> Claimant {
    let app_of = workload(AppKind::Deployment, "ns1", app, replicas);
    let mut pod = pod_of(&app_of, name, policy);
    pod.limits = Limit::list("ns1", app, replicas, 1, None);
    pod
}

/// A pod of a Deployment in a pool; limited by its replicas unless that is
/// changed.
fn pooled(pool: &str, namespace: &str, app: &str, name: &str, replicas: u32) -> Claimant {
    let app_of = workload(AppKind::Deployment, namespace, app, replicas);
    let pool = PoolName::new(pool).unwrap();
    let uid = format!("uid-{name}");
    let policy = ReleasePolicy::Never;
    let mut pod = Claimant::new(&app_of, Some(pool), name, &uid, policy, one_v4()).unwrap();
    pod.limits = Limit::list(namespace, app, replicas, 1, None);
    pod
}

/// The ledger of a controller, and how time passes for it.
struct World {
    ledger: Ledger,
    now: i64,
}

impl World {
    /// The shared configuration, with the addresses of n1 given away.
    fn t() -> Self {
        let mut world = Self::of(fixture::t());
        world.hold("10.180.154.7", "drained");
        world.hold("10.180.154.8", "drained");
        world
    }

    fn of(config: AddressConfig) -> Self {
        Self {
            ledger: Ledger::new(config),
            now: 0,
        }
    }

    fn tick(&mut self) -> Timestamp {
        self.now += 1;
        at(self.now)
    }

    /// An address is held by a key, and no pod runs with it.
    fn hold(&mut self, address: &str, key: &str) {
        let record = Record {
            ip: ip(address),
            key: key.into(),
            policy: ReleasePolicy::OnDelete,
            node: String::new(),
            uid: String::new(),
            updated: self.tick(),
            reserved: false,
            workload_note: None,
        };
        self.ledger.observe(record);
    }

    /// Changes a record.
    fn change(&mut self, address: &str, change: impl FnOnce(&mut Record)) {
        let mut record = self.ledger.record(ip(address)).unwrap().clone();
        change(&mut record);
        self.ledger.observe(record);
    }

    /// Filters, and makes the promise.
    fn filter<'a>(&mut self, pod: &Claimant, nodes: &'a str) -> Result<Sorted<'a>, Refusal> {
        let until = at(self.now + 1000);
        let sorted = filter(&self.ledger, pod, &offers(nodes), until)?;
        match &sorted.promise {
            Some(promise) => self.ledger.promise(&pod.uid, promise.clone()),
            None => {
                self.ledger.withdraw(&pod.uid);
            }
        }
        Ok(sorted)
    }

    /// The nodes that pass.
    fn fit(&mut self, pod: &Claimant, nodes: &str) -> String {
        self.filter(pod, nodes).unwrap().fit.join(" ")
    }

    /// The reasons of those that do not.
    fn unfit(&mut self, pod: &Claimant, nodes: &str) -> String {
        let unfit = self.filter(pod, nodes).unwrap().unfit;
        let reasons: Vec<String> = unfit
            .iter()
            .map(|(node, refusal)| format!("{node}:{}", refusal.reason()))
            .collect();
        reasons.join(" ")
    }

    fn refused(&mut self, pod: &Claimant, nodes: &str) -> Refusal {
        self.filter(pod, nodes).unwrap_err()
    }

    fn try_bind(&mut self, pod: &Claimant, node: &str) -> Result<Grant, Refusal> {
        let subnet = self.subnet(node);
        let until = at(self.now + 1000);
        bind(&self.ledger, pod, subnet, until)
    }

    /// Binds a pod and enters all that it takes; its addresses with their
    /// sources.
    fn bind(&mut self, pod: &Claimant, node: &str) -> Vec<Choice> {
        let grant = self.try_bind(pod, node).unwrap();
        if let Some(promise) = &grant.promise {
            self.ledger.promise(&pod.uid, promise.clone());
        }
        for choice in &grant.take {
            let record = Record {
                ip: choice.ip(),
                key: pod.key.clone(),
                policy: pod.policy,
                node: node.into(),
                uid: pod.uid.clone(),
                updated: self.tick(),
                reserved: false,
                workload_note: None,
            };
            self.ledger.observe(record);
        }
        self.ledger.withdraw(&pod.uid);
        for gift in &grant.give_back {
            self.give_back(pod, gift.ip, gift.fate);
        }
        grant.take
    }

    /// The pod is gone and its addresses have this fate.
    fn release(&mut self, pod: &Claimant, fate: Fate) {
        let held: Vec<IpAddr> = self.ledger.held_by(&pod.key).map(|it| it.ip).collect();
        for ip in held {
            self.give_back(pod, ip, fate);
        }
    }

    fn give_back(&mut self, pod: &Claimant, ip: IpAddr, fate: Fate) {
        if fate == Fate::Free {
            self.ledger.forget(ip);
            return;
        }
        let updated = self.tick();
        let key = match fate {
            Fate::Spare => &pod.group_key,
            Fate::Keep | Fate::Free => &pod.key,
        };
        self.change(&ip.to_string(), |record| {
            record.key = key.clone();
            record.node.clear();
            record.uid.clear();
            record.updated = updated;
        });
    }

    fn subnet(&self, node: &str) -> IpNet {
        let address = offers(node)[0].address.unwrap();
        self.ledger.topology().node_subnet(address).unwrap()
    }

    /// The addresses under a key, in order.
    fn held_by(&self, key: &HolderKey) -> String {
        let held = self.ledger.held_by(key).map(|it| it.ip.to_string());
        held.collect::<Vec<_>>().join(" ")
    }

    /// The addresses that are set aside for a pod.
    fn promised(&self, pod: &Claimant) -> String {
        let promise = self.ledger.promise_to(&pod.uid);
        let addresses = promise.into_iter().flat_map(|it| &it.addresses);
        let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
        addresses.join(" ")
    }
}
