//! How fast addresses change hands in the books alone.
//!
//! Deployments are rolled out: each of its pods goes, and another one comes. That
//! is two operations for each pod. Releasing is to forget the record of the first
//! one; allocating is to choose an address by [`bind`], with all that it looks at,
//! and to enter the record. Half of the addresses are held, the free ones lie
//! scattered, and the Deployments are taken at random from all of them, so large
//! books really are worked on as a whole. The same is shown for single pods at
//! random, which no workload does, and which shows what memory costs.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use floe_core::{
    ipam::{
        ledger::{Ledger, Record},
        owner::AppKind,
        policy::ReleasePolicy,
    },
    schedule::{bind::bind, claimant::Claimant},
};
use ipnet::IpNet;
use jiff::Timestamp;
use serde_json::json;

use crate::{
    clock::Turn,
    scene::{self, Size},
    table::{Figure, Row, Wanted},
};

const ROUNDS: usize = 35;
/// How many pods each Deployment has.
const PODS: usize = 5;
const ROUND: Duration = Duration::from_millis(100);

/// Measures small and large books in turns. Whatever else the machine does only
/// makes a round slower, by taking its caches, so the fastest one counts.
pub fn measure(size: Size) -> Vec<Row> {
    let mut few = Scene::new(size.few_addresses);
    let mut many = Scene::new(size.many_addresses);
    let mut rows = Vec::new();
    for together in [PODS, 1] {
        let (mut fastest_few, mut fastest_many) = (0.0_f64, 0.0_f64);
        for _ in 0..ROUNDS {
            fastest_few = fastest_few.max(few.round(together));
            fastest_many = fastest_many.max(many.round(together));
        }
        let reference = Figure::PerSecond(fastest_few);
        let figure = Figure::PerSecond(fastest_many);
        let (how, wanted, ratio) = if together == PODS {
            let wanted = Wanted::AtLeast(Figure::PerSecond(1e6));
            ("", wanted, Wanted::RatioAtLeast(0.25))
        } else {
            // Shown because it is worse: every pod lies somewhere else in memory.
            (", single pods", Wanted::Nothing, Wanted::Nothing)
        };
        let name = |addresses: u32| format!("allocations and releases, {addresses} addresses{how}");
        rows.push(Row::new(name(size.few_addresses), reference, wanted));
        rows.push(Row::new(name(size.many_addresses), figure, ratio).against(reference));
    }
    rows
}

struct Scene {
    ledger: Ledger,
    subnet: IpNet,
    /// The addresses that are held, each with the number of its holder's app.
    held: Vec<(IpAddr, u32)>,
    /// How many pods there were.
    pods: u32,
    random: u64,
}

impl Scene {
    fn new(addresses: u32) -> Self {
        let first = Ipv4Addr::new(10, 16, 0, 2);
        let last = Ipv4Addr::from_bits(first.to_bits() + addresses - 1);
        let entries = json!([{
            "nodeSubnets": ["10.200.0.0/24"], "ips": [format!("{first}~{last}")],
            "subnet": "10.16.0.0/12", "gateway": "10.16.0.1",
        }]);
        let config = scene::parse(&entries).expect("it is written here");
        let mut scene = Self {
            ledger: Ledger::new(config),
            subnet: "10.200.0.0/24".parse().expect("it is written here"),
            held: Vec::new(),
            pods: 0,
            random: 1,
        };
        for number in 0..addresses {
            // Every other pod goes in a moment.
            let app = number / 10;
            let pod = scene.pod(app);
            let ip = scene.allocate(&pod, record(&pod));
            scene.held.push((ip, app));
        }
        let mut stays = false;
        let ledger = &mut scene.ledger;
        scene.held.retain(|(ip, _)| {
            stays = !stays;
            if !stays {
                ledger.forget(*ip);
            }
            stays
        });
        scene
    }

    /// How many operations are done each second, when so many neighbours are
    /// replaced together.
    fn round(&mut self, together: usize) -> f64 {
        const BATCH: usize = 100;
        let mut took = Duration::ZERO;
        let mut operations = 0_u32;
        while took < ROUND {
            // Pods and what is written about them are not the business of the
            // books: they are there before, and go afterwards.
            let mut replaced: Vec<(usize, Claimant)> = Vec::new();
            while replaced.len() < BATCH {
                let first = self.random() / together * together;
                let positions = first..self.held.len().min(first + together);
                replaced.extend(positions.map(|at| (at, self.pod(self.held[at].1))));
            }
            let records: Vec<Record> = replaced.iter().map(|(_, pod)| record(pod)).collect();
            let mut gone = Vec::with_capacity(replaced.len());
            let start = Turn::now();
            for ((position, pod), record) in replaced.iter().zip(records) {
                let (ip, _) = self.held[*position];
                gone.push(self.ledger.forget(ip).expect("it is held"));
                self.held[*position].0 = self.allocate(pod, record);
            }
            took += start.elapsed();
            operations += 2 * u32::try_from(gone.len()).unwrap_or(0);
        }
        f64::from(operations) / took.as_secs_f64()
    }

    fn allocate(&mut self, pod: &Claimant, record: Record) -> IpAddr {
        let grant = bind(&self.ledger, pod, self.subnet, Timestamp::UNIX_EPOCH);
        let ip = grant.expect("half of the addresses are free").take[0].ip();
        self.ledger.observe(Record { ip, ..record });
        ip
    }

    /// Another pod of an app.
    fn pod(&mut self, app: u32) -> Claimant {
        self.pods += 1;
        let app = format!("app-{app}");
        let name = format!("{app}-7d4b9c6f5-{:07x}", self.pods);
        scene::pod(AppKind::Deployment, &app, &name, ReleasePolicy::OnDelete)
    }

    /// A place among those that are held; the same ones in every run.
    fn random(&mut self) -> usize {
        let next = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = next.wrapping_add(1);
        let below = self.held.len() as u64;
        usize::try_from((self.random >> 33) % below).expect("it is below a length")
    }
}

/// What is written about a pod; the address is not known yet.
fn record(pod: &Claimant) -> Record {
    Record {
        ip: Ipv4Addr::UNSPECIFIED.into(),
        key: pod.key.clone(),
        policy: pod.policy,
        node: "node-1".to_owned(),
        uid: pod.uid.clone(),
        updated: Timestamp::UNIX_EPOCH,
        reserved: false,
        workload_note: None,
    }
}
