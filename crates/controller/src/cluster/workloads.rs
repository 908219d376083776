//! What a pod belongs to, and how many of it are wanted.

use floe_core::ipam::{
    owner::{App, AppKind, OwnerError, OwnerRef, replica_set_of},
    workload::{Scale, State, Workload},
};
use k8s_openapi::{
    NamespaceResourceScope,
    api::apps::v1::{Deployment, ReplicaSet, StatefulSet},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{Api, Client, Resource};

use super::{
    Cluster, Pod,
    ask::{Failure, Right, ask, is_name},
    builtin::{Scaled, Sort},
    custom::Custom,
    slim::{Nothing, ScaledSpec, Slim},
};

/// The workloads of pods: built-in ones from caches, custom ones found by
/// discovery and watched from then on.
#[derive(Clone)]
pub struct Workloads {
    client: Client,
    cluster: Cluster,
    custom: Custom,
}

/// How much an answer must be up to date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// A cache will do, except that what a cache does not have is read directly.
    Cached,
    /// The API server must say it now.
    Direct,
}

/// The workload of a pod cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreadable {
    /// Its owners make no sense.
    #[error(transparent)]
    Owner(#[from] OwnerError),
    /// The API server does not say.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
}

impl Unreadable {
    /// The stable reason for answers, logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Owner(error) => error.reason(),
            Self::Read { .. } => "WorkloadUnreadable",
        }
    }
}

impl Workloads {
    /// Workloads as the caches of `cluster` have them.
    pub fn new(client: Client, cluster: Cluster) -> Self {
        Self {
            custom: Custom::new(client.clone(), cluster.clone()),
            client,
            cluster,
        }
    }

    /// The workload that a pod belongs to.
    pub async fn app_of(&self, pod: &Pod) -> Result<App, Unreadable> {
        let owners = match replica_set_of(&pod.owners) {
            Some(name) => self.owners_of_replica_set(&pod.namespace, name).await?,
            None => None,
        };
        let app = App::of_pod(&pod.namespace, &pod.owners, owners.as_deref());
        Ok(app?)
    }

    /// A workload with the facts that decide about its addresses. What cannot be
    /// read is said in the value; the answer comes within a few seconds.
    ///
    /// Jobs, `DaemonSets`, bare pods and kinds without replicas are not looked up:
    /// nothing depends on whether they exist.
    pub async fn workload(&self, app: App, freshness: Freshness) -> Workload {
        let (scale, state) = match &app.kind {
            AppKind::Deployment => {
                let found = self.builtin::<Deployment>(Sort::Deployment, &app, freshness);
                (Scale::Yes, found.await)
            }
            AppKind::ReplicaSet => {
                let found = self.builtin::<ReplicaSet>(Sort::ReplicaSet, &app, freshness);
                (Scale::Yes, found.await)
            }
            AppKind::StatefulSet => {
                let found = self.builtin::<StatefulSet>(Sort::StatefulSet, &app, freshness);
                (Scale::Yes, found.await)
            }
            AppKind::ReplicaSetOf(kind) | AppKind::Custom(kind) => {
                self.custom.look(&app, kind, freshness).await
            }
            AppKind::Job | AppKind::DaemonSet | AppKind::Bare => (Scale::No, UNKNOWN_SIZE),
        };
        Workload { app, scale, state }
    }

    /// The revision of its workload that a pod is of, as the cache has it; higher
    /// is newer. Zero where there are none.
    pub fn revision(&self, pod: &Pod) -> u64 {
        let cached = replica_set_of(&pod.owners).and_then(|name| {
            let cache = &self.cluster.0.builtin;
            cache.get(Sort::ReplicaSet, &pod.namespace, name)
        });
        cached.map_or(0, |set| set.revision)
    }

    /// A Deployment as the API server has it now, with what selects its pods; `None` if
    /// there is none.
    pub async fn deployment_now(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(super::Deployment, LabelSelector)>, Unreadable> {
        if !is_name(namespace) || !is_name(name) {
            return Ok(None);
        }
        let api: Api<Slim<Deployment, ScaledSpec, Nothing>> =
            Api::namespaced(self.client.clone(), namespace);
        let right = Right {
            verbs: "get",
            resource: "deployments",
            group: "apps",
        };
        match ask(api.get(name), right).await {
            Ok(object) => {
                let selector = object.spec.selector.clone();
                let found = super::Deployment::new(&Scaled::from(object));
                Ok(Some((found, selector)))
            }
            Err(Failure::NotFound) => Ok(None),
            Err(failure) => Err(Unreadable::Read {
                what: format!("Deployment {namespace}/{name}"),
                why: failure.to_string(),
            }),
        }
    }

    async fn owners_of_replica_set(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Vec<OwnerRef>>, Unreadable> {
        let cache = &self.cluster.0.builtin;
        if let Some(set) = cache.get(Sort::ReplicaSet, namespace, name) {
            return Ok(Some(set.owners));
        }
        match self.read::<ReplicaSet>(namespace, name).await {
            Ok(set) => Ok(Some(set.owners)),
            Err(Failure::NotFound) => Ok(None),
            Err(failure) => Err(Unreadable::Read {
                what: format!("ReplicaSet {namespace}/{name}"),
                why: failure.to_string(),
            }),
        }
    }

    async fn builtin<K>(&self, sort: Sort, app: &App, freshness: Freshness) -> State
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug,
    {
        let App {
            namespace, name, ..
        } = app;
        if freshness == Freshness::Cached
            && let Some(found) = self.cluster.0.builtin.get(sort, namespace, name)
        {
            return found.state();
        }
        match self.read::<K>(namespace, name).await {
            Ok(found) => found.state(),
            Err(Failure::NotFound) => State::Gone,
            Err(failure) => State::Unreadable {
                why: format!("cannot read {} {namespace}/{name}: {failure}", K::kind(&())),
            },
        }
    }

    async fn read<K>(&self, namespace: &str, name: &str) -> Result<Scaled, Failure>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + std::fmt::Debug,
    {
        // The owner of a pod may have any text for a name, and so may a key.
        if !is_name(namespace) || !is_name(name) {
            return Err(Failure::NotFound);
        }
        let api: Api<Slim<K, ScaledSpec, Nothing>> =
            Api::namespaced(self.client.clone(), namespace);
        let (resource, group) = (K::plural(&()), K::group(&()));
        let right = Right {
            verbs: "get",
            resource: &resource,
            group: &group,
        };
        ask(api.get(name), right).await.map(Scaled::from)
    }
}

/// It exists as far as anybody needs to know.
const UNKNOWN_SIZE: State = State::Exists {
    replicas: None,
    first_ordinal: 0,
};

#[cfg(test)]
mod tests;
