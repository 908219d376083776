//! The pods that could have the addresses of a `VirtualIP`.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use floe_api::floe::virtualip::{CandidateStatus, ModeChoice};
use floe_core::vip::{
    Mode,
    elect::{self, Facts, Fitness, Unfit},
    node_as_pod,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::cluster::{Member, Node, Phase};

/// How long the holder stays a candidate on a node that Kubernetes does not find ready.
/// Its agent lives, or others would take over without a word; and after an outage of the
/// API server no node is ready for some seconds, until the kubelets are heard again.
const STEADY: SignedDuration = SignedDuration::from_secs(15);

/// What is known about the places where pods run.
pub struct Places<'a> {
    /// A node.
    pub node: &'a dyn Fn(&str) -> Option<Node>,
    /// The nodes whose agent lives.
    pub agents: &'a BTreeSet<String>,
    /// Whether an address of a pod is floe's own: then the pod is on an underlay network,
    /// and its replies bypass the host.
    pub is_underlay: &'a dyn Fn(&Member) -> bool,
    /// The pod that has the addresses.
    pub holder: Option<&'a str>,
    /// The time.
    pub now: Timestamp,
}

/// Which pods could have the addresses.
#[derive(Debug, Default)]
pub struct Candidates {
    /// Those that could, by name.
    pub fit: Vec<CandidateStatus>,
    /// Those that could not, and why.
    pub others: Vec<(Arc<Member>, Unsuited)>,
    /// Whether time alone may change this.
    pub waits: bool,
}

/// Why a pod that asks for addresses is no candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuited {
    /// It is not fit.
    #[error(transparent)]
    Unfit(#[from] Unfit),
    /// Its replies bypass the host, which therefore cannot rewrite them.
    #[error(
        "the pod is on an underlay network, where mode nat is not possible: use auto or direct"
    )]
    NatNotPossible,
    /// No interface of it is on the network of the address, and its replies pass the host.
    #[error(
        "the pod is on no underlay network of floe, so mode direct is not possible: use auto or nat"
    )]
    DirectNotPossible,
    /// Its node is not known, or has no address.
    #[error("the node of the pod has no address")]
    NoNodeAddress,
}

impl Unsuited {
    /// The stable reason for events and metrics.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Unfit(unfit) => unfit.reason(),
            Self::NatNotPossible => "NatNotPossible",
            Self::DirectNotPossible => "DirectNotPossible",
            Self::NoNodeAddress => "NodeWithoutAddress",
        }
    }

    /// Whether somebody has to change the pod or the `VirtualIP`; anything else passes
    /// by itself.
    pub fn is_a_mistake(self) -> bool {
        match self {
            Self::NatNotPossible
            | Self::DirectNotPossible
            | Self::Unfit(Unfit::FamilyMissing(_)) => true,
            Self::Unfit(_) | Self::NoNodeAddress => false,
        }
    }
}

/// The candidates among pods.
pub fn decide(
    pods: &[Arc<Member>],
    floating: &[IpAddr],
    mode: ModeChoice,
    places: &Places<'_>,
) -> Candidates {
    let mut all = Candidates::default();
    for pod in pods {
        let name = pod.node.as_deref().unwrap_or_default();
        let node = (places.node)(name);
        let is_holder = places.holder == Some(pod.uid.as_str());
        let is_steady = is_holder && node.as_ref().is_some_and(|it| is_steady(it, places.now));
        match candidate(pod, node.as_ref(), is_steady, floating, mode, places) {
            Ok(candidate) => {
                all.fit.push(candidate);
                all.waits |= is_steady;
            }
            Err(why) => all.others.push((pod.clone(), why)),
        }
    }
    let order = |it: &CandidateStatus| (it.pod.clone(), it.uid.clone());
    all.fit.sort_by_cached_key(order);
    all
}

/// The candidates among nodes that a pool names: the first one itself, and the others to be
/// asked for promises. How fit a node is is for the pool to say; here it is enough that its
/// agent lives. Until that of the first one does, the holder stays: it is to give the
/// addresses to somebody.
pub fn of_nodes(names: &[String], places: &Places<'_>) -> Candidates {
    let holds = |name: &str| places.holder == Some(node_as_pod(name).as_str());
    let holder = places.holder.and_then(|it| it.strip_prefix("node/"));
    let can_be = |name: &str| {
        let address = (places.node)(name)?.address?;
        let lives = places.agents.contains(name) || holds(name);
        lives.then_some(address)
    };
    let first = names.first().map(String::as_str);
    let chosen = first.filter(|it| can_be(it).is_some()).or(holder);
    let all: BTreeSet<&str> = names.iter().map(String::as_str).chain(chosen).collect();
    let fit = all.into_iter().filter_map(|name| {
        let address = can_be(name)?;
        let is_chosen = chosen == Some(name);
        let mode = if is_chosen { Mode::Node } else { Mode::Standby };
        Some(CandidateStatus {
            pod: node_as_pod(name),
            uid: node_as_pod(name),
            node: name.to_owned(),
            node_address: address,
            addresses: vec![address],
            mode: mode.word().to_owned(),
            // Only one of them can be elected.
            ready_since: Time(Timestamp::UNIX_EPOCH),
        })
    });
    Candidates {
        fit: fit.collect(),
        ..Candidates::default()
    }
}

/// Whether a node has not been unready for long.
fn is_steady(node: &Node, now: Timestamp) -> bool {
    let since = node.since.map(|since| now.duration_since(since));
    !node.ready && since.is_some_and(|since| since < STEADY)
}

fn candidate(
    pod: &Member,
    node: Option<&Node>,
    is_steady: bool,
    floating: &[IpAddr],
    mode: ModeChoice,
    places: &Places<'_>,
) -> Result<CandidateStatus, Unsuited> {
    let name = pod.node.as_deref().unwrap_or_default();
    let facts = Facts {
        phase: match pod.phase {
            Phase::Pending => elect::Phase::Pending,
            Phase::Running => elect::Phase::Running,
            Phase::Finished => elect::Phase::Succeeded,
        },
        is_ready: pod.ready_since.is_some(),
        is_terminating: pod.terminating,
        is_node_ready: is_steady || node.is_some_and(|node| node.ready),
        is_agent_live: places.agents.contains(name),
        addresses: &pod.addresses,
    };
    if let Fitness::Unfit(unfit) = elect::fitness(facts, floating) {
        return Err(unfit.into());
    }
    let mode = match (mode, (places.is_underlay)(pod)) {
        (ModeChoice::Nat, true) => return Err(Unsuited::NatNotPossible),
        (ModeChoice::Direct, false) => return Err(Unsuited::DirectNotPossible),
        (ModeChoice::Nat | ModeChoice::Auto, false) => "nat",
        (ModeChoice::Direct | ModeChoice::Auto, true) => "direct",
    };
    let since = pod.ready_since.unwrap_or_default();
    Ok(CandidateStatus {
        pod: pod.name.clone(),
        uid: pod.uid.clone(),
        node: name.to_owned(),
        node_address: node
            .and_then(|node| node.address)
            .ok_or(Unsuited::NoNodeAddress)?,
        addresses: pod.addresses.clone(),
        mode: mode.to_owned(),
        ready_since: Time(Timestamp::from_second(since).unwrap_or_default()),
    })
}
