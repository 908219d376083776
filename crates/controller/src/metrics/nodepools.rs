//! Figures about pools of node addresses, with FLIPOP's names and labels.
//!
//! Compat: FLIPOP's counters of assignments have no `_total` at the end of their names; see
//! [`PLAIN_COUNTERS`].

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, MetricEncoder},
    metrics::{MetricType, counter::Counter, family::Family, histogram::Histogram},
    registry::Registry,
};

use crate::nodepools::{Caller, Id};

/// The default buckets of Prometheus' Go client, in seconds.
const BUCKETS: [f64; 11] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
];

/// FLIPOP's names of numbers that only grow. Without `_total` at their end `OpenMetrics` knows
/// no counter, so they are of type `unknown` there, and counters in the text format.
pub const PLAIN_COUNTERS: &[&str] = &[ASSIGNMENTS, ASSIGNMENT_ERRORS];

const ASSIGNMENTS: &str = "flipop_floatingippoolcontroller_ip_assignments";
const ASSIGNMENT_ERRORS: &str = "flipop_floatingippoolcontroller_ip_assignment_errors";

type Labels = Vec<(&'static str, String)>;

/// Figures about pools of node addresses.
#[derive(Clone, Debug)]
pub struct NodePools {
    calls: Family<Labels, Counter>,
    seconds: Family<Labels, Histogram, fn() -> Histogram>,
    book: Book,
}

#[derive(Clone, Debug, Default)]
struct Book(Arc<Mutex<Figures>>);

#[derive(Debug, Default)]
struct Figures {
    pools: BTreeMap<Id, PoolFigures>,
    record_sets: BTreeMap<Id, RecordFigures>,
}

/// The figures of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolFigures {
    /// Its cloud.
    pub provider: String,
    /// Its name in DNS, or nothing.
    pub dns: String,
    /// Nodes that wait for an address.
    pub available: usize,
    /// How many addresses are missing.
    pub unfulfilled: usize,
    /// Its addresses.
    pub ips: Vec<IpFigures>,
}

/// The figures of an address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IpFigures {
    /// The address.
    pub ip: String,
    /// The word of the status.
    pub state: &'static str,
    /// The server that has it, or nothing.
    pub provider_id: String,
    /// Its node, while it fits.
    pub node: String,
    /// How often it was assigned.
    pub assignments: u64,
    /// How often that failed.
    pub errors: u64,
}

/// The figures of a record set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordFigures {
    /// Who keeps the zone.
    pub provider: String,
    /// The name in full.
    pub dns: String,
    /// How many addresses it says.
    pub records: usize,
}

impl Default for NodePools {
    fn default() -> Self {
        Self {
            calls: Family::default(),
            seconds: Family::new_with_constructor(|| Histogram::new(BUCKETS)),
            book: Book::default(),
        }
    }
}

impl NodePools {
    /// Notes a call of a provider.
    pub fn called(
        &self,
        provider: &str,
        call: &'static str,
        caller: Option<&Caller>,
        good: bool,
        took: Duration,
    ) {
        let (kind, id) = match caller {
            Some(Caller { kind, id }) => (*kind, id.clone()),
            // Lists are for all pools of an account.
            None => ("", Id::default()),
        };
        let mut labels: Labels = vec![
            ("provider", provider.to_owned()),
            ("call", call.to_owned()),
            ("kind", kind.to_owned()),
            ("namespace", id.namespace),
            ("name", id.name),
        ];
        let seconds = self.seconds.get_or_create(&labels);
        seconds.observe(took.as_secs_f64());
        drop(seconds);
        let outcome = if good { "success" } else { "error" };
        labels.insert(2, ("outcome", outcome.to_owned()));
        self.calls.get_or_create(&labels).inc();
    }

    /// Notes how a pool is; none when it is gone.
    pub fn pool(&self, id: &Id, figures: Option<PoolFigures>) {
        let mut book = self.book.lock();
        match figures {
            Some(figures) => book.pools.insert(id.clone(), figures),
            None => book.pools.remove(id),
        };
    }

    /// Notes how a record set is; none when it is gone.
    pub fn record_set(&self, id: &Id, figures: Option<RecordFigures>) {
        let mut book = self.book.lock();
        match figures {
            Some(figures) => book.record_sets.insert(id.clone(), figures),
            None => book.record_sets.remove(id),
        };
    }

    /// Only a leader tells how pools are.
    pub fn clear(&self) {
        *self.book.lock() = Figures::default();
    }

    /// Has them served.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "flipop_providers_calls",
            "Calls of clouds and name servers for node addresses, by what came of them",
            self.calls.clone(),
        );
        registry.register(
            "flipop_providers_call_duration_seconds",
            "Seconds to an answer of clouds and name servers",
            self.seconds.clone(),
        );
        registry.register_collector(Box::new(self.book.clone()));
    }
}

impl Book {
    fn lock(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Collector for Book {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let figures = self.lock();
        let pools = || figures.pools.iter();
        let ips = || pools().flat_map(|(id, pool)| pool.ips.iter().map(move |ip| (id, pool, ip)));
        let mut out = Writer(&mut encoder);
        out.family(
            MetricType::Gauge,
            "flipop_floatingippoolcontroller_node_status",
            "Nodes that wait for an address, and addresses that a server has",
            pools().flat_map(|(id, pool)| {
                let assigned = pool.ips.iter().filter(|ip| !ip.provider_id.is_empty());
                let counts = [
                    ("available", pool.available),
                    ("assigned", assigned.count()),
                ];
                counts.map(|(status, count)| {
                    let mut labels = of_pool(id, pool);
                    labels.push(("status", status.to_owned()));
                    (labels, number(count))
                })
            }),
        )?;
        out.family(
            COUNTED,
            ASSIGNMENTS,
            "How often an address was assigned",
            ips().map(|(id, pool, ip)| (of_ip(id, pool, ip), number(ip.assignments))),
        )?;
        out.family(
            COUNTED,
            ASSIGNMENT_ERRORS,
            "How often an assignment of an address failed",
            ips().map(|(id, pool, ip)| (of_ip(id, pool, ip), number(ip.errors))),
        )?;
        let owned = ips().filter(|(_, _, ip)| !ip.provider_id.is_empty());
        out.family(
            MetricType::Gauge,
            "flipop_floatingippoolcontroller_ip_node",
            "The server and the node that have an address",
            owned.map(|(id, pool, ip)| {
                let mut labels = of_ip(id, pool, ip);
                labels.push(("provider_id", ip.provider_id.clone()));
                labels.push(("node", ip.node.clone()));
                (labels, 1.0)
            }),
        )?;
        let enabled = ips().filter(|(_, _, ip)| ip.state != "disabled");
        out.family(
            MetricType::Gauge,
            "flipop_floatingippoolcontroller_ip_state",
            "The state of an address",
            enabled.map(|(id, pool, ip)| {
                let mut labels = of_ip(id, pool, ip);
                labels.push(("state", ip.state.to_owned()));
                (labels, 1.0)
            }),
        )?;
        out.family(
            MetricType::Gauge,
            "flipop_floatingippoolcontroller_unfulfilled_ips",
            "How many addresses a pool lacks",
            pools().map(|(id, pool)| (of_pool(id, pool), number(pool.unfulfilled))),
        )?;
        let help = "How many addresses a name of nodes says.";
        let mut records = encoder.encode_descriptor(
            "flipop_nodednsrecordset_records",
            help,
            None,
            MetricType::Gauge,
        )?;
        for (id, set) in &figures.record_sets {
            let labels = labels(id, &set.provider, &set.dns);
            let mut record = records.encode_family(&labels)?;
            record.encode_gauge(&number(set.records))?;
        }
        Ok(())
    }
}

fn labels(id: &Id, provider: &str, dns: &str) -> Labels {
    vec![
        ("namespace", id.namespace.clone()),
        ("name", id.name.clone()),
        ("provider", provider.to_owned()),
        ("dns", dns.to_owned()),
    ]
}

fn of_pool(id: &Id, pool: &PoolFigures) -> Labels {
    labels(id, &pool.provider, &pool.dns)
}

fn of_ip(id: &Id, pool: &PoolFigures, ip: &IpFigures) -> Labels {
    let mut labels = of_pool(id, pool);
    labels.insert(2, ("ip", ip.ip.clone()));
    labels
}

/// Prometheus knows only this kind of number.
#[expect(
    clippy::cast_precision_loss,
    reason = "a count above 2^53 may be rounded"
)]
fn number(count: impl TryInto<u64>) -> f64 {
    count.try_into().unwrap_or(u64::MAX) as f64
}

/// The type of [`PLAIN_COUNTERS`]: a gauge, which may go down, they are not either.
const COUNTED: MetricType = MetricType::Unknown;

struct Writer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Writer<'_, '_> {
    fn family(
        &mut self,
        kind: MetricType,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (Labels, f64)>,
    ) -> fmt::Result {
        let help = format!("{help}.");
        let mut family: MetricEncoder<'_> = self.0.encode_descriptor(name, &help, None, kind)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}
