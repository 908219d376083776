//! What is told about pools and record sets: moves, troubles and refusals.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use k8s_openapi::api::core::v1::ObjectReference;
use kube::Resource;

use crate::events::{Events, News};

/// Tells.
#[derive(Clone)]
pub struct Teller(Events);

impl Teller {
    /// By Events.
    pub fn new(events: Events) -> Self {
        Self(events)
    }

    /// Something about an object. `what` tells things of one reason apart; the same one is
    /// told once, however many processes see it.
    pub fn tell<K: Resource<DynamicType = ()>>(
        &self,
        object: &K,
        warning: bool,
        reason: &'static str,
        action: &'static str,
        note: String,
        what: &[&str],
    ) {
        let meta = object.meta();
        let news = News {
            about: ObjectReference {
                api_version: Some(K::api_version(&()).into_owned()),
                kind: Some(K::kind(&()).into_owned()),
                namespace: meta.namespace.clone(),
                name: meta.name.clone(),
                uid: meta.uid.clone(),
                ..ObjectReference::default()
            },
            warning,
            reason,
            action,
            note,
        };
        self.0.tell_in_turn(news, turn(what));
    }
}

/// A number for what is told, never zero. Its hash is the same in every process of one
/// build, which is enough: another build tells a thing twice at worst.
fn turn(parts: &[&str]) -> u32 {
    let mut hasher = DefaultHasher::new();
    parts.hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or(1).max(1)
}
