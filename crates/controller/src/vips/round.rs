//! One look at a namespace: what is asked for there, which objects there are, and what is
//! to be done about both.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use floe_api::floe::virtualip::VirtualIP;
use floe_core::vip::VipId;
use futures::{StreamExt as _, stream};
use jiff::Timestamp;
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::{
    RENOUNCED, Steward, Stir, UNCLAIMED,
    claims::{Claimants, Claims},
    made,
    tell::PodMoves,
    tend::{Left, Sight, TendError},
};
use crate::cluster::{Member, Phase};

/// How many objects of a namespace are written at a time. Agents take addresses beside it,
/// and they renew leases: more at once would only let all of them wait longer.
pub const PARALLEL: usize = 8;

/// What came of a look at a namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Something was not written, and is to be tried again.
    pub failed: bool,
    /// Time alone may change something.
    pub waits: bool,
}

impl Outcome {
    fn and(self, other: Self) -> Self {
        Self {
            failed: self.failed || other.failed,
            waits: self.waits || other.waits,
        }
    }
}

type Objects = BTreeMap<VipId, Arc<VirtualIP>>;

impl Steward {
    /// Looks at a namespace and does what is to be done there after something has changed.
    pub(super) async fn look(
        &self,
        namespace: &str,
        stir: &Stir,
        agents: &BTreeSet<String>,
    ) -> Outcome {
        let withdrawn = Outcome {
            failed: !self.withdraw_orphans(namespace, stir).await,
            waits: false,
        };
        let objects: Objects = self.vips.within(namespace).into_iter().collect();
        if objects.is_empty() && !self.cluster.is_asking(namespace) {
            return withdrawn;
        }
        let members = self.cluster.members(namespace);
        let herds = self.cluster.herds(namespace);
        let claims = Claims::of(&members, &herds, |set| {
            self.cluster.deployment_of(namespace, set)
        });
        for (claimer, problem) in &claims.problems {
            let note = problem.to_string();
            self.teller
                .problem(namespace, claimer, problem.reason(), &note, note.clone());
        }
        let now = Timestamp::now();
        let mut pods = PodMoves::default();
        for (id, vip) in objects.iter().filter(|(id, _)| stir.concerns(id)) {
            let uid_of = |pod: &str| Some(self.cluster.member(namespace, pod)?.uid.clone());
            self.teller.moved(id, vip, now, uid_of, &mut pods);
        }
        self.teller.pods_moved(namespace, pods);
        let made = self.make(namespace, &claims, &objects).await;
        let removed = self.remove(&claims, &objects, &members).await;
        let sight = Sight {
            members: &members,
            claims: &claims,
            agents,
        };
        let sight = &sight;
        let stirred = objects.into_iter().filter(|(id, _)| stir.concerns(id));
        let work = stirred.map(|(id, vip)| async move {
            let left = self.tend(&id, &vip, sight).await;
            outcome(&id, left)
        });
        withdrawn.and(made).and(removed).and(all(work).await)
    }

    /// Makes objects for addresses that are asked for and have none.
    async fn make(&self, namespace: &str, claims: &Claims, objects: &Objects) -> Outcome {
        let mut lacking = Vec::new();
        for (&ip, claimants) in &claims.addresses {
            let id = made::id(namespace, ip);
            match objects.get(&id) {
                None => lacking.push((id, ip)),
                Some(vip) if made::for_annotation(vip).is_none() => {
                    self.tell_foreign(&id, ip, claimants);
                }
                // One that goes is made anew when it is gone.
                Some(_) => {}
            }
        }
        let work = lacking.into_iter().map(|(id, ip)| async move {
            let made = self.server.create(&made::object(&id, ip)).await;
            if made.is_ok() {
                let VipId { namespace, name } = &id;
                info!(namespace, name, "made a VirtualIP for annotations");
            }
            outcome(&id, made.map(|_| Left::Nothing).map_err(TendError::from))
        });
        all(work).await
    }

    /// Asks for the deletion of objects whose address nobody asks for any more.
    async fn remove(&self, claims: &Claims, objects: &Objects, members: &[Arc<Member>]) -> Outcome {
        let mut all = Outcome::default();
        for (id, vip) in objects {
            let Some(ip) = made::for_annotation(vip) else {
                continue;
            };
            let claimants = claims.addresses.get(&ip);
            let is_going = vip.metadata.deletion_timestamp.is_some();
            if claimants.is_some() || is_going || !self.cluster.knows_claims() {
                self.note_claimed(id, claimants);
                continue;
            }
            all.waits = true;
            if !self.is_unclaimed_for_long(id, members) {
                continue;
            }
            let removed = self.server.delete(id, vip).await;
            if removed.is_ok() {
                let VipId { namespace, name } = id;
                info!(namespace, name, "nobody asks for a shared address any more");
            }
            all = all.and(outcome(
                id,
                removed.map(|()| Left::Later).map_err(TendError::from),
            ));
        }
        all
    }

    /// Notes that an object is not without claims, and who has them.
    fn note_claimed(&self, id: &VipId, claimants: Option<&Claimants>) {
        let mut memory = self.memory();
        memory.unclaimed.remove(id);
        let pods = claimants.iter().flat_map(|it| &it.pods);
        let pods: BTreeSet<String> = pods.map(|pod| pod.uid.clone()).collect();
        // A workload may claim it while its pods are being replaced.
        if !pods.is_empty() {
            memory.claimants.insert(id.clone(), pods);
        }
    }

    /// Whether nobody has claimed an object for so long that nobody is to be waited for.
    fn is_unclaimed_for_long(&self, id: &VipId, members: &[Arc<Member>]) -> bool {
        let mut memory = self.memory();
        let since = memory.unclaimed.entry(id.clone());
        let since = *since.or_insert_with(Instant::now);
        let runs = |uid: &String| {
            let pod = members.iter().find(|pod| pod.uid == *uid);
            pod.is_some_and(|pod| !pod.terminating && pod.phase != Phase::Finished)
        };
        let is_renounced = memory
            .claimants
            .get(id)
            .is_some_and(|them| them.iter().any(runs));
        let patience = if is_renounced { RENOUNCED } else { UNCLAIMED };
        since.elapsed() >= patience
    }

    /// A person has made an object of that name: it says who shares what, not annotations.
    fn tell_foreign(&self, id: &VipId, ip: IpAddr, claimants: &Claimants) {
        for claimer in &claimants.claimers {
            let note = format!(
                "{ip}: VirtualIP {} was made by somebody, so its selector and not annotations say who shares it",
                id.name,
            );
            self.teller
                .problem(&id.namespace, claimer, "AddressTaken", &id.name, note);
        }
    }
}

/// Does all of it, some at a time.
async fn all(work: impl Iterator<Item = impl Future<Output = Outcome>>) -> Outcome {
    let done = stream::iter(work).buffer_unordered(PARALLEL);
    let done: Vec<Outcome> = done.collect().await;
    done.into_iter().fold(Outcome::default(), Outcome::and)
}

fn outcome(id: &VipId, left: Result<Left, TendError>) -> Outcome {
    let VipId { namespace, name } = id;
    match left {
        Ok(left) => Outcome {
            failed: false,
            waits: left == Left::Later,
        },
        Err(error) => {
            let reason = error.reason();
            if error.is_conflict() {
                debug!(reason, namespace, name, %error, "looking at a VirtualIP again");
            } else {
                warn!(reason, namespace, name, %error, "a VirtualIP is not as it shall be yet");
            }
            Outcome {
                failed: true,
                waits: false,
            }
        }
    }
}
