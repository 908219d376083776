//! All objects of a kind, fed by a watch.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_shell::stop::Stop;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource,
    api::ListParams,
    runtime::watcher::{Config, Event},
};
use serde::de::DeserializeOwned;
use tokio::{sync::watch, time::sleep};
use tracing::{info, warn};

use crate::store::Seen;

/// The pause between two looks whether the kind is defined.
const UNDEFINED: Duration = Duration::from_secs(15);

/// Namespace and name of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl Id {
    /// Of an object.
    pub fn of(metadata: &ObjectMeta) -> Self {
        Self {
            namespace: metadata.namespace.clone().unwrap_or_default(),
            name: metadata.name.clone().unwrap_or_default(),
        }
    }
}

/// The number of an object's version; what cannot be compared is as good as new.
pub fn version<K: Resource>(object: &K) -> u64 {
    let version = object.meta().resource_version.as_deref();
    version.and_then(|it| it.parse().ok()).unwrap_or(u64::MAX)
}

/// The newer one of an object that was just read and of what the watch has told: after a
/// restore of the server both have smaller numbers than what was known before.
pub fn newest<K: Resource>(read: Arc<K>, told: &watch::Receiver<Arc<K>>) -> Arc<K> {
    let told = Arc::clone(&told.borrow());
    if version(&*told) > version(&*read) {
        told
    } else {
        read
    }
}

/// Shared access to the objects.
#[derive(Debug)]
pub struct Objects<K> {
    inner: Arc<Mutex<Inner<K>>>,
    /// Counts changes.
    changes: watch::Sender<u64>,
}

#[derive(Debug)]
struct Inner<K> {
    known: BTreeMap<Id, Arc<K>>,
    /// While a list comes in: what is in it so far.
    listed: Option<BTreeSet<Id>>,
    complete: bool,
}

impl<K> Clone for Objects<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            changes: self.changes.clone(),
        }
    }
}

impl<K> Default for Objects<K> {
    fn default() -> Self {
        let inner = Inner {
            known: BTreeMap::new(),
            listed: None,
            complete: false,
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
            changes: watch::Sender::new(0),
        }
    }
}

impl<K> Objects<K>
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + Debug + PartialEq,
    K: Send + Sync + 'static,
{
    /// Where it is told that something has changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// All objects, once the first list is in.
    pub fn all(&self) -> Option<BTreeMap<Id, Arc<K>>> {
        let inner = self.lock();
        inner.complete.then(|| inner.known.clone())
    }

    /// Keeps the objects current until `stop`. As long as the kind is not defined, it is
    /// looked for now and then.
    pub async fn feed(self, client: Client, what: &'static str, mut stop: Stop) {
        let follow = async {
            defined(&Api::<K>::all(client.clone()), what).await;
            let api: Api<Seen<K>> = Api::all(client);
            let enter = |event| self.enter(event);
            floe_shell::follow(api, Config::default(), what, enter).await;
        };
        tokio::select! {
            () = stop.requested() => {}
            () = follow => {}
        }
    }

    fn enter(&self, event: Event<Seen<K>>) {
        let changed = self.lock().enter(event);
        if changed {
            self.changes.send_modify(|count| *count += 1);
        }
    }

    /// A panic in any task ends the process; until then the objects are as good for
    /// the others as they were.
    fn lock(&self) -> MutexGuard<'_, Inner<K>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Resource<DynamicType = ()> + PartialEq> Inner<K> {
    fn enter(&mut self, event: Event<Seen<K>>) -> bool {
        match event {
            Event::Init => {
                self.listed = Some(BTreeSet::new());
                false
            }
            Event::InitApply(object) | Event::Apply(object) => self.apply(object),
            Event::InitDone => {
                let listed = self.listed.take().unwrap_or_default();
                let before = self.known.len();
                self.known.retain(|id, _| listed.contains(id));
                let first = !std::mem::replace(&mut self.complete, true);
                first || self.known.len() < before
            }
            Event::Delete(object) => self.known.remove(&Id::of(object.meta())).is_some(),
        }
    }

    fn apply(&mut self, object: Seen<K>) -> bool {
        let id = Id::of(object.meta());
        if let Some(listed) = &mut self.listed {
            listed.insert(id.clone());
        }
        match object {
            Seen::Whole(mut object) => {
                object.meta_mut().managed_fields = None;
                if self.known.get(&id).is_some_and(|old| **old == object) {
                    return false;
                }
                self.known.insert(id, Arc::new(object));
                true
            }
            // Still there, whatever it looks like now: what was known of it stays.
            Seen::Part { error, .. } => {
                let kind = K::kind(&());
                let Id { namespace, name } = &id;
                let reason = "ObjectUnreadable";
                warn!(reason, %kind, namespace, name, error, "an object cannot be read");
                false
            }
        }
    }
}

/// Waits until the kind is defined. Clusters without it are the usual ones, so that is no
/// warning.
async fn defined<K: Clone + DeserializeOwned + Debug>(api: &Api<K>, what: &'static str) {
    let mut told = false;
    loop {
        let missing = match api.list_metadata(&ListParams::default().limit(1)).await {
            Err(kube::Error::Api(status)) => status.code == 404,
            Ok(_) | Err(_) => false,
        };
        if !missing {
            return;
        }
        if !std::mem::replace(&mut told, true) {
            info!(
                what,
                "not defined in this cluster (deploy/crds/flipop.yaml)"
            );
        }
        sleep(UNDEFINED).await;
    }
}
