//! The rules that an earlier process of the agent has left in the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_core::vip::rules::{NodeRules, Pair, Target};

/// What a listing of the rules tells about addresses and pods.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remains {
    /// Where connections to each address go, on this node or another one.
    targets: BTreeMap<IpAddr, IpAddr>,
    /// What this node served, or has ended but not forgotten.
    pub pairs: BTreeSet<Pair>,
    /// All addresses of which the kernel may remember connections.
    pub addresses: BTreeSet<IpAddr>,
    /// Those of which it still remembers connections to an earlier pod: the process that
    /// changed the rules has not come to forget them.
    unfinished: BTreeSet<IpAddr>,
}

impl Remains {
    /// Reads what `nft list table` prints.
    pub fn read(listing: &str) -> Self {
        let mut remains = Self::default();
        let mut block = "";
        for line in listing.lines() {
            let words: Vec<&str> = line
                .split(|it: char| it.is_whitespace() || ",{}=".contains(it))
                .filter(|it| !it.is_empty())
                .collect();
            if let ["map" | "set" | "chain", name] = words[..] {
                block = name;
            }
            remains.take(block, &words);
        }
        remains
    }

    fn take(&mut self, block: &str, words: &[&str]) {
        let family = block.trim_end_matches(['4', '6']);
        for (index, word) in words.iter().enumerate() {
            let Ok(first) = word.parse::<IpAddr>() else {
                continue;
            };
            let second = match words.get(index + 1..index + 3) {
                Some([":" | ".", second]) => second.parse::<IpAddr>().ok(),
                _ => None,
            };
            match (family, second) {
                ("held", Some(pod)) => {
                    self.targets.insert(first, pod);
                    self.addresses.insert(first);
                    self.pairs.insert(Pair { vip: first, pod });
                }
                ("away", Some(pod)) => {
                    self.targets.insert(first, pod);
                    self.addresses.insert(first);
                }
                ("egress", Some(vip)) => {
                    self.addresses.insert(vip);
                    self.pairs.insert(Pair { vip, pod: first });
                }
                ("ended" | "leaving", Some(pod)) => {
                    self.addresses.insert(first);
                    self.unfinished.insert(first);
                    self.pairs.insert(Pair { vip: first, pod });
                }
                ("here", None) => {
                    self.addresses.insert(first);
                }
                _ => {}
            }
        }
    }

    /// The addresses whose connections do not follow these rules. An address without an
    /// earlier target counts: connections that began without rules would never follow any.
    pub fn changed(&self, rules: &NodeRules) -> BTreeSet<IpAddr> {
        let target = |vip: &IpAddr| match rules.target(*vip)? {
            Target::Here { pod, .. } | Target::Elsewhere { pod } => Some(*pod),
        };
        let new = rules.changed_since(&NodeRules::default());
        let all = self.addresses.union(&new);
        let changed = all.filter(|vip| match target(vip) {
            _ if self.unfinished.contains(vip) => true,
            Some(pod) => self.targets.get(vip) != Some(&pod),
            None => !rules.owns(**vip),
        });
        changed.copied().collect()
    }
}

#[cfg(test)]
mod tests;
