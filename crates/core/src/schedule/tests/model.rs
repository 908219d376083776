//! Random lives of pods, against a store that says no now and then.
//!
//! The model is the cluster: the store with its objects, the pods and their
//! workloads. The ledger belongs to a controller that learns late what others do
//! in the store, and that crashes between any two writes.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};

use proptest::prelude::*;

use super::*;
use crate::{
    ipam::slot::{self, Departure, Sighting, Slot, Spare},
    schedule::limit::PoolSizes,
};

/// Two configurations of the nodes n3, n5 and n6. The second has fewer addresses,
/// one of its own, and one that is for sharing.
const CONFIGS: [&str; 2] = [
    r#"[{"nodeSubnets":["10.49.27.0/24"],"ips":["10.49.27.205","10.49.27.216~10.49.27.218"],
         "subnet":"10.49.27.0/24","gateway":"10.49.27.1"},
        {"nodeSubnets":["10.49.28.0/26","10.49.29.0/24"],"ips":["10.0.80.2~10.0.80.4"],
         "subnet":"10.0.80.0/24","gateway":"10.0.80.1"},
        {"nodeSubnets":["10.49.28.0/26"],"ips":["10.0.81.2~10.0.81.4"],
         "subnet":"10.0.81.0/24","gateway":"10.0.81.1"}]"#,
    r#"[{"nodeSubnets":["10.49.27.0/24","10.49.29.0/24"],
         "ips":["10.49.27.205","10.49.27.216~10.49.27.219"],
         "subnet":"10.49.27.0/24","gateway":"10.49.27.1"},
        {"nodeSubnets":["10.49.28.0/26"],"ips":["10.0.81.2~10.0.81.3"],"shared":["10.0.81.4"],
         "subnet":"10.0.81.0/24","gateway":"10.0.81.1"}]"#,
];

const OFFERED: [&str; 4] = ["n2", "n3", "n5", "n6"];

const APPS: usize = 9;

/// The keys of what is no pod's: of somebody else, and of a shared address.
const OTHERS: [&str; 2] = ["other", "vip__ns1_web_"];

#[derive(Clone, Debug)]
enum Op {
    /// A workload is made or scaled.
    Scale(usize, u32),
    /// A workload is deleted; its pods follow one by one.
    Delete(usize),
    /// A workload makes a pod.
    Create(usize),
    /// Some nodes are offered for a pod.
    Filter(usize, u8),
    /// A pod is to be bound to a node.
    Bind {
        pod: usize,
        node: usize,
        then: Then,
    },
    /// A bind that was interrupted goes on.
    GoOn {
        flight: usize,
        then: Then,
    },
    /// A pod is gone, and maybe nobody hears of it.
    Remove(usize, bool),
    /// Another controller takes an address, or frees one that it took.
    Other(usize),
    /// The controller hears of it.
    Hear(usize),
    Crash,
    Resync,
    Lapse(i64),
    Reconfigure(usize),
}

/// How far a bind gets.
#[derive(Clone, Copy, Debug)]
enum Then {
    /// To its end.
    Succeed,
    /// All is written, but the Binding fails.
    Fail,
    /// Other things happen after so many writes.
    Pause(usize),
    /// The controller crashes after so many writes.
    Crash(usize),
}

fn then() -> impl Strategy<Value = Then> {
    prop_oneof![
        8 => Just(Then::Succeed),
        2 => Just(Then::Fail),
        4 => (0..3usize).prop_map(Then::Pause),
        1 => (0..3usize).prop_map(Then::Crash),
    ]
}

fn ops() -> impl Strategy<Value = Op> {
    let bind = (0..64usize, 1..OFFERED.len(), then());
    let bind = bind.prop_map(|(pod, node, then)| Op::Bind { pod, node, then });
    let go_on = (0..8usize, then()).prop_map(|(flight, then)| Op::GoOn { flight, then });
    prop_oneof![
        4 => (0..APPS, 0..4u32).prop_map(|(app, replicas)| Op::Scale(app, replicas)),
        1 => (0..APPS).prop_map(Op::Delete),
        10 => (0..APPS).prop_map(Op::Create),
        8 => (0..64usize, 1..16u8).prop_map(|(pod, nodes)| Op::Filter(pod, nodes)),
        12 => bind,
        5 => go_on,
        5 => (0..64usize, prop::bool::weighted(0.3)).prop_map(|(pod, lost)| Op::Remove(pod, lost)),
        2 => (0..16usize).prop_map(Op::Other),
        2 => (0..16usize).prop_map(Op::Hear),
        1 => Just(Op::Crash),
        2 => Just(Op::Resync),
        1 => (1..60i64).prop_map(Op::Lapse),
        1 => (0..CONFIGS.len()).prop_map(Op::Reconfigure),
    ]
}

struct AppModel {
    workload: Workload,
    pool: Option<(PoolName, PoolSizes)>,
    policy: ReleasePolicy,
    wishes: Vec<Wish>,
}

struct PodModel {
    app: usize,
    uid: String,
    bound: Option<Vec<IpAddr>>,
}

/// A bind between two writes.
struct Flight {
    name: String,
    claimant: Claimant,
    node: &'static str,
    grant: Grant,
    /// What the store is expected to have, by address.
    expected: Vec<Option<Record>>,
    written: usize,
}

struct Model {
    store: BTreeMap<IpAddr, Record>,
    ledger: Ledger,
    configs: [AddressConfig; CONFIGS.len()],
    config: usize,
    apps: Vec<AppModel>,
    pods: BTreeMap<String, PodModel>,
    flights: Vec<Flight>,
    count: u64,
    now: i64,
}

fn apps() -> Vec<AppModel> {
    use ReleasePolicy::{Immutable, Never, OnDelete};
    let app = |kind: AppKind, name: &str, policy| AppModel {
        workload: workload(kind, "ns1", name, 2),
        pool: None,
        policy,
        wishes: one_v4(),
    };
    let pool = |namespace: &str, name: &str, pool: &str, everywhere, in_namespace| AppModel {
        workload: workload(AppKind::Deployment, namespace, name, 2),
        pool: Some((
            PoolName::new(pool).unwrap(),
            PoolSizes {
                everywhere,
                in_namespace,
            },
        )),
        policy: Never,
        wishes: one_v4(),
    };
    let mut two = app(AppKind::Deployment, "two", Immutable);
    two.wishes =
        ranges("10.49.27.205~10.49.27.217 10.0.80.2~10.0.80.3|10.49.27.217~10.49.27.218 10.0.80.3");
    let apps = vec![
        app(AppKind::Deployment, "web", Immutable),
        app(AppKind::Deployment, "api", Never),
        app(AppKind::Deployment, "tmp", OnDelete),
        app(AppKind::StatefulSet, "db", Immutable),
        app(AppKind::StatefulSet, "old", Never),
        pool("ns1", "blue", "p", Some(3), None),
        pool("ns2", "green", "p", Some(3), Some(2)),
        pool("ns1", "free", "q", None, None),
        two,
    ];
    assert_eq!(apps.len(), APPS);
    apps
}

impl Model {
    fn new() -> Self {
        let configs = CONFIGS.map(fixture::config);
        Self {
            store: BTreeMap::new(),
            ledger: Ledger::new(configs[0].clone()),
            configs,
            config: 0,
            apps: apps(),
            pods: BTreeMap::new(),
            flights: Vec::new(),
            count: 0,
            now: 0,
        }
    }

    fn step(&mut self, op: &Op) {
        self.now += 1;
        match op {
            Op::Scale(app, replicas) => {
                self.apps[*app].workload.state = State::Exists {
                    replicas: Some(*replicas),
                    first_ordinal: 0,
                };
            }
            Op::Delete(app) => self.apps[*app].workload.state = State::Gone,
            Op::Create(app) => self.create(*app),
            Op::Filter(pod, nodes) => self.filter(*pod, *nodes),
            Op::Bind { pod, node, then } => {
                if let Some(name) = self.pending(*pod)
                    && let Some(flight) = self.grant(&name, OFFERED[*node])
                {
                    self.fly(flight, *then);
                }
            }
            Op::GoOn { flight, then } => {
                if let Some(number) = flight.checked_rem(self.flights.len()) {
                    let flight = self.flights.remove(number);
                    self.fly(flight, *then);
                }
            }
            Op::Remove(pod, lost) => self.remove(*pod, *lost),
            Op::Other(number) => self.other(*number),
            Op::Hear(number) => {
                let ip = self.address(*number);
                self.learn(ip);
            }
            Op::Crash => self.crash(),
            Op::Resync => self.resync(),
            Op::Lapse(seconds) => {
                self.now += seconds;
                self.ledger.lapse(at(self.now));
            }
            Op::Reconfigure(config) => {
                self.config = *config;
                self.ledger.reconfigure(self.configs[*config].clone());
            }
        }
        self.check();
    }

    fn create(&mut self, app: usize) {
        let workload = &self.apps[app].workload;
        let replicas = workload.state.replicas().unwrap();
        let of_app = self.pods.values().filter(|pod| pod.app == app).count();
        let name = workload.app.name.clone();
        self.count += 1;
        let name = if workload.app.kind == AppKind::StatefulSet {
            let mut names = (0..replicas).map(|index| format!("{name}-{index}"));
            names.find(|name| !self.pods.contains_key(name))
        } else {
            // A rolling update has one more than wanted.
            let wanted = replicas > 0 && of_app <= replicas as usize;
            wanted.then(|| format!("{name}-r{}", self.count))
        };
        if let Some(name) = name {
            let pod = PodModel {
                app,
                uid: format!("uid-{}", self.count),
                bound: None,
            };
            self.pods.insert(name, pod);
        }
    }

    fn pending(&self, number: usize) -> Option<String> {
        let pending: Vec<&String> = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.bound.is_none())
            .filter(|(name, _)| !self.is_flying(name))
            .map(|(name, _)| name)
            .collect();
        let number = number.checked_rem(pending.len())?;
        Some(pending[number].clone())
    }

    fn claimant(&self, name: &str) -> Claimant {
        let pod = &self.pods[name];
        let app = &self.apps[pod.app];
        let pool = app.pool.as_ref().map(|(name, _)| name.clone());
        let wishes = app.wishes.clone();
        let mut claimant =
            Claimant::new(&app.workload, pool, name, &pod.uid, app.policy, wishes).unwrap();
        claimant.limits = Limit::list(
            &app.workload.app.namespace,
            &app.workload.app.name,
            app.workload.state.replicas().unwrap(),
            app.wishes.len(),
            app.pool.as_ref().map(|(name, sizes)| (name, *sizes)),
        );
        claimant
    }

    fn filter(&mut self, pod: usize, mask: u8) {
        let Some(name) = self.pending(pod) else {
            return;
        };
        let claimant = self.claimant(&name);
        let offered = OFFERED.iter().enumerate();
        let offered: Vec<&str> = offered
            .filter(|(bit, _)| mask & (1 << bit) != 0)
            .map(|(_, node)| *node)
            .collect();
        let nodes = offered.join(" ");
        let until = at(self.now + 30);
        let Ok(sorted) = filter(&self.ledger, &claimant, &offers(&nodes), until) else {
            return;
        };
        let unfit = sorted.unfit.iter().map(|(node, _)| *node);
        let answered: BTreeSet<&str> = sorted.fit.iter().copied().chain(unfit).collect();
        assert_eq!(answered, offered.iter().copied().collect());
        assert_eq!(sorted.fit.len() + sorted.unfit.len(), offered.len());
        match &sorted.promise {
            Some(promise) => self.ledger.promise(&claimant.uid, promise.clone()),
            None => {
                self.ledger.withdraw(&claimant.uid);
            }
        }
        // What passes can be bound, with what was promised.
        for node in &sorted.fit {
            let grant = bind(&self.ledger, &claimant, self.subnet(node), until);
            let grant = grant.unwrap_or_else(|refusal| panic!("{name} on {node}: {refusal}"));
            for ip in sorted.promise.iter().flat_map(|it| &it.addresses) {
                assert!(grant.take.contains(&Choice::Spare(*ip)), "{grant:?}");
            }
        }
        // Nobody who needs only free addresses is refused where there are some.
        let plain = !claimant.shares_spares && claimant.held(&self.ledger).is_empty();
        for (node, refusal) in sorted.unfit.iter().filter(|_| plain) {
            if *refusal == NodeRefusal::NoAddressLeft {
                let entries = self.ledger.topology().entries_of(self.subnet(node));
                assert!(entries.iter().all(|it| self.ledger.free_count(*it) == 0));
            }
        }
    }

    /// Bind is single-flight: a name has at most one. The next pod of that name
    /// waits, or it would have its addresses beside those of the first.
    fn is_flying(&self, name: &str) -> bool {
        self.flights.iter().any(|flight| flight.name == name)
    }

    fn grant(&mut self, name: &str, node: &'static str) -> Option<Flight> {
        let claimant = self.claimant(name);
        let subnet = self.subnet(node);
        let Ok(grant) = bind(&self.ledger, &claimant, subnet, Timestamp::MAX) else {
            self.ledger.withdraw(&claimant.uid);
            return None;
        };
        for (wish, choice) in claimant.wishes.iter().zip(&grant.take) {
            assert!(wish.accepts(choice.ip()) && self.ledger.carries(subnet, choice.ip()));
        }
        match &grant.promise {
            Some(promise) => self.ledger.promise(&claimant.uid, promise.clone()),
            None => {
                self.ledger.withdraw(&claimant.uid);
            }
        }
        let expected = |choice: &Choice| match choice {
            Choice::New(_) => None,
            Choice::Own(ip) | Choice::Spare(ip) => self.ledger.record(*ip).cloned(),
        };
        let flight = Flight {
            name: name.into(),
            expected: grant.take.iter().map(expected).collect(),
            claimant,
            node,
            grant,
            written: 0,
        };
        let own = flight.grant.take.iter();
        let own = own
            .filter(|choice| matches!(choice, Choice::Own(_)))
            .count();
        if flight.claimant.shares_spares && own < flight.grant.take.len() {
            self.check_limits(&flight);
        }
        if flight.claimant.is_pinned() {
            let held = flight.claimant.held(&self.ledger);
            let kept = held.iter().filter(|it| !self.ledger.is_outside(it.ip));
            assert_eq!(own, kept.count().min(1), "what is kept is used again");
        }
        Some(flight)
    }

    fn fly(&mut self, mut flight: Flight, then: Then) {
        let mut left = match then {
            Then::Succeed | Then::Fail => usize::MAX,
            Then::Pause(writes) | Then::Crash(writes) => writes,
        };
        // Each conflict teaches the ledger one address, so there is an end.
        while flight.written < flight.grant.take.len() {
            if left == 0 {
                match then {
                    Then::Crash(_) => self.crash(),
                    Then::Succeed | Then::Fail | Then::Pause(_) => self.flights.push(flight),
                }
                return;
            }
            left -= 1;
            if self.write(&flight) {
                flight.written += 1;
                continue;
            }
            if !self.lives(&flight) {
                break;
            }
            let Some(again) = self.grant(&flight.name, flight.node) else {
                return;
            };
            flight = again;
        }
        self.land(&flight, matches!(then, Then::Fail));
    }

    fn lives(&self, flight: &Flight) -> bool {
        let pod = self.pods.get(&flight.name);
        pod.is_some_and(|pod| pod.uid == flight.claimant.uid)
    }

    /// All is written; the Binding comes last.
    fn land(&mut self, flight: &Flight, binding_fails: bool) {
        let claimant = &flight.claimant;
        self.ledger.withdraw(&claimant.uid);
        if !self.lives(flight) {
            self.release(&claimant.key, &claimant.uid);
            return;
        }
        if binding_fails {
            return;
        }
        let addresses = flight.grant.take.iter().map(|choice| choice.ip()).collect();
        self.pods.get_mut(&flight.name).unwrap().bound = Some(addresses);
        for gift in &flight.grant.give_back {
            self.apply(gift.ip, gift.fate, &claimant.group_key);
        }
    }

    /// Writes the next address of a pod, unless the store has another state of it
    /// than expected.
    fn write(&mut self, flight: &Flight) -> bool {
        let ip = flight.grant.take[flight.written].ip();
        if self.store.get(&ip) != flight.expected[flight.written].as_ref() {
            self.learn(ip);
            return false;
        }
        let record = Record {
            ip,
            key: flight.claimant.key.clone(),
            policy: flight.claimant.policy,
            node: flight.node.into(),
            uid: flight.claimant.uid.clone(),
            updated: at(self.now),
            reserved: false,
            workload_note: None,
        };
        self.store.insert(ip, record);
        self.learn(ip);
        true
    }

    fn remove(&mut self, number: usize, lost: bool) {
        let names: Vec<String> = self.pods.keys().cloned().collect();
        let Some(number) = number.checked_rem(names.len()) else {
            return;
        };
        let key = self.claimant(&names[number]).key;
        let pod = self.pods.remove(&names[number]).unwrap();
        if lost {
            return;
        }
        // While a bind goes on, the promise is its own.
        if !self.is_flying(&names[number]) {
            self.ledger.withdraw(&pod.uid);
        }
        self.release(&key, &pod.uid);
    }

    fn release(&mut self, key: &HolderKey, uid: &str) {
        let records = self.store.values();
        let held: Vec<IpAddr> = records
            .filter(|record| record.key == *key && record.uid == uid)
            .map(|record| record.ip)
            .collect();
        for ip in held {
            self.judge(ip, Departure::Deleted);
        }
    }

    /// What becomes of an address whose pod is gone.
    fn judge(&mut self, ip: IpAddr, departure: Departure) {
        let record = &self.store[&ip];
        let parts = record.key.parts().unwrap();
        let app = self.app_of(parts.app);
        let group_key = record.key.group_key().unwrap();
        let verdict = slot::judge(&Slot {
            departure,
            policy: record.policy,
            pooled: app.pool.is_some(),
            workload: &app.workload,
            pod: parts.pod,
            group: self.group(&group_key, app),
        });
        self.apply(ip, verdict.fate, &group_key);
    }

    fn apply(&mut self, ip: IpAddr, fate: Fate, group_key: &HolderKey) {
        if fate == Fate::Free {
            self.store.remove(&ip);
        } else {
            let record = self.store.get_mut(&ip).unwrap();
            record.node.clear();
            record.uid.clear();
            record.updated = at(self.now);
            if fate == Fate::Spare {
                record.key = group_key.clone();
            }
        }
        self.learn(ip);
    }

    fn app_of(&self, name: &str) -> &AppModel {
        let mut apps = self.apps.iter();
        apps.find(|app| app.workload.app.name == name).unwrap()
    }

    fn group(&self, group_key: &HolderKey, app: &AppModel) -> slot::Group {
        let keys = self.store.values().map(|record| &record.key);
        slot::Group {
            records: keys.filter(|key| key.is_under(group_key)).count(),
            per_pod: NonZeroU32::new(u32::try_from(app.wishes.len()).unwrap()).unwrap(),
        }
    }

    /// Looks at everything in the store, as the controller does from time to time.
    fn resync(&mut self) {
        let known = self.ledger.records().map(|record| record.ip);
        let all: BTreeSet<IpAddr> = known.chain(self.store.keys().copied()).collect();
        for ip in &all {
            self.learn(*ip);
        }
        for ip in all {
            let Some(record) = self.store.get(&ip) else {
                continue;
            };
            let pod = record.key.parts().map_or("", |parts| parts.pod);
            if pod.is_empty() {
                continue;
            }
            let sighting = self
                .pods
                .get(pod)
                .map_or(Sighting::NotFound, |pod| Sighting::Found {
                    uid: &pod.uid,
                    finished: false,
                });
            if let Some(departure) = Departure::seen(&record.uid, sighting) {
                self.judge(ip, departure);
            }
        }
        for app in 0..self.apps.len() {
            self.free_surplus(app);
        }
    }

    fn free_surplus(&mut self, app: usize) {
        let app = &self.apps[app];
        let holder = app.workload.app.holder(None, "x").key().unwrap();
        let group_key = holder.group_key().unwrap();
        let spares: Vec<Spare> = self
            .store
            .values()
            .filter(|record| record.key == group_key)
            .map(|record| Spare {
                ip: record.ip,
                policy: record.policy,
                updated: record.updated,
            })
            .collect();
        let group = self.group(&group_key, app);
        for (ip, _) in slot::surplus(&app.workload, app.pool.is_some(), group, &spares) {
            self.apply(ip, Fate::Free, &group_key);
        }
    }

    fn address(&self, number: usize) -> IpAddr {
        let config = &self.configs[self.config];
        let all = config.addresses().union(&config.shared());
        all.nth(number as u128 % all.len()).unwrap()
    }

    fn other(&mut self, number: usize) {
        let ip = self.address(number);
        match self.store.get(&ip) {
            Some(record) if OTHERS.contains(&record.key.as_str()) => {
                self.store.remove(&ip);
            }
            Some(_) => {}
            None => {
                let record = Record {
                    ip,
                    key: OTHERS[number % OTHERS.len()].into(),
                    policy: ReleasePolicy::Never,
                    node: String::new(),
                    uid: String::new(),
                    updated: at(self.now),
                    reserved: false,
                    workload_note: None,
                };
                self.store.insert(ip, record);
            }
        }
    }

    fn learn(&mut self, ip: IpAddr) {
        match self.store.get(&ip) {
            Some(record) => self.ledger.observe(record.clone()),
            None => {
                self.ledger.forget(ip);
            }
        }
    }

    fn crash(&mut self) {
        self.flights.clear();
        self.ledger = Ledger::new(self.configs[self.config].clone());
        for record in self.store.values() {
            self.ledger.observe(record.clone());
        }
    }

    fn subnet(&self, node: &str) -> IpNet {
        let address = offers(node)[0].address.unwrap();
        self.ledger.topology().node_subnet(address).unwrap()
    }

    fn check(&self) {
        self.ledger.check_invariants();
        let mut holders: BTreeMap<IpAddr, &String> = BTreeMap::new();
        for (name, pod) in &self.pods {
            let Some(addresses) = &pod.bound else {
                continue;
            };
            let wishes = &self.apps[pod.app].wishes;
            assert_eq!(addresses.len(), wishes.len(), "{name}");
            let key = self.claimant(name).key;
            let held = self.store.values().filter(|record| record.key == key);
            assert_eq!(held.count(), wishes.len(), "{name} holds more or less");
            for ip in addresses {
                let other = holders.insert(*ip, name);
                assert_eq!(other, None, "{ip} has two holders");
                let record = self.store.get(ip);
                let record = record.unwrap_or_else(|| panic!("{ip} of {name} was freed"));
                assert_eq!((&record.key, &record.uid), (&key, &pod.uid));
            }
        }
    }

    /// Counted without any help of the ledger: what the store has, what the binds
    /// in flight will add, and what this one adds and gives back.
    fn check_limits(&self, granted: &Flight) {
        let claimant = &granted.claimant;
        let in_use = |counts: &dyn Fn(&HolderKey) -> bool| {
            let counts = |key: &HolderKey| {
                key.is_under(&claimant.group_key) && !key.is_group() && counts(key)
            };
            let held = self.store.values().filter(|record| counts(&record.key));
            let flights = self.flights.iter().chain([granted]);
            let flights = flights.filter(|flight| counts(&flight.claimant.key));
            let to_come = flights.flat_map(|flight| &flight.grant.take[flight.written..]);
            let to_come = to_come.filter(|choice| !matches!(choice, Choice::Own(_)));
            held.count() + to_come.count() - granted.grant.give_back.len()
        };
        for limit in &claimant.limits {
            let (used, at_most) = match limit {
                Limit::Workload { at_most, .. } => {
                    (in_use(&|key| key.is_under(&claimant.app_prefix)), at_most)
                }
                Limit::Pool { at_most, .. } => (in_use(&|_| true), at_most),
                Limit::PoolInNamespace {
                    at_most, namespace, ..
                } => {
                    let here = |key: &HolderKey| key.parts().unwrap().namespace == namespace;
                    (in_use(&here), at_most)
                }
            };
            assert!(used <= *at_most, "{limit:?}: {used} are in use");
        }
    }

    /// All workloads and pods go, unseen; one look at everything is enough.
    fn end(&mut self) {
        for app in &mut self.apps {
            app.workload.state = State::Gone;
        }
        self.pods.clear();
        self.store
            .retain(|_, record| !OTHERS.contains(&record.key.as_str()));
        self.ledger.lapse(Timestamp::MAX);
        self.resync();
        self.check();
        for record in self.store.values() {
            assert_eq!(record.policy, ReleasePolicy::Never, "{record:?}");
            assert!(record.is_idle());
        }
        let known: Vec<&Record> = self.ledger.records().collect();
        assert_eq!(known, self.store.values().collect::<Vec<_>>());
        let configured = self.configs[self.config].addresses();
        let kept = self.store.keys().filter(|ip| configured.contains(**ip));
        let entries = self.ledger.topology().config().enumerate();
        let free: u128 = entries.map(|(id, _)| self.ledger.free_count(id)).sum();
        assert_eq!(free + kept.count() as u128, configured.len());
    }
}

proptest! {
    #[test]
    fn pods_live_and_die(ops in prop::collection::vec(ops(), 1..120)) {
        let mut model = Model::new();
        for op in &ops {
            model.step(op);
        }
        model.end();
    }
}

#[test]
fn the_model_gets_somewhere() {
    // The properties mean nothing if the random lives are empty ones.
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let (mut bound, mut spares, mut removed) = (0, 0, 0);
    for _ in 0..50 {
        let ops = prop::collection::vec(ops(), 120).new_tree(&mut runner);
        let mut model = Model::new();
        for op in &ops.unwrap().current() {
            let before = model.pods.values().filter(|it| it.bound.is_some()).count();
            model.step(op);
            let after = model.pods.values().filter(|it| it.bound.is_some()).count();
            bound += after.saturating_sub(before);
            removed += before.saturating_sub(after);
            let is_spare = |record: &&Record| record.key.is_group();
            spares = spares.max(model.store.values().filter(is_spare).count());
        }
    }
    assert!(bound > 300, "{bound} pods were bound");
    assert!(removed > 100, "{removed} pods went");
    assert!(spares >= 3, "{spares} spares at a time");
}
