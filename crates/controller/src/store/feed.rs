//! The watches that keep the books current.

use std::{fmt::Debug, pin::pin};

use floe_api::galaxy::{FloatingIP, Pool};
use futures::StreamExt as _;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::{
    sync::watch,
    time::{Duration, Instant, sleep},
};
use tracing::{debug, info, warn};

use super::{Store, seen::Seen};
use crate::{apiserver::backoff, logs, stop::Stop};

/// What the feeds need.
pub struct Feeds {
    /// The way to the API server.
    pub client: Client,
    /// Where everything is entered.
    pub store: Store,
    /// Whether the definitions of both kinds exist; before that there is nothing
    /// to watch.
    pub defined: watch::Receiver<bool>,
}

/// Keeps records and pools current until `stop`.
pub async fn feed(feeds: Feeds, mut stop: Stop) {
    let Feeds {
        client,
        store,
        mut defined,
    } = feeds;
    let run = async {
        // An error means that nobody can tell any more; then the watch will.
        let _ = defined.wait_for(|defined| *defined).await;
        tokio::join!(
            records(Api::all(client.clone()), &store),
            pools(Api::all(client), &store),
            tell_when_warm(&store),
        )
    };
    tokio::select! {
        () = stop.requested() => {}
        _ = run => {}
    }
}

async fn records(api: Api<Seen<FloatingIP>>, store: &Store) {
    let enter = |event| match event {
        Event::Init => store.change(super::Books::begin_records),
        Event::InitApply(object) | Event::Apply(object) => {
            store.change(|books| books.record(&object));
        }
        Event::InitDone => {
            store.change(super::Books::end_records);
            store.warm(|warmth| warmth.records = true);
        }
        Event::Delete(object) => store.change(|books| books.record_gone(object.meta())),
    };
    follow(api, watcher::Config::default(), "floatingips", enter).await;
}

async fn pools(api: Api<Seen<Pool>>, store: &Store) {
    let enter = |event| match event {
        Event::Init => store.change(super::Books::begin_pools),
        Event::InitApply(object) | Event::Apply(object) => {
            store.change(|books| books.pool(object));
        }
        Event::InitDone => {
            store.change(super::Books::end_pools);
            store.warm(|warmth| warmth.pools = true);
        }
        Event::Delete(object) => store.change(|books| books.pool_gone(object.meta())),
    };
    follow(api, watcher::Config::default(), "pools", enter).await;
}

async fn tell_when_warm(store: &Store) {
    let mut warmth = store.warmth();
    if warmth.wait_for(|warmth| warmth.is_warm()).await.is_err() {
        return;
    }
    store.read(|books| {
        let config = books.ledger().topology().config();
        info!(
            records = books.ledger().records().count(),
            outside = books.outside(),
            strange = books.strange().len(),
            pools = books.pools().len(),
            entries = config.entries().len(),
            addresses = %config.addresses().len(),
            "the books are complete",
        );
    });
}

/// Follows all objects of a kind forever and hands each event on. Lists read the
/// latest state, never a cached one: [`Order`](super::order::Order) needs that.
/// A failure is told once, and retried with growing pauses.
pub async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    what: &'static str,
    mut enter: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = pin!(watcher(api, config));
    let mut failures = 0;
    let mut failed = Instant::now();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => {
                // Before each list the watcher says that it begins one; that
                // alone is no success.
                if failures > 0 && !matches!(event, Event::Init) {
                    info!(what, failures, "watch works again");
                    failures = 0;
                }
                enter(event);
            }
            Err(error) => {
                // A watch may work for hours without anything to tell.
                if failed.elapsed() > FORGIVEN {
                    failures = 0;
                }
                failed = Instant::now();
                let pause = backoff(failures);
                let cause = logs::with_causes(&error);
                if failures == 0 {
                    warn!(reason = "WatchFailed", what, error = cause, "watch fails");
                } else {
                    debug!(what, error = cause, failures, "watch still fails");
                }
                failures += 1;
                sleep(pause).await;
            }
        }
    }
}

/// The time after which a failure is a new one.
const FORGIVEN: Duration = Duration::from_mins(1);

#[cfg(test)]
mod tests;
