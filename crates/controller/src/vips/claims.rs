//! Who of a namespace asks for which shared address, by annotations.
//!
//! A pod asks by its own annotations, which may come from a template, and by those of the
//! workload that it belongs to.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use floe_core::vip::claim::{ALIAS, ANNOTATION, Claim, Problem};

use crate::cluster::{Asks, Herd, Member, Phase, Sort};

/// What is asked for in a namespace.
#[derive(Debug, Default)]
pub struct Claims {
    /// By address.
    pub addresses: BTreeMap<IpAddr, Claimants>,
    /// What is wrong with annotations, and whose they are.
    pub problems: Vec<(Claimer, Problem)>,
}

/// Who asks for an address.
#[derive(Debug, Default)]
pub struct Claimants {
    /// The pods that can have it.
    pub pods: Vec<Arc<Member>>,
    /// The objects whose annotations name it.
    pub claimers: BTreeSet<Claimer>,
}

/// An object with annotations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Claimer {
    /// Its kind.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

impl Claims {
    /// What these pods and workloads of one namespace ask for. `deployment_of` names the
    /// Deployment that a `ReplicaSet` belongs to.
    pub fn of(
        members: &[Arc<Member>],
        herds: &[Herd],
        deployment_of: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let mut claims = Self::default();
        let mut of_herds = BTreeMap::new();
        for herd in herds {
            let claimer = Claimer {
                kind: herd.sort.kind(),
                name: herd.name.clone(),
                uid: herd.uid.clone(),
            };
            // A workload asks also while it has no pods.
            let addresses = claims.read(&herd.asks, &claimer);
            of_herds.insert((herd.sort, herd.name.as_str()), addresses);
        }
        for pod in members {
            // What has ended asks for nothing any more.
            if pod.phase == Phase::Finished {
                continue;
            }
            let mut addresses = BTreeSet::new();
            if let Some(asks) = &pod.shape.asks {
                addresses.extend(claims.read(asks, &Claimer::of(pod)));
            }
            if !of_herds.is_empty()
                && let Some((sort, name)) = &pod.shape.controller
            {
                let mut herds = vec![(*sort, name.clone())];
                let deployment = (*sort == Sort::ReplicaSet).then(|| deployment_of(name));
                herds.extend(deployment.flatten().map(|name| (Sort::Deployment, name)));
                for (sort, name) in herds {
                    addresses.extend(of_herds.get(&(sort, name.as_str())).into_iter().flatten());
                }
            }
            for ip in addresses {
                let claimants = claims.addresses.entry(ip).or_default();
                claimants.pods.push(pod.clone());
            }
        }
        claims
    }

    /// Notes what annotations ask for, and returns it.
    fn read(&mut self, asks: &Asks, claimer: &Claimer) -> Vec<IpAddr> {
        let claim = Claim::of(|name| match name {
            ANNOTATION => asks.calico.as_deref(),
            ALIAS => asks.floe.as_deref(),
            _ => None,
        });
        for &ip in &claim.addresses {
            let claimants = self.addresses.entry(ip).or_default();
            claimants.claimers.insert(claimer.clone());
        }
        let problems = claim.problems.into_iter();
        self.problems
            .extend(problems.map(|problem| (claimer.clone(), problem)));
        claim.addresses
    }
}

impl Claimer {
    /// A pod.
    pub fn of(pod: &Member) -> Self {
        Self {
            kind: "Pod",
            name: pod.name.clone(),
            uid: pod.uid.clone(),
        }
    }
}
