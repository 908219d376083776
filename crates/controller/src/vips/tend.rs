//! One `VirtualIP`: from what is asked for and what is known to what is written.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use floe_api::floe::{
    register::Entry,
    virtualip::{MOVE_TO, VirtualIP},
};
use floe_core::{
    ipam::{attribute::Attribute, key::HolderKey, policy::ReleasePolicy},
    vip::{
        VipId,
        grant::{self, Ask, Grant, Refusal},
    },
};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::json;
use tokio::time::Instant;
use tracing::info;

use super::{
    Steward,
    candidates::{self, Candidates, Places},
    claims::{Claimer, Claims},
    leave::{FINALIZER, is_guarded},
    made,
    plan::{self, Mood, Wish},
    remains::{STILL_HELD, Withheld},
    server::Failure,
    status::{self, Accepted, Wanted},
    warrant::{self, Why},
};
use crate::{
    cluster::Member,
    records::{Holding, WriteError},
};

/// What is known about the namespace of an object.
pub struct Sight<'a> {
    /// Its pods, by name.
    pub members: &'a [Arc<Member>],
    /// What annotations ask for.
    pub claims: &'a Claims,
    /// The nodes whose agent lives.
    pub agents: &'a BTreeSet<String>,
}

/// What is left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Nothing until something changes.
    Nothing,
    /// Time alone may change something.
    Later,
}

/// Why something is to be tried again.
#[derive(Debug, thiserror::Error)]
pub enum TendError {
    /// An object was not written.
    #[error(transparent)]
    Object(#[from] Failure),
    /// A record was not written.
    #[error(transparent)]
    Record(#[from] WriteError),
}

impl TendError {
    /// The stable reason for logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Object(failure) => failure.reason(),
            Self::Record(error) => error.reason(),
        }
    }

    /// Whether somebody was faster, which is no failure.
    pub fn is_conflict(&self) -> bool {
        matches!(
            self,
            Self::Object(Failure::Conflict) | Self::Record(WriteError::Conflict { .. })
        )
    }
}

impl Steward {
    /// Makes one object as it shall be, step by step.
    pub(super) async fn tend(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        sight: &Sight<'_>,
    ) -> Result<Left, TendError> {
        if vip.metadata.deletion_timestamp.is_some() {
            return self.end(id, vip).await;
        }
        let Some(grant) = self.grant(id, vip) else {
            return Ok(Left::Later);
        };
        let mut current = self.guard(id, vip, &grant).await?;
        for &ip in &grant.missing {
            self.take(id, ip).await?;
        }
        let (pods, mut refusal) = pods(vip, sight);
        let may_be_had = vip.spec.nodes.is_empty() || self.server.is_of_pool(vip).await?;
        if !may_be_had {
            refusal = Some(warrant::refusal());
        }
        let is_new = self.vips.entry(id).is_none();
        let withheld = self.withheld(id, &grant);
        let accepted = accepted(&grant, &withheld, refusal);
        let granted = grant.addresses.iter().copied();
        let offered: Vec<IpAddr> = granted.filter(|ip| !withheld.contains_key(ip)).collect();
        let now = Timestamp::now();
        let candidates = if may_be_had {
            self.candidates(id, vip, &offered, &pods, sight, now)
        } else {
            Candidates::default()
        };
        let mood = Mood {
            is_calm: self.is_calm(id),
            is_hopeful: self.is_hopeful(id, &current, &candidates),
            now,
        };
        let plan = plan::decide(&current, &candidates.fit, mood);
        if plan.successor.is_some() {
            self.planned(id);
        }
        let wanted = Wanted {
            addresses: offered,
            candidates: candidates.fit,
            accepted: Some(accepted.clone()),
        };
        let entry = status::entry(&current, &wanted, is_new);
        let is_entered = entry.is_some();
        if let Some(entry) = entry {
            current = self.server.enter(id, &current, is_new, entry).await?;
        }
        let told = accepted.is_told(&current);
        // Whoever wishes for a move looks at the status when the wish is taken off.
        let is_due = is_entered || plan.wish.is_some();
        let (now_shown, behind) = self.show(id, current, &wanted, is_due).await?;
        current = now_shown;
        // Agents hand over to candidates only, so those are shown before.
        if let Some(successor) = &plan.successor {
            let entry = Entry {
                successor: Some(successor.clone()),
                ..Entry::of(&current)
            };
            current = self.server.enter(id, &current, false, entry).await?;
            (current, _) = self.show(id, current, &wanted, true).await?;
        }
        if !told && !accepted.all {
            let note = accepted.message.clone();
            self.teller.refused(id, &current, accepted.reason, note);
        }
        if !accepted.all {
            self.tell_claimers(id, &current, &accepted, sight);
        }
        if let Some(wish) = plan.wish {
            current = self.answer(id, current, wish).await?;
        }
        let released = self.let_go(id, &current, &grant).await?;
        let waits = plan.waits || candidates.waits || behind || !withheld.is_empty();
        Ok(if waits { Left::Later } else { released })
    }

    /// What it gets. While nothing at all is configured, what it has stays as it is:
    /// then nobody can tell what is set aside.
    fn grant(&self, id: &VipId, vip: &VirtualIP) -> Option<Grant> {
        self.store.read(|books| {
            let ledger = books.ledger();
            let unconfigured = ledger.topology().config().entries().is_empty();
            let has = vip.status.as_ref().map_or(&[][..], |it| &it.addresses);
            if unconfigured && !has.is_empty() {
                return None;
            }
            let ask = Ask {
                addresses: &vip.spec.addresses,
                ranges: &vip.spec.ranges,
            };
            Some(grant::decide(id, ask, ledger))
        })
    }

    /// Sees to it that an object with addresses cannot go before they are free, also when
    /// somebody has taken the finalizer off, as whoever replaces the whole object does.
    async fn guard(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        grant: &Grant,
    ) -> Result<VirtualIP, Failure> {
        let has_nothing = grant.addresses.is_empty() && self.vips.entry(id).is_none();
        if has_nothing || is_guarded(vip) {
            return Ok(vip.clone());
        }
        let mut finalizers = vip.metadata.finalizers.clone().unwrap_or_default();
        finalizers.push(FINALIZER.to_owned());
        let metadata = json!({ "finalizers": finalizers });
        self.server.patch(id, vip, metadata).await
    }

    async fn take(&self, id: &VipId, ip: IpAddr) -> Result<(), TendError> {
        // An invalid key was refused before.
        let Ok(key) = HolderKey::of_vip(id) else {
            return Ok(());
        };
        let holding = Holding {
            key,
            place: Attribute::default(),
            policy: ReleasePolicy::Never,
            note: None,
        };
        self.records.take(ip, &holding).await?;
        let VipId { namespace, name } = id;
        info!(%ip, namespace, name, "address granted to a VirtualIP");
        Ok(())
    }

    /// The pods that can have the addresses now. Whoever is none by a mistake is told.
    fn candidates(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        floating: &[IpAddr],
        pods: &[Arc<Member>],
        sight: &Sight<'_>,
        now: Timestamp,
    ) -> Candidates {
        if floating.is_empty() {
            return Candidates::default();
        }
        let holder = vip.status.as_ref().and_then(|it| it.holder.as_ref());
        let places = Places {
            node: &|name| self.cluster.node(name),
            agents: sight.agents,
            is_underlay: &|pod| self.is_underlay(pod),
            holder: holder.map(|it| it.uid.as_str()),
            now,
        };
        if !vip.spec.nodes.is_empty() {
            return candidates::of_nodes(&vip.spec.nodes, &places);
        }
        let mode = vip.spec.announcement.mode;
        let candidates = candidates::decide(pods, floating, mode, &places);
        let mistakes = candidates.others.iter();
        for (pod, why) in mistakes.filter(|(_, why)| why.is_a_mistake()) {
            let (claimer, note) = (Claimer::of(pod), format!("VirtualIP {}: {why}", id.name));
            self.teller
                .problem(&id.namespace, &claimer, why.reason(), &id.name, note);
        }
        candidates
    }

    /// Whether a pod has an address of floe's: only its plugins for underlay networks give
    /// such addresses.
    fn is_underlay(&self, pod: &Member) -> bool {
        self.store.read(|books| {
            let mut records = books.of_pod(&pod.namespace, &pod.name);
            records.any(|record| record.uid == pod.uid && pod.addresses.contains(&record.ip))
        })
    }

    /// Objects that ask by annotations look at themselves, not at a `VirtualIP`.
    fn tell_claimers(&self, id: &VipId, vip: &VirtualIP, accepted: &Accepted, sight: &Sight<'_>) {
        let ip = made::for_annotation(vip);
        let claimants = ip.and_then(|ip| sight.claims.addresses.get(&ip));
        for claimer in claimants.iter().flat_map(|it| &it.claimers) {
            let (namespace, note) = (&id.namespace, accepted.message.clone());
            self.teller
                .problem(namespace, claimer, accepted.reason, &id.name, note);
        }
    }

    /// Takes a wish off the object, and tells when it cannot be.
    async fn answer(&self, id: &VipId, vip: VirtualIP, wish: Wish) -> Result<VirtualIP, Failure> {
        if let Wish::Refused(why) = wish {
            let note = format!("the move is refused: {why}");
            self.teller.about(&vip, why.reason(), "Move", note);
        }
        let metadata = json!({ "annotations": { MOVE_TO: null } });
        self.server.patch(id, &vip, metadata).await
    }

    /// Whether no move was planned lately. A move that failed is not planned again at once.
    fn is_calm(&self, id: &VipId) -> bool {
        let memory = self.memory();
        let planned = memory.planned.get(id);
        planned.is_none_or(|at| at.elapsed() >= super::BETWEEN_PLANS)
    }

    /// Whether the pod that somebody wishes may soon be a candidate. For a moment it may be
    /// none, as while the agent of its node is restarted; so it has some time.
    fn is_hopeful(&self, id: &VipId, vip: &VirtualIP, candidates: &Candidates) -> bool {
        let mut memory = self.memory();
        let Some(pod) = plan::wished(vip) else {
            memory.wishes.remove(id);
            return false;
        };
        let mut others = candidates.others.iter();
        let is_known = others.any(|(it, why)| it.name == pod && !why.is_a_mistake());
        let wish = (pod.to_owned(), Instant::now());
        let known = memory
            .wishes
            .entry(id.clone())
            .or_insert_with(|| wish.clone());
        if known.0 != pod {
            *known = wish;
        }
        is_known && known.1.elapsed() < super::HOPE
    }

    fn planned(&self, id: &VipId) {
        self.memory().planned.insert(id.clone(), Instant::now());
    }
}

/// The pods that share the addresses; or why nobody can tell.
fn pods(vip: &VirtualIP, sight: &Sight<'_>) -> (Vec<Arc<Member>>, Option<Why>) {
    if let Some(ip) = made::for_annotation(vip) {
        let claimants = sight.claims.addresses.get(&ip);
        let pods = claimants.map(|it| it.pods.clone());
        return (pods.unwrap_or_default(), None);
    }
    let Some(selector) = &vip.spec.selector else {
        return (Vec::new(), None);
    };
    match selected(selector, sight.members) {
        Ok(pods) => (pods, None),
        Err(why) => {
            let words = format!("spec.selector: {why}");
            (Vec::new(), Some(("InvalidSelector", words)))
        }
    }
}

fn selected(selector: &LabelSelector, members: &[Arc<Member>]) -> Result<Vec<Arc<Member>>, String> {
    let selector = Selector::try_from(selector.clone()).map_err(|error| error.to_string())?;
    let chosen = members.iter();
    let chosen = chosen.filter(|pod| selector.matches(&pod.shape.labels));
    Ok(chosen.cloned().collect())
}

fn accepted(grant: &Grant, withheld: &Withheld, other: Option<Why>) -> Accepted {
    let mut reasons: Vec<Why> = Vec::new();
    let words = withheld.values().cloned();
    reasons.extend(words.map(|words| (STILL_HELD, words)));
    let refused = grant.refused.iter();
    reasons.extend(refused.map(|it: &Refusal| (it.reason(), it.to_string())));
    reasons.extend(other);
    let Some((reason, _)) = reasons.first() else {
        let count = grant.addresses.len();
        return Accepted {
            all: true,
            reason: "Granted",
            message: format!("granted {count} of {count} addresses"),
        };
    };
    let words: Vec<&str> = reasons.iter().map(|(_, words)| words.as_str()).collect();
    Accepted {
        all: false,
        reason,
        message: words.join("; "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_addresses_are_granted_is_told() {
        let granted = |last: &[u8]| {
            let ips = last.iter().map(|it| IpAddr::from([10, 0, 70, *it]));
            let grant = Grant {
                addresses: ips.collect(),
                ..Grant::default()
            };
            accepted(&grant, &Withheld::default(), None).message
        };
        assert_eq!(granted(&[1]), "granted 1 of 1 addresses");
        assert_eq!(granted(&[1, 2]), "granted 2 of 2 addresses");
    }
}
