//! What a gated pod says about itself: for which addresses it waits, and why.

use std::time::Duration;

use floe_core::schedule::gate::ASSIGNED;
use floe_shell::logs;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as PodResource;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tokio::time::timeout;
use tracing::warn;

use crate::cluster::{Assigned, Pod};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Writes the condition, unless the pod says the same already. What is not written is
/// told by an Event all the same, and tried with the next look at the pod.
pub async fn write(client: &Client, pod: &Pod, says: &Assigned) {
    if pod.assigned.as_ref() == Some(says) {
        return;
    }
    let pods: Api<PodResource> = Api::namespaced(client.clone(), &pod.namespace);
    let before = pod.assigned.as_ref().map(|it| it.holds);
    let mut condition = json!({
        "type": ASSIGNED, "status": if says.holds { "True" } else { "False" },
        "reason": says.reason, "message": says.message,
    });
    if before != Some(says.holds) {
        let now = Timestamp::from_second(Timestamp::now().as_second());
        condition["lastTransitionTime"] = json!(now.unwrap_or_default().to_string());
    }
    let patch = json!({
        "metadata": { "uid": pod.uid }, "status": { "conditions": [condition] },
    });
    let (params, patch) = (PatchParams::default(), Patch::Strategic(&patch));
    let error = match timeout(PATIENCE, pods.patch_status(&pod.name, &params, &patch)).await {
        Ok(Ok(_)) => return,
        // It is gone, or another one.
        Ok(Err(kube::Error::Api(status))) if matches!(status.code, 404 | 409) => return,
        Ok(Err(error)) => logs::with_causes(&error),
        Err(_) => format!("no answer within {PATIENCE:?}"),
    };
    warn!(
        reason = "ConditionNotWritten",
        namespace = pod.namespace,
        pod = pod.name,
        error,
        "pod does not say in its conditions how it is with its addresses",
    );
}
