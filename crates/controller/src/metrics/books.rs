//! What is in the books, read at each scrape.

use std::{collections::BTreeMap, fmt};

use prometheus_client::{
    collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder},
    metrics::MetricType,
};
use tokio::sync::watch;

use crate::{
    leader::Standing,
    store::{Books, Store},
};

/// Reads the books and the standing.
#[derive(Debug)]
pub struct Collector {
    pub store: Store,
    pub standing: watch::Receiver<Standing>,
}

impl collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let leads = *self.standing.borrow() == Standing::Leading;
        let figures = self.store.read(Figures::of);
        let mut out = Writer(&mut encoder);
        out.one(
            "floe_leader",
            "Whether this process leads",
            f64::from(u8::from(leads)),
        )?;
        out.one(
            "floe_ip_outside_configuration",
            "Addresses with a record that are in no entry of the address configuration",
            figures.outside,
        )?;
        out.family(
            "galaxy_ip_counter",
            "Addresses of each entry of the address configuration, those with a record and all",
            figures
                .entries
                .iter()
                .flat_map(|((subnet, first_ip), entry)| {
                    [("allocated", entry.used), ("total", entry.total)].map(|(kind, value)| {
                        let labels = [("type", kind), ("subnet", subnet), ("first_ip", first_ip)];
                        (labels, value)
                    })
                }),
        )?;
        let subnets = figures.subnets();
        out.family(
            "floe_ip_free",
            "Addresses of each pod network that can be handed out",
            subnets
                .iter()
                .map(|(subnet, it)| ([("subnet", *subnet)], it.free)),
        )?;
        out.family(
            "floe_ip_used",
            "Addresses of each pod network that have a record",
            subnets
                .iter()
                .map(|(subnet, it)| ([("subnet", *subnet)], it.used)),
        )?;
        out.family(
            "floe_ip_strange_records",
            "Records that cannot be used in full, by reason",
            figures
                .strange
                .iter()
                .map(|(reason, count)| ([("reason", *reason)], *count)),
        )?;
        out.family(
            "floe_pool_size",
            "The limit of each pool",
            figures.pools.iter().map(|((namespace, pool), size)| {
                (
                    [("namespace", namespace.as_str()), ("pool", pool.as_str())],
                    *size,
                )
            }),
        )
    }
}

/// Copied from the books, so that they are not held while text is written.
#[derive(Debug, Default)]
struct Figures {
    /// By network and first address. Compat: galaxy shows one pair per entry, and
    /// breaks when two entries have the same labels; here those are summed.
    entries: BTreeMap<(String, String), Entry>,
    outside: f64,
    strange: BTreeMap<&'static str, f64>,
    pools: BTreeMap<(String, String), f64>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    used: f64,
    free: f64,
    total: f64,
}

impl Entry {
    fn add(&mut self, other: Self) {
        self.used += other.used;
        self.free += other.free;
        self.total += other.total;
    }
}

impl Figures {
    fn of(books: &Books) -> Self {
        let mut figures = Self {
            outside: number(books.outside().into()),
            ..Self::default()
        };
        let ledger = books.ledger();
        for (id, entry) in ledger.topology().config().enumerate() {
            let first = entry.first_ip().map(|ip| ip.to_string());
            let labels = (entry.network().to_string(), first.unwrap_or_default());
            figures.entries.entry(labels).or_default().add(Entry {
                used: number(books.used()[id.position()].into()),
                free: number(ledger.free_count(id)),
                total: number(entry.addresses().len()),
            });
        }
        for reason in books.strange().values() {
            *figures.strange.entry(reason).or_default() += 1.0;
        }
        for (key, pool) in books.pools() {
            figures
                .pools
                .insert(key.clone(), number(pool.limit().into()));
        }
        figures
    }

    fn subnets(&self) -> BTreeMap<&str, Entry> {
        let mut subnets = BTreeMap::<_, Entry>::new();
        for ((subnet, _), entry) in &self.entries {
            subnets.entry(subnet.as_str()).or_default().add(*entry);
        }
        subnets
    }
}

/// Prometheus knows only this kind of number.
#[expect(
    clippy::cast_precision_loss,
    reason = "a count above 2^53 may be rounded"
)]
fn number(count: u128) -> f64 {
    count as f64
}

struct Writer<'a, 'b>(&'a mut DescriptorEncoder<'b>);

impl Writer<'_, '_> {
    fn one(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let mut metric = self.gauge(name, help)?;
        metric.encode_gauge(&value)
    }

    fn family<L: EncodeLabelSet>(
        &mut self,
        name: &str,
        help: &str,
        values: impl IntoIterator<Item = (L, f64)>,
    ) -> fmt::Result {
        let mut family = self.gauge(name, help)?;
        for (labels, value) in values {
            family.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }

    /// The registry ends each help text with a dot, so this does too.
    fn gauge<'s>(&'s mut self, name: &'s str, help: &str) -> Result<MetricEncoder<'s>, fmt::Error> {
        let help = format!("{help}.");
        self.0
            .encode_descriptor(name, &help, None, MetricType::Gauge)
    }
}
