//! An API server that goes back in time.
//!
//! After etcd was restored from a snapshot, the server counts versions on from an
//! older number. A watch that goes on from a newer one is accepted and stays silent,
//! until the count has come that far again; nothing tells that it has missed
//! everything. So the version of the server is looked at now and then, and when it is
//! smaller than one that was seen before, all watches begin anew with a list.

use std::{fmt::Debug, time::Duration};

use kube::{
    Api, Resource,
    api::ListParams,
    runtime::watcher::{Config, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::sleep};
use tracing::{debug, warn};

use super::Store;

/// The time between two looks.
const PACE: Duration = Duration::from_secs(15);

/// Looks at the version of the server forever, and notes in the store when it has
/// become smaller.
pub async fn look_out<K>(api: &Api<K>, store: &Store)
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut newest = 0;
    loop {
        sleep(PACE).await;
        // Known before the question: the answer cannot be older than that.
        newest = newest.max(store.read(super::Books::newest));
        // Without a version such a list reads the latest state.
        let list = match api.list_metadata(&ListParams::default().limit(1)).await {
            Ok(list) => list,
            Err(error) => {
                debug!(%error, "the version of the API server is not known");
                continue;
            }
        };
        let version = list.metadata.resource_version.unwrap_or_default();
        // Versions that are no numbers cannot be compared.
        let Ok(version) = version.parse::<u64>() else {
            continue;
        };
        if version < newest {
            warn!(
                reason = "ServerWentBack",
                version,
                newest,
                "the API server has gone back in time, as after a restore; reading everything anew",
            );
            store.change(super::Books::forget_versions);
            store.rewound();
        }
        newest = version;
    }
}

/// Follows objects of a kind, see [`floe_shell::follow`], and from the beginning
/// whenever the server has gone back.
pub async fn follow<K>(
    mut rewinds: watch::Receiver<u64>,
    api: Api<K>,
    config: Config,
    what: &'static str,
    mut enter: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    loop {
        tokio::select! {
            () = floe_shell::follow(api.clone(), config.clone(), what, &mut enter) => return,
            Ok(()) = rewinds.changed() => {}
        }
    }
}
