//! Writes of registers: what many objects want of one register at a moment is one write,
//! bound to the version that was judged.
//!
//! A change also says on which entry it was judged. Others may have changed neighbours since;
//! that does not matter to it.

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use floe_api::floe::register::{self, Entry, VirtualIPRegister};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::sync::oneshot;

use super::{
    server::{Failure, ask},
    store::Vips,
};

/// Writes registers; all clones are the same one.
#[derive(Clone)]
pub struct Registrar {
    client: Client,
    vips: Vips,
    desks: Arc<Mutex<Desks>>,
}

/// What waits, by the name of the register. One that has none is not being written.
type Desks = BTreeMap<String, Vec<Pending>>;

/// A change that is to be written.
struct Pending {
    uid: String,
    seen: Option<Entry>,
    wanted: Option<Entry>,
    answer: oneshot::Sender<Result<(), Failure>>,
}

impl Registrar {
    /// By this client, for these objects.
    pub fn new(client: Client, vips: Vips) -> Self {
        Self {
            client,
            vips,
            desks: Arc::default(),
        }
    }

    /// Replaces the entry of a uid that is as it was seen; nothing takes it out.
    pub async fn change(
        &self,
        uid: &str,
        seen: Option<Entry>,
        wanted: Option<Entry>,
    ) -> Result<(), Failure> {
        let (answer, answered) = oneshot::channel();
        let name = register::name_for(uid);
        let pending = Pending {
            uid: uid.to_owned(),
            seen,
            wanted,
            answer,
        };
        let is_idle = {
            let mut desks = self.desks();
            let is_idle = !desks.contains_key(&name);
            desks.entry(name.clone()).or_default().push(pending);
            is_idle
        };
        if is_idle {
            // Whoever asks may give up; what it began goes on for the others.
            tokio::spawn(self.clone().work_off(name));
        }
        answered.await.unwrap_or(Err(Failure::Silent))
    }

    async fn work_off(self, name: String) {
        loop {
            let waiting = {
                let mut desks = self.desks();
                let desk = desks.entry(name.clone()).or_default();
                let waiting = mem::take(desk);
                if waiting.is_empty() {
                    desks.remove(&name);
                    return;
                }
                waiting
            };
            self.write(&name, waiting).await;
        }
    }

    async fn write(&self, name: &str, waiting: Vec<Pending>) {
        let known = self.vips.register(name);
        let entry = |uid: &str| known.as_ref().and_then(|it| it.entries.get(uid));
        let mut entries = BTreeMap::new();
        let mut written = Vec::new();
        for pending in waiting {
            // Of two changes of one entry the second was judged on what is no more.
            let is_first = !entries.contains_key(&pending.uid);
            if is_first && entry(&pending.uid) == pending.seen.as_ref() {
                entries.insert(pending.uid, pending.wanted);
                written.push(pending.answer);
            } else {
                // An error means that nobody waits any more.
                let _ = pending.answer.send(Err(Failure::Conflict));
            }
        }
        if written.is_empty() {
            return;
        }
        let outcome = self.send(name, known.as_ref(), entries).await;
        for answer in written {
            let _ = answer.send(outcome.clone());
        }
    }

    async fn send(
        &self,
        name: &str,
        known: Option<&VirtualIPRegister>,
        entries: BTreeMap<String, Option<Entry>>,
    ) -> Result<(), Failure> {
        let api: Api<VirtualIPRegister> = Api::all(self.client.clone());
        // A patch merges into what there is, so without it there is something to merge into.
        let version = if let Some(known) = known {
            known.metadata.resource_version.clone()
        } else {
            let new = VirtualIPRegister::named(name);
            let made = ask(api.create(&PostParams::default(), &new)).await?;
            self.vips.register_written(&made);
            made.metadata.resource_version
        };
        let entries = entries.iter();
        let entries = entries.map(|(uid, entry)| (uid.as_str(), entry.as_ref()));
        let patch = register::patch(version.as_deref(), entries);
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        let register = ask(api.patch(name, &params, &patch)).await?;
        self.vips.register_written(&register);
        Ok(())
    }

    /// A panic in any task ends the process; until then the desks are as good as they were.
    fn desks(&self) -> MutexGuard<'_, Desks> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
