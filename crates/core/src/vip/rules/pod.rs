//! The rules inside the network namespace of a pod that has shared addresses itself.
//!
//! The lifetime of such an address counts from when the kernel reads the message that sets it,
//! so a message that is held up would let the pod answer beside the next holder. These rules
//! drop what the pod sends in the name of the address, unless the set `alive` says that the
//! node may still serve it, and that set is filled with a ticket ([`POD_TICKET`]).
//!
//! They are on the pod's own link, so they also hold for clients on the same node, and for
//! links whose frames no link of the host sees, such as virtual functions.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    NodeRules, Pulse, RuleRefusal,
    script::{ANNOUNCEMENTS, PULSES, Script},
};

/// The ticket of a pod's rules.
pub const POD_TICKET: Pulse = Pulse {
    table: ANNOUNCEMENTS,
    set: "ticket",
    keys: &[&[0x08, 0x06]],
};

/// The set that lets a pod answer.
pub const POD_PULSES: [Pulse; 1] = [PULSES[1]];

/// All that the rules inside a pod's namespace depend on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodRules(NodeRules);

impl PodRules {
    /// Guards what leaves through these links of the pod in the name of these addresses.
    pub fn new(
        links: &BTreeSet<String>,
        addresses: &BTreeSet<IpAddr>,
    ) -> Result<Self, RuleRefusal> {
        let mut rules = NodeRules::default();
        for link in links {
            rules.add_exit(link)?;
        }
        for vip in addresses {
            rules.announce(*vip);
        }
        Ok(Self(rules))
    }

    /// Makes the rules in the pod's namespace these, and leaves `alive` as it is.
    pub fn script(&self) -> String {
        let mut script = Script::default();
        self.0.guard_exits(&mut script);
        script.ticket(&POD_TICKET, "type ether_type; flags timeout;");
        script.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_guarded_on_its_own_links_for_both_families() {
        let addresses = ["10.9.0.100", "fd00:9::100"].map(|it| it.parse().unwrap());
        let links = ["eth0", "net1"].map(str::to_owned);
        let rules = PodRules::new(&BTreeSet::from(links), &BTreeSet::from(addresses)).unwrap();
        assert_eq!(rules.script(), include_str!("golden/pod.nft"));
    }

    #[test]
    fn a_link_that_no_script_can_name_is_refused() {
        let links = BTreeSet::from(["eth0\"".to_owned()]);
        assert!(PodRules::new(&links, &BTreeSet::new()).is_err());
    }
}
