//! Addresses of pools that are taken ahead of their pods.

use std::{collections::BTreeMap, time::Duration};

use floe_api::galaxy::Pool;
use floe_core::ipam::{
    attribute::Attribute,
    key::PoolName,
    ledger::Promise,
    policy::ReleasePolicy,
    preallocate::{Declared, Order, next, spare_key},
};
use floe_shell::stop::Stop;
use jiff::SignedDuration;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource as _;
use tokio::{
    sync::{broadcast, watch},
    time::{Instant, timeout_at},
};
use tracing::{debug, info, warn};

use crate::{
    clock,
    duty::Duty,
    events::{self, Events},
    leader::Standing,
    metrics::Metrics,
    records::{Holding, Records, WriteError},
    store::{Books, EVERYWHERE, News, Store},
};

/// The time between two looks when nothing is heard.
const PACE: Duration = Duration::from_secs(30);

/// How long an address is set aside while it is written.
const ASIDE: SignedDuration = SignedDuration::from_mins(1);

/// How often another address is tried in a row when others are faster.
const TRIES: usize = 8;

/// The reason that is told when addresses lack.
const POOL_SHORT: &str = "PoolAddressesMissing";

/// Keeps pools filled.
pub struct Preallocator {
    /// The books.
    pub store: Store,
    /// Writes of records.
    pub records: Records,
    /// Where it is told.
    pub events: Events,
    /// Where it is counted.
    pub metrics: Metrics,
    /// Whether this process leads; only a leader acts.
    pub standing: watch::Receiver<Standing>,
}

impl Preallocator {
    /// Keeps pools filled until `stop`.
    pub async fn run(self, mut stop: Stop) {
        tokio::select! {
            () = stop.requested() => {}
            () = self.serve() => {}
        }
    }

    async fn serve(&self) {
        let mut duty = Duty::new(self.standing.clone(), self.store.warmth());
        loop {
            duty.begins().await;
            tokio::select! {
                () = duty.ends() => {}
                () = self.act() => {}
            }
        }
    }

    async fn act(&self) {
        let mut news = self.store.news();
        let mut lacking = BTreeMap::new();
        loop {
            let pools = self.store.read(pools);
            lacking.retain(|name, _| pools.contains_key(name));
            for (name, declared) in &pools {
                self.fill(name, declared, &mut lacking).await;
            }
            let figures = lacking
                .iter()
                .map(|(name, missing)| (name.as_str(), *missing));
            self.metrics.pool_shortages(figures);
            wait(&mut news).await;
        }
    }

    /// Takes addresses for a pool, one after the other, until it has what it asks
    /// for or there are none.
    async fn fill(
        &self,
        name: &PoolName,
        declared: &[Declared],
        lacking: &mut BTreeMap<PoolName, usize>,
    ) {
        let mut tries = TRIES;
        loop {
            match self.take_next(name, declared).await {
                Ok(Order::Take(ip)) => {
                    info!(pool = %name, %ip, "address taken ahead of pods");
                    tries = TRIES;
                }
                Ok(Order::Enough) => {
                    lacking.remove(name);
                    return;
                }
                Ok(Order::Short { missing }) => {
                    if lacking.insert(name.clone(), missing).is_none() {
                        self.tell_shortage(name, missing);
                    }
                    return;
                }
                Err(error) => {
                    let reason = error.reason();
                    tries -= 1;
                    if tries == 0 || !matches!(error, WriteError::Conflict { .. }) {
                        warn!(reason, pool = %name, %error, "pool is not filled yet");
                        return;
                    }
                    debug!(reason, pool = %name, %error, "trying another address");
                }
            }
        }
    }

    /// Decides and sets the address aside in one step, so that neither another
    /// decision takes it nor the pool gets more than its size meanwhile.
    async fn take_next(&self, name: &PoolName, declared: &[Declared]) -> Result<Order, WriteError> {
        let key = spare_key(name);
        let aside = Aside {
            store: &self.store,
            id: format!("pool/{name}"),
        };
        let order = self.store.change(|books| {
            let order = next(books.ledger(), name, declared);
            if let Order::Take(ip) = order {
                let promise = Promise {
                    group: key.clone(),
                    namespace: String::new(),
                    app_prefix: key.clone(),
                    places: 1,
                    addresses: [ip].into(),
                    until: clock::now() + ASIDE,
                };
                books.promise(&aside.id, Some(promise));
            }
            order
        });
        if let Order::Take(ip) = order {
            let holding = Holding {
                key,
                place: Attribute::default(),
                policy: ReleasePolicy::Never,
                note: None,
            };
            self.records.take(ip, &holding).await?;
        }
        Ok(order)
    }

    fn tell_shortage(&self, name: &PoolName, missing: usize) {
        warn!(reason = POOL_SHORT, pool = %name, missing, "no free addresses for the pool");
        let asking: Vec<Pool> = self.store.read(|books| {
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
                    "{missing} of {} addresses are not there: none is free",
                    pool.size
                ),
            });
        }
    }
}

/// An address that is set aside, until this is dropped.
struct Aside<'a> {
    store: &'a Store,
    id: String,
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        self.store.change(|books| books.promise(&self.id, None));
    }
}

/// The pools that ask for addresses ahead of pods, with all sizes of their names.
fn pools(books: &Books) -> BTreeMap<PoolName, Vec<Declared>> {
    let mut result: BTreeMap<PoolName, Vec<Declared>> = BTreeMap::new();
    for ((namespace, name), pool) in books.pools() {
        // No pod can ask for a pool of another name.
        let Ok(name) = PoolName::new(name) else {
            continue;
        };
        result.entry(name).or_default().push(Declared {
            namespace: (namespace != EVERYWHERE).then(|| namespace.clone()),
            size: usize::try_from(pool.limit()).unwrap_or(usize::MAX),
            ahead: pool.pre_allocate_ip,
        });
    }
    result.retain(|_, declared| declared.iter().any(|pool| pool.ahead));
    result
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
