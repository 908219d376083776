//! What a node has to be told so that it serves an order: rules, links to answer on,
//! addresses to lend to pods, routes. Pure: made from what was asked and what there is.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

use floe_core::{
    addr,
    announce::Mac,
    vip::{
        Candidate, Mode, VipId, claim,
        forwarding::Obstacle,
        keeper::{Role, Served, Serving},
        rules::{NodeRules, RuleRefusal},
    },
};
use floe_net::netlink::Route;
use ipnet::IpNet;

pub use heard::Heard;
pub use survey::Survey;

mod heard;
mod survey;

/// The main table of routes.
const MAIN: u32 = 254;

/// What is to be served, with all that the keeper does not know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// What the keeper says.
    pub serving: Serving,
    /// The same objects as there.
    pub details: BTreeMap<VipId, Detail>,
    /// All addresses that somebody shares.
    pub known: BTreeSet<IpAddr>,
    /// Addresses of nodes.
    pub nodes: BTreeSet<IpAddr>,
}

/// How an object is to be served.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detail {
    /// The link to announce on, if a person has chosen one.
    pub interface: String,
    /// Whether what the holder sends leaves with the address.
    pub egress: bool,
    /// How its holder is served.
    pub mode: Mode,
}

/// A pod's namespace, and the link in it for addresses that the pod has itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The namespace.
    pub netns: PathBuf,
    /// The index of the link there.
    pub link: u32,
    /// What has to be guarded: replies may leave by another link than `link`.
    pub links: Links,
    /// Its hardware address.
    pub mac: Mac,
    /// The link of the host that its frames come through.
    pub lower: Option<u32>,
    /// The subnets of the link.
    pub nets: Vec<IpNet>,
}

/// The links of a namespace but for the loopback one: names and indices.
pub type Links = BTreeMap<String, u32>;

/// A pod's namespace in which shared addresses are guarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guarded {
    /// Those of [`Room::links`].
    pub links: Links,
    /// The objects whose addresses the pod has, or gets when this node is the holder.
    pub ids: BTreeSet<VipId>,
}

/// An address that a pod has for as long as this node may serve it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Of which object.
    pub id: VipId,
    /// Where.
    pub room: Room,
    /// The address.
    pub ip: IpAddr,
}

/// All that the host has to have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The rules.
    pub rules: NodeRules,
    /// Whether there is anything that needs rules.
    pub has_rules: bool,
    /// The addresses to answer for, by link.
    pub answers: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses that pods have.
    pub loans: Vec<Loan>,
    /// The namespaces of pods that have addresses or are prepared to.
    pub guarded: BTreeMap<PathBuf, Guarded>,
    /// The addresses that the host itself has.
    pub own: BTreeSet<IpAddr>,
    /// Routes to nodes that have an address now: node and link.
    pub leads: BTreeMap<IpAddr, (IpAddr, u32)>,
    /// What was found about those that this node serves or is prepared to.
    pub findings: BTreeMap<VipId, Finding>,
}

/// What was found about an object that this node serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Finding {
    /// Why it cannot be served.
    pub trouble: Option<Trouble>,
    /// Why nobody outside of the cluster hears of it.
    pub unreachable: Option<Unreachable>,
    /// The links on which it is announced.
    pub links: BTreeSet<String>,
    /// Why what the holder sends does not leave with it, though somebody wants that.
    pub no_egress: Option<RuleRefusal>,
    /// Whether somebody had it and could not be made to give it back. Then somebody here may
    /// answer for it whatever is served, until its time has run out.
    pub lingers: bool,
}

/// Why an object cannot be served here.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Trouble {
    /// The pod has no address of a family that is needed.
    #[error(transparent)]
    FamilyMissing(#[from] claim::FamilyMissing),
    /// The host knows no way to the pod.
    #[error("no route leads to the pod")]
    NoRoute,
    /// The namespace of the pod is not known, or has no link for it.
    #[error("the pod's network is not found")]
    NoNamespace,
    /// The kernel cannot stop what leaves with the address, and takes it from a pod, or from
    /// the node, only up to a second late.
    #[error("the kernel of the node cannot end this mode in time: it needs Linux 5.16")]
    Unguarded,
    /// It cannot be part of the rules.
    #[error(transparent)]
    Rules(#[from] RuleRefusal),
    /// The kernel does not have the rules that it was told.
    #[error("the rules are not in the kernel: {0}")]
    RulesMissing(String),
    /// Another pod of the node still has the address.
    #[error("the pod that had the address before could not be made to give it back yet")]
    NotTakenBack,
    /// The pod did not get the address itself.
    #[error("the pod does not get the address: {0}")]
    NotInPod(String),
    /// The host did not get the address itself.
    #[error("the node does not get the address: {0}")]
    NotOnHost(String),
    /// Nobody would be answered on the link.
    #[error("{0}")]
    Deaf(String),
}

/// Why nobody outside of the cluster hears of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unreachable {
    /// No link has a subnet with it, or the chosen one is not there.
    #[error("no interface of the node has a subnet with the address: reachable from inside only")]
    NoInterface,
    /// The link of the pod that has it has no subnet with it.
    #[error("no interface of the pod has a subnet with the address: neighbours do not ask for it")]
    NoInterfaceInPod,
    /// No link has a subnet with it any more, and this node has announced it before.
    #[error("the interface on which the address was announced is lost: reachable from inside only")]
    LinkLost,
    /// Packets of the address enter the node and do not leave it.
    #[error("packets of the address enter the node and are not forwarded: {0}")]
    NotForwarding(#[from] Obstacle),
}

impl Trouble {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::FamilyMissing(it) => it.reason(),
            Self::NoRoute => "NoRoute",
            Self::NoNamespace => "NoNamespace",
            Self::Unguarded => "EgressHookMissing",
            Self::Rules(it) => it.reason(),
            Self::RulesMissing(_) => "RulesMissing",
            Self::NotTakenBack => "NotTakenBack",
            Self::NotInPod(_) => "NotInPod",
            Self::NotOnHost(_) => "NotOnHost",
            Self::Deaf(_) => "NotAnswering",
        }
    }
}

impl Unreachable {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoInterface | Self::NoInterfaceInPod => "NoInterface",
            Self::LinkLost => "LinkLost",
            Self::NotForwarding(_) => "NotForwarding",
        }
    }

    /// Whether this node reached the world before, or should have: another node may be able
    /// to. An address that never had an interface is merely for use from inside.
    pub fn is_fault(&self) -> bool {
        match self {
            Self::NoInterface | Self::NoInterfaceInPod => false,
            Self::LinkLost | Self::NotForwarding(_) => true,
        }
    }
}

/// Plans what the host has to have. `rooms` are the namespaces of pods, by uid.
pub fn plan(order: &Order, survey: &Survey, rooms: &BTreeMap<String, Room>) -> Plan {
    let mut plan = Plan {
        has_rules: !order.serving.roles.is_empty(),
        ..Plan::default()
    };
    surroundings(&mut plan.rules, order, survey);
    for (id, served) in &order.serving.roles {
        let detail = order.details.get(id).cloned().unwrap_or_default();
        let found = match &served.role {
            Role::Holder(pod) => {
                let found = if pod.mode == Mode::Direct {
                    lend(&mut plan, id, served, pod, survey, rooms)
                } else {
                    hold(&mut plan, served, pod, &detail, survey)
                };
                Some(found)
            }
            Role::Prepared(pod) => {
                let found = prepare(&mut plan, id, served, pod, survey, rooms);
                Some(found.map(|()| Finding::default()))
            }
            Role::HandedTo(node) => {
                for &ip in &served.addresses {
                    // There is no such route as one of the sixth family by way of the fourth.
                    let fits = ip.is_ipv4() || node.is_ipv6();
                    if let Some(link) = survey.link_to(*node).filter(|_| fits) {
                        plan.leads.insert(ip, (*node, link.index));
                    }
                }
                None
            }
            // The pod itself is asked for it, wherever it is.
            Role::Away(_) if detail.mode == Mode::Direct => None,
            Role::Away(node) if detail.mode == Mode::Node => {
                lead_to_node(&mut plan, served, node, survey);
                None
            }
            Role::Away(pod) => {
                for &ip in &served.addresses {
                    if let Ok(own) = claim::pair(ip, pod) {
                        // Families are the same, or there would be no pair.
                        let _ = plan.rules.send_away(addr::canonical(ip), own);
                    }
                }
                None
            }
        };
        if let Some(found) = found {
            let found = found.unwrap_or_else(|trouble| Finding {
                trouble: Some(trouble),
                ..Finding::default()
            });
            plan.findings.insert(id.clone(), found);
        }
    }
    plan
}

/// What does not depend on who serves what.
fn surroundings(rules: &mut NodeRules, order: &Order, survey: &Survey) {
    for &ip in &order.known {
        rules.know(ip);
    }
    let chosen = order.details.values().map(|it| it.interface.as_str());
    let chosen = chosen.filter_map(|name| survey.link_named(name));
    let near = order.known.iter().filter_map(|ip| survey.link_near(*ip));
    let exits: BTreeSet<&str> = near.chain(chosen).map(|it| it.name.as_str()).collect();
    let is_default = |it: &&Route| it.dst.prefix_len() == 0 && it.table == MAIN;
    let defaults = survey.routes.iter().filter(is_default);
    let defaults = defaults.filter_map(|it| survey.link_at(it.link));
    let uplinks: BTreeSet<&str> = exits
        .iter()
        .copied()
        .chain(defaults.map(|it| it.name.as_str()))
        .collect();
    // The kernel has names that no rule can have; nothing is announced there either.
    for link in exits.iter().filter(|_| survey.can_guard) {
        let _ = rules.add_exit(link);
    }
    for link in &uplinks {
        let _ = rules.add_uplink(link);
    }
    for &node in &order.nodes {
        rules.add_inside(IpNet::from(node));
    }
    // What another machine routes for is a network of the cluster, as far as a node can tell.
    for route in &survey.routes {
        // A route that leads a shared address to its next node.
        let is_shared = order.known.contains(&route.dst.addr());
        let by_uplink = survey
            .link_at(route.link)
            .is_some_and(|it| uplinks.contains(it.name.as_str()));
        let is_way = route.table == MAIN && route.dst.prefix_len() > 0 && route.gateway.is_some();
        if is_way && by_uplink && !is_shared {
            rules.add_inside(route.dst);
        }
    }
}

/// Gives the addresses to the pod itself.
fn lend(
    plan: &mut Plan,
    id: &VipId,
    served: &Served,
    pod: &Candidate,
    survey: &Survey,
    rooms: &BTreeMap<String, Room>,
) -> Result<Finding, Trouble> {
    let mut found = Finding::default();
    let room = room(pod, survey, rooms)?;
    for link in survey.exits_of(room) {
        plan.rules.add_exit(link)?;
    }
    for &ip in &served.addresses {
        plan.rules.announce(ip);
        if !room.nets.iter().any(|net| net.contains(&ip)) {
            found.unreachable = Some(Unreachable::NoInterfaceInPod);
        }
        // A pod that gets another subnet or link keeps what it has.
        let room = Room {
            nets: Vec::new(),
            links: Links::new(),
            ..room.clone()
        };
        let id = id.clone();
        plan.loans.push(Loan { id, room, ip });
    }
    guard(plan, id, room);
    Ok(found)
}

/// Guards the addresses of an object in the namespace of a pod.
fn guard(plan: &mut Plan, id: &VipId, room: &Room) {
    let guarded = plan.guarded.entry(room.netns.clone()).or_default();
    guarded.links.clone_from(&room.links);
    guarded.ids.insert(id.clone());
}

fn hold(
    plan: &mut Plan,
    served: &Served,
    pod: &Candidate,
    detail: &Detail,
    survey: &Survey,
) -> Result<Finding, Trouble> {
    let mut found = Finding::default();
    let pairs = if pod.mode == Mode::Node {
        have(plan, served, survey)?;
        served.addresses.iter().map(|&ip| (ip, None)).collect()
    } else {
        nat(&mut plan.rules, served, pod, survey)?
    };
    for (ip, own) in pairs {
        if let Some(own) = own.filter(|_| detail.egress) {
            match plan.rules.leave_as(own, ip) {
                // Of several addresses of one object the first is as good as any.
                Err(RuleRefusal::EgressTaken { by, .. }) if served.addresses.contains(&by) => {}
                Err(why @ RuleRefusal::EgressTaken { .. }) => found.no_egress = Some(why),
                left => left?,
            }
        }
        let link = if detail.interface.is_empty() {
            survey.link_near(ip)
        } else {
            survey.link_named(&detail.interface)
        };
        let Some(link) = link else {
            found.unreachable = Some(Unreachable::NoInterface);
            continue;
        };
        plan.rules.announce(ip);
        found.links.insert(link.name.clone());
        plan.answers
            .entry(link.name.clone())
            .or_default()
            .insert(ip);
    }
    Ok(found)
}

fn prepare(
    plan: &mut Plan,
    id: &VipId,
    served: &Served,
    pod: &Candidate,
    survey: &Survey,
    rooms: &BTreeMap<String, Room>,
) -> Result<(), Trouble> {
    if pod.mode == Mode::Direct {
        // The pod would answer as soon as it has the address, and frames in its name must not
        // leave the node before it is the holder.
        let room = room(pod, survey, rooms)?;
        guard(plan, id, room);
        return Ok(());
    }
    if pod.mode == Mode::Node {
        // Nobody is answered for it yet, so it takes only what the last holder sends on.
        return have(plan, served, survey);
    }
    nat(&mut plan.rules, served, pod, survey).map(drop)
}

/// Gives the addresses to the host itself, if that is sure to end in time.
fn have(plan: &mut Plan, served: &Served, survey: &Survey) -> Result<(), Trouble> {
    if !survey.can_guard {
        return Err(Trouble::Unguarded);
    }
    for &ip in &served.addresses {
        plan.rules.own(ip);
        plan.own.insert(ip);
    }
    Ok(())
}

/// Leads to the node that has addresses, where no neighbour can be asked for them. By a
/// route, and not by other destinations: what listens there listens on the address.
fn lead_to_node(plan: &mut Plan, served: &Served, node: &[IpAddr], survey: &Survey) {
    for &ip in &served.addresses {
        if survey.link_near(ip).is_some() {
            continue;
        }
        let Ok(node) = claim::pair(ip, node) else {
            continue;
        };
        if let Some(link) = survey.link_to(node) {
            plan.leads.insert(ip, (node, link.index));
        }
    }
}

/// Where a pod gets an address itself, if that is sure to end in time.
fn room<'a>(
    pod: &Candidate,
    survey: &Survey,
    rooms: &'a BTreeMap<String, Room>,
) -> Result<&'a Room, Trouble> {
    if !survey.can_guard {
        return Err(Trouble::Unguarded);
    }
    rooms.get(&pod.uid).ok_or(Trouble::NoNamespace)
}

/// Sends traffic to the pod; the addresses, each with the pod's own.
fn nat(
    rules: &mut NodeRules,
    served: &Served,
    pod: &Candidate,
    survey: &Survey,
) -> Result<Vec<(IpAddr, Option<IpAddr>)>, Trouble> {
    let pairs = claim::pairs(&served.addresses, &pod.addresses)?;
    let mut held = Vec::new();
    for &(ip, own) in &pairs {
        held.push((ip, own, survey.link_to_pod(own).ok_or(Trouble::NoRoute)?));
    }
    for (ip, own, link) in held {
        rules.hold(addr::canonical(ip), own, link)?;
    }
    Ok(pairs.into_iter().map(|(ip, own)| (ip, Some(own))).collect())
}

#[cfg(test)]
mod tests;
