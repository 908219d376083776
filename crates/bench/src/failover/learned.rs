//! When the API server knew something, as a watch in this process sees it.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use floe_testbed::cluster::namespace::is_ready;
use futures::TryStreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{WatchEvent, WatchParams},
};
use tokio::task::JoinHandle;

/// It only ends what hangs: the news is out before the move that it leads to.
const LIMIT: Duration = Duration::from_secs(30);

/// News of a pod that is waited for.
pub struct Learned(JoinHandle<Result<Instant>>);

impl Learned {
    /// Listens for news of a pod, which are not there yet.
    pub async fn listen(pods: &Api<Pod>, name: &str, is_news: fn(&Pod) -> bool) -> Result<Self> {
        let now = pods.get(name).await?;
        if is_news(&now) {
            bail!("pod {name} is as it was to become already");
        }
        let version = now.metadata.resource_version.unwrap_or_default();
        let which = WatchParams::default().fields(&format!("metadata.name={name}"));
        let mut events = Box::pin(pods.watch(&which, &version).await?);
        Ok(Self(tokio::spawn(async move {
            while let Some(event) = events.try_next().await? {
                let at = Instant::now();
                match event {
                    WatchEvent::Deleted(_) => return Ok(at),
                    WatchEvent::Added(pod) | WatchEvent::Modified(pod) if is_news(&pod) => {
                        return Ok(at);
                    }
                    WatchEvent::Error(status) => bail!("the watch of the pod ended: {status:?}"),
                    WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Bookmark(_) => {}
                }
            }
            bail!("the watch of the pod ended")
        })))
    }

    /// When it knew.
    pub async fn when(mut self) -> Result<Instant> {
        let told = tokio::time::timeout(LIMIT, &mut self.0).await;
        told.context("the API server never knew")??
    }
}

impl Drop for Learned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Whether a pod is not ready.
pub fn is_unready(pod: &Pod) -> bool {
    !is_ready(pod)
}

/// Whether a pod is to go.
pub fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
