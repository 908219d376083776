//! All `VirtualIP` objects as their registers say, fed by watches and by the answers to this
//! process' own writes: whoever judged by what the watch alone has told would write a second
//! time what it has just written, and be refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_api::floe::{
    register::{Books, Entry, VirtualIPRegister},
    virtualip::VirtualIP,
};
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
    books: Books,
    order: Order<VipId>,
    /// Whether the first list is in.
    has_list: bool,
    /// The same for registers.
    register_order: Order<String>,
    has_register_list: bool,
    /// Registers that make no sense.
    unreadable: BTreeSet<String>,
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

    /// Whether the first lists are in, and all registers can be read: of what is in one that
    /// cannot nobody knows who has it.
    pub fn is_complete(&self) -> bool {
        let objects = self.lock();
        let is_read = objects.unreadable.is_empty();
        objects.has_list && objects.has_register_list && is_read
    }

    /// An object.
    pub fn get(&self, id: &VipId) -> Option<Arc<VirtualIP>> {
        self.lock().books.vip(id).cloned()
    }

    /// An object as the API server has it: its status may be behind.
    pub fn shown(&self, id: &VipId) -> Option<Arc<VirtualIP>> {
        self.lock().books.shown(id).cloned()
    }

    /// The entry of an object in its register.
    pub fn entry(&self, id: &VipId) -> Option<Entry> {
        self.lock().books.entry(id).cloned()
    }

    /// A register.
    pub fn register(&self, name: &str) -> Option<VirtualIPRegister> {
        self.lock().books.register(name).cloned()
    }

    /// The registers that somebody wants to go, and that have no entries.
    pub fn leaving(&self) -> Vec<VirtualIPRegister> {
        let objects = self.lock();
        let all = objects.books.registers();
        let leaving = all.filter(|it| {
            let is_held = it.metadata.finalizers.iter().flatten().count() > 0;
            it.metadata.deletion_timestamp.is_some() && is_held && it.entries.is_empty()
        });
        leaving.cloned().collect()
    }

    /// The entries of objects that are not there, by their uid.
    pub fn lost(&self) -> BTreeMap<String, Entry> {
        self.lost_where(|_| true)
    }

    /// Those of them of which this is so. A search through all entries, of which only the ones
    /// that are found are copied.
    pub fn lost_where(&self, is_so: impl Fn(&Entry) -> bool) -> BTreeMap<String, Entry> {
        let objects = self.lock();
        let books = &objects.books;
        let lost = books.entries().filter(|(_, entry)| is_so(entry));
        let lost = lost.filter(|(uid, _)| books.id_of_uid(uid).is_none());
        lost.map(|(uid, entry)| (uid.clone(), entry.clone()))
            .collect()
    }

    /// All objects, by namespace and name.
    pub fn all(&self) -> Vec<(VipId, Arc<VirtualIP>)> {
        let objects = self.lock();
        let all = objects.books.vips().iter();
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
        let rest = objects.books.vips().range(first..);
        rest.take_while(|(id, _)| id.namespace == namespace)
            .map(|(id, object)| (id.clone(), object.clone()))
            .collect()
    }

    /// Keeps the objects current until `stop`.
    pub async fn feed(self, client: Client, store: Store, mut stop: Stop) {
        let api: Api<Seen<VirtualIP>> = Api::all(client.clone());
        let enter = |event| self.enter(event);
        let config = Config::default();
        let objects = rewind::follow(store.rewinds(), api, config.clone(), "virtualips", enter);
        let api: Api<Seen<VirtualIPRegister>> = Api::all(client);
        let enter = |event| self.enter_register(event);
        let what = "virtualipregisters";
        let registers = rewind::follow(store.rewinds(), api, config, what, enter);
        tokio::select! {
            () = stop.requested() => {}
            ((), ()) = async { tokio::join!(objects, registers) } => {}
        }
    }

    /// Takes in the answer to a write of this process.
    pub fn written(&self, object: &VirtualIP) {
        let object = Seen::Whole(object.clone());
        self.enter(Event::Apply(object));
    }

    /// The same for a register.
    pub fn register_written(&self, object: &VirtualIPRegister) {
        let object = Seen::Whole(object.clone());
        self.enter_register(Event::Apply(object));
    }

    fn enter(&self, event: Event<Seen<VirtualIP>>) {
        let changed = self.lock().enter(event);
        self.tell(changed);
    }

    fn enter_register(&self, event: Event<Seen<VirtualIPRegister>>) {
        let changed = self.lock().enter_register(event);
        self.tell(changed);
    }

    fn tell(&self, changed: Vec<VipId>) {
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
                self.has_list = true;
                let gone = self.order.end_list();
                let gone = gone.into_iter();
                gone.filter(|id| self.remove(id)).collect()
            }
            Event::Delete(object) => {
                let id = id(object.meta());
                let is_gone = self.order.gone(&id, &Stamp::of(object.meta()));
                let was_known = is_gone && self.remove(&id);
                was_known.then_some(id).into_iter().collect()
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
                if self.books.shown(&id).is_some_and(same) {
                    return None;
                }
                self.books.put_vip(Arc::new(object));
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

impl Objects {
    fn remove(&mut self, id: &VipId) -> bool {
        let was_known = self.books.vip(id).is_some();
        self.books.remove_vip(id);
        was_known
    }

    fn enter_register(&mut self, event: Event<Seen<VirtualIPRegister>>) -> Vec<VipId> {
        let name = |object: &Seen<VirtualIPRegister>| {
            let name = object.meta().name.clone();
            name.unwrap_or_default()
        };
        match event {
            Event::Init => {
                self.register_order.begin_list();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => {
                let name = name(&object);
                let stamp = Stamp::of(object.meta());
                if !self.register_order.exists(&name, &stamp) {
                    return Vec::new();
                }
                match object {
                    Seen::Whole(mut object) => {
                        object.metadata.managed_fields = None;
                        self.unreadable.remove(&name);
                        self.books.put_register(&name, Some(object)).changed
                    }
                    Seen::Part { error, .. } => {
                        let reason = "VirtualIPUnreadable";
                        warn!(reason, name, error, "a VirtualIPRegister cannot be read");
                        self.unreadable.insert(name);
                        Vec::new()
                    }
                }
            }
            Event::InitDone => {
                self.has_register_list = true;
                let gone = self.register_order.end_list();
                let gone = gone.into_iter();
                gone.flat_map(|name| self.remove_register(&name)).collect()
            }
            Event::Delete(object) => {
                let name = name(&object);
                if !self.register_order.gone(&name, &Stamp::of(object.meta())) {
                    return Vec::new();
                }
                self.remove_register(&name)
            }
        }
    }

    fn remove_register(&mut self, name: &str) -> Vec<VipId> {
        self.unreadable.remove(name);
        self.books.put_register(name, None).changed
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
