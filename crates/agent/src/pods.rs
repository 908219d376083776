//! The pods of this node, as far as their networks need them, from a watch and, when
//! the watch cannot know, from one read.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_shell::{follow, logs, stop::Stop};
use kube::{
    Api, Client,
    runtime::watcher::{self, Event},
};
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout_at},
};

use crate::apiserver::is_missing;
use slim::PodObject;

mod slim;

/// How long to look for a pod.
const PATIENCE: Duration = Duration::from_secs(5);

/// The pause before another look.
const PAUSE: Duration = Duration::from_millis(500);

/// A pod, with what its networks and shared addresses need of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each of them is a separate fact"
)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The uid that the kubelet knows it by, when that is another one: the API
    /// server's image of a static pod has a uid of its own.
    pub static_uid: Option<String>,
    /// The annotation `k8s.v1.cni.cncf.io/networks`.
    pub networks: Option<String>,
    /// The annotation `k8s.v1.cni.galaxy.io/args`.
    pub args: Option<String>,
    /// Whether a regular container requests a floating address.
    pub wants_address: bool,
    /// Whether it has failed or succeeded.
    pub finished: bool,
    /// Whether it runs, and its condition `Ready` is true.
    pub ready: bool,
    /// Whether it has a time of deletion.
    pub terminating: bool,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
}

/// Which pod the runtime asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid, if the runtime tells it.
    pub uid: Option<&'a str>,
}

/// Why a pod is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PodError {
    /// There is no pod of that name.
    #[error("pod {0} is not found")]
    NotFound(String),
    /// There is another pod of that name.
    #[error("pod {name} has uid {there}, and not {wanted} any more")]
    Replaced {
        /// Namespace and name.
        name: String,
        /// The uid of the pod that is there.
        there: String,
        /// The uid that was asked for.
        wanted: String,
    },
    /// The API server does not tell.
    #[error("cannot read pod {name}: {error}")]
    Unreadable {
        /// Namespace and name.
        name: String,
        /// What it says instead.
        error: String,
    },
}

impl PodError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotFound(_) => "PodNotFound",
            Self::Replaced { .. } => "PodReplaced",
            Self::Unreadable { .. } => "PodUnreadable",
        }
    }
}

/// The pods of this node; all clones are the same.
#[derive(Clone)]
pub struct Pods {
    client: Client,
    known: Arc<Mutex<Known>>,
    changes: Arc<watch::Sender<u64>>,
}

#[derive(Default)]
struct Known {
    pods: BTreeMap<(String, String), Arc<Pod>>,
    /// What a list has told so far that is not complete yet.
    listed: BTreeMap<(String, String), Arc<Pod>>,
    synced: bool,
}

impl Pods {
    /// Knows none yet.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            known: Arc::default(),
            changes: Arc::default(),
        }
    }

    /// The way to the API server.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Follows the pods of a node until `stop`, and begins anew with each doubt.
    pub async fn run(self, node: String, mut doubts: watch::Receiver<u64>, mut stop: Stop) {
        loop {
            tokio::select! {
                () = stop.requested() => return,
                () = self.follow(&node) => return,
                Ok(()) = doubts.changed() => {}
            }
        }
    }

    async fn follow(&self, node: &str) {
        let config = watcher::Config::default().fields(&format!("spec.nodeName={node}"));
        let api = Api::all(self.client.clone());
        let enter = |event| {
            self.lock().enter(event);
            self.changes.send_modify(|count| *count += 1);
        };
        follow(api, config, "pods", enter).await;
    }

    /// Changes after every event of the watch.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// All pods of the node; `None` before the first list.
    pub fn all(&self) -> Option<Vec<Arc<Pod>>> {
        let known = self.lock();
        known.synced.then(|| known.pods.values().cloned().collect())
    }

    /// Whether the first list is in.
    pub fn synced(&self) -> bool {
        self.lock().synced
    }

    /// The pods that are to run here and have not finished, each with its uids, also the
    /// one by which the kubelet knows it; `None` before the first list.
    pub fn unfinished(&self) -> Option<Vec<BTreeSet<String>>> {
        let known = self.lock();
        let pods = known.pods.values().filter(|pod| !pod.finished);
        let uids = pods.map(|pod| {
            let uids = [Some(pod.uid.clone()), pod.static_uid.clone()];
            uids.into_iter().flatten().collect()
        });
        known.synced.then(|| uids.collect())
    }

    /// A pod as the watch knows it.
    pub fn cached(&self, namespace: &str, name: &str) -> Option<Arc<Pod>> {
        let key = (namespace.to_owned(), name.to_owned());
        self.lock().pods.get(&key).cloned()
    }

    /// Has the watch know a pod, for tests.
    #[cfg(test)]
    pub fn remember(&self, pod: Pod) {
        self.lock().pods.insert(pod.key(), pod.into());
    }

    /// Finds a pod. The watch is believed only about the very pod that is asked for,
    /// since what it has may be old.
    pub async fn find(&self, wanted: Wanted<'_>) -> Result<Arc<Pod>, PodError> {
        if let Some(pod) = self.cached(wanted.namespace, wanted.name)
            && wanted.uid.is_some_and(|uid| pod.answers_to(uid))
        {
            return Ok(pod);
        }
        self.read(wanted).await
    }

    /// Reads a pod from the API server. One that is not there may be there in a
    /// moment; it is looked for again for five seconds.
    pub async fn read(&self, wanted: Wanted<'_>) -> Result<Arc<Pod>, PodError> {
        let Wanted {
            namespace, name, ..
        } = wanted;
        let full = format!("{namespace}/{name}");
        let api: Api<PodObject> = Api::namespaced(self.client.clone(), namespace);
        let deadline = Instant::now() + PATIENCE;
        loop {
            let pod = match timeout_at(deadline, api.get(name)).await {
                Ok(Ok(object)) => Pod::from(object),
                Ok(Err(error)) if is_missing(&error) => {
                    if Instant::now() + PAUSE >= deadline {
                        return Err(PodError::NotFound(full));
                    }
                    sleep(PAUSE).await;
                    continue;
                }
                Ok(Err(error)) => {
                    let error = logs::with_causes(&error);
                    return Err(PodError::Unreadable { name: full, error });
                }
                Err(_) => {
                    let error = format!("no answer within {PATIENCE:?}");
                    return Err(PodError::Unreadable { name: full, error });
                }
            };
            return match wanted.uid {
                Some(uid) if !pod.answers_to(uid) => Err(PodError::Replaced {
                    name: full,
                    there: pod.uid,
                    wanted: uid.to_owned(),
                }),
                _ => Ok(Arc::new(pod)),
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pod {
    /// Whether this is the pod that the kubelet knows by that uid.
    pub fn answers_to(&self, uid: &str) -> bool {
        self.uid == uid || self.static_uid.as_deref() == Some(uid)
    }

    fn key(&self) -> (String, String) {
        (self.namespace.clone(), self.name.clone())
    }
}

impl Known {
    fn enter(&mut self, event: Event<PodObject>) {
        match event {
            Event::Init => self.listed.clear(),
            Event::InitApply(object) => {
                let pod = Pod::from(object);
                self.listed.insert(pod.key(), pod.into());
            }
            Event::InitDone => {
                self.pods = std::mem::take(&mut self.listed);
                self.synced = true;
            }
            Event::Apply(object) => {
                let pod = Pod::from(object);
                self.pods.insert(pod.key(), pod.into());
            }
            Event::Delete(object) => {
                let pod = Pod::from(object);
                // Another pod of that name may have come already.
                if self
                    .pods
                    .get(&pod.key())
                    .is_some_and(|it| it.uid == pod.uid)
                {
                    self.pods.remove(&pod.key());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
