//! The Binding, and what to believe when no good answer comes.

use std::{collections::BTreeMap, time::Duration};

use floe_core::ipam::{args::IpInfo, names};
use floe_shell::logs;
use k8s_openapi::{
    api::core::v1::{Binding, ObjectReference, Pod},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Status},
};
use kube::{Api, api::PostParams};
use tokio::time::{Instant, sleep, timeout};
use tracing::debug;

use super::{
    BindError,
    attempt::{Attempt, already_bound, bound_to, claimed},
};

/// Compat: the pause and the end of trying are galaxy's.
const PAUSE: Duration = Duration::from_millis(500);
const TRYING: Duration = Duration::from_secs(3);

/// How long one answer may take; short enough for another try after it.
const ANSWER: Duration = Duration::from_secs(2);

/// How long a look at the pod may take.
const LOOK: Duration = Duration::from_secs(5);

impl Attempt<'_> {
    /// Binds the pod, with its addresses in the annotation.
    pub async fn bind(&self, infos: &[IpInfo]) -> Result<(), BindError> {
        match self.post(&self.binding(infos)).await {
            Ok(()) => Ok(()),
            Err(why) => self.look(infos, why).await,
        }
    }

    fn binding(&self, infos: &[IpInfo]) -> Binding {
        let pod = &self.claim.pod;
        let args = self.claim.args.with_result(infos);
        Binding {
            metadata: ObjectMeta {
                namespace: Some(pod.namespace.clone()),
                name: Some(pod.name.clone()),
                // Another pod of the name must not be bound.
                uid: Some(pod.uid.clone()),
                annotations: Some(BTreeMap::from([(names::ARGS.to_owned(), args)])),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                kind: Some("Node".into()),
                name: Some(self.node.to_owned()),
                ..ObjectReference::default()
            },
        }
    }

    /// Writes the Binding, again while the API server fails for the moment.
    async fn post(&self, binding: &Binding) -> Result<(), String> {
        let pod = &self.claim.pod;
        let pods: Api<Pod> = Api::namespaced(self.binder.client.clone(), &pod.namespace);
        let parameters = PostParams::default();
        let last = Instant::now() + TRYING;
        loop {
            let call = pods.create_subresource("binding", &pod.name, &parameters, binding);
            let why = match timeout(ANSWER, call).await {
                Ok(Ok(Status { .. })) => return Ok(()),
                Ok(Err(error)) => {
                    let why = logs::with_causes(&error);
                    if !is_transient(&error) {
                        return Err(why);
                    }
                    why
                }
                Err(_) => format!("no answer within {ANSWER:?}"),
            };
            if Instant::now() + PAUSE >= last {
                return Err(why);
            }
            debug!(
                namespace = pod.namespace,
                pod = pod.name,
                why,
                "Binding is tried again"
            );
            sleep(PAUSE).await;
        }
    }

    /// Looks what has become of the pod.
    async fn look(&self, infos: &[IpInfo], why: String) -> Result<(), BindError> {
        let key = self.claim.claimant.key.as_str().to_owned();
        let asked = self.pod_ref();
        let found = match timeout(LOOK, self.binder.claims.pod_now(&asked)).await {
            Ok(Ok(found)) => found,
            Ok(Err(error)) => {
                let why = format!("{why}; and then: {error}");
                return Err(BindError::Binding { key, why });
            }
            Err(_) => return Err(BindError::Binding { key, why }),
        };
        let Some(pod) = found else {
            return Err(BindError::Gone { key });
        };
        let Some(node) = bound_to(&pod) else {
            return Err(BindError::Binding { key, why });
        };
        if node == self.node && claimed(&pod) == infos {
            return Ok(());
        }
        self.lost_to(&pod, node).await;
        Err(already_bound(&pod, node))
    }
}

/// Whether the same Binding may go through in a moment.
fn is_transient(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else {
        return true;
    };
    status.code == 429 || status.code >= 500
}
