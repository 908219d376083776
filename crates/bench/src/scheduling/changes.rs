//! What happens to pods, from a moment on.
//!
//! An API server may end a watch whenever it wants to: it does so with one that does not
//! take its events quickly enough, which is soon the case while hundreds of pods change
//! each second and everything shares two processors. Then the watch goes on where it was:
//! nothing is missed, and what was seen is not seen again.

use std::pin::Pin;

use anyhow::{Context as _, Result, ensure};
use floe_testbed::cluster::wait;
use futures::{Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, WatchEvent, WatchParams},
};
use tokio::time::timeout;

/// How often a watch may end, one time after the other, without having told anything.
const MOST_ENDS: u32 = 5;

/// The changes of pods that nobody has looked at yet.
pub struct Changes {
    api: Api<Pod>,
    /// Up to which everything was seen.
    version: String,
    stream: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Pod>>> + Send>>,
}

/// One of them.
pub enum Change {
    /// A pod was created.
    New(Pod),
    /// A pod is another one than before.
    Changed(Pod),
}

impl Change {
    /// Whatever it is, as far as a turn is concerned.
    fn of(event: WatchEvent<Pod>) -> kube::Result<Option<Self>> {
        match event {
            WatchEvent::Added(pod) => Ok(Some(Self::New(pod))),
            WatchEvent::Modified(pod) => Ok(Some(Self::Changed(pod))),
            WatchEvent::Error(status) => Err(kube::Error::Api(status)),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => Ok(None),
        }
    }
}

impl Changes {
    /// All from now on.
    pub async fn from_now_on(api: Api<Pod>) -> Result<Self> {
        let newest = api.list(&ListParams::default().limit(1)).await?;
        let version = newest.metadata.resource_version.unwrap_or_default();
        ensure!(
            !version.is_empty(),
            "the API server does not tell what is new"
        );
        let stream = open(&api, &version).await?;
        Ok(Self {
            api,
            version,
            stream,
        })
    }

    /// The next one.
    pub async fn next(&mut self) -> Result<Change> {
        let next = timeout(wait::SETTLED, self.wait()).await;
        next.context("nothing happens any more")?
    }

    async fn wait(&mut self) -> Result<Change> {
        let mut ends = 0;
        loop {
            let Some(event) = self.stream.next().await else {
                ends += 1;
                eprintln!("    the watch of pods has ended at {}", self.version);
                ensure!(ends < MOST_ENDS, "the watch of pods ends again and again");
                self.stream = open(&self.api, &self.version).await?;
                continue;
            };
            let event = event.context("the watch of pods has failed")?;
            self.version = version_of(&event).unwrap_or_else(|| self.version.clone());
            if let Some(change) = Change::of(event).context("the watch of pods is refused")? {
                return Ok(change);
            }
        }
    }
}

async fn open(
    api: &Api<Pod>,
    version: &str,
) -> Result<Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<Pod>>> + Send>>> {
    let stream = api.watch(&WatchParams::default(), version).await;
    Ok(stream.context("cannot watch pods")?.boxed())
}

/// Up to which everything was seen when an event is.
fn version_of(event: &WatchEvent<Pod>) -> Option<String> {
    match event {
        WatchEvent::Added(pod) | WatchEvent::Modified(pod) | WatchEvent::Deleted(pod) => {
            pod.resource_version()
        }
        WatchEvent::Bookmark(mark) => Some(mark.metadata.resource_version.clone()),
        WatchEvent::Error(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(kind: &str, object: &Value) -> WatchEvent<Pod> {
        serde_json::from_value(json!({ "type": kind, "object": object })).unwrap()
    }

    fn pod(kind: &str) -> WatchEvent<Pod> {
        let pod = json!({ "metadata": { "name": "a", "resourceVersion": "7" } });
        event(kind, &pod)
    }

    #[test]
    fn a_watch_goes_on_after_the_last_thing_that_it_told() {
        for kind in ["ADDED", "MODIFIED", "DELETED"] {
            assert_eq!(version_of(&pod(kind)).as_deref(), Some("7"));
        }
        let mark = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": { "resourceVersion": "9" },
        });
        let mark = event("BOOKMARK", &mark);
        assert_eq!(version_of(&mark).as_deref(), Some("9"));
        assert!(matches!(Change::of(mark), Ok(None)));
    }

    #[test]
    fn what_a_turn_has_no_use_for_is_left_out_and_a_refusal_is_not() {
        assert!(matches!(Change::of(pod("ADDED")), Ok(Some(Change::New(_)))));
        let changed = Change::of(pod("MODIFIED"));
        assert!(matches!(changed, Ok(Some(Change::Changed(_)))));
        assert!(matches!(Change::of(pod("DELETED")), Ok(None)));
        let refused = json!({
            "kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "too old resource version: 1 (2)",
        });
        let refused = event("ERROR", &refused);
        assert_eq!(version_of(&refused), None);
        let why = Change::of(refused).err().unwrap().to_string();
        assert!(why.contains("too old resource version"), "{why}");
    }
}
