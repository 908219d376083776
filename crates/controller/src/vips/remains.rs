//! Addresses that an object does not get yet, because a `VirtualIP` that is gone left an entry
//! in a register by which a node may answer for them.

use std::{collections::BTreeMap, net::IpAddr};

use floe_api::floe::register::Entry;
use floe_core::vip::{VipId, grant::Grant};

use super::Steward;

/// The reason of an address that waits for an entry whose object is gone.
pub const STILL_HELD: &str = "AddressStillHeld";

/// Addresses that wait, and why, in words for people.
pub type Withheld = BTreeMap<IpAddr, String>;

impl Steward {
    /// The granted addresses that must not be entered for this object yet. What its entry has
    /// already stays: it was checked when it was entered.
    pub(super) fn withheld(&self, id: &VipId, grant: &Grant) -> Withheld {
        let has = self.vips.entry(id).map(|it| it.addresses);
        let has = has.unwrap_or_default();
        let granted = grant.addresses.iter().copied();
        let new: Vec<IpAddr> = granted.filter(|ip| !has.contains(ip)).collect();
        // A search through all entries, so only if something may be found.
        if new.is_empty() {
            return Withheld::new();
        }
        let name = format!("{}/{}", id.namespace, id.name);
        let was_its = |entry: &Entry, ip: &IpAddr| {
            // An entry that was emptied, because its object was to go or is gone, does not tell
            // what its holder speaks for. What has a record of this name already was the
            // object's.
            let emptied = entry.addresses.is_empty() && entry.vip == name;
            let was_listed = entry.addresses.contains(ip) || entry.withheld.contains(ip);
            was_listed || emptied && !grant.missing.contains(ip)
        };
        let lost = self
            .vips
            .lost_where(|entry| may_be_served(entry) && new.iter().any(|ip| was_its(entry, ip)));
        let found = new.into_iter().filter_map(|ip| {
            let entry = lost.values().find(|entry| was_its(entry, &ip))?;
            Some((ip, words(ip, entry)))
        });
        found.collect()
    }
}

/// Whether a node may answer for the addresses of an entry whose object is gone: the one that
/// had them last; or, as long as the entry offers them, an agent that does not know yet that
/// the object is gone, and takes them.
pub fn may_be_served(entry: &Entry) -> bool {
    entry.holder.is_some() || entry.withdrawn().is_some()
}

fn words(ip: IpAddr, entry: &Entry) -> String {
    let vip = &entry.vip;
    match &entry.holder {
        Some(holder) => format!(
            "{ip} was held by node {} for VirtualIP {vip}, which went without letting go of it; \
             it is free once that node is sure to be silent, after about 7 minutes",
            holder.node
        ),
        None => format!("{ip} is being withdrawn from VirtualIP {vip}, which is gone"),
    }
}
