//! Following what the API server has.

use std::{fmt::Debug, pin::pin, time::Duration};

use futures::StreamExt as _;
use kube::{
    Api, Resource,
    api::ListParams,
    runtime::watcher::{self, Event, watcher},
};
use serde::de::DeserializeOwned;
use tokio::time::{Instant, sleep};
use tracing::{debug, info, warn};

use crate::{backoff, logs};

/// The time after which a failure is a new one.
const FORGIVEN: Duration = Duration::from_mins(1);

/// Follows objects of a kind forever and hands each event on. With the default
/// `config` lists read the latest state, never a cached one. A failure is told
/// once, and retried with growing pauses.
///
/// After a failure the version of the server is looked at: one that is older than what
/// was seen means that etcd was restored from a snapshot. A watch that goes on would be
/// accepted and stay silent, so everything is then listed anew.
pub async fn follow<K>(
    api: Api<K>,
    config: watcher::Config,
    what: &'static str,
    mut enter: impl FnMut(Event<K>),
) where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut events = pin!(watcher(api.clone(), config.clone()));
    let mut failures = 0;
    let mut failed = Instant::now();
    // The largest version that was seen, and whether it is to be compared.
    let (mut newest, mut doubtful) = (0, false);
    loop {
        let next = if doubtful {
            match version(&api, &config).await {
                Ok(found) => {
                    doubtful = false;
                    if found.is_some_and(|found| found < newest) {
                        let reason = "ServerWentBack";
                        warn!(reason, what, newest, "older than before, listing anew");
                        newest = 0;
                        events.set(watcher(api.clone(), config.clone()));
                    }
                    continue;
                }
                Err(error) => Some(Err(watcher::Error::InitialListFailed(error))),
            }
        } else {
            events.next().await
        };
        let Some(event) = next else { return };
        match event {
            Ok(event) => {
                newest = newest.max(version_in(&event));
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
                doubtful = newest > 0;
                sleep(pause).await;
            }
        }
    }
}

/// The version of the server, if it is a number. Without one in the request, a list
/// reads the latest state.
async fn version<K>(api: &Api<K>, config: &watcher::Config) -> kube::Result<Option<u64>>
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = ListParams {
        label_selector: config.label_selector.clone(),
        field_selector: config.field_selector.clone(),
        ..ListParams::default().limit(1)
    };
    let list = api.list_metadata(&params).await?;
    let version = list.metadata.resource_version;
    Ok(version.and_then(|version| version.parse().ok()))
}

fn version_in<K: Resource>(event: &Event<K>) -> u64 {
    let object = match event {
        Event::InitApply(object) | Event::Apply(object) | Event::Delete(object) => object,
        Event::Init | Event::InitDone => return 0,
    };
    let version = object.meta().resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;
    use crate::mock::Server;

    const CONFIG_MAPS: &str = "/api/v1/namespaces/ns/configmaps";

    fn put(server: &Server, name: &str) {
        server.put(CONFIG_MAPS, json!({ "metadata": { "name": name } }));
    }

    /// Follows until the test ends; the names of what came and went.
    fn start(server: &Server) -> Arc<Mutex<Vec<String>>> {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let (api, noted) = (Api::<ConfigMap>::all(server.client()), Arc::clone(&seen));
        let enter = move |event: Event<ConfigMap>| {
            let name = |object: ConfigMap| object.metadata.name.unwrap();
            let line = match event {
                Event::Init => return,
                Event::InitApply(object) | Event::Apply(object) => name(object),
                Event::InitDone => "listed".into(),
                Event::Delete(object) => format!("{} is gone", name(object)),
            };
            noted.lock().unwrap().push(line);
        };
        tokio::spawn(follow(
            api,
            watcher::Config::default(),
            "config maps",
            enter,
        ));
        seen
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_there_and_what_changes_is_handed_on() {
        let server = Server::default();
        put(&server, "a");
        let seen = start(&server);
        let count = |count| {
            let seen = Arc::clone(&seen);
            move |_: &Server| seen.lock().unwrap().len() == count
        };
        server.until(count(2)).await;
        put(&server, "b");
        server.delete(CONFIG_MAPS, "a");
        server.until(count(4)).await;
        assert_eq!(*seen.lock().unwrap(), ["a", "listed", "b", "a is gone"]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_list_is_tried_again_with_growing_pauses() {
        let server = Server::default();
        put(&server, "a");
        server.state().refuse_reads = Some(403);
        let seen = start(&server);
        sleep(Duration::from_mins(1)).await;
        assert!(seen.lock().unwrap().is_empty());
        // At 0, 0.5, 1.5, 3.5, 7.5 and then every 5 s.
        assert_eq!(server.state().calls.len(), 15);
        server.state().refuse_reads = None;
        server.until(|_| seen.lock().unwrap().len() == 2).await;
        assert_eq!(*seen.lock().unwrap(), ["a", "listed"]);
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_restore_everything_is_listed_anew() {
        let server = Server::default();
        put(&server, "a");
        let backup = server.snapshot();
        put(&server, "b");
        put(&server, "c");
        let seen = start(&server);
        let count = |count| {
            let seen = Arc::clone(&seen);
            move |_: &Server| seen.lock().unwrap().len() == count
        };
        server.until(count(4)).await;
        // The connection breaks, and for a while nobody answers.
        server.state().down = true;
        server.restore(&backup);
        sleep(Duration::from_secs(30)).await;
        server.state().down = false;
        server.until(count(6)).await;
        assert_eq!(seen.lock().unwrap()[4..], ["a", "listed"]);
        put(&server, "d");
        server.until(count(7)).await;
        assert_eq!(seen.lock().unwrap()[6], "d");
    }

    #[tokio::test(start_paused = true)]
    async fn after_a_failure_alone_the_watch_goes_on() {
        let server = Server::default();
        put(&server, "a");
        let seen = start(&server);
        server.until(|_| seen.lock().unwrap().len() == 2).await;
        server.state().down = true;
        server.hang_up();
        sleep(Duration::from_secs(30)).await;
        put(&server, "b");
        server.state().down = false;
        server.until(|_| seen.lock().unwrap().len() == 3).await;
        assert_eq!(*seen.lock().unwrap(), ["a", "listed", "b"]);
    }
}
