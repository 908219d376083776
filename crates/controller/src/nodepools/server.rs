//! Writes of pools, record sets and nodes. What could lose somebody else's edit is bound to
//! the version that was judged.

use std::{
    collections::BTreeMap,
    fmt::Debug,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use floe_api::flipop::{
    address,
    pool::{FINALIZER, FloatingIPPool},
};
use floe_shell::{logs, unkept::merge};
use k8s_openapi::{
    NamespaceResourceScope,
    api::core::v1::{Namespace, Node},
};
use kube::{
    Api, Client, Resource,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::ApiResource,
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{facts::Notes, objects::Id};
use crate::installation::PERMISSION_MISSING;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many nodes are listed at a time.
const PAGE: u32 = 500;

/// How often an entry is tried anew when somebody else was faster.
const TURNS: u32 = 5;

/// The way to the API server.
#[derive(Clone)]
pub struct Server {
    client: Client,
    /// Patches of a status are forbidden, so it is replaced.
    replaces_status: Arc<AtomicBool>,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The object has changed.
    #[error("somebody else was faster")]
    Conflict,
    /// There is no such object.
    #[error("it is gone")]
    Gone,
    /// This process has no permission for it.
    #[error("{0}")]
    Forbidden(String),
    /// Anything else.
    #[error("{0}")]
    Failed(String),
    /// Nobody answers: it may have been done.
    #[error("no answer within {PATIENCE:?}")]
    Silent,
}

impl Failure {
    /// The stable reason for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict => "PoolConflict",
            Self::Gone => "PoolGone",
            Self::Forbidden(_) => PERMISSION_MISSING,
            Self::Failed(_) => "PoolWriteFailed",
            Self::Silent => "PoolWriteTimeout",
        }
    }
}

impl Server {
    /// By this client.
    pub fn new(client: Client) -> Self {
        Self {
            client,
            replaces_status: Arc::default(),
        }
    }

    /// The uid of the cluster: that of its namespace `kube-system`.
    pub async fn cluster(&self) -> Result<String, Failure> {
        let api: Api<Namespace> = Api::all(self.client.clone());
        let namespace = ask(api.get_metadata("kube-system")).await?;
        namespace.metadata.uid.ok_or(Failure::Gone)
    }

    /// An object, as the API server has it now.
    pub async fn read<K: Kind>(&self, id: &Id) -> Result<K, Failure> {
        let mut object = ask(self.api::<K>(id).get(&id.name)).await?;
        object.meta_mut().managed_fields = None;
        Ok(object)
    }

    /// Changes the status of an object that is as it was seen.
    ///
    /// Compat: FLIPOP's roles allow `update` of a status and not `patch`, so where a patch is
    /// forbidden the status is replaced.
    pub async fn patch_status<K: Kind>(
        &self,
        id: &Id,
        version: Option<String>,
        status: &Value,
    ) -> Result<K, Failure> {
        if self.replaces_status.load(Ordering::Relaxed) {
            return self.replace_status(id, version, status).await;
        }
        let patched = self.merge_status(id, version.clone(), status).await;
        let Err(Failure::Forbidden(why)) = patched else {
            return patched;
        };
        match self.replace_status(id, version, status).await {
            Ok(object) => {
                self.replaces_status.store(true, Ordering::Relaxed);
                Ok(object)
            }
            Err(Failure::Forbidden(_)) => Err(Failure::Forbidden(why)),
            other => other,
        }
    }

    async fn replace_status<K: Kind>(
        &self,
        id: &Id,
        version: Option<String>,
        status: &Value,
    ) -> Result<K, Failure> {
        // All of the object is sent back, also what this floe does not know.
        let kind = ApiResource::erase::<K>(&());
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), &id.namespace, &kind);
        let mut object = ask(api.get(&id.name)).await?;
        if object.metadata.resource_version != version {
            return Err(Failure::Conflict);
        }
        merge(&mut object.data["status"], status);
        let params = PostParams::default();
        let object = ask(api.replace_status(&id.name, &params, &object)).await?;
        let read = serde_json::to_value(object).and_then(serde_json::from_value);
        let mut object: K = read.map_err(|error| Failure::Failed(error.to_string()))?;
        object.meta_mut().managed_fields = None;
        Ok(object)
    }

    async fn merge_status<K: Kind>(
        &self,
        id: &Id,
        version: Option<String>,
        status: &Value,
    ) -> Result<K, Failure> {
        let patch = json!({ "metadata": { "resourceVersion": version }, "status": status });
        let (api, params) = (self.api::<K>(id), PatchParams::default());
        let patch = Patch::Merge(&patch);
        let mut object = ask(api.patch_status(&id.name, &params, &patch)).await?;
        object.meta_mut().managed_fields = None;
        Ok(object)
    }

    /// Adds addresses at the end of a pool's list, as it is now. An edit that somebody
    /// makes at the same time is never lost: then it is read again.
    pub async fn enter(
        &self,
        id: &Id,
        uid: &str,
        ips: &[IpAddr],
    ) -> Result<FloatingIPPool, Failure> {
        for _ in 0..TURNS {
            let pool: FloatingIPPool = self.read(id).await?;
            if pool.metadata.uid.as_deref() != Some(uid) {
                return Err(Failure::Gone);
            }
            let known: Vec<_> = pool.spec.ips.iter().map(|it| address::parse(it)).collect();
            let new = ips.iter().filter(|ip| !known.contains(&Some(**ip)));
            let mut list = pool.spec.ips.clone();
            list.extend(new.map(ToString::to_string));
            if list == pool.spec.ips {
                return Ok(pool);
            }
            let patch = json!({
                "metadata": { "resourceVersion": pool.metadata.resource_version },
                "spec": { "ips": list },
            });
            match self.patch(id, &patch).await {
                Err(Failure::Conflict) => {}
                done => return done,
            }
        }
        Err(Failure::Conflict)
    }

    /// Puts the finalizer on a pool that is as it was seen, or takes it off.
    pub async fn hold(
        &self,
        id: &Id,
        seen: &FloatingIPPool,
        hold: bool,
    ) -> Result<FloatingIPPool, Failure> {
        let mut finalizers = seen.metadata.finalizers.clone().unwrap_or_default();
        finalizers.retain(|it| it != FINALIZER);
        if hold {
            finalizers.push(FINALIZER.to_owned());
        }
        let patch = json!({ "metadata": {
            "resourceVersion": seen.metadata.resource_version, "finalizers": finalizers,
        } });
        self.patch(id, &patch).await
    }

    /// What the annotations of all nodes say, by the name of the node.
    pub async fn notes(&self) -> Result<BTreeMap<String, Notes>, Failure> {
        let api: Api<Node> = Api::all(self.client.clone());
        let (mut all, mut page) = (BTreeMap::new(), ListParams::default().limit(PAGE));
        loop {
            let listed = ask(api.list_metadata(&page)).await?;
            for node in listed.items {
                let notes = Notes::of(&node.metadata);
                all.insert(node.metadata.name.unwrap_or_default(), notes);
            }
            match listed.metadata.continue_.filter(|it| !it.is_empty()) {
                Some(token) => page = page.continue_token(&token),
                None => return Ok(all),
            }
        }
    }

    /// Makes the annotations of a node say this.
    pub async fn annotate(&self, node: &str, notes: &Notes) -> Result<(), Failure> {
        let annotations = notes
            .named()
            .map(|(name, value)| (name.to_owned(), json!(value)));
        let annotations: serde_json::Map<String, Value> = annotations.into_iter().collect();
        let patch = json!({ "metadata": { "annotations": annotations } });
        let api: Api<Node> = Api::all(self.client.clone());
        let params = PatchParams::default();
        ask(api.patch_metadata(node, &params, &Patch::Merge(&patch))).await?;
        Ok(())
    }

    async fn patch(&self, id: &Id, patch: &Value) -> Result<FloatingIPPool, Failure> {
        let (api, params) = (self.api::<FloatingIPPool>(id), PatchParams::default());
        let mut object = ask(api.patch(&id.name, &params, &Patch::Merge(patch))).await?;
        object.metadata.managed_fields = None;
        Ok(object)
    }

    fn api<K: Kind>(&self, id: &Id) -> Api<K> {
        Api::namespaced(self.client.clone(), &id.namespace)
    }
}

/// A kind with a namespace.
pub trait Kind:
    Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + DeserializeOwned + Debug
{
}

impl<K> Kind for K where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + Debug
{
}

/// Asks the API server, and does not wait for ever.
pub async fn ask<T>(question: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Failure::Conflict),
        Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Failure::Gone),
        Ok(Err(kube::Error::Api(status))) if status.code == 403 => {
            Err(Failure::Forbidden(status.message))
        }
        Ok(Err(error)) => Err(Failure::Failed(logs::with_causes(&error))),
        Err(_) => Err(Failure::Silent),
    }
}
