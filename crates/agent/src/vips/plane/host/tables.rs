//! The kernel's rules, and the connections that follow them.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use floe_core::vip::rules::{ANNOUNCEMENTS, ANSWERS, NodeRules, RuleFault, TABLE, Target, removal};
use floe_net::{
    conntrack,
    netlink::NetlinkError,
    nft::{Nft, NftError},
    pulse::{self, PulseError},
};
use tracing::{debug, info, warn};

use crate::vips::plan::Plan;

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
}

impl TablesError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Script(error) => error.reason(),
            Self::Pulse(error) => error.reason(),
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
    /// Addresses whose rules have changed last. Their connections were forgotten, but one that
    /// was just beginning may still follow the rules before.
    late: BTreeSet<IpAddr>,
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
            late: BTreeSet::new(),
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
    /// [`floe_net::boottime`]. `before` is what it has, if that is known for sure.
    pub fn put(
        &mut self,
        plan: &Plan,
        before: Option<&Plan>,
        until: Option<Duration>,
    ) -> Result<(), TablesError> {
        if !plan.has_rules {
            if before.is_none_or(|it| it.has_rules) {
                self.remove()?;
            }
            self.forget();
            return Ok(());
        }
        let same = before.is_some_and(|it| it.has_rules && it.rules == plan.rules);
        if !same {
            self.write(&plan.rules)?;
            let changed = self.stale.clone();
            // At once: until then a connection follows rules that are no more. Before the
            // time ends for which anything holds: what is on its way would be dropped.
            self.forget_late_ones();
            self.late = changed;
        }
        let pulses = plan.rules.pulses();
        match until.map(|until| pulse::keep(pulses, until)) {
            Some(Ok(())) => self.alive = true,
            // What was granted before ends by itself.
            Some(Err(PulseError::TooLate)) => {}
            Some(Err(error)) => {
                self.alive = true;
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

    /// Makes the kernel forget what is stale, and once more what was just beginning when the rules
    /// changed last.
    pub fn forget_late_ones(&mut self) {
        self.stale.append(&mut self.late);
        self.forget();
    }

    /// Makes the kernel's rules these. For how long they hold is not touched: what they
    /// bring ends with what was granted before.
    fn write(&mut self, rules: &NodeRules) -> Result<(), NftError> {
        if self.rules.is_none() {
            // As an earlier process has left it.
            let listed = self.nft.list(TABLE)?.unwrap_or_default();
            self.stale.extend(changed(&targets_in(&listed), rules));
        }
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

    fn remove(&mut self) -> Result<(), NftError> {
        let has_own = self.rules.as_ref().is_some_and(NodeRules::has_own);
        for (script, table) in removal().iter().zip([TABLE, ANNOUNCEMENTS, ANSWERS]) {
            match self.nft.apply(script) {
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
        self.alive = false;
        self.listed = None;
        self.is_faulty = false;
        if let Some(earlier) = self.rules.take() {
            self.stale
                .extend(NodeRules::default().changed_since(&earlier));
        }
        Ok(())
    }

    /// Makes the kernel forget connections that follow earlier rules. It is tried again with
    /// the next order.
    fn forget(&mut self) {
        if self.stale.is_empty() {
            return;
        }
        match conntrack::forget(&self.stale) {
            Ok(count) => {
                if count > 0 {
                    let addresses = self.stale.len();
                    info!(
                        count,
                        addresses, "connections of shared addresses are ended"
                    );
                }
                self.stale.clear();
            }
            Err(error) => {
                warn!(reason = "ConntrackFailed", %error, "old connections are not ended");
            }
        }
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

/// A listing without the set `alive`, whose elements count down.
fn lasting(listing: &str) -> String {
    let mut lines = Vec::new();
    let mut inside = false;
    for line in listing.lines() {
        let word = line.trim();
        inside |= word.starts_with("set alive ");
        if !inside {
            lines.push(line);
        }
        inside &= word != "}";
    }
    lines.join("\n")
}

/// The pods to which traffic goes by a listing of the rules.
fn targets_in(listing: &str) -> BTreeMap<IpAddr, IpAddr> {
    let mut targets = BTreeMap::new();
    let mut inside = false;
    for line in listing.lines() {
        let words: Vec<&str> = line
            .split(|it: char| it.is_whitespace() || ",{}=".contains(it))
            .filter(|it| !it.is_empty())
            .collect();
        match words.first() {
            Some(&"map") => {
                let name = words.get(1).copied().unwrap_or_default();
                inside = name.starts_with("held") || name.starts_with("away");
            }
            Some(&("set" | "chain")) => inside = false,
            _ => {}
        }
        for pair in words.windows(3).filter(|pair| inside && pair[1] == ":") {
            if let (Ok(vip), Ok(pod)) = (pair[0].parse(), pair[2].parse()) {
                targets.insert(vip, pod);
            }
        }
    }
    targets
}

/// The addresses whose traffic goes elsewhere by these rules than before.
fn changed(before: &BTreeMap<IpAddr, IpAddr>, rules: &NodeRules) -> Vec<IpAddr> {
    let pod_of = |vip: IpAddr| match rules.target(vip)? {
        Target::Here { pod, .. } | Target::Elsewhere { pod } => Some(*pod),
    };
    let moved = before
        .iter()
        .filter(|(vip, pod)| pod_of(**vip) != Some(**pod));
    moved.map(|(vip, _)| *vip).collect()
}

#[cfg(test)]
mod tests;
