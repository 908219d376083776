//! Addresses that the host has itself, for as long as this node may serve them.
//!
//! They are on the loopback link: no subnet comes with them, nothing is sent from them
//! unless a program asks for it, and no neighbour is told of them but by those who answer
//! until the deadline.

use std::{collections::BTreeSet, net::IpAddr};

use floe_net::{
    boottime::Deadline,
    netlink::{LOOPBACK, Netlink, NetlinkError},
};
use ipnet::IpNet;

/// The addresses of shared ones that the host has.
#[derive(Debug, Default)]
pub struct Own {
    /// What this process has given; nothing before it has looked what an earlier one left.
    had: Option<BTreeSet<IpAddr>>,
}

impl Own {
    /// Takes all but these off the host. Of those that an earlier process has left it takes
    /// what is `known` to be shared. All are tried; the first failure is told.
    pub fn end_others(
        &mut self,
        wanted: &BTreeSet<IpAddr>,
        known: &BTreeSet<IpAddr>,
    ) -> Result<(), NetlinkError> {
        let is_idle = |had: &BTreeSet<IpAddr>| had.is_subset(wanted);
        if self.had.as_ref().is_some_and(is_idle) {
            return Ok(());
        }
        let mut netlink = Netlink::open()?;
        let had = if let Some(had) = self.had.take() {
            had
        } else {
            let left = netlink.lent_addresses(LOOPBACK)?.into_iter();
            left.filter(|ip| known.contains(ip)).collect()
        };
        let mut kept = BTreeSet::new();
        let mut outcome = Ok(());
        for ip in had {
            if wanted.contains(&ip) {
                kept.insert(ip);
                continue;
            }
            if let Err(error) = netlink.remove_address(LOOPBACK, IpNet::from(ip)) {
                outcome = outcome.and(Err(error));
                // Tried again with the next order.
                kept.insert(ip);
            }
        }
        self.had = Some(kept);
        outcome
    }

    /// Gives these to the host until the deadline.
    pub fn have(
        &mut self,
        wanted: &BTreeSet<IpAddr>,
        deadline: &Deadline,
    ) -> Result<(), NetlinkError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut netlink = Netlink::open()?;
        let mut outcome = Ok(());
        for &ip in wanted {
            let Some(left) = deadline.left() else { break };
            // Noted first: what fails half-way is taken off all the same.
            self.had.get_or_insert_default().insert(ip);
            if let Err(error) = netlink.lend_address(LOOPBACK, ip, left) {
                outcome = outcome.and(Err(error));
            }
        }
        outcome
    }
}
