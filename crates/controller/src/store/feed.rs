//! The watches that keep the books current.

use floe_api::galaxy::{FloatingIP, Pool};
use floe_shell::stop::Stop;
use kube::{
    Api, Client, Resource as _,
    runtime::watcher::{Config, Event},
};
use tokio::sync::watch;
use tracing::info;

use super::{Seen, Store, rewind};

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
        let all: Api<Seen<FloatingIP>> = Api::all(client.clone());
        tokio::join!(
            records(all.clone(), &store),
            pools(Api::all(client), &store),
            tell_when_warm(&store),
            look_out(&all, &store),
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
    // Such lists read the latest state: `Order` needs that.
    let rewinds = store.rewinds();
    rewind::follow(rewinds, api, Config::default(), "floatingips", enter).await;
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
    rewind::follow(store.rewinds(), api, Config::default(), "pools", enter).await;
}

/// Looks out for a restore, once there is something to compare with.
async fn look_out(api: &Api<Seen<FloatingIP>>, store: &Store) {
    let mut warmth = store.warmth();
    if warmth.wait_for(|warmth| warmth.records).await.is_ok() {
        rewind::look_out(api, store).await;
    }
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

#[cfg(test)]
mod tests;
