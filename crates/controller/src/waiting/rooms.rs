//! What there is to get, until somebody looks, and whom that concerns.

use std::{collections::BTreeSet, net::IpAddr};

use floe_core::{
    ipam::{choice::Wish, key::HolderKey},
    schedule::claimant::Claimant,
};

use super::Room;

/// Several rooms together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rooms {
    addresses: BTreeSet<IpAddr>,
    groups: BTreeSet<HolderKey>,
    anywhere: bool,
}

/// So many are told apart; if there are more, it is as good to look at all pods.
const MOST: usize = 1024;

impl Rooms {
    /// Whether there is nothing to get.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Adds a room.
    pub fn add(&mut self, room: Room) {
        match room {
            Room::Address(ip) => {
                self.addresses.insert(ip);
            }
            Room::InGroup(group) => {
                self.groups.insert(group);
            }
            Room::Anywhere => self.anywhere = true,
        }
        if self.anywhere || self.addresses.len() + self.groups.len() > MOST {
            *self = Self {
                anywhere: true,
                ..Self::default()
            };
        }
    }

    /// Adds all others.
    pub fn join(&mut self, others: &Self) {
        let addresses = others.addresses.iter().copied().map(Room::Address);
        let groups = others.groups.iter().cloned().map(Room::InGroup);
        let anywhere = others.anywhere.then_some(Room::Anywhere);
        for room in addresses.chain(groups).chain(anywhere) {
            self.add(room);
        }
    }

    /// Whether a pod could use something of it.
    pub fn concern(&self, claimant: &Claimant) -> bool {
        self.concern_beside(claimant, &Self::default())
    }

    /// Whether a pod could use something of it that is not among these others.
    pub fn concern_beside(&self, claimant: &Claimant, others: &Self) -> bool {
        if self.anywhere {
            return !others.anywhere;
        }
        // An address that is free also makes place in the limits of its last
        // holder's group, whichever that was.
        let accepts = |ip: &IpAddr| {
            claimant.shares_spares || claimant.wishes.iter().any(|it: &Wish| it.accepts(*ip))
        };
        let mut addresses = self.addresses.difference(&others.addresses);
        addresses.any(accepts) || groups(claimant).any(|it| self.has_group(&it, others))
    }

    fn has_group(&self, group: &HolderKey, others: &Self) -> bool {
        self.groups.contains(group) && !others.groups.contains(group)
    }
}

/// The groups that its addresses may be in.
fn groups(claimant: &Claimant) -> impl Iterator<Item = HolderKey> {
    let galaxys = claimant.galaxy_key.as_ref().and_then(HolderKey::group_key);
    [claimant.group_key.clone()].into_iter().chain(galaxys)
}
