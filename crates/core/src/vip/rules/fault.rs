//! Whether the kernel has the rules that it was given.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    NodeRules, Target,
    listing::{blocks, elements},
    script::RULES,
};

/// What the kernel lacks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleFault {
    /// A chain is gone.
    #[error("the kernel has no chain {0}")]
    ChainMissing(String),
    /// A chain has other rules than it was given.
    #[error("chain {0} of the kernel has other rules")]
    RuleMissing(String),
    /// An address does not lead to its pod.
    #[error("the kernel does not send {0} to its pod")]
    ElementMissing(IpAddr),
    /// The kernel serves nothing, because nobody renewed in time.
    #[error("the kernel takes this node for dead")]
    NotAlive,
}

impl RuleFault {
    /// The stable name of the fault.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::ChainMissing(_) => "ChainMissing",
            Self::RuleMissing(_) => "RuleMissing",
            Self::ElementMissing(_) => "ElementMissing",
            Self::NotAlive => "NotAlive",
        }
    }
}

impl NodeRules {
    /// The first fault in what `nft list table` says of [`TABLE`](super::TABLE) on a node
    /// that should be alive. Rules are counted and not compared: each version of the
    /// program writes them a little differently.
    pub fn find_fault(&self, listing: &str) -> Option<RuleFault> {
        let blocks = blocks(listing);
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for (chain, _) in RULES {
            *counts.entry(chain).or_default() += 1;
        }
        for (chain, count) in counts {
            let Some(lines) = blocks.get(&("chain", chain)) else {
                return Some(RuleFault::ChainMissing(chain.to_owned()));
            };
            let rules = lines.iter().filter(|line| !line.starts_with("type "));
            if rules.count() != count {
                return Some(RuleFault::RuleMissing(chain.to_owned()));
            }
        }
        let held: BTreeSet<_> = ["held4", "held6"]
            .into_iter()
            .flat_map(|map| elements(&blocks, "map", map))
            .filter_map(|element| {
                let (vip, pod) = element.split_once(" : ")?;
                Some((vip.trim().parse().ok()?, pod.trim().parse().ok()?))
            })
            .collect();
        let lacks = |(vip, target): (&IpAddr, &Target)| match target {
            Target::Here { pod, .. } => (!held.contains(&(*vip, *pod))).then_some(*vip),
            Target::Elsewhere { .. } => None,
        };
        if let Some(vip) = self.targets.iter().find_map(lacks) {
            return Some(RuleFault::ElementMissing(vip));
        }
        let is_dead = elements(&blocks, "set", "alive").next().is_none();
        (is_dead && !self.targets.is_empty()).then_some(RuleFault::NotAlive)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = include_str!("golden/listing.txt");

    fn rules() -> NodeRules {
        let ip = |text: &str| text.parse().unwrap();
        let mut rules = NodeRules::default();
        let holds = [
            ("10.9.0.100", "10.244.1.5"),
            ("10.9.0.101", "10.244.1.6"),
            ("fd00:9::100", "fd00:244::5"),
        ];
        for (vip, pod) in holds {
            rules.hold(ip(vip), ip(pod), "cni0").unwrap();
        }
        rules.send_away(ip("10.9.0.102"), ip("10.244.2.7")).unwrap();
        rules
    }

    fn fault(listing: &str) -> Option<&'static str> {
        rules().find_fault(listing).map(|fault| fault.reason())
    }

    #[test]
    fn what_was_programmed_has_no_fault() {
        assert_eq!(fault(LISTING), None);
    }

    #[test]
    fn whatever_is_lost_is_found() {
        assert_eq!(fault(""), Some("ChainMissing"));
        let without = |text: &str| LISTING.replace(text, "");
        for (text, reason) in [
            ("chain guard {", "ChainMissing"),
            ("jump guard", "RuleMissing"),
            ("10.9.0.101 : 10.244.1.6", "ElementMissing"),
            ("fd00:9::100 : fd00:244::5", "ElementMissing"),
        ] {
            let listing = without(text);
            assert_ne!(listing, LISTING, "{text}");
            // A rule that is gone leaves no line.
            let listing: Vec<_> = listing.lines().filter(|it| !it.trim().is_empty()).collect();
            assert_eq!(fault(&listing.join("\n")), Some(reason), "{text}");
        }
        let elsewhere = LISTING.replace(": 10.244.1.5", ": 10.244.1.9");
        assert_eq!(fault(&elsewhere), Some("ElementMissing"));
    }

    #[test]
    fn who_is_not_alive_does_not_serve_whatever_the_maps_say() {
        let dead: Vec<_> = LISTING
            .lines()
            .filter(|line| !line.contains("expires"))
            .collect();
        assert_eq!(fault(&dead.join("\n")), Some("NotAlive"));
        // Who serves nothing need not be.
        assert_eq!(NodeRules::default().find_fault(&dead.join("\n")), None);
    }
}
