//! Writes of `VirtualIP` objects and of their entries in registers. Each one but a creation is
//! bound to what was judged, so that of two writers one loses, and learns it.

use std::time::Duration;

use floe_api::floe::{
    register::{Entry, VirtualIPRegister},
    tenure::{self, LEASES},
    virtualip::VirtualIP,
};
use floe_core::vip::{Timing, VipId};
use floe_shell::logs;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::Node};
use kube::{
    Api, Client,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::{registrar::Registrar, store::Vips};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(4);

/// The way to the API server. What it answers is known at once.
#[derive(Clone)]
pub struct Server {
    client: Client,
    vips: Vips,
    registrar: Registrar,
}

/// Why something was not done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The object has changed, exists already, or is gone. A watch tells how it is.
    #[error("somebody else was faster")]
    Conflict,
    /// Anything else.
    #[error("{0}")]
    Failed(String),
    /// Nobody answers.
    #[error("no answer within {PATIENCE:?}")]
    Silent,
}

impl Failure {
    /// The stable reason for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Conflict => "VirtualIPConflict",
            Self::Failed(_) => "VirtualIPWriteFailed",
            Self::Silent => "VirtualIPWriteTimeout",
        }
    }
}

/// A node's lease for shared addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tenure {
    /// Its version; none if there is no such lease.
    pub version: Option<String>,
    /// The term that it is in.
    pub term: Option<i64>,
}

impl Server {
    /// By this client, for these objects.
    pub fn new(client: Client, vips: Vips) -> Self {
        Self {
            registrar: Registrar::new(client.clone(), vips.clone()),
            client,
            vips,
        }
    }

    /// Makes an object.
    pub async fn create(&self, vip: &VirtualIP) -> Result<VirtualIP, Failure> {
        let namespace = vip.metadata.namespace.as_deref().unwrap_or_default();
        let api: Api<VirtualIP> = Api::namespaced(self.client.clone(), namespace);
        self.known(ask(api.create(&PostParams::default(), vip)).await)
    }

    /// Asks for the deletion of an object that is as it was seen.
    pub async fn delete(&self, id: &VipId, seen: &VirtualIP) -> Result<(), Failure> {
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: seen.metadata.uid.clone(),
                resource_version: seen.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        let api = self.vips(id);
        ask(api.delete(&id.name, &params)).await.map(|_| ())
    }

    /// Changes metadata of an object that is as it was seen.
    pub async fn patch(
        &self,
        id: &VipId,
        seen: &VirtualIP,
        mut metadata: Value,
    ) -> Result<VirtualIP, Failure> {
        metadata["resourceVersion"] = json!(seen.metadata.resource_version);
        let patch = json!({ "metadata": metadata });
        let (api, params) = (self.vips(id), PatchParams::default());
        self.known(ask(api.patch(&id.name, &params, &Patch::Merge(&patch))).await)
    }

    /// Changes the status of an object that is as it was seen. Returns the object as the API
    /// server has stored it; [`Self::with_entry`] adds what its register says.
    pub async fn patch_status(
        &self,
        id: &VipId,
        seen: &VirtualIP,
        status: &Value,
    ) -> Result<VirtualIP, Failure> {
        let patch = json!({
            "metadata": { "resourceVersion": seen.metadata.resource_version },
            "status": status,
        });
        let (api, params) = (self.vips(id), PatchParams::default());
        let answer = ask(api.patch_status(&id.name, &params, &Patch::Merge(&patch))).await?;
        self.vips.written(&answer);
        Ok(answer)
    }

    /// Gives an object that is as it was seen this entry: its first one, or another. Returns the
    /// object as it is then.
    pub async fn enter(
        &self,
        id: &VipId,
        seen: &VirtualIP,
        is_new: bool,
        entry: Entry,
    ) -> Result<VirtualIP, Failure> {
        let known = self.vips.entry(id);
        if known.is_none() != is_new {
            return Err(Failure::Conflict);
        }
        self.replace(id, seen, known, Some(entry)).await
    }

    /// Takes the entry of an object out, if it has one, that is as it was seen. It is a write
    /// in any case: who knows an old register is refused.
    pub async fn remove(&self, id: &VipId, seen: &VirtualIP) -> Result<VirtualIP, Failure> {
        let known = self.vips.entry(id);
        self.replace(id, seen, known, None).await
    }

    async fn replace(
        &self,
        id: &VipId,
        seen: &VirtualIP,
        known: Option<Entry>,
        entry: Option<Entry>,
    ) -> Result<VirtualIP, Failure> {
        if Entry::applied(known.as_ref(), seen) != *seen {
            return Err(Failure::Conflict);
        }
        let uid = seen.metadata.uid.as_deref().unwrap_or_default();
        self.registrar.change(uid, known, entry).await?;
        let now = self.vips.entry(id);
        Ok(Entry::applied(now.as_ref(), seen))
    }

    /// Replaces an entry whose object is gone.
    pub async fn replace_orphan(
        &self,
        uid: &str,
        entry: Entry,
        next: Entry,
    ) -> Result<(), Failure> {
        self.registrar.change(uid, Some(entry), Some(next)).await
    }

    /// Takes an entry out whose object is gone.
    pub async fn strike(&self, uid: &str, entry: Entry) -> Result<(), Failure> {
        self.registrar.change(uid, Some(entry), None).await
    }

    /// Lets a register go that has no entries.
    pub async fn let_go(&self, register: &VirtualIPRegister) -> Result<(), Failure> {
        let api: Api<VirtualIPRegister> = Api::all(self.client.clone());
        let name = register.metadata.name.as_deref().unwrap_or_default();
        let patch = json!({ "metadata": {
            "resourceVersion": register.metadata.resource_version, "finalizers": [],
        } });
        let (params, patch) = (PatchParams::default(), Patch::Merge(&patch));
        ask(api.patch(name, &params, &patch)).await.map(drop)
    }

    /// The uid of an object, as the API server says it now; none if there is no such object.
    pub async fn uid(&self, id: &VipId) -> Result<Option<String>, Failure> {
        let found = ask(self.vips(id).get_metadata_opt(&id.name)).await?;
        Ok(found.map(|it| it.metadata.uid.unwrap_or_default()))
    }

    /// The lease of a node, as the API server says it now.
    pub async fn tenure(&self, node: &str) -> Result<Tenure, Failure> {
        let api: Api<Lease> = Api::namespaced(self.client.clone(), LEASES);
        let lease = ask(api.get_opt(&tenure::lease_name(node))).await?;
        Ok(lease.map_or_else(Tenure::default, |lease| Tenure {
            version: lease.metadata.resource_version,
            term: lease
                .spec
                .and_then(|it| it.lease_transitions)
                .map(i64::from),
        }))
    }

    /// Whether a node is known to be off: its object is gone, or somebody has marked it.
    pub async fn is_out_of_service(&self, node: &str) -> Result<bool, Failure> {
        let api: Api<Node> = Api::all(self.client.clone());
        let found = ask(api.get_opt(node)).await?;
        Ok(found.is_none_or(|node| tenure::is_out_of_service(&node)))
    }

    pub(super) fn client(&self) -> Client {
        self.client.clone()
    }

    fn known(&self, answer: Result<VirtualIP, Failure>) -> Result<VirtualIP, Failure> {
        let object = answer?;
        self.vips.written(&object);
        Ok(self.with_entry(&object))
    }

    /// An object with what its register says.
    pub fn with_entry(&self, object: &VirtualIP) -> VirtualIP {
        let entry = self.vips.entry(&object.id());
        Entry::applied(entry.as_ref(), object)
    }

    fn vips(&self, id: &VipId) -> Api<VirtualIP> {
        Api::namespaced(self.client.clone(), &id.namespace)
    }
}

/// How long a node must be silent before somebody to whom it has promised nothing may say
/// that it serves no more.
pub fn silence(out_of_service: bool) -> Duration {
    let timing = Timing::default();
    let span = if out_of_service {
        timing.duration
    } else {
        timing.autonomy
    };
    timing.beyond(span)
}

pub(super) async fn ask<T>(question: impl Future<Output = kube::Result<T>>) -> Result<T, Failure> {
    match timeout(PATIENCE, question).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => {
            Err(Failure::Conflict)
        }
        Ok(Err(error)) => Err(Failure::Failed(logs::with_causes(&error))),
        Err(_) => Err(Failure::Silent),
    }
}
