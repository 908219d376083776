//! The kernel's rules for what a node serves.
//!
//! Destinations are rewritten by two maps: of what is held here for packets from
//! anywhere, and of what other nodes hold for packets that start on this node. Who
//! may not speak for its addresses any more falls silent without doing anything: all
//! of it hangs on the sets `alive`, whose elements the kernel forgets by itself.
//!
//! - Every change is one transaction, and [`NodeRules::script`] never touches `alive`:
//!   however late it comes to the kernel, it makes nobody live longer.
//! - Whoever fills [`NodeRules::pulses`] alone does that.
//! - Connections follow rules only when they begin. What the kernel remembers of those to
//!   [`NodeRules::changed_since`] must be deleted after a script. Until that is done, the
//!   guard stops connections to the previous pod: at once if the rules list the pair as
//!   [ended](NodeRules::end), and when `alive` runs out if they list it as
//!   [leaving](NodeRules::leave).

mod fault;
pub(in crate::vip) mod listing;
mod pod;
mod script;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use ipnet::IpNet;

pub use self::{
    fault::RuleFault,
    pod::{POD_PULSES, POD_TICKET, PodRules},
    script::{ANNOUNCEMENTS, ANSWERS, COUNTERS, PULSES, Pulse, TABLE, TABLES, TICKET, removal},
};

/// The link to pods on the node's own network.
pub const LOOPBACK: &str = "lo";

/// The longest name that a link can have.
const NAME_LIMIT: usize = 15;

/// All that the rules of a node depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeRules {
    uplinks: BTreeSet<String>,
    exits: BTreeSet<String>,
    targets: BTreeMap<IpAddr, Target>,
    egress: BTreeMap<IpAddr, IpAddr>,
    announced: BTreeSet<IpAddr>,
    own: BTreeSet<IpAddr>,
    known: BTreeSet<IpAddr>,
    inside: BTreeSet<IpNet>,
    ended: BTreeSet<Pair>,
    leaving: BTreeSet<Pair>,
}

/// A shared address and the pod of this node that serves, or served, it: the two addresses
/// between which the kernel translates. Both are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair {
    /// The shared address.
    pub vip: IpAddr,
    /// The pod's own address.
    pub pod: IpAddr,
}

/// Where traffic for an address goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// To a pod of this node.
    Here {
        /// The pod's own address.
        pod: IpAddr,
        /// The link of the node that leads to it.
        link: String,
    },
    /// To a pod of another node. Only traffic that starts on this node is sent there.
    Elsewhere {
        /// The pod's own address.
        pod: IpAddr,
    },
}

/// Why something cannot be part of the rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleRefusal {
    /// No such link can exist.
    #[error("{0:?} is not the name of a link")]
    InvalidLink(String),
    /// The pod has no address of the same family.
    #[error("{vip} cannot be rewritten to {pod}, which is of the other family")]
    FamilyMissing {
        /// The shared address.
        vip: IpAddr,
        /// The pod's address.
        pod: IpAddr,
    },
    /// What a pod sends leaves with one address of a family only.
    #[error("what {pod} sends leaves with {by} already, so not with {vip}")]
    EgressTaken {
        /// The shared address.
        vip: IpAddr,
        /// The pod's address.
        pod: IpAddr,
        /// The shared address that was first.
        by: IpAddr,
    },
}

impl RuleRefusal {
    /// The stable name of the refusal.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidLink(_) => "InvalidLink",
            Self::FamilyMissing { .. } => "FamilyMissing",
            Self::EgressTaken { .. } => "EgressTaken",
        }
    }
}

impl NodeRules {
    /// Adds a link that leads to other machines, and not to pods.
    pub fn add_uplink(&mut self, link: &str) -> Result<(), RuleRefusal> {
        self.uplinks.insert(checked(link)?);
        Ok(())
    }

    /// Adds a link on which the kernel drops announcements and packets of addresses for which
    /// this node may not speak: an uplink, or one below it through which direct pods
    /// send. It must exist when the script is run. Kernels before 5.16 cannot do it.
    pub fn add_exit(&mut self, link: &str) -> Result<(), RuleRefusal> {
        self.exits.insert(checked(link)?);
        Ok(())
    }

    /// Sends traffic for an address to a pod of this node, which `link` leads to.
    pub fn hold(&mut self, vip: IpAddr, pod: IpAddr, link: &str) -> Result<(), RuleRefusal> {
        same_family(vip, pod)?;
        let link = checked(link)?;
        self.targets.insert(vip, Target::Here { pod, link });
        self.known.insert(vip);
        Ok(())
    }

    /// Sends this node's own traffic for an address to a pod of another node.
    pub fn send_away(&mut self, vip: IpAddr, pod: IpAddr) -> Result<(), RuleRefusal> {
        same_family(vip, pod)?;
        self.targets.insert(vip, Target::Elsewhere { pod });
        self.known.insert(vip);
        Ok(())
    }

    /// Lets what a pod sends to outside of the cluster leave with an address, which
    /// this node holds. The first one stays.
    pub fn leave_as(&mut self, pod: IpAddr, vip: IpAddr) -> Result<(), RuleRefusal> {
        same_family(vip, pod)?;
        let by = *self.egress.entry(pod).or_insert(vip);
        if by != vip {
            return Err(RuleRefusal::EgressTaken { vip, pod, by });
        }
        self.known.insert(vip);
        Ok(())
    }

    /// The host itself has an address while it is alive. The kernel never answers for it on
    /// any link: who answers in its place is silent in time.
    pub fn own(&mut self, vip: IpAddr) {
        self.own.insert(vip);
        self.known.insert(vip);
    }

    /// Whether the host itself has an address.
    pub fn owns(&self, vip: IpAddr) -> bool {
        self.own.contains(&vip)
    }

    /// Whether the kernel has to be kept from answering for addresses of the host.
    pub fn has_own(&self) -> bool {
        !self.own.is_empty()
    }

    /// Lets announcements of an address leave this node while it is alive.
    pub fn announce(&mut self, vip: IpAddr) {
        self.announced.insert(vip);
        self.known.insert(vip);
    }

    /// Adds an address that somebody shares. No announcement of it leaves this node,
    /// unless [`NodeRules::announce`] says so.
    pub fn know(&mut self, vip: IpAddr) {
        self.known.insert(vip);
    }

    /// Adds a network of the cluster's own: what goes there keeps its source.
    pub fn add_inside(&mut self, net: IpNet) {
        self.inside.insert(net.trunc());
    }

    /// Whether a pod of this node serves an address.
    pub fn is_held(&self, vip: IpAddr) -> bool {
        matches!(self.targets.get(&vip), Some(Target::Here { .. }))
    }

    /// Where traffic for an address goes.
    pub fn target(&self, vip: IpAddr) -> Option<&Target> {
        self.targets.get(&vip)
    }

    /// The links that lead to other machines.
    pub fn uplinks(&self) -> impl Iterator<Item = &str> {
        self.uplinks.iter().map(String::as_str)
    }

    /// The addresses whose packets this node forwards to one of its pods. Those of a pod on
    /// the node's own network are received, not forwarded.
    pub fn forwarded(&self) -> impl Iterator<Item = IpAddr> {
        self.targets
            .iter()
            .filter_map(|(&vip, target)| match target {
                Target::Here { link, .. } => (link != LOOPBACK).then_some(vip),
                Target::Elsewhere { .. } => None,
            })
    }

    /// The pairs between which this node translates on behalf of its own pods.
    pub fn pairs(&self) -> BTreeSet<Pair> {
        let held = self
            .targets
            .iter()
            .filter_map(|(&vip, target)| match target {
                Target::Here { pod, .. } => Some(Pair { vip, pod: *pod }),
                Target::Elsewhere { .. } => None,
            });
        let egress = self.egress.iter().map(|(&pod, &vip)| Pair { vip, pod });
        held.chain(egress).collect()
    }

    /// Stops the connections of these pairs at once, whatever the kernel remembers of them.
    /// A pair that the rules serve is left out, here or on another node.
    pub fn end(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        let pairs = self.without_served(pairs);
        self.ended.extend(pairs);
    }

    /// Lets the connections of these pairs go on while this node is alive: the holder of an
    /// address answers until it has handed over. A pair that the rules serve is left out.
    pub fn leave(&mut self, pairs: impl IntoIterator<Item = Pair>) {
        let pairs = self.without_served(pairs);
        self.leaving.extend(pairs);
    }

    fn without_served(&self, pairs: impl IntoIterator<Item = Pair>) -> BTreeSet<Pair> {
        let served = self.pairs();
        let is_target = |it: &Pair| match self.targets.get(&it.vip) {
            Some(Target::Here { pod, .. } | Target::Elsewhere { pod }) => *pod == it.pod,
            None => false,
        };
        let pairs = pairs.into_iter();
        pairs
            .filter(|it| !served.contains(it) && !is_target(it))
            .collect()
    }

    /// The addresses of which connections have to be forgotten, so that they follow
    /// these rules and not the earlier ones.
    pub fn changed_since(&self, earlier: &Self) -> BTreeSet<IpAddr> {
        let targets = self.targets.keys().chain(earlier.targets.keys());
        let moved = targets.filter(|vip| self.targets.get(*vip) != earlier.targets.get(*vip));
        let pods = self.egress.keys().chain(earlier.egress.keys());
        let left = pods
            .filter(|pod| self.egress.get(*pod) != earlier.egress.get(*pod))
            .flat_map(|pod| [self.egress.get(pod), earlier.egress.get(pod)])
            .flatten();
        moved.chain(left).copied().collect()
    }
}

fn same_family(vip: IpAddr, pod: IpAddr) -> Result<(), RuleRefusal> {
    if vip.is_ipv4() == pod.is_ipv4() {
        return Ok(());
    }
    Err(RuleRefusal::FamilyMissing { vip, pod })
}

/// A name that the kernel would take, and that says nothing else in a script.
fn checked(link: &str) -> Result<String, RuleRefusal> {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !br#"/:"\*"#.contains(&byte);
    let is_good = !link.is_empty() && link.len() <= NAME_LIMIT && link.bytes().all(is_plain);
    if is_good && link != "." && link != ".." {
        return Ok(link.to_owned());
    }
    Err(RuleRefusal::InvalidLink(link.to_owned()))
}

#[cfg(test)]
mod tests;
