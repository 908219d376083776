//! All `VirtualIP` objects, fed by a watch and by the answers to this process' own writes:
//! whoever judged by what the watch alone has told would write a second time what it has
//! just written, and be refused.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_api::floe::virtualip::VirtualIP;
use floe_core::vip::VipId;
use floe_shell::stop::Stop;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{
    Api, Client, Resource as _,
    runtime::watcher::{Config, Event},
};
use tokio::sync::broadcast;
use tracing::warn;

use crate::store::{Order, Seen, Stamp, Store, rewind};

/// How many changes a reader may lag behind.
const CHANGES: usize = 4096;

/// Shared access to the objects.
#[derive(Clone, Debug)]
pub struct Vips {
    objects: Arc<Mutex<Objects>>,
    changes: broadcast::Sender<VipId>,
}

#[derive(Debug, Default)]
struct Objects {
    known: BTreeMap<VipId, Arc<VirtualIP>>,
    order: Order<VipId>,
    complete: bool,
}

impl Default for Vips {
    fn default() -> Self {
        Self {
            objects: Arc::default(),
            changes: broadcast::Sender::new(CHANGES),
        }
    }
}

impl Vips {
    /// Where it is told which object is new, different or gone. Whoever lags behind
    /// misses some, learns that, and looks at everything.
    pub fn changes(&self) -> broadcast::Receiver<VipId> {
        self.changes.subscribe()
    }

    /// Whether the first list is in.
    pub fn is_complete(&self) -> bool {
        self.lock().complete
    }

    /// An object.
    pub fn get(&self, id: &VipId) -> Option<Arc<VirtualIP>> {
        self.lock().known.get(id).cloned()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<(VipId, Arc<VirtualIP>)> {
        let objects = self.lock();
        let all = objects.known.iter();
        all.map(|(id, object)| (id.clone(), object.clone()))
            .collect()
    }

    /// The objects of a namespace, by name.
    pub fn within(&self, namespace: &str) -> Vec<(VipId, Arc<VirtualIP>)> {
        let first = VipId {
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        let objects = self.lock();
        let rest = objects.known.range(first..);
        rest.take_while(|(id, _)| id.namespace == namespace)
            .map(|(id, object)| (id.clone(), object.clone()))
            .collect()
    }

    /// Keeps the objects current until `stop`.
    pub async fn feed(self, client: Client, store: Store, mut stop: Stop) {
        let api: Api<Seen<VirtualIP>> = Api::all(client);
        let enter = |event| self.enter(event);
        let watch = rewind::follow(store.rewinds(), api, Config::default(), "virtualips", enter);
        tokio::select! {
            () = stop.requested() => {}
            () = watch => {}
        }
    }

    /// Takes in the answer to a write of this process.
    pub fn written(&self, object: &VirtualIP) {
        let object = Seen::Whole(object.clone());
        self.enter(Event::Apply(object));
    }

    fn enter(&self, event: Event<Seen<VirtualIP>>) {
        let changed = self.lock().enter(event);
        for id in changed {
            // An error means that nobody listens.
            let _ = self.changes.send(id);
        }
    }

    /// A panic in any task ends the process; until then the objects are as good for
    /// the others as they were.
    fn lock(&self) -> MutexGuard<'_, Objects> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Objects {
    fn enter(&mut self, event: Event<Seen<VirtualIP>>) -> Vec<VipId> {
        match event {
            Event::Init => {
                self.order.begin_list();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                self.apply(object).into_iter().collect()
            }
            Event::InitDone => {
                self.complete = true;
                let gone = self.order.end_list();
                let gone = gone.into_iter();
                gone.filter(|id| self.known.remove(id).is_some()).collect()
            }
            Event::Delete(object) => {
                let id = id(object.meta());
                let is_gone = self.order.gone(&id, &Stamp::of(object.meta()));
                let known = is_gone.then(|| self.known.remove(&id)).flatten();
                known.map(|_| id).into_iter().collect()
            }
        }
    }

    fn apply(&mut self, object: Seen<VirtualIP>) -> Option<VipId> {
        let id = id(object.meta());
        if !self.order.exists(&id, &Stamp::of(object.meta())) {
            return None;
        }
        match object {
            Seen::Whole(mut object) => {
                object.metadata.managed_fields = None;
                let same = |old: &Arc<VirtualIP>| **old == object;
                if self.known.get(&id).is_some_and(same) {
                    return None;
                }
                self.known.insert(id.clone(), Arc::new(object));
                Some(id)
            }
            // Still there, whatever it looks like now: what was known of it stays.
            Seen::Part { error, .. } => {
                let VipId { namespace, name } = &id;
                let reason = "VirtualIPUnreadable";
                warn!(reason, namespace, name, error, "a VirtualIP cannot be read");
                None
            }
        }
    }
}

/// Namespace and name of an object.
pub fn id(metadata: &ObjectMeta) -> VipId {
    VipId {
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
