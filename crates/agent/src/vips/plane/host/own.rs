//! Addresses that the host has itself, for as long as this node may serve them.
//!
//! They are on the loopback link: no subnet comes with them, nothing is sent from them
//! unless a program asks for it, and no neighbour is told of them but by those who answer
//! until the deadline.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use floe_net::{
    boottime::{self, Deadline},
    netlink::{LOOPBACK, Netlink, NetlinkError},
};
use ipnet::IpNet;

/// The addresses of shared ones that the host has.
#[derive(Debug, Default)]
pub struct Own {
    /// What this process has given; nothing before it has looked what an earlier one left.
    had: Option<BTreeSet<IpAddr>>,
    /// When the kernel of itself has taken all of it back at the latest, unless an earlier
    /// process gave it.
    until: Duration,
}

/// How much longer than they were given for addresses may stay.
const LATE: Duration = Duration::from_secs(2);

/// Addresses, each with why the host has it, or has it not.
pub type Failures = BTreeMap<IpAddr, NetlinkError>;

impl Own {
    /// Takes all but these off the host. Of those that an earlier process has left it takes
    /// what is `known` to be shared. All are tried. Returns those that the host may still
    /// have: none is left when its time has run out.
    pub fn end_others(
        &mut self,
        wanted: &BTreeSet<IpAddr>,
        known: &BTreeSet<IpAddr>,
    ) -> Result<Failures, NetlinkError> {
        let mut failures = Failures::new();
        let is_idle = |had: &BTreeSet<IpAddr>| had.is_subset(wanted);
        if self.had.as_ref().is_some_and(is_idle) {
            return Ok(failures);
        }
        let mut netlink = Netlink::open()?;
        let had = if let Some(had) = self.had.take() {
            had
        } else {
            let left = netlink.lent_addresses(LOOPBACK)?.into_iter();
            left.filter(|ip| known.contains(ip)).collect()
        };
        let mut kept = BTreeSet::new();
        let is_over = !self.until.is_zero() && self.until <= boottime::now();
        for ip in had {
            if wanted.contains(&ip) {
                kept.insert(ip);
                continue;
            }
            if let Err(error) = netlink.remove_address(LOOPBACK, IpNet::from(ip)) {
                // Tried again with the next order.
                if !is_over {
                    failures.insert(ip, error);
                    kept.insert(ip);
                }
            }
        }
        self.had = Some(kept);
        Ok(failures)
    }

    /// Gives these to the host until the deadline. Returns those that it did not get.
    pub fn have(
        &mut self,
        wanted: &BTreeSet<IpAddr>,
        deadline: &Deadline,
    ) -> Result<Failures, NetlinkError> {
        let mut failures = Failures::new();
        if wanted.is_empty() {
            return Ok(failures);
        }
        let mut netlink = Netlink::open()?;
        for &ip in wanted {
            let Some(left) = deadline.left() else { break };
            self.until = boottime::now() + left + LATE;
            // Noted first: what fails half-way is taken off all the same.
            self.had.get_or_insert_default().insert(ip);
            if let Err(error) = netlink.lend_address(LOOPBACK, ip, left) {
                failures.insert(ip, error);
            }
        }
        Ok(failures)
    }
}
