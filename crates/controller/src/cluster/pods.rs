//! How events of pods are entered.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::runtime::watcher::Event;
use tracing::warn;

use super::{Change, Cluster, Pod, crowd, lock, slim::PodObject, table::Table};
use crate::store::Seen;

type Pods = Table<Arc<Pod>>;

/// Enters an event of the watch, and tells what it changes.
pub fn enter(cluster: &Cluster, event: Event<Seen<PodObject>>) {
    crowd::enter(cluster, &event);
    let changes = {
        let pods = &mut *lock(&cluster.0.pods);
        match event {
            Event::Init => {
                pods.begin();
                Vec::new()
            }
            Event::InitApply(object) | Event::Apply(object) => apply(pods, object),
            Event::InitDone => {
                let gone = pods.end().into_iter();
                let gone = gone.map(|(_, _, pod)| Change::PodMissing(pod));
                gone.chain([Change::Relisted]).collect()
            }
            Event::Delete(object) => delete(pods, object).into_iter().collect(),
        }
    };
    cluster.tell(changes);
}

fn apply(pods: &mut Pods, object: Seen<PodObject>) -> Vec<Change> {
    let first = !pods.is_complete();
    let mut changes = Vec::new();
    let now = match object {
        Seen::Whole(object) => Ok(Arc::new(Pod::from(object))),
        Seen::Part { metadata, error } => {
            complain(&metadata, &error);
            Err(metadata)
        }
    };
    let (namespace, name, uid) = match &now {
        Ok(pod) => (&*pod.namespace, &*pod.name, &*pod.uid),
        Err(metadata) => named(metadata),
    };
    let before = match pods.get(namespace, name).cloned() {
        // The uid of a pod that is gone never comes back.
        Some(old) if old.uid != uid => {
            pods.remove(namespace, name);
            changes.push(Change::PodGone(old));
            None
        }
        before => before,
    };
    match now {
        // Requests of this resource never change. If they did, the pod would still
        // hold what it has: it stays known.
        Ok(now) if now.wants_address || before.is_some() => {
            pods.put(&now.namespace, &now.name, now.clone());
            let differs = before.as_ref().is_none_or(|old| now.differs_from(old));
            if differs && !first {
                changes.push(Change::Pod { now, before });
            }
        }
        Ok(_) => {}
        // Still there, whatever it looks like now.
        Err(_) => pods.keep(namespace, name),
    }
    changes
}

fn delete(pods: &mut Pods, object: Seen<PodObject>) -> Option<Change> {
    let last = match object {
        Seen::Whole(object) => Arc::new(Pod::from(object)),
        Seen::Part { metadata, error } => {
            complain(&metadata, &error);
            let (namespace, name, uid) = named(&metadata);
            let known = pods.get(namespace, name)?.clone();
            if known.uid != uid {
                return None;
            }
            known
        }
    };
    match pods.get(&last.namespace, &last.name) {
        Some(known) if known.uid == last.uid => {
            pods.remove(&last.namespace, &last.name);
            Some(Change::PodGone(last))
        }
        // Gone all the same, and perhaps nobody was told that it existed.
        _ => last.wants_address.then_some(Change::PodGone(last)),
    }
}

fn named(metadata: &ObjectMeta) -> (&str, &str, &str) {
    (
        metadata.namespace.as_deref().unwrap_or_default(),
        metadata.name.as_deref().unwrap_or_default(),
        metadata.uid.as_deref().unwrap_or_default(),
    )
}

fn complain(metadata: &ObjectMeta, error: &str) {
    let (namespace, name, _) = named(metadata);
    warn!(
        reason = "PodUnreadable",
        namespace, name, error, "a pod cannot be read"
    );
}
