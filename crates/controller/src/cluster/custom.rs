//! Workloads of kinds that are not built in: `TApp`, and whatever else owns pods.
//!
//! - [`discovery`]: which kinds the API server serves.
//! - [`kinds`]: what is known of a kind, with the path to its replicas.
//! - [`replicas`]: reading that path.
//! - [`watches`]: watches of the kinds that somebody asked for.
//!
//! The rights to list and to watch a kind are all that floe asks for, so a single
//! object is read as a list of one. Nothing here waits for a watch: until it works,
//! every answer is read directly, within a limit.

use std::{sync::Arc, time::Duration};

use floe_core::ipam::{
    owner::{App, GroupKind},
    workload::{Scale, State},
};
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams},
};
use tokio::time::timeout;

pub use self::watches::Watches;
use self::{
    kinds::{Kind, Kinds, Missing, Replicas},
    replicas::Found,
};
use super::{
    Cluster, Freshness,
    ask::{Failure, ask, is_name},
};

mod discovery;
mod kinds;
mod replicas;
mod watches;

/// How long an answer may take in all.
const PATIENCE: Duration = Duration::from_secs(5);

/// Reads custom workloads.
#[derive(Clone)]
pub struct Custom {
    client: Client,
    cluster: Cluster,
    kinds: Arc<Kinds>,
}

impl Custom {
    /// Reads through this client, or from the watches of `cluster`.
    pub fn new(client: Client, cluster: Cluster) -> Self {
        Self {
            kinds: Arc::new(Kinds::new(client.clone())),
            client,
            cluster,
        }
    }

    /// What is known of a workload of this kind.
    pub async fn look(&self, app: &App, kind: &GroupKind, freshness: Freshness) -> (Scale, State) {
        let look = self.look_patiently(app, kind, freshness);
        let answer = timeout(PATIENCE, look).await;
        answer.unwrap_or_else(|_| {
            let App {
                namespace, name, ..
            } = app;
            unreadable(format!(
                "cannot read {kind} {namespace}/{name}: no answer within {PATIENCE:?}"
            ))
        })
    }

    /// Looks once more if the kind is found to be served differently by now.
    async fn look_patiently(
        &self,
        app: &App,
        wanted: &GroupKind,
        freshness: Freshness,
    ) -> (Scale, State) {
        let mut kind = match self.kind(wanted, freshness).await {
            Ok(kind) => kind,
            Err(answer) => return answer,
        };
        let mut answer = self.read(app, &kind, freshness).await;
        if answer == Err(Failure::NotFound) {
            self.kinds.outdated();
            kind = match self.kind(wanted, freshness).await {
                Ok(kind) => kind,
                Err(answer) => return answer,
            };
            answer = self.read(app, &kind, freshness).await;
        }
        let scale = match &kind.replicas {
            Replicas::At(_) => Scale::Yes,
            Replicas::None => Scale::No,
            Replicas::Unknown(why) => Scale::Unreadable { why: why.clone() },
        };
        let state = answer.unwrap_or_else(|failure| {
            let App {
                namespace, name, ..
            } = app;
            State::Unreadable {
                why: format!("cannot read {} {namespace}/{name}: {failure}", kind.served),
            }
        });
        (scale, state)
    }

    /// A kind, or what that it is missing says about its objects.
    async fn kind(&self, wanted: &GroupKind, freshness: Freshness) -> Result<Kind, (Scale, State)> {
        let found = self.kinds.find(wanted, freshness).await;
        found.map_err(|missing| match missing {
            Missing::Vanished { why } => (Scale::Unreadable { why }, State::Gone),
            Missing::NotServed(_) | Missing::Ambiguous { .. } | Missing::Undiscovered { .. } => {
                unreadable(missing.to_string())
            }
        })
    }

    /// Reads an object from the watch of its kind, or directly.
    async fn read(&self, app: &App, kind: &Kind, freshness: Freshness) -> Result<State, Failure> {
        match &kind.replicas {
            // Nothing depends on whether such an object exists, and listing it
            // may need a right that nobody has granted.
            Replicas::None => {
                return Ok(State::Exists {
                    replicas: None,
                    first_ordinal: 0,
                });
            }
            // A list tells no more than whether it exists: no use for a watch.
            Replicas::Unknown(_) => {}
            Replicas::At(_) => {
                let watches = &self.cluster.0.custom;
                watches.want(kind, &app.kind);
                if freshness == Freshness::Cached
                    && let Some(found) = watches.get(kind, &app.namespace, &app.name)
                {
                    return Ok(state(found));
                }
            }
        }
        self.list(app, kind).await
    }

    async fn list(&self, app: &App, kind: &Kind) -> Result<State, Failure> {
        if !is_name(&app.namespace) {
            return Ok(State::Gone);
        }
        let (client, resource) = (self.client.clone(), kind.served.resource());
        let api: Api<DynamicObject> = if kind.served.namespaced {
            Api::namespaced_with(client, &app.namespace, &resource)
        } else {
            Api::all_with(client, &resource)
        };
        let only = ListParams::default().fields(&format!("metadata.name={}", app.name));
        let list = ask(api.list(&only), kind.served.right()).await?;
        let mut objects = list.items.into_iter();
        let object = objects.find(|it| it.metadata.name.as_ref() == Some(&app.name));
        Ok(object.map_or(State::Gone, |object| state(kind.replicas_of(&object))))
    }
}

fn state(found: Found) -> State {
    match found {
        Ok(replicas) => State::Exists {
            replicas,
            first_ordinal: 0,
        },
        Err(why) => State::Unreadable { why },
    }
}

fn unreadable(why: String) -> (Scale, State) {
    let scale = Scale::Unreadable { why: why.clone() };
    (scale, State::Unreadable { why })
}

#[cfg(test)]
mod tests;
