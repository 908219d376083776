//! From parsed entries to sound ones.
//!
//! Everything is judged as a lenient reading does: what galaxy refuses is a
//! problem without remedy, and what only floe minds is left out. The caller
//! decides whether that is good enough.

use std::{collections::BTreeMap, net::IpAddr};

use ipnet::IpNet;

use super::{
    entry::{Attachment, Entry, Shared},
    parse::Draft,
    problem::{Fault, LeftOut, Problem},
};
use crate::addr::{IpRange, IpSet};

mod shared;

/// The highest VLAN that can be used; 4095 is reserved.
const MAX_VLAN: u16 = 4094;

/// The sound part of the drafts, in their order.
pub(super) fn entries(drafts: Vec<Draft>, problems: &mut Vec<Problem>) -> Vec<Entry> {
    // A gateway is a router even if its entry is left out for other reasons.
    // Of entries with the same gateway the first one is named.
    let mut gateways = BTreeMap::new();
    for draft in &drafts {
        gateways.entry(draft.gateway).or_insert(draft.index);
    }
    let drafts = drafts.into_iter();
    let entries = drafts.filter_map(|draft| entry(draft, problems)).collect();
    let mut entries = without_overlaps(entries, problems);
    remove_gateways(&mut entries, &gateways, problems);
    shared::without_overlaps(&mut entries, problems);
    entries
}

fn entry(draft: Draft, problems: &mut Vec<Problem>) -> Option<Entry> {
    let mut check = Check {
        index: draft.index,
        usable: true,
        problems,
    };
    let Draft {
        gateway, subnet, ..
    } = draft;
    if draft.vlan > MAX_VLAN {
        check.drop_entry("vlan", Fault::VlanTooHigh(draft.vlan));
    }
    if gateway.is_ipv4() != subnet.addr().is_ipv4() {
        check.drop_entry("subnet", Fault::SubnetFamily { subnet, gateway });
        return None;
    }
    // The route to the own network would be the default route, so the kernel refuses the
    // one through the gateway.
    if subnet.prefix_len() == 0 {
        check.drop_entry("subnet", Fault::PrefixLengthZero { subnet });
        return None;
    }
    let attachment = Attachment {
        gateway,
        prefix_len: subnet.prefix_len(),
        vlan: draft.vlan,
        node_subnets: draft.node_subnets,
    };
    let network = attachment.network();
    check.gateway(gateway, network);
    let ranges = check.families("ips", draft.ranges, gateway);
    check.inside(&ranges, gateway, network);
    check.order(&ranges);
    let mut addresses = ranges.into_iter().collect();
    check.special("ips", &mut addresses, network);
    let shared = draft.shared.unwrap_or_default();
    let ranges = check.families("shared", shared.ranges, gateway);
    let mut shared = Shared {
        addresses: check.shared_inside(ranges, gateway, network),
        namespaces: shared.namespaces,
    };
    check.special("shared", &mut shared.addresses, network);
    check.usable.then_some(Entry {
        index: draft.index,
        addresses,
        shared,
        attachment,
    })
}

/// The checks of one entry.
struct Check<'p> {
    index: usize,
    /// Whether the entry as a whole is kept.
    usable: bool,
    problems: &'p mut Vec<Problem>,
}

impl Check<'_> {
    fn gateway(&mut self, gateway: IpAddr, network: IpNet) {
        // In IPv6 the address without host bits means "any router here", which
        // is a fair gateway.
        if gateway.is_ipv4() && network_address(network) == Some(gateway) {
            self.drop_entry("gateway", Fault::GatewayIsNetwork { gateway, network });
        }
        if broadcast_address(network) == Some(gateway) {
            self.drop_entry("gateway", Fault::GatewayIsBroadcast { gateway, network });
        }
    }

    /// The ranges of the gateway's family.
    fn families(
        &mut self,
        field: &'static str,
        mut ranges: Vec<IpRange>,
        gateway: IpAddr,
    ) -> Vec<IpRange> {
        ranges.retain(|&range| {
            let fits = range.is_v4() == gateway.is_ipv4();
            if !fits {
                let fault = Fault::RangeFamily { range, gateway };
                self.drop_addresses(field, fault, range.into());
            }
            fits
        });
        ranges
    }

    fn inside(&mut self, ranges: &[IpRange], gateway: IpAddr, network: IpNet) {
        for &range in ranges {
            if !is_inside(range, network) {
                let prefix_len = network.prefix_len();
                self.refuse(Fault::RangeOutsideSubnet {
                    range,
                    gateway,
                    prefix_len,
                });
            }
        }
    }

    /// Ranges that touch are fine and become one; galaxy refuses them.
    fn order(&mut self, ranges: &[IpRange]) {
        for pair in ranges.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            if after.first() <= before.last() {
                self.refuse(Fault::RangeOrder { before, after });
            }
        }
    }

    /// Takes out the addresses that the network keeps for itself.
    fn special(&mut self, field: &'static str, addresses: &mut IpSet, network: IpNet) {
        if let Some(ip) = network_address(network)
            && addresses.remove(ip)
        {
            let fault = Fault::NetworkInIps { ip, network };
            self.drop_addresses(field, fault, IpRange::single(ip).into());
        }
        if let Some(ip) = broadcast_address(network)
            && addresses.remove(ip)
        {
            let fault = Fault::BroadcastInIps { ip, network };
            self.drop_addresses(field, fault, IpRange::single(ip).into());
        }
    }

    fn refuse(&mut self, fault: Fault) {
        self.report("ips", fault, None);
    }

    fn drop_entry(&mut self, field: &'static str, fault: Fault) {
        self.usable = false;
        self.report(field, fault, Some(LeftOut::Entry));
    }

    fn drop_addresses(&mut self, field: &'static str, fault: Fault, addresses: IpSet) {
        self.report(field, fault, Some(LeftOut::Addresses(addresses)));
    }

    fn report(&mut self, field: &'static str, fault: Fault, left_out: Option<LeftOut>) {
        self.problems
            .push(Problem::in_field(self.index, field, fault, left_out));
    }
}

/// Leaves each shared address to the entry that comes first in the text.
fn without_overlaps(entries: Vec<Entry>, problems: &mut Vec<Problem>) -> Vec<Entry> {
    let mut taken = IpSet::new();
    let mut sound: Vec<Entry> = Vec::with_capacity(entries.len());
    for mut entry in entries {
        let overlaps = |range| taken.first_in(&range).is_some();
        if entry.addresses.ranges().any(overlaps) {
            for other in &sound {
                let shared = entry.addresses.intersection(&other.addresses);
                if !shared.is_empty() {
                    problems.push(Problem {
                        entry: Some(entry.index),
                        field: Some("ips"),
                        fault: Fault::EntriesOverlap {
                            shared: shared.clone(),
                            with: other.index,
                        },
                        left_out: Some(LeftOut::Addresses(shared)),
                    });
                }
            }
            entry.addresses = entry.addresses.difference(&taken);
        }
        taken.extend(entry.addresses.ranges());
        sound.push(entry);
    }
    sound
}

/// Takes gateways out of the addresses, also those of other entries: networks
/// of entries may be the same or nested.
fn remove_gateways(
    entries: &mut [Entry],
    gateways: &BTreeMap<IpAddr, usize>,
    problems: &mut Vec<Problem>,
) {
    for entry in entries {
        let members = [
            ("ips", &mut entry.addresses),
            ("shared", &mut entry.shared.addresses),
        ];
        for (field, addresses) in members {
            // Only gateways between the ends can be inside.
            let (Some(first), Some(last)) = (addresses.first(), addresses.last()) else {
                continue;
            };
            for (&gateway, &of) in gateways.range(first..=last) {
                if addresses.remove(gateway) {
                    let fault = Fault::GatewayInIps { gateway, of };
                    let left_out = LeftOut::Addresses(IpRange::single(gateway).into());
                    let problem = Problem::in_field(entry.index, field, fault, Some(left_out));
                    problems.push(problem);
                }
            }
        }
    }
}

fn is_inside(range: IpRange, network: IpNet) -> bool {
    network.contains(&range.first()) && network.contains(&range.last())
}

/// The address without host bits, where it is not one for hosts: point-to-point
/// networks (RFC 3021, RFC 6164) and single addresses have none.
fn network_address(network: IpNet) -> Option<IpAddr> {
    has_host_bits(network).then(|| network.network())
}

/// The address with all host bits set; IPv6 has no broadcast.
fn broadcast_address(network: IpNet) -> Option<IpAddr> {
    let broadcast = network.addr().is_ipv4() && has_host_bits(network);
    broadcast.then(|| network.broadcast())
}

/// Whether there are at least two bits for hosts.
fn has_host_bits(network: IpNet) -> bool {
    network.max_prefix_len() - network.prefix_len() >= 2
}
