//! A Deployment, its pods, what they hold and who of them waits.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use floe_core::{
    ipam::owner::replica_set_of,
    rollout::{
        Address, Health, Member, Picture,
        strategy::{Handling, InvalidRollout},
        trial,
    },
    schedule::{claimant::Claimant, filter::Offer, wake},
};
use floe_shell::logs;
use ipnet::IpNet;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::{Api, api::ListParams, core::Selector};
use tokio::time::{Instant, timeout};

use super::{
    Rollouts,
    memory::{Memory, Name},
};
use crate::{
    claims::ClaimError,
    cluster::{Addressed, Deployment, Freshness, Phase, Pod, PodObject, Unreadable},
};

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// So many of the new pods that wait are looked at: they ask for the same.
const LOOKED_AT: usize = 3;

/// A rolling update in which a new pod waits for an address.
pub(super) struct Scene {
    /// As decisions see it.
    pub picture: Picture,
    /// The Deployment.
    pub deployment: Deployment,
    /// What its annotation says, if that makes no sense.
    pub invalid: Option<InvalidRollout>,
    /// The addresses of its pods, by their uids.
    pub addresses: BTreeMap<String, Vec<IpAddr>>,
}

/// Why a Deployment has to be looked at again.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unknown {
    #[error(transparent)]
    Claim(#[from] ClaimError),
    #[error(transparent)]
    Workload(#[from] Unreadable),
    #[error("cannot list the pods of {0}: {1}")]
    Pods(String, String),
    #[error(transparent)]
    Refused(#[from] crate::evict::Refused),
}

impl Unknown {
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Claim(error) => error.reason(),
            Self::Workload(error) => error.reason(),
            Self::Pods(..) => "PodUnreadable",
            Self::Refused(refused) => refused.reason(),
        }
    }
}

/// A pod that waits, and where it could run.
struct Heir {
    claimant: Claimant,
    nodes: Addressed,
}

impl Heir {
    fn offers(&self) -> Vec<Offer<'_>> {
        let nodes = self.nodes.iter();
        nodes
            .map(|(node, address)| Offer {
                node,
                address: *address,
            })
            .collect()
    }
}

impl Rollouts {
    /// What is known of a Deployment; `None` when none of its new pods waits for an
    /// address, or when its controller has yet to make the newest `ReplicaSet`.
    pub(super) async fn gather(
        &self,
        name: &Name,
        freshness: Freshness,
        memory: &Memory,
    ) -> Result<Option<Scene>, Unknown> {
        let (namespace, app) = name;
        let found = match freshness {
            Freshness::Cached => self.cluster.deployment(namespace, app).map(|it| (it, None)),
            Freshness::Direct => {
                let read = self.workloads.deployment_now(namespace, app).await?;
                read.map(|(found, selector)| (found, Some(selector)))
            }
        };
        let Some((deployment, selector)) = found else {
            return Ok(None);
        };
        let sets = self.cluster.replica_sets(namespace, app);
        let newest = sets.values().copied().max().unwrap_or(0);
        if newest == 0 || (deployment.revision != 0 && deployment.revision != newest) {
            return Ok(None);
        }
        let set_of = |pod: &Pod| sets.get(replica_set_of(&pod.owners)?).copied();
        let pods = match selector {
            None => self
                .cluster
                .pods_within(namespace, |pod| set_of(pod).is_some()),
            Some(selector) => self.list(name, selector).await?,
        };
        let pods: Vec<(u64, Arc<Pod>)> = pods
            .into_iter()
            .filter(|pod| pod.phase != Phase::Finished)
            .filter_map(|pod| Some((set_of(&pod)?, pod)))
            .collect();
        let Some(heir) = self.heir(newest, &pods).await? else {
            return Ok(None);
        };
        memory.tidy(Instant::now());
        let (handling, invalid) = match deployment.updates.handling() {
            Ok(handling) => (handling, None),
            Err(invalid) => (Handling::Wait { written: true }, Some(invalid)),
        };
        let addresses = self.addresses(&heir.claimant);
        let mut picture = Picture {
            handling,
            rolling: deployment.updates.strategy.is_rolling(),
            paused: deployment.updates.paused,
            replicas: deployment.replicas,
            allowance: deployment.updates.strategy.unavailable(deployment.replicas),
            newest,
            pods: Vec::with_capacity(pods.len()),
        };
        let (now, seconds) = (Timestamp::now(), deployment.updates.min_ready_seconds);
        for (revision, pod) in pods {
            let health = if pod.terminating || memory.has_evicted(&pod.uid) {
                Health::Leaving
            } else if pod.is_available(seconds, now) {
                Health::Available
            } else {
                Health::Unavailable
            };
            let address = if pod.uid == heir.claimant.uid {
                Address::Lacks
            } else if addresses.contains_key(&pod.uid) {
                Address::Holds { useful: false }
            } else {
                Address::None
            };
            picture.pods.push(Member {
                name: pod.name.clone(),
                uid: pod.uid.clone(),
                revision,
                created: pod.created,
                health,
                address,
            });
        }
        self.try_out(&mut picture, &heir, &addresses);
        Ok(Some(Scene {
            picture,
            deployment,
            invalid,
            addresses,
        }))
    }

    /// The pods of a Deployment as the API server has them now.
    async fn list(&self, name: &Name, selector: LabelSelector) -> Result<Vec<Arc<Pod>>, Unknown> {
        let what = || format!("Deployment {}/{}", name.0, name.1);
        let selector = Selector::try_from(selector);
        let selector = selector.map_err(|why| Unknown::Pods(what(), why.to_string()))?;
        let pods: Api<PodObject> = Api::namespaced(self.client.clone(), &name.0);
        let params = ListParams::default().labels_from(&selector);
        match timeout(PATIENCE, pods.list(&params)).await {
            Ok(Ok(list)) => {
                let pods = list.items.into_iter();
                Ok(pods.map(|pod| Arc::new(Pod::from(pod))).collect())
            }
            Ok(Err(error)) => Err(Unknown::Pods(what(), logs::with_causes(&error))),
            Err(_) => {
                let why = format!("no answer within {PATIENCE:?}");
                Err(Unknown::Pods(what(), why))
            }
        }
    }

    /// The first of the new pods that lacks nothing but an address: it was refused one
    /// after all else was found to be well.
    async fn heir(&self, newest: u64, pods: &[(u64, Arc<Pod>)]) -> Result<Option<Heir>, Unknown> {
        let mut waiting: Vec<(&Arc<Pod>, BTreeSet<IpNet>)> = pods
            .iter()
            .filter(|(revision, pod)| *revision == newest && is_unbound(pod))
            .filter_map(|(_, pod)| Some((pod, self.waiting.sites(&pod.uid)?)))
            .collect();
        waiting.sort_by(|(one, _), (other, _)| {
            (one.created, &one.uid).cmp(&(other.created, &other.uid))
        });
        for (pod, sites) in waiting.into_iter().take(LOOKED_AT) {
            let claim = match self.claims.alone(Arc::clone(pod)).await {
                Ok(claim) => claim,
                Err(error) if error.is_transient() => return Err(error.into()),
                Err(_) => continue,
            };
            let nodes = match &pod.gate {
                // No scheduler has looked at it yet: the nodes are those that it accepts.
                Some(gate) => self.cluster.accepted_now_by(&gate.needs),
                None => self.nodes(&sites),
            };
            let heir = Heir {
                claimant: claim.claimant,
                nodes: self.one_each(nodes),
            };
            let lacks = self
                .store
                .read(|books| trial::lacks_address(books.ledger(), &heir.claimant, &heir.offers()));
            if lacks {
                return Ok(Some(heir));
            }
        }
        Ok(None)
    }

    /// The nodes of these subnets, or all if nobody knows which.
    fn nodes(&self, sites: &BTreeSet<IpNet>) -> Addressed {
        let mut nodes = self.cluster.all_nodes();
        self.store.read(|books| {
            let topology = books.ledger().topology();
            nodes.retain(|(_, address)| {
                let subnet = address.and_then(|it| topology.node_subnet(it));
                sites.is_empty() || subnet.is_some_and(|subnet| sites.contains(&subnet))
            });
        });
        nodes
    }

    /// Of nodes one in each subnet.
    fn one_each(&self, mut nodes: Addressed) -> Addressed {
        nodes.sort();
        self.store.read(|books| {
            let ledger = books.ledger();
            let offers: Vec<Offer<'_>> = nodes
                .iter()
                .map(|(node, address)| Offer {
                    node,
                    address: *address,
                })
                .collect();
            let one_each = wake::one_node_each(ledger, &offers).into_iter();
            one_each
                .map(|offer| (offer.node.to_owned(), offer.address))
                .collect()
        })
    }

    /// What the pods of a workload hold, by their uids.
    fn addresses(&self, claimant: &Claimant) -> BTreeMap<String, Vec<IpAddr>> {
        let mut addresses: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        self.store.read(|books| {
            let records = books.ledger().under(&claimant.app_prefix);
            for record in records.filter(|it| !it.uid.is_empty()) {
                let own = addresses.entry(record.uid.clone()).or_default();
                own.push(record.ip);
            }
        });
        addresses
    }

    /// Notes whose addresses would help. Of pods that are not available several may go
    /// one after the other, so what they have together counts.
    fn try_out(&self, picture: &mut Picture, heir: &Heir, held: &BTreeMap<String, Vec<IpAddr>>) {
        let offers = heir.offers();
        let serves = |addresses: &[IpAddr]| {
            self.store.change(|books| {
                books.try_out(|ledger| {
                    trial::would_serve(ledger, &heir.claimant, addresses, &offers)
                })
            })
        };
        let newest = picture.newest;
        let old =
            |pod: &Member| pod.revision < newest && pod.address == Address::Holds { useful: false };
        let broken = |pod: &Member| old(pod) && pod.health == Health::Unavailable;
        let of = |pod: &Member| held.get(&pod.uid).cloned().unwrap_or_default();
        let all: Vec<IpAddr> = picture
            .pods
            .iter()
            .filter(|pod| broken(pod))
            .flat_map(of)
            .collect();
        let together = !all.is_empty() && serves(&all);
        for pod in picture.pods.iter_mut().filter(|pod| old(pod)) {
            let useful = if pod.health == Health::Unavailable {
                together || serves(&of(pod))
            } else {
                serves(&of(pod))
            };
            pod.address = Address::Holds { useful };
        }
    }
}

fn is_unbound(pod: &Pod) -> bool {
    pod.node.is_none() && !pod.terminating && pod.phase == Phase::Pending
}
