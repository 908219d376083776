//! Pools that list the same address.
//!
//! Two pools that move one address would take it from each other for ever. So of those that
//! list it, one keeps it, and the others are not followed until it stands in one list only.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;

/// What a pool lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claim {
    /// Its cloud: the same address of two clouds is two addresses.
    pub provider: String,
    /// The addresses of its list.
    pub ips: BTreeSet<IpAddr>,
    /// Those that it was already looking after, by its status.
    pub held: BTreeSet<IpAddr>,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// An address that another pool keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rival<Id> {
    /// The address.
    pub ip: IpAddr,
    /// Who keeps it.
    pub keeper: Id,
}

/// The pools that are not to be followed, each with the first address that another keeps.
///
/// Who looks after an address already comes before who does not: nobody loses one because
/// somebody else writes it down. Then the older pool comes first, then the order of names.
pub fn rivals<Id: Ord + Clone>(pools: &BTreeMap<Id, Claim>) -> BTreeMap<Id, Rival<Id>> {
    let mut keepers: BTreeMap<(&str, IpAddr), _> = BTreeMap::new();
    for (id, claim) in pools {
        for ip in &claim.ips {
            let rank = (!claim.held.contains(ip), claim.created, id);
            let keeper = keepers.entry((claim.provider.as_str(), *ip));
            let keeper = keeper.or_insert(rank);
            *keeper = rank.min(*keeper);
        }
    }
    let mut refused = BTreeMap::new();
    for (id, claim) in pools {
        let mut lost = claim.ips.iter().filter_map(|ip| {
            let (_, _, keeper) = keepers.get(&(claim.provider.as_str(), *ip))?;
            (*keeper != id).then(|| Rival {
                ip: *ip,
                keeper: (*keeper).clone(),
            })
        });
        if let Some(rival) = lost.next() {
            refused.insert(id.clone(), rival);
        }
    }
    refused
}

#[cfg(test)]
mod tests;
