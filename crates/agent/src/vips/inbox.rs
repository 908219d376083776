//! What watches have shown and nobody has looked at yet. Of each object only the last
//! sight counts, so it never grows beyond what there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_api::floe::{
    register::VirtualIPRegister,
    tenure::{LEASE_LABEL, LEASES},
    virtualip::VirtualIP,
};
use floe_core::vip::{VipId, keeper::LeaseView};
use floe_shell::{Seen, follow};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Resource,
    runtime::watcher::{self, Event},
};
use tokio::sync::{Notify, watch};
use tracing::warn;

use super::objects;

/// What was seen of an object.
#[derive(Clone, Debug)]
pub struct Sight<T> {
    /// The object; nothing: it is gone.
    pub object: Option<T>,
    /// Whether a list has told it. That one is true whatever its version: after a restore
    /// of the server versions begin anew.
    pub listed: bool,
}

/// What was seen since the last look.
#[derive(Debug, Default)]
pub struct Mail {
    /// `VirtualIP` objects.
    pub vips: BTreeMap<VipId, Sight<VirtualIP>>,
    /// Registers, by name.
    pub registers: BTreeMap<String, Sight<VirtualIPRegister>>,
    /// Leases of nodes.
    pub leases: BTreeMap<String, Sight<LeaseView>>,
}

/// Where watches leave what they see; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Inbox(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    rings: Notify,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    vips_listed: bool,
    registers_listed: bool,
    leases_listed: bool,
}

impl Inbox {
    /// Follows objects and leases for ever, and begins anew with each doubt: a watch that was
    /// cut off may be silent for minutes after it could speak again.
    pub async fn fill(&self, client: Client, mut doubts: watch::Receiver<u64>) {
        let mut rolls = Rolls::default();
        loop {
            let work = self.follow(client.clone(), &mut rolls);
            tokio::select! {
                () = work => return,
                Ok(()) = doubts.changed() => {}
            }
        }
    }

    async fn follow(&self, client: Client, rolls: &mut Rolls) {
        let Rolls {
            vips,
            registers,
            leases,
        } = rolls;
        let config = watcher::Config::default();
        let follow_vips = follow(
            Api::<Seen<VirtualIP>>::all(client.clone()),
            config.clone(),
            "virtualips",
            |event| {
                let id = |it: &Seen<VirtualIP>| Some(id_of(it));
                let done = vips.enter(event, id, |id, sight| {
                    if let Some(sight) = readable(sight) {
                        put(&mut self.lock().mail.vips, id, sight);
                    }
                });
                self.lock().vips_listed |= done;
                self.0.rings.notify_one();
            },
        );
        let follow_registers = follow(
            Api::<Seen<VirtualIPRegister>>::all(client.clone()),
            config.clone(),
            "virtualipregisters",
            |event| {
                let name = |it: &Seen<VirtualIPRegister>| it.meta().name.clone();
                let done = registers.enter(event, name, |name, sight| {
                    if let Some(sight) = readable(sight) {
                        put(&mut self.lock().mail.registers, name, sight);
                    }
                });
                self.lock().registers_listed |= done;
                self.0.rings.notify_one();
            },
        );
        let follow_leases = follow(
            Api::<Lease>::namespaced(client, LEASES),
            config.labels(LEASE_LABEL),
            "leases of nodes",
            |event| {
                let node = |it: &Lease| objects::lease_view(it).map(|(node, _)| node);
                let done = leases.enter(event, node, |node, sight: Sight<Lease>| {
                    let view = sight.object.as_ref().and_then(objects::lease_view);
                    let sight = Sight {
                        object: view.map(|(_, view)| view),
                        listed: sight.listed,
                    };
                    put(&mut self.lock().mail.leases, node, sight);
                });
                self.lock().leases_listed |= done;
                self.0.rings.notify_one();
            },
        );
        tokio::join!(follow_vips, follow_registers, follow_leases);
    }

    /// Waits until there is something.
    pub async fn filled(&self) {
        self.0.rings.notified().await;
    }

    /// Takes all that there is.
    pub fn take(&self) -> Mail {
        std::mem::take(&mut self.lock().mail)
    }

    /// Whether the first lists have been here.
    pub fn is_listed(&self) -> bool {
        let state = self.lock();
        state.vips_listed && state.registers_listed && state.leases_listed
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let state = self.0.state.lock();
        state.unwrap_or_else(PoisonError::into_inner)
    }
}

fn id_of(object: &Seen<VirtualIP>) -> VipId {
    let meta = object.meta();
    VipId {
        namespace: meta.namespace.clone().unwrap_or_default(),
        name: meta.name.clone().unwrap_or_default(),
    }
}

/// What can be judged of a sight. Of an object that cannot be read nothing is told, so what
/// was known of it stays, and of all others everything: nobody else can write what this
/// node does not understand of a register, and a holder lives by its lease.
fn readable<T: Resource<DynamicType = ()>>(sight: Sight<Seen<T>>) -> Option<Sight<T>> {
    let object = match sight.object {
        Some(Seen::Whole(object)) => Some(object),
        Some(Seen::Part { metadata, error }) => {
            let (reason, kind) = ("VirtualIPUnreadable", T::kind(&()));
            let (namespace, name) = (metadata.namespace, metadata.name);
            warn!(
                reason,
                %kind, namespace, name, error, "an object cannot be read; what was known of it stays"
            );
            return None;
        }
        None => None,
    };
    let listed = sight.listed;
    Some(Sight { object, listed })
}

fn put<K: Ord, T>(all: &mut BTreeMap<K, Sight<T>>, key: K, mut sight: Sight<T>) {
    let before = all.get(&key);
    sight.listed |= before.is_some_and(|it| it.listed);
    all.insert(key, sight);
}

/// Which objects of each kind there are.
#[derive(Default)]
struct Rolls {
    vips: Roll<VipId>,
    registers: Roll<String>,
    leases: Roll<String>,
}

/// Which objects there are, so that a list also tells what is gone.
#[derive(Debug)]
struct Roll<K> {
    known: BTreeSet<K>,
    listing: BTreeSet<K>,
}

impl<K> Default for Roll<K> {
    fn default() -> Self {
        Self {
            known: BTreeSet::new(),
            listing: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Clone + Debug> Roll<K> {
    /// Takes in an event and tells what was seen; whether a list is complete.
    fn enter<T>(
        &mut self,
        event: Event<T>,
        key_of: impl Fn(&T) -> Option<K>,
        mut tell: impl FnMut(K, Sight<T>),
    ) -> bool {
        let seen = |object, listed| Sight { object, listed };
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(object) => {
                if let Some(key) = key_of(&object) {
                    self.listing.insert(key.clone());
                    tell(key, seen(Some(object), true));
                }
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listing);
                for key in self.known.difference(&listed) {
                    tell(key.clone(), seen(None, true));
                }
                self.known = listed;
                return true;
            }
            Event::Apply(object) => {
                if let Some(key) = key_of(&object) {
                    self.known.insert(key.clone());
                    tell(key, seen(Some(object), false));
                }
            }
            Event::Delete(object) => {
                if let Some(key) = key_of(&object) {
                    self.known.remove(&key);
                    tell(key, seen(None, false));
                }
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_tells_what_is_gone_and_the_last_sight_counts() {
        let mut roll = Roll::default();
        let mut seen: BTreeMap<&str, Sight<&str>> = BTreeMap::new();
        let mut enter = |event| {
            let done = roll.enter(
                event,
                |it: &&str| Some(*it),
                |key, sight| {
                    put(&mut seen, key, sight);
                },
            );
            let told: Vec<(&str, bool)> = seen
                .iter()
                .map(|(key, it)| (*key, it.object.is_some()))
                .collect();
            (done, told)
        };
        for event in [Event::Init, Event::InitApply("a"), Event::InitApply("b")] {
            assert!(!enter(event).0);
        }
        assert_eq!(
            enter(Event::InitDone),
            (true, vec![("a", true), ("b", true)])
        );
        enter(Event::Apply("c"));
        enter(Event::Delete("a"));
        // The connection broke, and b has gone meanwhile.
        enter(Event::Init);
        enter(Event::InitApply("c"));
        let told = vec![("a", false), ("b", false), ("c", true)];
        assert_eq!(enter(Event::InitDone), (true, told));
    }
}
