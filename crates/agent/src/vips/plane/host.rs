//! The host: rules, answers on links, routes, and what pods have themselves. It blocks.
//!
//! Every order is done in the same sequence: what is to end ends first, then the rules
//! change and the deadline with them in one transaction, then what is new is told.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    path::PathBuf,
};

use floe_core::{
    addr::canonical,
    vip::{VipId, keeper::Role},
};
use floe_net::{
    boottime::{self, Deadline},
    netlink::{Netlink, NetlinkError},
    nft::NftError,
    responder::ResponderError,
};
use tracing::warn;

use super::{
    Findings, PlaneError, Renewal,
    direct::{self, Loans, RoomError},
};
use crate::vips::plan::{Heard, Order, Plan, Room, Survey, Trouble, Unreachable, plan};
use forwarding::Forwarding;
use own::Own;
use tables::{Tables, TablesError};
use voices::Voices;

mod forwarding;
mod own;
mod tables;
mod voices;

/// A pod that has addresses itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its uid.
    pub uid: String,
    /// Its namespace.
    pub netns: PathBuf,
    /// Its own addresses.
    pub own: Vec<IpAddr>,
    /// The shared ones.
    pub addresses: Vec<IpAddr>,
}

/// The host.
#[derive(Debug, Default)]
pub struct Host {
    tables: Tables,
    voices: Voices,
    loans: Loans,
    own: Own,
    /// The objects of addresses that the host has or had.
    owners: BTreeMap<IpAddr, VipId>,
    deadline: Deadline,
    renewal: Renewal,
    rooms: BTreeMap<String, Room>,
    heard: Heard,
    forwarding: Forwarding,
    /// The order that was done last, and what it came to; nothing while that is not known.
    done: Option<(Order, Plan)>,
}

impl Host {
    /// Has done nothing yet, and says what may be renewed.
    pub fn new(renewal: Renewal) -> Self {
        Self {
            renewal,
            ..Self::default()
        }
    }

    /// Serves exactly this.
    pub fn serve(&mut self, order: &Order, pods: &[Pod]) -> Result<Findings, PlaneError> {
        let moved = self.look_into(pods, false);
        let done = self.done.take();
        let renewed = done.filter(|(last, _)| !moved && is_same(last, order));
        if let Some((_, plan)) = renewed {
            return self.put(order, plan.clone(), Some(&plan));
        }
        let plan = self.plan(order)?;
        self.put(order, plan, None)
    }

    /// Looks whether the last order is still served, and mends what it can.
    pub fn check(&mut self, order: &Order, pods: &[Pod]) -> Result<Findings, PlaneError> {
        self.look_into(pods, true);
        let now = self.plan(order)?;
        let changed = self.tables.has_changed()?;
        let deaf = self.voices.check();
        let before = self.done.take().filter(|_| !changed).map(|(_, plan)| plan);
        let mut findings = self.put(order, now, before.as_ref())?;
        for (id, served) in &order.serving.roles {
            if !matches!(served.role, Role::Holder(_)) {
                continue;
            }
            let finding = findings.entry(id.clone()).or_default();
            let why = finding.links.iter().find_map(|link| deaf.get(link));
            let deaf = why.map(|why| Trouble::Deaf(why.clone()));
            let lost = changed.then(|| Trouble::RulesMissing("somebody has changed them".into()));
            finding.trouble = finding.trouble.take().or(deaf).or(lost);
        }
        // Last, because nothing else depends on it. The next order reports what it finds.
        if let Some((_, plan)) = &self.done {
            self.forwarding.look(plan);
        }
        Ok(findings)
    }

    /// Ends once more what followed the rules before: it may have begun just then.
    pub fn end_late_ones(&mut self) {
        self.tables.forget_late_ones();
    }

    /// Notes what the kernel has, so that a look finds what others change.
    pub fn note(&mut self) -> Result<(), PlaneError> {
        self.loans.tidy();
        Ok(self.tables.note()?)
    }

    /// The pods whose namespaces are gone.
    pub fn lost(&self) -> BTreeSet<String> {
        let lost = self.rooms.iter().filter(|(_, room)| !room.netns.exists());
        lost.map(|(uid, _)| uid.clone()).collect()
    }

    fn plan(&mut self, order: &Order) -> Result<Plan, PlaneError> {
        // A node without shared addresses needs nothing, not even the programs.
        if order.serving.roles.is_empty() {
            self.heard = Heard::default();
            return Ok(Plan::default());
        }
        let mut netlink = Netlink::open()?;
        let survey = Survey {
            links: netlink.links()?,
            addresses: netlink.addresses(None)?,
            routes: netlink.routes()?,
            can_guard: self.tables.can_guard()?,
        };
        let mut plan = plan(order, &survey, &self.rooms);
        self.heard.judge(order, &mut plan);
        Ok(plan)
    }

    /// Finds the links of pods that have addresses themselves; whether something is other
    /// than before.
    fn look_into(&mut self, pods: &[Pod], again: bool) -> bool {
        let before = self.rooms.clone();
        self.rooms
            .retain(|uid, _| !again && pods.iter().any(|it| it.uid == *uid));
        for pod in pods {
            if self.rooms.contains_key(&pod.uid) {
                continue;
            }
            match direct::find(&pod.netns, &pod.own, &pod.addresses) {
                Ok(Some(room)) => {
                    self.rooms.insert(pod.uid.clone(), room);
                }
                Ok(None) => {}
                Err(error) => {
                    let (reason, uid) = ("NamespaceUnreadable", &pod.uid);
                    warn!(reason, uid, %error, "cannot look into the namespace of a pod");
                }
            }
        }
        self.rooms != before
    }

    /// Makes the kernel have a plan. `before` is what it has, if that is known for sure.
    fn put(
        &mut self,
        order: &Order,
        plan: Plan,
        before: Option<&Plan>,
    ) -> Result<Findings, PlaneError> {
        let renewed = self.renewal.prepare(order);
        let until = order.serving.deadline.map(|it| it.0);
        let until = until.map(|it| renewed.map_or(it, |renewed| it.max(renewed)));
        let until = until.filter(|it| *it > boottime::now());
        if until.is_none() {
            self.deadline.end();
        }
        self.voices.hush(&plan.answers)?;
        let lingering = self.end_others(order, &plan)?;
        // Before the rules: as long as those have an address, no route counts for it, and
        // once they do not, what comes goes on at once.
        if before.is_none_or(|it| it.leads != plan.leads) {
            lead(&plan.leads)?;
        }
        // A renewal that came while the rules were changed must not be shortened.
        let renewal = &self.renewal;
        let latest = || until.map(|it| it.max(renewal.granted_for(order).unwrap_or_default()));
        if plan.has_rules || lingering.is_empty() {
            let handed_over = handed_over(order);
            self.tables.put(&plan, before, latest, &handed_over)?;
        } else {
            // Without the guard, a pod that still has an address would answer for it.
            self.tables.silence()?;
        }
        if let Some(until) = latest() {
            self.deadline.set(until);
            let pulses = plan.rules.pulses();
            self.renewal.allow(order, pulses, &self.deadline);
        }
        let loans = plan.loans.iter();
        let loans = loans.filter(|it| !lingering.contains(&it.id));
        let loans: Vec<_> = loans.collect();
        let not_lent = self.loans.lend(&loans, &plan.guarded, &self.deadline);
        let had = self.own.have(&plan.own, &self.deadline);
        let deaf = self.voices.answer(&plan.answers, &self.deadline);
        let mut findings = plan.findings.clone();
        // An earlier verdict says nothing about an address that a pod or the host has itself.
        let forwarded: BTreeSet<IpAddr> = plan.rules.forwarded().collect();
        for (id, finding) in &mut findings {
            let why = finding.links.iter().find_map(|link| deaf.get(link));
            if let Some(why) = why {
                finding.trouble.get_or_insert(Trouble::Deaf(why.clone()));
            }
            let served = order.serving.roles.get(id);
            let its = || served.iter().flat_map(|it| &it.addresses);
            let why = match &had {
                Ok(failures) => its().find_map(|ip| failures.get(ip)),
                Err(error) => its().any(|ip| plan.own.contains(ip)).then_some(error),
            };
            if let Some(why) = why {
                let why = Trouble::NotOnHost(why.to_string());
                finding.trouble.get_or_insert(why);
            }
            let its = its().map(|ip| canonical(*ip));
            let mut its = its.filter(|ip| forwarded.contains(ip));
            if let Some(obstacle) = its.find_map(|ip| self.forwarding.obstacle(ip)) {
                let why = Unreachable::NotForwarding(obstacle.clone());
                finding.unreachable.get_or_insert(why);
            }
            if let Some(why) = not_lent.get(id) {
                let why = Trouble::NotInPod(why.clone());
                finding.trouble.get_or_insert(why);
            }
            if lingering.contains(id) && plan.loans.iter().any(|it| it.id == *id) {
                finding.trouble.get_or_insert(Trouble::NotTakenBack);
            }
        }
        for id in lingering {
            findings.entry(id).or_default().lingers = true;
        }
        self.done = Some((order.clone(), plan));
        Ok(findings)
    }

    /// Ends what pods and the host have and shall not have any more. Returns the objects of
    /// which that failed: they concern nobody else, and end when their time has run out.
    fn end_others(&mut self, order: &Order, plan: &Plan) -> Result<BTreeSet<VipId>, PlaneError> {
        let stuck = self.loans.end_others(&plan.loans);
        let mut lingering = BTreeSet::new();
        let reason = Trouble::NotTakenBack.reason();
        for (id, error) in stuck {
            let object = id.name.as_str();
            warn!(reason, object, %error, "a pod still has a shared address");
            lingering.insert(id);
        }
        for (ip, error) in self.own.end_others(&plan.own, &order.known)? {
            warn!(reason, %ip, %error, "the node still has a shared address");
            lingering.extend(self.owners.get(&ip).cloned());
        }
        for (id, served) in &order.serving.roles {
            let own = served.addresses.iter().filter(|ip| plan.own.contains(ip));
            self.owners.extend(own.map(|ip| (*ip, id.clone())));
        }
        Ok(lingering)
    }
}

/// The addresses that this node is handing over to another one.
fn handed_over(order: &Order) -> BTreeSet<IpAddr> {
    let roles = order.serving.roles.values();
    let yielded = roles.filter(|it| matches!(it.role, Role::HandedTo(_)));
    let addresses = yielded.flat_map(|it| &it.addresses);
    addresses.map(|ip| canonical(*ip)).collect()
}

/// Makes the routes to other nodes these, whatever there was.
fn lead(wanted: &BTreeMap<IpAddr, (IpAddr, u32)>) -> Result<(), PlaneError> {
    let mut netlink = Netlink::open()?;
    for route in netlink.leading()? {
        if !wanted.contains_key(&route.dst.addr()) {
            netlink.remove_route(&route)?;
        }
    }
    for (ip, (node, link)) in wanted {
        if let Err(error) = netlink.lead(*ip, *node, *link) {
            // Who still sends here is late by a moment; nothing else is wrong.
            warn!(reason = "LeadFailed", %ip, %node, %error, "cannot send on what still comes");
        }
    }
    Ok(())
}

/// Whether both ask for the same, whatever the deadline.
fn is_same(one: &Order, other: &Order) -> bool {
    one.serving.roles == other.serving.roles
        && one.details == other.details
        && one.known == other.known
        && one.nodes == other.nodes
}

impl From<NftError> for PlaneError {
    fn from(error: NftError) -> Self {
        Self {
            reason: error.reason(),
            text: error.to_string(),
        }
    }
}

impl From<TablesError> for PlaneError {
    fn from(error: TablesError) -> Self {
        Self {
            reason: error.reason(),
            text: error.to_string(),
        }
    }
}

impl From<NetlinkError> for PlaneError {
    fn from(error: NetlinkError) -> Self {
        Self {
            reason: "NetlinkFailed",
            text: error.to_string(),
        }
    }
}

impl From<ResponderError> for PlaneError {
    fn from(error: ResponderError) -> Self {
        Self {
            reason: error.reason(),
            text: error.to_string(),
        }
    }
}

impl From<RoomError> for PlaneError {
    fn from(error: RoomError) -> Self {
        Self {
            reason: "NamespaceUnreadable",
            text: error.to_string(),
        }
    }
}
