//! The check of all records: what events would have asked for, had they come.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::PoisonError,
};

use floe_core::ipam::{
    ledger::Record,
    overuse::Overuse,
    owner::App,
    suspect::{Cached, Suspicion, suspicion},
};
use tokio::task::yield_now;
use tracing::warn;

use super::{Item, Reclaimer, settle::Settler};
use crate::{
    cluster::{Freshness, Phase},
    store::EVERYWHERE,
};

/// How many records are looked at before others get their turn at the books.
const PIECE: usize = 512;

/// The pods of a group that are told that it is above its limit.
const MOST_TOLD: usize = 8;

impl Reclaimer {
    /// What to look at because of a record, by what the caches say.
    pub(super) fn suspicion(&self, record: &Record) -> Option<Suspicion> {
        let parts = record.key.parts()?;
        let pod = self.cluster.pod(parts.namespace, parts.pod);
        let cached = pod.as_deref().map(|pod| Cached {
            uid: &pod.uid,
            finished: pod.phase == Phase::Finished,
        });
        suspicion(record, cached)
    }
}

impl Settler<'_> {
    /// Looks at all records, a piece at a time.
    pub async fn check(&self) -> Vec<Item> {
        let mut found = BTreeSet::new();
        let mut bounded = BTreeSet::new();
        let mut last: Option<IpAddr> = None;
        loop {
            let piece: Vec<Record> = self.reclaimer.store.read(|books| {
                let records = books.ledger().records_after(last, PIECE);
                records.cloned().collect()
            });
            let Some(end) = piece.last() else {
                break;
            };
            last = Some(end.ip);
            for record in &piece {
                found.extend(self.reclaimer.suspicion(record));
                bounded.extend(bounded_app(record));
            }
            yield_now().await;
        }
        self.tell_overuse(bounded).await;
        found.into_iter().map(Item::from).collect()
    }

    /// Tells which groups are above their limits: those that were so at the last
    /// check already, and each once. Nothing of a live pod is freed for that.
    async fn tell_overuse(&self, apps: BTreeSet<App>) {
        let Reclaimer {
            store, workloads, ..
        } = self.reclaimer;
        let mut found = store.read(|books| {
            let mut found = BTreeSet::new();
            for ((namespace, name), pool) in books.pools() {
                let part = (namespace != EVERYWHERE).then_some(namespace.as_str());
                let size = usize::try_from(pool.limit()).unwrap_or(usize::MAX);
                found.extend(Overuse::of_pool(books.ledger(), name, part, size));
            }
            found
        });
        for app in apps {
            let workload = workloads.workload(app, Freshness::Cached).await;
            found.extend(store.read(|books| Overuse::of_workload(books.ledger(), &workload)));
        }
        self.reclaimer.metrics.overused(found.len());
        let news: Vec<Overuse> = {
            let mut known = self.overused.lock().unwrap_or_else(PoisonError::into_inner);
            let before = std::mem::take(&mut *known);
            let mut news = Vec::new();
            let mut now = BTreeMap::new();
            for overuse in found {
                let was = before.iter().find(|(it, _)| {
                    (&it.group, &it.namespace) == (&overuse.group, &overuse.namespace)
                });
                if was.is_some_and(|(_, told)| !told) {
                    news.push(overuse.clone());
                }
                now.insert(overuse, was.is_some());
            }
            *known = now;
            news
        };
        for overuse in &news {
            self.tell_one_overuse(overuse);
        }
    }

    fn tell_one_overuse(&self, overuse: &Overuse) {
        let reason = overuse.reason();
        let namespace = overuse.namespace.as_deref();
        warn!(
            reason,
            group = %overuse.group,
            namespace,
            held = overuse.held,
            at_most = overuse.at_most,
            "more addresses are in use than allowed; none of a running pod is taken back",
        );
        let pods: BTreeSet<(String, String)> = self.reclaimer.store.read(|books| {
            let records = books.ledger().under(&overuse.group);
            records
                .filter_map(|record| record.key.parts())
                .filter(|parts| !parts.pod.is_empty())
                .filter(|parts| namespace.is_none_or(|it| it == parts.namespace))
                .map(|parts| (parts.namespace.to_owned(), parts.pod.to_owned()))
                .take(MOST_TOLD)
                .collect()
        });
        for (namespace, name) in pods {
            if let Some(pod) = self.reclaimer.cluster.pod(&namespace, &name) {
                self.reclaimer.reporter.warns(&pod, reason, overuse);
            }
        }
    }
}

/// The workload whose replicas bound how many addresses are in use.
fn bounded_app(record: &Record) -> Option<App> {
    let parts = record.key.parts()?;
    let counts = parts.pool.is_none() && !parts.pod.is_empty() && record.policy.keeps();
    let app = App::of_key(&parts, record.workload_note.as_deref())?;
    (counts && app.kind.shares_spares()).then_some(app)
}
