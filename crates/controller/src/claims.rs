//! From a pod to what it asks for, with everything that a decision needs.

use std::{sync::Arc, time::Duration};

use floe_api::extender::PodRef;
use floe_core::{
    ipam::{
        args::{Args, ArgsError},
        choice::Wish,
        families::{Families, FamiliesError},
        key::{KeyError, PoolName, PoolNameError},
        ledger::Ledger,
        owner::{self, App, AppKind},
        policy::ReleasePolicy,
        workload::{Scale, State, Workload},
    },
    rollout,
    schedule::{
        claimant::Claimant,
        filter::Offer,
        limit::{Limit, PoolSizes},
        wake,
    },
};
use floe_shell::logs;
use kube::{Api, Client};
use tokio::time::timeout;

use crate::{
    cluster::{Cluster, Freshness, Pod, PodObject, Unreadable, Workloads, is_name},
    store::{Books, EVERYWHERE, Store},
    waiting::Waiting,
};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Makes claims.
#[derive(Clone)]
pub struct Claims {
    client: Client,
    cluster: Cluster,
    workloads: Workloads,
    store: Store,
    waiting: Waiting,
}

/// A pod that wants addresses, and what is known about it.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What it belongs to. It is not looked up for a pod that keeps no address:
    /// then only the name of it is known.
    pub workload: Workload,
    /// The pod as decisions see it.
    pub claimant: Claimant,
    /// Its wishes as written, for the result to be added.
    pub args: Args,
    /// The revision of its workload that it is of.
    pub revision: u64,
}

/// Why there is no claim.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimError {
    /// There is no such pod, or another one of its name.
    #[error("failed to find pod {namespace}_{name} with uid {uid}")]
    NoSuchPod {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// Its uid.
        uid: String,
    },
    /// The pod cannot be read now.
    #[error("cannot read pod {namespace}_{name}: {why}")]
    PodUnreadable {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
        /// What went wrong.
        why: String,
    },
    /// The annotation with ranges makes no sense.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// The annotation with families makes no sense.
    #[error(transparent)]
    Families(#[from] FamiliesError),
    /// The annotation with a pool makes no sense.
    #[error(transparent)]
    Pool(#[from] PoolNameError),
    /// A name cannot be part of a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The workload cannot be told.
    #[error(transparent)]
    Workload(#[from] Unreadable),
    /// The workload is known, but not how many replicas it has, and these bound the
    /// number of its addresses.
    #[error("cannot tell how many addresses {app} may have: {why}")]
    ReplicasUnreadable {
        /// The name of the workload.
        app: String,
        /// What went wrong.
        why: String,
    },
}

impl ClaimError {
    /// The stable reason for answers, logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoSuchPod { .. } => "NoSuchPod",
            Self::PodUnreadable { .. } => "PodUnreadable",
            Self::Args(error) => error.reason(),
            Self::Families(error) => error.reason(),
            Self::Pool(error) => error.reason(),
            Self::Key(error) => error.reason(),
            Self::Workload(error) => error.reason(),
            Self::ReplicasUnreadable { .. } => "WorkloadUnreadable",
        }
    }

    /// Whether the same question may be answered in a moment, without any change
    /// to the pod.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::PodUnreadable { .. } | Self::ReplicasUnreadable { .. } => true,
            Self::Workload(error) => match error {
                Unreadable::Read { .. } => true,
                Unreadable::Owner(_) => false,
            },
            Self::NoSuchPod { .. }
            | Self::Args(_)
            | Self::Families(_)
            | Self::Pool(_)
            | Self::Key(_) => false,
        }
    }
}

impl Claims {
    /// Claims from what is known.
    pub fn new(
        client: Client,
        cluster: Cluster,
        workloads: Workloads,
        store: Store,
        waiting: Waiting,
    ) -> Self {
        Self {
            client,
            cluster,
            workloads,
            store,
            waiting,
        }
    }

    /// The pod of a request: from the cache, and read directly where the cache has
    /// no pod of that uid. It may be one that wants no address.
    pub async fn pod(&self, pod: &PodRef) -> Result<Arc<Pod>, ClaimError> {
        let cached = self.cluster.pod(&pod.namespace, &pod.name);
        if let Some(cached) = cached.filter(|cached| cached.uid == pod.uid) {
            return Ok(cached);
        }
        let PodRef {
            namespace,
            name,
            uid,
        } = pod;
        self.pod_now(pod)
            .await?
            .ok_or_else(|| ClaimError::NoSuchPod {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: uid.clone(),
            })
    }

    /// The same, but never from the cache. `None` when there is no such pod, or
    /// another one of its name.
    pub async fn pod_now(&self, pod: &PodRef) -> Result<Option<Arc<Pod>>, ClaimError> {
        // The names come from outside, and become part of a path.
        if !is_name(&pod.namespace) || !is_name(&pod.name) {
            return Ok(None);
        }
        let pods: Api<PodObject> = Api::namespaced(self.client.clone(), &pod.namespace);
        let found = match timeout(PATIENCE, pods.get_opt(&pod.name)).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) => Err(logs::with_causes(&error)),
            Err(_) => Err(format!("no answer within {PATIENCE:?}")),
        };
        let found = found.map_err(|why| ClaimError::PodUnreadable {
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            why,
        })?;
        let found = found.map(Pod::from).filter(|found| found.uid == pod.uid);
        Ok(found.map(Arc::new))
    }

    /// A workload, as far as the caches know it.
    pub async fn workload(&self, app: App) -> Workload {
        self.workloads.workload(app, Freshness::Cached).await
    }

    /// What a pod asks for.
    pub async fn of(&self, pod: Arc<Pod>) -> Result<Claim, ClaimError> {
        let mut claim = self.alone(pod).await?;
        if self.goes_behind(&claim) {
            let nodes = self.cluster.all_nodes();
            let offers: Vec<Offer<'_>> = nodes
                .iter()
                .map(|(node, address)| Offer {
                    node,
                    address: *address,
                })
                .collect();
            let ahead = |books: &Books| self.ahead_of(&claim, books.ledger(), &offers);
            claim.claimant.yields_to = self.store.read(ahead);
        }
        Ok(claim)
    }

    /// What a pod asks for, as if no other one waited.
    pub async fn alone(&self, pod: Arc<Pod>) -> Result<Claim, ClaimError> {
        let args = Args::parse(pod.args.as_deref())?;
        let families = Families::from_annotation(pod.families.as_deref())?;
        let pool = PoolName::from_annotation(pod.pool.as_deref())?;
        let policy =
            ReleasePolicy::from_annotations(pod.release_policy.as_deref(), pod.pool.as_deref());
        let app = self.workloads.app_of(&pod).await?;
        let workload = if policy.keeps() {
            self.workloads.workload(app, Freshness::Cached).await
        } else {
            Workload {
                app,
                scale: Scale::No,
                state: State::Unreadable {
                    why: "not looked up, the address goes with the pod".into(),
                },
            }
        };
        let (wishes, sizes) = self.store.read(|books| {
            let config = books.ledger().topology().config();
            let wishes = Wish::list(&args, families, config);
            let sizes = pool.as_ref().map(|pool| sizes(books, pool, &pod.namespace));
            (wishes, sizes.unwrap_or_default())
        });
        let named = pool.clone().map(|pool| (pool, sizes));
        let mut claimant = Claimant::new(&workload, pool, &pod.name, &pod.uid, policy, wishes)?;
        claimant.galaxy_key =
            owner::galaxy_key(&pod.namespace, &pod.owners, pod.pool.as_deref(), &pod.name);
        if claimant.shares_spares {
            let named = named.as_ref().map(|(pool, sizes)| (pool, *sizes));
            claimant.limits = limits(&workload, claimant.wishes.len(), named)?;
        }
        let revision = self.workloads.revision(&pod);
        Ok(Claim {
            pod,
            workload,
            claimant,
            args,
            revision,
        })
    }

    /// Whether some pod may have to go first; only then it is worth to look.
    pub fn goes_behind(&self, claim: &Claim) -> bool {
        let Claim {
            claimant, revision, ..
        } = claim;
        claimant.shares_spares && self.waiting.has_rivals(claimant, *revision)
    }

    /// The revision of its workload that a pod is of, as the cache has it.
    pub fn revision(&self, pod: &Pod) -> u64 {
        self.workloads.revision(pod)
    }

    /// The pod that waits and has to go first, see [`rollout::precedence`]: only one that
    /// could run on these nodes now. To wait for one that cannot, or that waits
    /// for something else, would help nobody.
    ///
    /// A promise counts for more: whoever was let through goes on.
    pub fn ahead_of(&self, claim: &Claim, ledger: &Ledger, offers: &[Offer<'_>]) -> Option<String> {
        let Claim {
            claimant, revision, ..
        } = claim;
        if !self.goes_behind(claim) || ledger.promise_to(&claimant.uid).is_some() {
            return None;
        }
        let app = &claim.workload.app;
        let unproven = (app.kind == AppKind::Deployment)
            .then(|| self.cluster.unproven(&app.namespace, &app.name))
            .flatten();
        let mine = rollout::precedence(*revision, unproven);
        // It may be another one than when the pod was refused.
        let rank = |waiting: &wake::Waiting| {
            let pod = self.cluster.pod(&claimant.namespace, &waiting.name);
            let pod = pod.filter(|pod| pod.uid == waiting.uid);
            let revision = pod.map_or(waiting.revision, |pod| self.revision(&pod));
            rollout::precedence(revision, unproven)
        };
        let ahead = self.waiting.ahead_of(claimant, mine, rank);
        if ahead.is_empty() {
            return None;
        }
        let sites = wake::one_node_each(ledger, offers);
        let first = ahead.into_iter().find(|(_, newer)| {
            let mut newer = newer.clone();
            newer.yields_to = None;
            // They bound the same workload, and these are the later ones.
            let is_same = newer.app_prefix == claimant.app_prefix;
            if is_same && newer.wishes.len() == claimant.wishes.len() {
                newer.limits.clone_from(&claimant.limits);
            }
            wake::fits(ledger, &newer, &sites)
        });
        first.map(|(pod, _)| pod.name)
    }
}

/// The sizes that Pool objects give to a pool.
fn sizes(books: &Books, pool: &PoolName, namespace: &str) -> PoolSizes {
    let size = |namespace: &str| {
        let key = (namespace.to_owned(), pool.to_string());
        let pool = books.pools().get(&key)?;
        Some(usize::try_from(pool.limit()).unwrap_or(usize::MAX))
    };
    PoolSizes {
        everywhere: size(EVERYWHERE),
        // For pods of that namespace the same Pool counts once.
        in_namespace: size(namespace).filter(|_| namespace != EVERYWHERE),
    }
}

/// What bounds the addresses of a workload that shares spares. Nothing is guessed:
/// where the replicas count and nobody can tell them, there is no claim.
fn limits(
    workload: &Workload,
    wishes: usize,
    pool: Option<(&PoolName, PoolSizes)>,
) -> Result<Vec<Limit>, ClaimError> {
    let app = &workload.app;
    let is_sized = pool.is_some_and(|(_, sizes)| sizes != PoolSizes::default());
    let replicas = match (&workload.state, workload.state.replicas()) {
        (_, Some(replicas)) => replicas,
        // Compat: where a pool has a size, replicas do not count.
        (_, None) if is_sized => 0,
        (state, None) => {
            return Err(ClaimError::ReplicasUnreadable {
                app: app.name.clone(),
                why: match state {
                    State::Unreadable { why } => why.clone(),
                    State::Exists { .. } | State::Gone => "nobody knows".into(),
                },
            });
        }
    };
    Ok(Limit::list(
        &app.namespace,
        &app.name,
        replicas,
        wishes,
        pool,
    ))
}

#[cfg(test)]
pub mod scene;
#[cfg(test)]
mod tests;
