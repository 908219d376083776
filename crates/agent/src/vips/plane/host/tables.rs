//! The kernel's rules, and the connections that follow them.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use floe_core::vip::rules::{
    ANNOUNCEMENTS, ANSWERS, NodeRules, PULSES, Pair, RuleFault, TABLE, TABLES, removal,
};
use floe_net::{
    conntrack,
    netlink::NetlinkError,
    nft::{Nft, NftError},
    pulse::{self, PulseError},
};
use tracing::{debug, info, warn};

use crate::vips::plan::Plan;
use remains::Remains;

mod remains;

/// Whether frames can be stopped on their way out: kernels before 5.16 cannot.
const PROBE: &str = "add table netdev floe-vip-probe\n\
    add chain netdev floe-vip-probe out { type filter hook egress device \"lo\" priority 0; }\n\
    delete table netdev floe-vip-probe\n";

/// Why the kernel does not have the rules that it was told.
#[derive(Debug, thiserror::Error)]
pub enum TablesError {
    /// A script was not done.
    #[error(transparent)]
    Script(#[from] NftError),
    /// The time for which they hold was not told.
    #[error(transparent)]
    Pulse(#[from] PulseError),
    /// The kernel still remembers connections, so that the guard has to stay.
    #[error("cannot end connections of shared addresses: {0}")]
    Connections(#[source] NetlinkError),
}

impl TablesError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Script(error) => error.reason(),
            Self::Pulse(error) => error.reason(),
            Self::Connections(_) => "ConntrackFailed",
        }
    }
}

impl From<NetlinkError> for TablesError {
    fn from(error: NetlinkError) -> Self {
        Self::Pulse(error.into())
    }
}

/// The tables of shared addresses.
#[derive(Debug)]
pub struct Tables {
    nft: Nft,
    can_guard: Option<bool>,
    /// Whether something may be served until its time is over.
    alive: bool,
    /// The last rules that were told.
    rules: Option<NodeRules>,
    /// Whether it has them for sure, as far as nobody else changes them.
    is_sure: bool,
    /// What the kernel has said that it has; nothing before it was told something, and
    /// after it was told something else, until it is [noted](Tables::note).
    listed: Option<Vec<Option<String>>>,
    /// Whether something was lost before that.
    is_faulty: bool,
    /// What was lost when it was noted last.
    fault: Option<RuleFault>,
    /// Addresses of which connections are still to be forgotten.
    stale: BTreeSet<IpAddr>,
    /// Addresses that an earlier process may have begun to serve without coming to forget the
    /// connections that began before. Those that follow its rules go on.
    unsure: BTreeSet<IpAddr>,
    /// Addresses whose rules have changed last. Their connections were forgotten, but one that
    /// was just beginning may still follow the rules before.
    late: BTreeSet<IpAddr>,
    /// Addresses whose untranslated connections have to be forgotten once more.
    late_unsure: BTreeSet<IpAddr>,
    /// Pairs whose connections the guard stops until the kernel has forgotten all of them.
    ended: BTreeSet<Pair>,
}

impl Default for Tables {
    fn default() -> Self {
        Self {
            nft: Nft::default(),
            can_guard: None,
            // An earlier process may have left something.
            alive: true,
            rules: None,
            is_sure: false,
            listed: None,
            is_faulty: false,
            fault: None,
            stale: BTreeSet::new(),
            unsure: BTreeSet::new(),
            late: BTreeSet::new(),
            late_unsure: BTreeSet::new(),
            ended: BTreeSet::new(),
        }
    }
}

impl Tables {
    /// Whether the kernel can stop frames on their way out.
    pub fn can_guard(&mut self) -> Result<bool, NftError> {
        if let Some(can) = self.can_guard {
            return Ok(can);
        }
        let can = match self.nft.apply(PROBE) {
            Ok(()) => true,
            Err(NftError::Refused(error)) => {
                let reason = "EgressHookMissing";
                warn!(reason, error, "announcements are not guarded by the kernel");
                false
            }
            Err(error) => return Err(error),
        };
        self.can_guard = Some(can);
        Ok(can)
    }

    /// Makes the kernel have the rules of a plan until a moment on the clock of
    /// [`floe_net::boottime`], which is asked for when the rules are there. `before` is what it has, if that is known for sure.
    ///
    /// # Guarantees
    /// An address that this node no longer serves is not answered from the moment its rules
    /// change, whatever connections the kernel remembers, with one exception: addresses in
    /// `handed_over` are still this node's until the next holder is written, so their
    /// connections go on until they can follow the new rules, and while this node is alive.
    pub fn put(
        &mut self,
        plan: &Plan,
        before: Option<&Plan>,
        until: impl Fn() -> Option<Duration>,
        handed_over: &BTreeSet<IpAddr>,
    ) -> Result<(), TablesError> {
        if !plan.has_rules {
            if self.rules.is_some() || before.is_none_or(|it| it.has_rules) {
                self.remove()?;
            }
            return Ok(());
        }
        let same = before.is_some_and(|it| it.has_rules && it.rules == plan.rules);
        if !same {
            self.replace(&plan.rules, handed_over)?;
        }
        let pulses = plan.rules.pulses();
        match until().map(|until| pulse::OF_NODE.keep(pulses, until)) {
            Some(Ok(())) => self.alive = true,
            // What was granted before ends by itself.
            Some(Err(error @ PulseError::TooLate)) => {
                let reason = error.reason();
                warn!(reason, %error, "shared addresses fall silent until the next renewal");
            }
            Some(Err(error)) => {
                self.alive = true;
                // A set may be gone: the next order writes all rules again.
                self.is_sure = false;
                return Err(error.into());
            }
            None if same && !self.alive => {}
            None => {
                pulse::end(pulses)?;
                self.alive = false;
            }
        }
        Ok(())
    }

    /// Ends at once what the rules serve, and leaves the guard where it is.
    pub fn silence(&mut self) -> Result<(), TablesError> {
        pulse::end(&PULSES)?;
        self.alive = false;
        Ok(())
    }

    /// Replaces the rules, and ends the connections that follow the previous ones.
    fn replace(
        &mut self,
        rules: &NodeRules,
        handed_over: &BTreeSet<IpAddr>,
    ) -> Result<(), TablesError> {
        let stays = |pair: &Pair| handed_over.contains(&pair.vip) || rules.is_held(pair.vip);
        let gone = self.gone(rules)?;
        let (leaving, mut ended): (BTreeSet<Pair>, BTreeSet<Pair>) =
            gone.into_iter().partition(stays);
        let mut guarded = rules.clone();
        guarded.end(self.ended.union(&ended).copied());
        guarded.leave(leaving.iter().copied());
        self.write(&guarded)?;
        let (changed, unsure) = (self.stale.clone(), self.unsure.clone());
        // At once: until then a connection follows rules that are no more. Before the
        // time ends for which anything holds: what is on its way would be dropped.
        self.forget_late_ones();
        self.late = changed;
        self.late_unsure = unsure;
        // Until their connections have been forgotten once more.
        self.ended.append(&mut ended);
        if !leaving.is_empty() {
            // From here on another node may be written as the holder.
            self.ended.extend(leaving);
            let mut guarded = rules.clone();
            guarded.end(self.ended.iter().copied());
            self.write(&guarded)?;
        }
        Ok(())
    }

    /// The pairs that the kernel may serve and these rules do not. Before the first rules of
    /// this process, and after a script whose outcome is not known, the kernel is asked, and the
    /// addresses whose connections do not follow these rules are noted as stale.
    fn gone(&mut self, rules: &NodeRules) -> Result<BTreeSet<Pair>, NftError> {
        let mut served = self
            .rules
            .as_ref()
            .map(NodeRules::pairs)
            .unwrap_or_default();
        if !self.is_sure {
            let listed = self.nft.list(TABLE)?.unwrap_or_default();
            let left = Remains::read(&listed);
            self.stale.extend(left.changed(rules));
            self.unsure.extend(rules.pairs().iter().map(|it| it.vip));
            served.extend(left.pairs);
        }
        Ok(served.difference(&rules.pairs()).copied().collect())
    }

    /// Makes the kernel forget what is stale, and once more what was just beginning when the rules
    /// changed last.
    pub fn forget_late_ones(&mut self) {
        self.stale.append(&mut self.late);
        self.unsure.append(&mut self.late_unsure);
        match self.forget() {
            // Nothing is left that the guard would have to stop.
            Ok(()) => self.ended.clear(),
            // It is tried again with the next order.
            Err(error) => {
                warn!(reason = "ConntrackFailed", %error, "cannot end connections of shared addresses");
            }
        }
    }

    /// Makes the kernel's rules these. For how long they hold is not touched: what they
    /// bring ends with what was granted before.
    fn write(&mut self, rules: &NodeRules) -> Result<(), NftError> {
        let earlier = self.rules.as_ref();
        let changes = earlier.filter(|_| self.is_sure);
        let changes = changes.and_then(|it| rules.script_since(it));
        match changes.map(|it| self.nft.apply(&it)) {
            Some(Ok(())) => {}
            // Somebody has changed them: then all are told anew.
            Some(Err(NftError::Refused(_))) | None => {
                self.is_sure = false;
                self.nft.apply(&rules.script())?;
            }
            Some(Err(error)) => {
                self.is_sure = false;
                return Err(error);
            }
        }
        self.is_sure = true;
        if let Some(earlier) = earlier {
            self.stale.extend(rules.changed_since(earlier));
        }
        self.rules = Some(rules.clone());
        self.listed = None;
        self.is_faulty = false;
        Ok(())
    }

    /// Notes what the kernel has, to find later what others change. It takes some moments,
    /// so it waits until nothing else is to be done. What was lost until then is not noted.
    pub fn note(&mut self) -> Result<(), NftError> {
        let Some(rules) = self.rules.as_ref().filter(|_| self.listed.is_none()) else {
            return Ok(());
        };
        let first = self.nft.list(TABLE)?;
        let fault = lost(rules, first.as_deref().unwrap_or_default());
        // One that comes back at once after the rules were told anew is the manner of the
        // program, and nothing that somebody has lost.
        if let Some(new) = fault.as_ref().filter(|it| Some(*it) != self.fault.as_ref()) {
            let reason = new.reason();
            warn!(reason, error = %new, "the rules of shared addresses are not as they were told");
            self.is_faulty = true;
            self.fault = fault;
            return Ok(());
        }
        self.fault = fault;
        self.listed = Some(self.list(first)?);
        Ok(())
    }

    /// Whether the kernel has something else than what it was told.
    pub fn has_changed(&mut self) -> Result<bool, NftError> {
        let changed = match &self.listed {
            Some(listed) => self.list(self.nft.list(TABLE)?)? != *listed,
            None => self.is_faulty,
        };
        self.is_sure &= !changed;
        Ok(changed)
    }

    /// Removes all rules. The guard goes last: only when this node is silent and the kernel
    /// remembers no connection of its addresses, because those would go on without it.
    fn remove(&mut self) -> Result<(), TablesError> {
        if let Some(rules) = &self.rules {
            self.stale
                .extend(rules.changed_since(&NodeRules::default()));
        }
        if !self.is_sure {
            match self.nft.list(TABLE) {
                Ok(listed) => {
                    let left = Remains::read(&listed.unwrap_or_default());
                    self.stale.extend(left.addresses);
                }
                // Without the program, or the family in the kernel, there are no rules.
                Err(error @ (NftError::Start(_) | NftError::Refused(_)))
                    if self.rules.is_none() =>
                {
                    debug!(%error, "no rules to remove");
                }
                Err(error) => return Err(error.into()),
            }
        }
        self.stale.append(&mut self.late);
        self.unsure.append(&mut self.late_unsure);
        if self.rules.is_some() || !self.stale.is_empty() {
            self.silence()?;
        }
        self.forget().map_err(TablesError::Connections)?;
        self.drop_tables()?;
        self.ended.clear();
        self.alive = false;
        self.listed = None;
        self.is_faulty = false;
        self.rules = None;
        self.is_sure = false;
        Ok(())
    }

    fn drop_tables(&self) -> Result<(), NftError> {
        let has_own = self.rules.as_ref().is_some_and(NodeRules::has_own);
        for table in TABLES {
            match self.nft.apply(&removal(table)) {
                Ok(()) => {}
                // Without the program nobody has made rules, and without the family nobody
                // could.
                Err(error @ (NftError::Start(_) | NftError::Refused(_)))
                    if self.rules.is_none() =>
                {
                    debug!(table, %error, "no rules to remove");
                }
                Err(NftError::Refused(error))
                    if self.can_guard == Some(false) || table == ANSWERS && !has_own =>
                {
                    debug!(table, error, "no rules to remove");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Makes the kernel forget connections that follow earlier rules.
    fn forget(&mut self) -> Result<(), NetlinkError> {
        let count = conntrack::forget(&self.stale)?;
        let untranslated = conntrack::forget_untranslated(&self.unsure)?;
        let count = count + untranslated;
        if count > 0 {
            let addresses = self.stale.union(&self.unsure).count();
            info!(count, addresses, "ended connections of shared addresses");
        }
        self.stale.clear();
        self.unsure.clear();
        Ok(())
    }

    /// What the kernel has, but for what changes by itself. The first table was listed.
    fn list(&self, first: Option<String>) -> Result<Vec<Option<String>>, NftError> {
        let guards = self.can_guard == Some(true);
        let has_own = self.rules.as_ref().is_some_and(NodeRules::has_own);
        let guards = guards.then_some(ANNOUNCEMENTS);
        let answers = has_own.then_some(ANSWERS);
        let mut listed = vec![first.map(|text| lasting(&text))];
        for table in [guards, answers].into_iter().flatten() {
            listed.push(self.nft.list(table)?.map(|text| lasting(&text)));
        }
        Ok(listed)
    }
}

/// What the rules have lost by a listing. How long they hold is another matter.
fn lost(rules: &NodeRules, listing: &str) -> Option<RuleFault> {
    let fault = rules.find_fault(listing);
    fault.filter(|it| *it != RuleFault::NotAlive)
}

/// A listing without the sets whose elements count down.
fn lasting(listing: &str) -> String {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in listing.lines() {
        let word = line.trim();
        inside |= word.starts_with("set alive ") || word.starts_with("set ticket ");
        if !inside {
            lines.push(line);
        }
        inside &= word != "}";
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests;
