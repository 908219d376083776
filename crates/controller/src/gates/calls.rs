//! Gated pods that are to be looked at again, because there may be room for them.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::sync::Notify;

use super::Name;

/// Called pods, until somebody takes them; all clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Calls(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    names: Mutex<BTreeSet<Name>>,
    notify: Notify,
}

impl Calls {
    /// Calls a pod. Never waits.
    pub fn call(&self, namespace: &str, name: &str) {
        let name = (namespace.to_owned(), name.to_owned());
        self.names().insert(name);
        self.0.notify.notify_one();
    }

    /// Waits until some are called, and takes them.
    pub async fn taken(&self) -> BTreeSet<Name> {
        loop {
            let noticed = self.0.notify.notified();
            let names = std::mem::take(&mut *self.names());
            if !names.is_empty() {
                return names;
            }
            noticed.await;
        }
    }

    fn names(&self) -> std::sync::MutexGuard<'_, BTreeSet<Name>> {
        let names = self.0.names.lock();
        names.unwrap_or_else(PoisonError::into_inner)
    }
}
