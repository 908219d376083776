//! How a rolling update of a Deployment goes on whose pods keep their addresses.
//!
//! Such a Deployment has as many addresses as replicas. Its controller makes a new
//! pod before it takes an old one away, so the new pod waits for an address, and the
//! old ones stay until it runs: with few replicas nothing moves. Then floe takes one
//! old pod away, and its address is handed over.
//!
//! - [`strategy`]: what a Deployment says about its updates.
//! - [`decide`]: which pod is to go next, or why none.
//! - [`precedence`]: whose pods get an address that becomes free.
//! - [`trial`]: whether a waiting pod could use what another one holds.
//!
//! One pod goes at a time. The choice is the same for everybody who sees the same
//! pods, so that two processes which both believe to lead take the same one.

use jiff::Timestamp;

use self::strategy::Handling;

pub mod strategy;
#[cfg(test)]
mod tests;
pub mod trial;

/// A Deployment and its pods, as far as its updates are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    /// What is to be done about pods that wait.
    pub handling: Handling,
    /// Whether new pods come before old ones go; otherwise its controller takes all
    /// old ones away first.
    pub rolling: bool,
    /// Whether somebody has stopped its updates for now.
    pub paused: bool,
    /// The wanted pods.
    pub replicas: u32,
    /// How many of them its controller lets be missing of its own accord.
    pub allowance: u32,
    /// The revision of its newest `ReplicaSet`.
    pub newest: u64,
    /// Its pods, those of all its `ReplicaSets` and of no other Deployment.
    pub pods: Vec<Member>,
}

/// A pod of a Deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The revision of its `ReplicaSet`; higher is newer.
    pub revision: u64,
    /// When it was made.
    pub created: Timestamp,
    /// How it is.
    pub health: Health,
    /// What it has.
    pub address: Address,
}

/// How a pod is, in the eyes of its Deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    /// Ready, and for long enough.
    Available,
    /// Not ready, or not for long enough.
    Unavailable,
    /// Its deletion was asked for.
    Leaving,
}

/// What a pod has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Address {
    /// None, and that is all it lacks.
    Lacks,
    /// None, for whatever reason.
    None,
    /// All that it asked for.
    Holds {
        /// Whether the pod that waits could go on with it.
        useful: bool,
    },
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// No new pod waits for an address of an old one.
    Nothing,
    /// Take this pod away.
    Evict(Eviction),
    /// A new pod waits, and is left waiting.
    Wait {
        /// The name of that pod.
        pod: String,
        /// Why.
        why: Why,
    },
}

/// A pod that is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Eviction {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is of use until then.
    pub available: bool,
    /// The pod that gets its address.
    pub heir: Heir,
    /// Whether nobody serves until that one runs.
    pub outage: bool,
}

/// A pod that waits for an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heir {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// Why a new pod is left waiting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Why {
    /// So it was asked for.
    #[error(
        "it is not helped along (floe.dev/rollout: wait): it goes on when an old pod ends, or with \
         maxUnavailable of at least one pod"
    )]
    Asked,
    /// The strategy forbids to go below the replicas.
    #[error(
        "maxUnavailable is 0, so no old pod goes before a new one runs, and there is no further \
         address: set floe.dev/rollout to handover or surge, or maxUnavailable to 1"
    )]
    MaxUnavailableZero,
    /// All addresses are in use that it may have beside those of its replicas.
    #[error("no address is left for a pod beside the replicas (floe.dev/rollout: surge)")]
    SurgeExhausted,
    /// Somebody has stopped the update.
    #[error("the Deployment is paused: kubectl rollout resume")]
    Paused,
    /// An address is about to become free.
    #[error("pod {pod} is on its way out, and its address comes free then")]
    Leaving {
        /// The pod that goes.
        pod: String,
    },
    /// The new version has not shown yet that it works.
    #[error(
        "pod {pod} of the new version has an address and is not available yet; no other pod goes \
         for it meanwhile"
    )]
    Unproven {
        /// The new pod that has an address.
        pod: String,
    },
    /// One less would be too few.
    #[error(
        "{available} of {replicas} replicas are available, and no pod goes while one is missing"
    )]
    TooFewAvailable {
        /// How many are.
        available: usize,
        /// How many are wanted.
        replicas: u32,
    },
    /// The controller of the Deployment does it.
    #[error(
        "the Deployment takes old pods away by itself: its maxUnavailable lets {allowance} be missing"
    )]
    OwnPace {
        /// How many may be missing.
        allowance: u32,
    },
    /// The old pods have addresses, which the new one cannot have.
    #[error(
        "none of the addresses that old pods hold can be used by it: its ranges or the nodes that \
         it may run on are others"
    )]
    Useless,
    /// The old pods have no addresses, or none of the same group.
    #[error("no old pod has an address that could be handed over")]
    NothingToHandOver,
}

impl Why {
    /// The stable reason for Events, logs and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Asked => "RolloutWaits",
            Self::MaxUnavailableZero => "RolloutMaxUnavailableZero",
            Self::SurgeExhausted => "RolloutSurgeExhausted",
            Self::Paused => "RolloutPaused",
            Self::Leaving { .. } => "RolloutPodLeaving",
            Self::Unproven { .. } => "RolloutNewPodNotAvailable",
            Self::TooFewAvailable { .. } => "RolloutTooFewAvailable",
            Self::OwnPace { .. } => "RolloutOwnPace",
            Self::Useless => "RolloutAddressNotUsable",
            Self::NothingToHandOver => "RolloutNothingToHandOver",
        }
    }

    /// Whether it is over by itself in a good update. It is worth a word only when it
    /// lasts.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Leaving { .. }
            | Self::Unproven { .. }
            | Self::TooFewAvailable { .. }
            | Self::OwnPace { .. }
            // The last old pod has left its address to the group, and is still listed.
            | Self::NothingToHandOver => true,
            Self::Asked
            | Self::MaxUnavailableZero
            | Self::SurgeExhausted
            | Self::Paused
            | Self::Useless => false,
        }
    }
}

/// What to do next about an update.
///
/// - An old pod that is not available goes first, and whatever the others are like: it
///   serves nobody. So a version that never worked makes room for the next one, or for
///   the one before it.
/// - One that is available goes only if all replicas are, so that one less stay, and only
///   if the Deployment itself would never take it away: who lets pods be missing does, and
///   one more of them would be too many.
/// - None goes while an address is about to become free, or while a pod of the newest
///   revision has one and is not available. It would go in vain: see [`precedence`].
pub fn decide(picture: &Picture) -> Step {
    let Some(heir) = picture.heir() else {
        return Step::Nothing;
    };
    if !picture.rolling || picture.older().next().is_none() {
        return Step::Nothing;
    }
    match picture.successor(heir) {
        Ok(eviction) => Step::Evict(eviction),
        Err(why) => Step::Wait {
            pod: heir.name.clone(),
            why,
        },
    }
}

/// What counts as the revision of a pod when several wait for an address that becomes
/// free: the higher one gets it.
///
/// `unproven` is the newest revision of the Deployment if one of its pods holds an
/// address and is not available. As long as it has not shown that it works, the pods of
/// other revisions go first: what an old pod leaves behind then goes to the one that
/// comes in its place, and a version that does not work takes no more addresses.
pub fn precedence(revision: u64, unproven: Option<u64>) -> u64 {
    if unproven == Some(revision) {
        0
    } else {
        revision
    }
}

impl Picture {
    /// The pod that waits for longest.
    fn heir(&self) -> Option<&Member> {
        let newest = self.pods.iter().filter(|pod| pod.revision == self.newest);
        newest
            .filter(|pod| pod.address == Address::Lacks && pod.health != Health::Leaving)
            .min_by_key(|pod| (pod.created, &pod.uid))
    }

    /// Pods of older revisions.
    fn older(&self) -> impl Iterator<Item = &Member> {
        let pods = self.pods.iter();
        pods.filter(|pod| pod.revision < self.newest)
    }

    /// Who goes for the one that waits.
    fn successor(&self, heir: &Member) -> Result<Eviction, Why> {
        match self.handling {
            Handling::Handover => {}
            Handling::Surge => return Err(Why::SurgeExhausted),
            Handling::Wait { written: true } => return Err(Why::Asked),
            Handling::Wait { written: false } => return Err(Why::MaxUnavailableZero),
        }
        if self.paused {
            return Err(Why::Paused);
        }
        if let Some(leaving) = self.holder(|pod| pod.health == Health::Leaving) {
            let pod = leaving.name.clone();
            return Err(Why::Leaving { pod });
        }
        let is_new = |pod: &Member| pod.revision == self.newest;
        let fresh = self.holder(|pod| is_new(pod) && pod.health == Health::Unavailable);
        if let Some(fresh) = fresh {
            let pod = fresh.name.clone();
            return Err(Why::Unproven { pod });
        }
        let goer = self.goer()?;
        Ok(Eviction {
            name: goer.name.clone(),
            uid: goer.uid.clone(),
            available: goer.health == Health::Available,
            heir: Heir {
                name: heir.name.clone(),
                uid: heir.uid.clone(),
            },
            outage: goer.health == Health::Available && self.available() == 1,
        })
    }

    fn goer(&self) -> Result<&Member, Why> {
        let holds = |pod: &&Member| matches!(pod.address, Address::Holds { .. });
        let mut holders: Vec<&Member> = self.older().filter(holds).collect();
        // The oldest revision first, and of that the pod that has run for the shortest time.
        holders.sort_by(|one, other| {
            let (a, b) = (one.revision, other.revision);
            a.cmp(&b)
                .then_with(|| other.created.cmp(&one.created))
                .then_with(|| one.uid.cmp(&other.uid))
        });
        let useful = |health: Health| {
            let mut holders = holders.iter().copied();
            holders
                .find(|pod| pod.health == health && pod.address == Address::Holds { useful: true })
        };
        if let Some(broken) = useful(Health::Unavailable) {
            return Ok(broken);
        }
        if holders.is_empty() {
            return Err(Why::NothingToHandOver);
        }
        let Some(goer) = useful(Health::Available) else {
            return Err(Why::Useless);
        };
        let (available, replicas) = (self.available(), self.replicas);
        if u32::try_from(available).is_ok_and(|available| available < replicas) {
            return Err(Why::TooFewAvailable {
                available,
                replicas,
            });
        }
        if self.allowance > 0 {
            let allowance = self.allowance;
            return Err(Why::OwnPace { allowance });
        }
        Ok(goer)
    }

    fn holder(&self, is: impl Fn(&Member) -> bool) -> Option<&Member> {
        let mut pods = self.pods.iter();
        pods.find(|pod| matches!(pod.address, Address::Holds { .. }) && is(pod))
    }

    /// How many are available, of whatever revision.
    fn available(&self) -> usize {
        let pods = self.pods.iter();
        pods.filter(|pod| pod.health == Health::Available).count()
    }
}
