//! Which records a check has to look at, judged from what caches say.
//!
//! A cache may lag behind, so a suspicion frees nothing: it names what to read
//! directly. Whatever is not suspected needs no read, so that a check costs
//! nothing where all is well.

use super::{ledger::Record, owner::App, policy::ReleasePolicy};

/// What to look at because of a record.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Suspicion {
    /// Whether there is a pod of that name, and which.
    Pod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        pod: String,
    },
    /// What a workload wants.
    App(App),
}

/// A pod of the record's name in a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cached<'a> {
    /// Its uid.
    pub uid: &'a str,
    /// Whether its phase is Failed or Succeeded.
    pub finished: bool,
}

/// What to look at because of a record; `pod` is what a cache has under the name
/// that the record's key says.
///
/// Left alone for good: reserved records, keys that name no workload, spares of
/// IP pools, and what is kept for the next pod of a name by policy. Spares and
/// kept addresses that only their workload can end lead to the workload.
pub fn suspicion(record: &Record, pod: Option<Cached<'_>>) -> Option<Suspicion> {
    let parts = record.key.parts()?;
    if record.reserved || parts.app.is_empty() {
        return None;
    }
    let app = App::of_key(&parts, record.workload_note.as_deref())?;
    let pooled = parts.pool.is_some();
    let waits_for_workload =
        record.is_idle() && record.policy == ReleasePolicy::Immutable && !pooled;
    if parts.pod.is_empty() {
        let spare = !pooled && app.kind.shares_spares();
        return (spare && waits_for_workload).then_some(Suspicion::App(app));
    }
    if pod.is_some_and(|pod| is_alive(record, pod)) {
        return None;
    }
    if record.is_idle() && !app.kind.shares_spares() {
        let kept = pooled || record.policy == ReleasePolicy::Never;
        if kept {
            return None;
        }
        if waits_for_workload {
            return Some(Suspicion::App(app));
        }
    }
    Some(Suspicion::Pod {
        namespace: parts.namespace.to_owned(),
        pod: parts.pod.to_owned(),
    })
}

/// Whether the pod in the cache may run with the address.
fn is_alive(record: &Record, pod: Cached<'_>) -> bool {
    !pod.finished && (record.uid.is_empty() || record.uid == pod.uid)
}

#[cfg(test)]
mod tests;
