//! Fields of a status that the API server does not keep, because the CRD is older than floe or is
//! FLIPOP's own.

use floe_shell::Unkept;
use kube::Resource;
use serde_json::Value;
use tokio::{sync::watch, time::Instant};
use tracing::warn;

use super::{Shared, objects::Id};
use crate::{definitions, installation::SCHEMA_OUTDATED};

/// What was not kept of the status of one object.
pub struct Schema {
    unkept: Unkept,
    crd_changes: watch::Receiver<u64>,
}

impl Schema {
    /// Nothing was written yet.
    pub fn new(shared: &Shared) -> Self {
        Self {
            unkept: Unkept::default(),
            crd_changes: shared.crd_changes.clone(),
        }
    }

    /// Waits until a CRD has changed: what was not kept may be kept now.
    pub async fn changed(&mut self) {
        if self.crd_changes.changed().await.is_err() {
            // No task is left that looks at CRDs.
            std::future::pending::<()>().await;
        }
        self.unkept.forget();
    }

    /// Until when a write must wait that would change nothing but fields that are not kept.
    pub fn held(&self, shown: &Value, patch: &Value) -> Option<Instant> {
        self.unkept.held(shown, patch, Instant::now())
    }

    /// Takes in the answer to a write, and reports fields that were not kept.
    pub fn answered<K>(&mut self, shared: &Shared, object: &K, patch: &Value, got: &Value)
    where
        K: Resource<DynamicType = ()>,
    {
        let is_new = self.unkept.answered(patch, got, Instant::now());
        if self.unkept.fields().is_empty() {
            Self::end::<K>(shared, &Id::of(object.meta()));
        }
        let Some(message) = self.message::<K>().filter(|_| is_new) else {
            return;
        };
        let Id { namespace, name } = Id::of(object.meta());
        let (reason, kind) = (SCHEMA_OUTDATED, K::kind(&()));
        warn!(reason, %kind, namespace, name, error = message,
            "the API server does not keep fields of a status");
        let reporter = format!("{namespace}/{name}");
        let installation = &shared.installation;
        installation.report_by(&reporter, reason, &crd::<K>(), &message);
        let what = message.clone();
        shared
            .teller
            .tell(object, true, reason, "Write", message, &[&what]);
    }

    /// All is kept, or the object is gone: it has nothing to report any more.
    pub fn end<K: Resource<DynamicType = ()>>(shared: &Shared, id: &Id) {
        let reporter = format!("{}/{}", id.namespace, id.name);
        let installation = &shared.installation;
        installation.resolve_by(&reporter, SCHEMA_OUTDATED, &crd::<K>());
    }

    /// What is not kept and what to do about it; none if everything is.
    pub fn message<K: Resource<DynamicType = ()>>(&self) -> Option<String> {
        let fields = self.unkept.fields().iter();
        let fields: Vec<String> = fields.map(|it| format!("status.{it}")).collect();
        let message = || definitions::lacks(&crd::<K>(), &fields, definitions::NODE_POOLS_FILE);
        (!fields.is_empty()).then(message)
    }
}

/// The name of the CRD of a kind.
pub fn crd<K: Resource<DynamicType = ()>>() -> String {
    format!("{}.{}", K::plural(&()), K::group(&()))
}
