//! Addresses of pools that are taken ahead of their pods.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use floe_api::galaxy::Pool;
use floe_core::ipam::key::PoolName;
use floe_shell::stop::Stop;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, timeout_at},
};
use tracing::warn;

pub use self::filler::{Filled, Filler};
use crate::{
    duty::Duty,
    events::{self, Events},
    leader::Standing,
    metrics::Metrics,
    store::{Books, News},
};

mod filler;

/// The time between two looks when nothing is heard.
const PACE: Duration = Duration::from_secs(30);

/// The reason that is told when addresses lack.
const POOL_SHORT: &str = "PoolAddressesMissing";

/// Keeps pools filled.
pub struct Preallocator {
    /// Who takes addresses for them.
    pub filler: Filler,
    /// Where it is told.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Preallocator {
    /// Keeps pools filled until `stop`.
    pub async fn run(self, stop: Stop) {
        let duty = Duty::new(self.standing.clone(), self.filler.store.warmth());
        duty.each_term(stop, || self.act(), || ()).await;
    }

    async fn act(&self) {
        let mut news = self.filler.store.news();
        let mut lacking = BTreeMap::new();
        loop {
            let pools = self.filler.store.read(asking);
            lacking.retain(|name, _| pools.contains(name));
            for name in &pools {
                self.fill(name, &mut lacking).await;
            }
            let figures = lacking
                .iter()
                .map(|(name, missing)| (name.as_str(), *missing));
            self.metrics.pool_shortages(figures);
            wait(&mut news).await;
        }
    }

    async fn fill(&self, name: &PoolName, lacking: &mut BTreeMap<PoolName, usize>) {
        match self.filler.fill(name).await {
            Ok(Filled::Enough) => {
                lacking.remove(name);
            }
            Ok(Filled::Short { missing }) => {
                if lacking.insert(name.clone(), missing).is_none() {
                    self.tell_shortage(name, missing);
                }
            }
            Err(error) => {
                warn!(reason = error.reason(), pool = %name, %error, "pool is not filled yet");
            }
        }
    }

    fn tell_shortage(&self, name: &PoolName, missing: usize) {
        warn!(reason = POOL_SHORT, pool = %name, missing, "no free addresses for the pool");
        let asking: Vec<Pool> = self.filler.store.read(|books| {
            let of_name = books
                .pools()
                .iter()
                .filter(|((_, it), _)| it == name.as_str());
            let asking = of_name.filter(|(_, pool)| pool.pre_allocate_ip);
            asking.map(|(_, pool)| pool.clone()).collect()
        });
        for pool in asking {
            self.events.tell(events::News {
                about: ObjectReference {
                    api_version: Some(Pool::api_version(&()).into_owned()),
                    kind: Some(Pool::kind(&()).into_owned()),
                    namespace: pool.metadata.namespace.clone(),
                    name: pool.metadata.name.clone(),
                    uid: pool.metadata.uid.clone(),
                    resource_version: pool.metadata.resource_version.clone(),
                    ..ObjectReference::default()
                },
                warning: true,
                reason: POOL_SHORT,
                action: "Preallocate",
                note: format!(
                    "lacks {missing} of {} addresses to preallocate: none is free",
                    pool.size
                ),
            });
        }
    }
}

/// The pools that ask for addresses ahead of pods.
fn asking(books: &Books) -> BTreeSet<PoolName> {
    let pools = books.pools().iter().filter(|(_, it)| it.pre_allocate_ip);
    // No pod can ask for a pool of another name.
    let names = pools.filter_map(|((_, name), _)| PoolName::new(name).ok());
    names.collect()
}

/// Waits for something that can matter, and takes all that came with it.
async fn wait(news: &mut broadcast::Receiver<News>) {
    let end = Instant::now() + PACE;
    // An error says that some were missed, which matters; with nobody left to
    // tell anything the time passes all the same.
    while let Ok(Ok(told)) = timeout_at(end, news.recv()).await {
        match told {
            News::Changed(_) => {}
            News::Freed(_) | News::Configured | News::Pool(_) | News::Relisted => break,
        }
    }
    while !matches!(
        news.try_recv(),
        Err(broadcast::error::TryRecvError::Empty | broadcast::error::TryRecvError::Closed)
    ) {}
}

#[cfg(test)]
mod tests;
