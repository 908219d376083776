//! Lets a pod through its scheduling gate, with its addresses.
//!
//! Records first, then one patch of the pod: addresses in the annotation, the nodes that
//! can carry them in the affinity, the gate away. A process that ends in between leaves
//! records under the uid of a pod that still has its gate, and whoever comes next goes on
//! with them; there is no state in which a pod has one half of the patch.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use floe_core::{
    ipam::names,
    schedule::{filter::Offer, gate},
};
use floe_shell::logs;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use super::{
    BindError, Binder, DEADLINE,
    addresses::Granted,
    attempt::{Aim, Attempt, claimed, not_ending},
};
use crate::cluster::{Pod, PodObject};

/// How often the patch is made again because the pod has changed meanwhile.
const TRIES: usize = 5;

/// How long an answer may take.
const ANSWER: Duration = Duration::from_secs(5);

impl Binder {
    /// Gives a gated pod its addresses, and lets it through. Whoever calls has the turn of
    /// its name. A pod that is refused waits from then on.
    pub async fn open(&self, pod: Arc<Pod>) -> Result<(), BindError> {
        let begun = Instant::now();
        let result = self.give_and_open(pod).await;
        let is_ok = result.is_ok();
        self.metrics.answered("gate", begun.elapsed(), is_ok);
        result
    }

    async fn give_and_open(&self, pod: Arc<Pod>) -> Result<(), BindError> {
        not_ending(&pod)?;
        let Some(gate) = &pod.gate else {
            return Ok(());
        };
        let nodes = self.cluster.accepted_by(&gate.needs);
        let offers: Vec<Offer<'_>> = nodes
            .iter()
            .map(|(node, address)| Offer {
                node,
                address: *address,
            })
            .collect();
        let claim = self.claims.alone(Arc::clone(&pod)).await?;
        let deadline = Instant::now() + DEADLINE;
        let mut attempt = Attempt::new(self, "", Aim::AnyOf(&offers), deadline, claim);
        let granted = attempt.take_all_or_none().await?;
        attempt.open(&granted).await?;
        let choices = attempt.count(&granted);
        let reporter = &self.reporter;
        reporter.let_through(&pod, &granted.subnets, &choices);
        self.give_back(&granted.give_back).await;
        Ok(())
    }

    /// Takes the gate off a pod that gets its addresses on another way.
    pub async fn only_open(&self, pod: &Pod) -> Result<(), BindError> {
        let Some(gate) = &pod.gate else {
            return Ok(());
        };
        let patch = json!({
            "metadata": { "uid": pod.uid, "resourceVersion": pod.version },
            "spec": gate::patch::spec(&gate.gated, None),
        });
        match self.patch(pod, &patch).await {
            Ok(()) | Err(Unpatched::Gone) => Ok(()),
            Err(error) => Err(BindError::Gate {
                pod: format!("{}_{}", pod.namespace, pod.name),
                why: error.to_string(),
            }),
        }
    }

    async fn patch(&self, pod: &Pod, patch: &Value) -> Result<(), Unpatched> {
        let pods: Api<PodObject> = Api::namespaced(self.client.clone(), &pod.namespace);
        let (params, patch) = (PatchParams::default(), Patch::Merge(patch));
        match timeout(ANSWER, pods.patch(&pod.name, &params, &patch)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => Err(Unpatched::Gone),
            Ok(Err(kube::Error::Api(status))) if status.code == 409 => Err(Unpatched::Changed),
            Ok(Err(error)) => Err(Unpatched::Failed(logs::with_causes(&error))),
            Err(_) => Err(Unpatched::Failed(format!("no answer within {ANSWER:?}"))),
        }
    }
}

/// Why a pod is not patched, as far as is known.
#[derive(Debug, thiserror::Error)]
enum Unpatched {
    #[error("the pod is gone")]
    Gone,
    #[error("the pod has changed meanwhile")]
    Changed,
    #[error("{0}")]
    Failed(String),
}

impl Attempt<'_> {
    /// Writes into the pod what it got, and takes its gate off.
    async fn open(&mut self, granted: &Granted) -> Result<(), BindError> {
        let key = self.claim.claimant.key.as_str().to_owned();
        let mut tries = 1;
        loop {
            let pod = Arc::clone(&self.claim.pod);
            let Some(patch) = self.opening(granted) else {
                return Ok(());
            };
            let failed = match self.binder.patch(&pod, &patch).await {
                Ok(()) => return Ok(()),
                Err(failed) => failed,
            };
            // It may have been done although no answer said so.
            let now = self.binder.claims.pod_now(&self.pod_ref()).await?;
            let Some(now) = now else {
                return Err(BindError::Gone { key });
            };
            if now.gate.is_none() {
                let has_all = claimed(&now) == granted.infos;
                if has_all {
                    return Ok(());
                }
                self.lost_to(&now, now.node.as_deref().unwrap_or_default())
                    .await;
                return Err(self.not_opened("somebody else has opened it"));
            }
            let changed = matches!(failed, Unpatched::Changed);
            if !changed || tries == TRIES || asks_differently(&pod, &now) {
                return Err(self.not_opened(&failed.to_string()));
            }
            tries += 1;
            self.seen_again(now);
        }
    }

    fn opening(&self, granted: &Granted) -> Option<Value> {
        let pod = &self.claim.pod;
        let gate = pod.gate.as_ref()?;
        let subnets = granted.subnets.iter();
        let values: BTreeSet<String> = subnets.map(|it| gate::subnet_value(*it)).collect();
        let args = self.claim.args.with_result(&granted.infos);
        Some(json!({
            "metadata": {
                // Another pod of the name, or another state of it, is a conflict.
                "uid": pod.uid, "resourceVersion": pod.version,
                "annotations": { names::ARGS: args },
            },
            "spec": gate::patch::spec(&gate.gated, Some(&values)),
        }))
    }

    fn not_opened(&self, why: &str) -> BindError {
        let pod = &self.claim.pod;
        BindError::Gate {
            pod: format!("{}_{}", pod.namespace, pod.name),
            why: why.to_owned(),
        }
    }
}

/// Whether what a pod has got is not what it asks for by now.
fn asks_differently(before: &Pod, now: &Pod) -> bool {
    let needs = |pod: &Pod| pod.gate.as_ref().map(|gate| gate.needs.clone());
    !before.asks_like(now) || needs(before) != needs(now) || now.terminating
}
