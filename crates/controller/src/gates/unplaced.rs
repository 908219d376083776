//! Pods that were let through and that no scheduler finds a node for.
//!
//! What a pod may run on cannot be changed any more once its gate is open. So after a
//! while it is evicted, if a controller makes another one of it, which may get another
//! address; the one that it never used is given back as its policy says. A bare pod is
//! only told of.

use std::{collections::BTreeMap, time::Duration};

use floe_api::extender::PodRef;
use tokio::time::Instant;

use super::{Gatekeeper, Name};
use crate::{
    claims::ClaimError,
    cluster::Pod,
    evict::{Outcome, Refused, Victim},
};

/// Since when this process sees a pod so. Times of others are not believed: the
/// condition of a gated pod has the time of its making.
#[derive(Debug, Default)]
pub struct Unplaced {
    pods: BTreeMap<Name, (String, Instant)>,
}

/// Why a pod is not evicted yet.
#[derive(Debug, thiserror::Error)]
pub enum EvictError {
    /// Nobody can say how the pod is.
    #[error(transparent)]
    Pod(#[from] ClaimError),
    /// The API server does not do it, for example for a disruption budget.
    #[error("cannot evict pod {namespace}_{name}: {why}")]
    Refused {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What it says.
        why: Refused,
    },
}

impl EvictError {
    /// The stable reason for logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Pod(error) => error.reason(),
            Self::Refused { why, .. } => why.reason(),
        }
    }
}

impl Unplaced {
    /// Notes how a pod is.
    pub fn note(&mut self, pod: &Pod, now: Instant) {
        let name = (pod.namespace.clone(), pod.name.clone());
        if !is_unplaced(pod) {
            self.pods.remove(&name);
            return;
        }
        let known = self.pods.get(&name).is_some_and(|(uid, _)| *uid == pod.uid);
        if !known {
            self.pods.insert(name, (pod.uid.clone(), now));
        }
    }

    /// A pod is gone.
    pub fn forget(&mut self, pod: &Pod) {
        let name = (pod.namespace.clone(), pod.name.clone());
        if self.pods.get(&name).is_some_and(|(uid, _)| *uid == pod.uid) {
            self.pods.remove(&name);
        }
    }

    /// When the first of them has been so for so long.
    pub fn next_due(&self, patience: Duration) -> Option<Instant> {
        let since = self.pods.values().map(|(_, since)| *since).min();
        since.map(|since| since + patience)
    }

    /// Those that have been so for so long. Each one begins anew.
    pub fn overdue(&mut self, patience: Duration, now: Instant) -> Vec<Name> {
        let mut names = Vec::new();
        for (name, (_, since)) in &mut self.pods {
            if *since + patience <= now {
                *since = now;
                names.push(name.clone());
            }
        }
        names
    }
}

impl Gatekeeper {
    /// Ends the waiting of a pod that is still without a node.
    pub(super) async fn give_up_on(&self, name: &Name) -> Result<(), EvictError> {
        let binder = &self.binder;
        let Some(known) = binder.cluster.pod(&name.0, &name.1) else {
            return Ok(());
        };
        let asked = PodRef {
            namespace: name.0.clone(),
            name: name.1.clone(),
            uid: known.uid.clone(),
        };
        let now = binder.claims.pod_now(&asked).await?;
        let Some(pod) = now.filter(|pod| is_unplaced(pod)) else {
            return Ok(());
        };
        let addresses: Vec<String> = pod
            .claimed()
            .unwrap_or_default()
            .iter()
            .map(|info| info.ip.addr().to_string())
            .collect();
        let (addresses, patience) = (addresses.join(", "), self.settings.patience);
        let reporter = &binder.reporter;
        if !pod.owners.iter().any(|owner| owner.controller) {
            let why = format!(
                "no node that can carry {addresses} has had room for {patience:?}; \
                 nothing makes another pod of this one, so delete and create it to try other addresses"
            );
            reporter.unplaced(&pod, "Wait", UNSCHEDULABLE, &why);
            return Ok(());
        }
        self.evict(&pod).await?;
        let why = format!(
            "no node that can carry {addresses} has had room for {patience:?}; \
             the next pod may get other addresses"
        );
        reporter.unplaced(&pod, "Evict", UNSCHEDULABLE, &why);
        Ok(())
    }

    async fn evict(&self, pod: &Pod) -> Result<(), EvictError> {
        let victim = Victim {
            namespace: &pod.namespace,
            name: &pod.name,
            uid: &pod.uid,
            // One that gets a node now must not go.
            version: Some(&pod.version),
        };
        match self.evictor.evict(victim).await {
            Outcome::Evicted | Outcome::Gone => Ok(()),
            Outcome::Refused(why) => Err(EvictError::Refused {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                why,
            }),
        }
    }
}

/// The reason that is told.
const UNSCHEDULABLE: &str = "UnschedulableWithAddress";

/// Whether a pod has its addresses and no node, and the scheduler knows of none.
fn is_unplaced(pod: &Pod) -> bool {
    pod.wants_address
        && pod.gate.is_none()
        && pod.node.is_none()
        && !pod.terminating
        && pod.unschedulable
        && pod.claimed().is_ok_and(|claimed| !claimed.is_empty())
}
