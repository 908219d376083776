//! What is left of shared addresses on a host. Those that pods had themselves are gone a
//! few seconds after the agent: the kernel counts.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use floe_core::vip::rules::{TABLES, removal};
use floe_net::{
    conntrack,
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
    /// What the kernel remembers of connections to these addresses: they would follow the
    /// rules that are gone. After the table, or new ones would begin in between.
    Connections(BTreeSet<IpAddr>),
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
    for name in TABLES {
        match nft.list(name) {
            Ok(Some(listing)) => {
                let script = removal(name);
                rests.push(Rest::Table { name, script });
                let addresses = mapped(&listing);
                if !addresses.is_empty() {
                    rests.push(Rest::Connections(addresses));
                }
            }
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
            Self::Connections(addresses) => {
                conntrack::forget(addresses)?;
            }
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
            Self::Connections(addresses) => {
                let count = addresses.len();
                write!(out, "end connections of {count} shared addresses")
            }
            Self::Route(route) => write!(out, "remove the route to {}", route.dst),
            Self::Address(ip) => write!(out, "remove {ip} from the loopback link"),
        }
    }
}

/// The addresses that are rewritten by a listing of the rules.
fn mapped(listing: &str) -> BTreeSet<IpAddr> {
    let mut addresses = BTreeSet::new();
    let mut inside = false;
    for line in listing.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("set ") {
            inside = name.starts_with("mapped") || name.starts_with("here");
        }
        inside &= line != "}";
        if inside {
            let words = line.split(|it: char| it.is_whitespace() || ",{}=".contains(it));
            addresses.extend(words.filter_map(|word| word.parse::<IpAddr>().ok()));
        }
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_all_addresses_that_were_rewritten_are_ended() {
        let listing = include_str!("../../../core/src/vip/rules/golden/listing.txt");
        let mapped: Vec<String> = mapped(listing).iter().map(ToString::to_string).collect();
        let v4 = ["10.9.0.100", "10.9.0.101", "10.9.0.102"];
        let wanted: Vec<&str> = v4
            .into_iter()
            .chain(["fd00:9::100", "fd00:9::102"])
            .collect();
        assert_eq!(mapped, wanted);
        assert!(super::mapped("table netdev floe-vip {\n}").is_empty());
    }
}
