//! The watch of the `ConfigMap` with the address configuration.

use floe_core::config::FileConfig;
use floe_shell::stop::Stop;
use k8s_openapi::api::core::v1::{ConfigMap, ObjectReference};
use kube::{
    Api, Client, Resource as _,
    runtime::watcher::{self, Event},
};

use super::{
    intake::{Intake, Offer},
    report::Reporter,
};
use crate::store::{Store, rewind::follow};

/// Where the address configuration is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigMapRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The key in its data.
    pub key: String,
}

impl From<&FileConfig> for ConfigMapRef {
    fn from(file: &FileConfig) -> Self {
        Self {
            namespace: file.config_map_namespace.clone(),
            name: file.config_map_name.clone(),
            key: file.floatingip_key.clone(),
        }
    }
}

/// Watches the one `ConfigMap` and puts what it says in force, until `stop`.
pub async fn watch(
    client: Client,
    place: ConfigMapRef,
    store: Store,
    reporter: Reporter,
    mut stop: Stop,
) {
    let api: Api<ConfigMap> = Api::namespaced(client, &place.namespace);
    let only = format!("metadata.name={}", place.name);
    let mut source = Source {
        told: format!(
            "ConfigMap {}/{} key {}",
            place.namespace, place.name, place.key
        ),
        place,
        intake: Intake::new(store.clone()),
        store,
        reporter,
        listed: None,
    };
    let watch = follow(
        source.store.rewinds(),
        api,
        watcher::Config::default().fields(&only),
        "configmap",
        |event| source.enter(event),
    );
    tokio::select! {
        () = stop.requested() => {}
        () = watch => {}
    }
}

struct Source {
    place: ConfigMapRef,
    /// The place, for people.
    told: String,
    intake: Intake,
    store: Store,
    reporter: Reporter,
    /// What the list that comes in has.
    listed: Option<ConfigMap>,
}

impl Source {
    fn enter(&mut self, event: Event<ConfigMap>) {
        match event {
            Event::Init => self.listed = None,
            Event::InitApply(object) => self.listed = Some(object),
            Event::InitDone => {
                let listed = self.listed.take();
                self.offer(listed);
                self.store.warm(|warmth| warmth.configuration = true);
            }
            Event::Apply(object) => self.offer(Some(object)),
            Event::Delete(_) => self.offer(None),
        }
    }

    fn offer(&mut self, object: Option<ConfigMap>) {
        let about = object.as_ref().map(|object| ObjectReference {
            field_path: Some(format!("data.{}", self.place.key)),
            // The state that the news is about; events are named by it.
            resource_version: object.metadata.resource_version.clone(),
            ..object.object_ref(&())
        });
        let offer = match object.map(|object| object.data.unwrap_or_default()) {
            None => Offer::Nothing,
            Some(mut data) => data
                .remove(&self.place.key)
                .map_or(Offer::NoKey, Offer::Text),
        };
        if let Some(outcome) = self.intake.take(offer) {
            self.reporter.tell(&outcome, &self.told, about);
        }
    }
}

#[cfg(test)]
mod tests;
