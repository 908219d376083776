//! What is left of shared addresses on a host. Those that pods had themselves are gone a
//! few seconds after the agent: the kernel counts.

use std::{fmt, net::IpAddr};

use floe_core::vip::rules::{ANNOUNCEMENTS, ANSWERS, TABLE, removal};
use floe_net::{
    netlink::{LOOPBACK, Netlink, NetlinkError, Route},
    nft::{Nft, NftError},
};
use ipnet::IpNet;

/// One thing that is left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rest {
    /// A table of the packet filter, and the script that removes it.
    Table {
        /// Its family and name.
        name: &'static str,
        /// How it is removed.
        script: String,
    },
    /// A route to a node that has got an address.
    Route(Route),
    /// An address that the host itself had. Who else gives the loopback link single addresses
    /// for a time is not known to exist; and such an address goes by itself anyway.
    Address(IpAddr),
}

/// Why something is left, or not known.
#[derive(Debug, thiserror::Error)]
pub enum RestError {
    /// The packet filter cannot be asked or told.
    #[error(transparent)]
    Nft(#[from] NftError),
    /// The kernel refused.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
}

/// What is left, and what could not be looked at.
pub fn look(netlink: &mut Netlink, nft: &Nft) -> (Vec<Rest>, Vec<RestError>) {
    let (mut rests, mut failures) = (Vec::new(), Vec::new());
    // Before the table that keeps the kernel from answering for them.
    match netlink.lent_addresses(LOOPBACK) {
        Ok(addresses) => rests.extend(addresses.into_iter().map(Rest::Address)),
        Err(error) => failures.push(error.into()),
    }
    let tables = [TABLE, ANNOUNCEMENTS, ANSWERS].into_iter();
    for (name, script) in tables.zip(removal()) {
        match nft.list(name) {
            Ok(Some(_)) => rests.push(Rest::Table { name, script }),
            // Without the program no agent of this installation has made a table.
            Ok(None) | Err(NftError::Start(_)) => {}
            Err(error) => failures.push(error.into()),
        }
    }
    match netlink.leading() {
        Ok(routes) => rests.extend(routes.into_iter().map(Rest::Route)),
        Err(error) => failures.push(error.into()),
    }
    (rests, failures)
}

impl Rest {
    /// Removes it.
    pub fn remove(&self, netlink: &mut Netlink, nft: &Nft) -> Result<(), RestError> {
        match self {
            Self::Table { script, .. } => nft.apply(script)?,
            Self::Route(route) => {
                netlink.remove_route(route)?;
            }
            Self::Address(ip) => {
                netlink.remove_address(LOOPBACK, IpNet::from(*ip))?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table { name, .. } => write!(out, "remove table {name}"),
            Self::Route(route) => write!(out, "remove the route to {}", route.dst),
            Self::Address(ip) => write!(out, "remove {ip} from the loopback link"),
        }
    }
}
