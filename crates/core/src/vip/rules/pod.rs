//! The rules inside the network namespace of a pod that has shared addresses itself.
//!
//! The lifetime of such an address counts from when the kernel reads the message that sets it,
//! so a message that is held up would let the pod answer beside the next holder. A socket may
//! also go on sending from an address that the pod no longer has. These rules drop what the pod
//! sends in the name of a shared address unless the address is lent to the pod and the set
//! `alive` says that the node may still serve it. That set is filled with a ticket
//! ([`POD_TICKET`]).
//!
//! They are on the pod's own links, so they also hold for clients on the same node, and for
//! links whose frames no link of the host sees, such as virtual functions.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    Pulse, RuleRefusal, checked,
    script::{ANNOUNCEMENTS, PULSES, Script, targets},
};

/// The ticket of a pod's rules.
pub const POD_TICKET: Pulse = Pulse {
    table: ANNOUNCEMENTS,
    set: "ticket",
    keys: &[&[0x08, 0x06]],
};

/// The set that lets a pod answer.
pub const POD_PULSES: [Pulse; 1] = [PULSES[1]];

const ELEMENTS_OF_ALIVE: &str = "type ether_type; flags timeout;";

/// All addresses that were ever lent to the pod.
const LASTING_SETS: [(&str, &str); 3] = [
    ("known4", "type ipv4_addr;"),
    ("known6", "type ipv6_addr;"),
    ("known_targets", "typeof @th,64,128;"),
];

/// Those that are lent now.
const SETS: [(&str, &str, &str); 3] = [
    ("set", "lent4", "type ipv4_addr;"),
    ("set", "lent6", "type ipv6_addr;"),
    ("set", "lent_targets", "typeof @th,64,128;"),
];

const RULES: [&str; 8] = [
    "arp saddr ip @known4 arp saddr ip != @lent4 drop",
    "arp saddr ip @known4 meta protocol != @alive drop",
    "icmpv6 type nd-neighbor-advert @th,64,128 @known_targets @th,64,128 != @lent_targets drop",
    "icmpv6 type nd-neighbor-advert @th,64,128 @known_targets meta protocol != @alive drop",
    "ip saddr @known4 ip saddr != @lent4 drop",
    "ip saddr @known4 meta protocol != @alive drop",
    "ip6 saddr @known6 ip6 saddr != @lent6 drop",
    "ip6 saddr @known6 meta protocol != @alive drop",
];

/// All that the rules inside a pod's namespace depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodRules {
    links: BTreeSet<String>,
    known: BTreeSet<IpAddr>,
    lent: BTreeSet<IpAddr>,
}

impl PodRules {
    /// Guards what leaves through these links of the pod, and through no others. They must
    /// exist when the script is run.
    pub fn guard<'a>(
        &mut self,
        links: impl Iterator<Item = &'a String>,
    ) -> Result<(), RuleRefusal> {
        self.links = links.map(|it| checked(it)).collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Lets the pod speak for these addresses while the node may serve them, and no longer for
    /// others that were lent before.
    pub fn lend(&mut self, lent: BTreeSet<IpAddr>) {
        self.known.extend(&lent);
        self.lent = lent;
    }

    /// The addresses that are lent.
    pub fn lent(&self) -> &BTreeSet<IpAddr> {
        &self.lent
    }

    /// Makes the rules in the pod's namespace these, and leaves `alive` as it is. What is known
    /// there stays known: an earlier process may have lent it.
    pub fn script(&self) -> String {
        let table = ANNOUNCEMENTS;
        let mut script = Script::default();
        script.table(table, ELEMENTS_OF_ALIVE, &SETS);
        for (name, what) in LASTING_SETS {
            script.set(table, name, what);
        }
        script.ticket(&POD_TICKET, ELEMENTS_OF_ALIVE);
        script.exits(table, &self.links, &RULES);
        script.addresses(table, "known", self.known.iter().copied());
        script.elements(table, "known_targets", targets(&self.known));
        script.addresses(table, "lent", self.lent.iter().copied());
        script.elements(table, "lent_targets", targets(&self.lent));
        script.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(all: &[&str]) -> BTreeSet<IpAddr> {
        all.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn a_pod_is_guarded_on_all_of_its_links_for_both_families() {
        let mut rules = PodRules::default();
        let links = ["eth0", "net1"].map(str::to_owned);
        rules.guard(links.iter()).unwrap();
        rules.lend(addresses(&["10.9.0.101"]));
        rules.lend(addresses(&["10.9.0.100", "fd00:9::100"]));
        assert_eq!(rules.script(), include_str!("golden/pod.nft"));
    }

    #[test]
    fn a_link_that_no_script_can_name_is_refused() {
        let link = "eth0\"".to_owned();
        assert!(PodRules::default().guard([&link].into_iter()).is_err());
    }
}
