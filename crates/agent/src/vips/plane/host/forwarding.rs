//! Looks whether this node forwards the packets of the addresses that it holds: reads the
//! counters, decides in [`floe_core::vip::forwarding`], and searches for what drops packets.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::{Duration, Instant},
};

use floe_core::{
    lease::Moment,
    vip::{
        forwarding::{self, BaseChain, Detector, Look, Obstacle, Verdicts},
        rules::{COUNTERS, removal},
    },
};
use floe_net::{
    boottime,
    nft::{Nft, NftError},
    sysctl,
};
use tracing::{debug, warn};

use crate::vips::plan::Plan;

/// How long a look may take: what is to be served waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long to wait after the kernel has rejected the counters.
const UNSUPPORTED: Duration = Duration::from_mins(10);

/// Reads the counters of the kernel.
#[derive(Debug, Default)]
pub struct Forwarding {
    /// The script that the kernel counts by; none while it does not count.
    counting: Option<String>,
    /// Until when the kernel is not asked to count, on the clock of [`boottime`].
    paused: Option<Duration>,
    detector: Detector,
    verdicts: Verdicts,
    /// Why the last look failed.
    failed: Option<&'static str>,
}

/// Calls `nft` until a look has taken long enough.
#[derive(Clone, Copy)]
struct Caller {
    until: Instant,
}

impl Caller {
    fn nft(self) -> Nft {
        Nft::default().within(self.until.saturating_duration_since(Instant::now()))
    }
}

impl Forwarding {
    /// Looks again. What cannot be looked at counts as forwarded.
    pub fn look(&mut self, plan: &Plan) {
        match self.update(plan) {
            Ok(()) => self.failed = None,
            Err(error) => {
                let reason = error.reason();
                if self.failed.replace(reason) != Some(reason) {
                    warn!(reason, %error, "cannot tell whether shared addresses are forwarded");
                }
            }
        }
    }

    /// What drops the packets of an address, as the last look has found it.
    pub fn obstacle(&self, ip: IpAddr) -> Option<&Obstacle> {
        self.verdicts.obstacle(ip)
    }

    fn update(&mut self, plan: &Plan) -> Result<(), NftError> {
        let now = boottime::now();
        self.verdicts.expire(Moment(now));
        let caller = Caller {
            until: Instant::now() + PATIENCE,
        };
        let look = self.count(plan, caller, now)?;
        let suspects = self.verdicts.suspects(&look);
        let obstacles = caller.explain(plan, &suspects, &self.verdicts)?;
        self.verdicts.found(&look, obstacles, Moment(now));
        Ok(())
    }

    /// What the kernel has counted since the last look.
    fn count(&mut self, plan: &Plan, caller: Caller, now: Duration) -> Result<Look, NftError> {
        self.paused = self.paused.filter(|until| now < *until);
        // Before the counters restart, or changes of the rules would hide what was counted.
        let look = if self.counting.is_none() {
            self.detector.look(BTreeMap::new())
        } else if let Some(listing) = caller.nft().list(COUNTERS)? {
            self.detector.look(forwarding::counts(&listing))
        } else {
            // Others have removed it. It is added again.
            self.counting = None;
            Look::default()
        };
        let script = forwarding::script(&plan.rules).filter(|_| self.paused.is_none());
        if script != self.counting {
            self.restart(script, caller, now)?;
        }
        Ok(look)
    }

    /// Makes the kernel count by a script, from zero.
    fn restart(
        &mut self,
        script: Option<String>,
        caller: Caller,
        now: Duration,
    ) -> Result<(), NftError> {
        self.counting = None;
        self.detector.restart();
        let Some(script) = script else {
            return caller.nft().apply(&removal(COUNTERS));
        };
        match caller.nft().apply(&script) {
            Ok(()) => self.counting = Some(script),
            Err(NftError::Refused(error)) => {
                let reason = "CountersUnsupported";
                warn!(reason, error, "cannot count packets of shared addresses");
                self.paused = Some(now + UNSUPPORTED);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

impl Caller {
    /// What drops the packets of these addresses, if it is found.
    fn explain(
        self,
        plan: &Plan,
        suspects: &BTreeSet<IpAddr>,
        known: &Verdicts,
    ) -> Result<BTreeMap<IpAddr, Obstacle>, NftError> {
        if suspects.is_empty() {
            return Ok(BTreeMap::new());
        }
        let chains = forwarding::forward_chains(&self.nft().list_chains()?);
        let mut found = BTreeMap::new();
        let (v4, v6): (Vec<IpAddr>, Vec<IpAddr>) = suspects.iter().partition(|ip| ip.is_ipv4());
        for family in [v4, v6] {
            let Some(&first) = family.first() else {
                continue;
            };
            let chain = self.chain(&chains, first)?;
            for ip in family {
                if let Some(obstacle) =
                    setting(plan, ip, known.obstacle(ip)).or_else(|| chain.clone())
                {
                    found.insert(ip, obstacle);
                } else {
                    debug!(%ip, "packets do not leave the node for an unknown reason");
                }
            }
        }
        Ok(found)
    }

    fn chain(self, chains: &[BaseChain], ip: IpAddr) -> Result<Option<Obstacle>, NftError> {
        for chain in chains.iter().filter(|it| it.sees(ip)) {
            if chain.drops_by_policy {
                return Ok(Some(Obstacle::Policy(chain.name.clone())));
            }
            let listing = self.nft().list_chain(&chain.name)?.unwrap_or_default();
            if forwarding::ends_with_drop(&listing) {
                return Ok(Some(Obstacle::LastRule(chain.name.clone())));
            }
        }
        Ok(None)
    }
}

/// The setting that keeps the kernel from forwarding packets of this address.
fn setting(plan: &Plan, ip: IpAddr, known: Option<&Obstacle>) -> Option<Obstacle> {
    let setting = deciding(plan, ip, known);
    let is_off = sysctl::read(&setting).is_ok_and(|value| value == "0");
    is_off.then_some(Obstacle::Setting(setting))
}

/// The setting that decides whether packets of this address are forwarded.
fn deciding(plan: &Plan, ip: IpAddr, known: Option<&Obstacle>) -> String {
    if let Some(Obstacle::Setting(known)) = known {
        // An address that has moved away is on no link of this node, by which to find it again.
        return known.clone();
    }
    if ip.is_ipv6() {
        return "net/ipv6/conf/all/forwarding".to_owned();
    }
    let mut links = plan.answers.iter();
    let link = links.find(|(_, addresses)| addresses.contains(&ip));
    link.map_or("net/ipv4/ip_forward".to_owned(), |(link, _)| {
        format!("net/ipv4/conf/{link}/forwarding")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_of_a_link_is_read_again_after_the_address_has_moved_away() {
        let ip: IpAddr = "10.9.0.1".parse().unwrap();
        let mut plan = Plan::default();
        plan.answers.insert("eth0".to_owned(), [ip].into());
        let of_link = deciding(&plan, ip, None);
        assert_eq!(of_link, "net/ipv4/conf/eth0/forwarding");
        let moved = Plan::default();
        assert_eq!(deciding(&moved, ip, None), "net/ipv4/ip_forward");
        let known = Obstacle::Setting(of_link.clone());
        assert_eq!(deciding(&moved, ip, Some(&known)), of_link);
    }
}
