//! The checks of what is set aside for addresses that several pods share.
//!
//! galaxy does not know such addresses, so a lenient reading never takes anything
//! from its `ips` for them.

use std::net::IpAddr;

use ipnet::IpNet;

use super::{Check, is_inside};
use crate::{
    addr::{IpRange, IpSet},
    config::{
        entry::Entry,
        problem::{Fault, LeftOut, Problem},
    },
};

impl Check<'_> {
    /// The addresses of the ranges that lie in the network. Their order does not
    /// matter, and two of them may overlap.
    pub(super) fn shared_inside(
        &mut self,
        ranges: Vec<IpRange>,
        gateway: IpAddr,
        network: IpNet,
    ) -> IpSet {
        let (inside, outside): (Vec<_>, Vec<_>) = ranges
            .into_iter()
            .partition(|range| is_inside(*range, network));
        for range in outside {
            let fault = Fault::RangeOutsideSubnet {
                range,
                gateway,
                prefix_len: network.prefix_len(),
            };
            self.drop_addresses("shared", fault, range.into());
        }
        inside.into_iter().collect()
    }
}

/// Leaves each address to the pods, or else to the entry that comes first in the text.
pub(super) fn without_overlaps(entries: &mut [Entry], problems: &mut Vec<Problem>) {
    let mut taken: IpSet = entries
        .iter()
        .flat_map(|entry| entry.addresses.ranges())
        .collect();
    for place in 0..entries.len() {
        let wanted = &entries[place].shared.addresses;
        if wanted.overlaps(&taken) {
            let with_ips = entries.iter().map(|it| ("ips", it.index, &it.addresses));
            let earlier = entries[..place].iter();
            let with_shared = earlier.map(|it| ("shared", it.index, &it.shared.addresses));
            for (member, with, others) in with_ips.chain(with_shared) {
                let addresses = wanted.intersection(others);
                if !addresses.is_empty() {
                    let left_out = LeftOut::Addresses(addresses.clone());
                    let fault = Fault::SharedOverlap {
                        addresses,
                        member,
                        with,
                    };
                    let index = entries[place].index;
                    let problem = Problem::in_field(index, "shared", fault, Some(left_out));
                    problems.push(problem);
                }
            }
            entries[place].shared.addresses = wanted.difference(&taken);
        }
        taken.extend(entries[place].shared.addresses.ranges());
    }
}
