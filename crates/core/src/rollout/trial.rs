//! Whether a waiting pod could use what another one holds.

use std::net::IpAddr;

use jiff::Timestamp;

use crate::{
    ipam::ledger::{Ledger, Record},
    schedule::{
        claimant::Claimant,
        filter::{Offer, filter},
        refusal::{NodeRefusal, Refusal},
        wake,
    },
};

/// Whether a pod has no address on these nodes because others have them: it could run if
/// some became free. Nobody else that waits is looked at.
pub fn lacks_address(ledger: &Ledger, claimant: &Claimant, offers: &[Offer<'_>]) -> bool {
    if !claimant.shares_spares || claimant.wishes.is_empty() {
        return false;
    }
    match filter(ledger, claimant, offers, Timestamp::MAX) {
        Err(
            Refusal::WorkloadLimit { .. }
            | Refusal::PoolLimit { .. }
            | Refusal::NamespacePoolLimit { .. }
            | Refusal::NoAddressLeft,
        ) => true,
        Err(
            Refusal::OldPodNotGone { .. }
            | Refusal::YieldsToNewer { .. }
            | Refusal::UnsupportedPolicy(_)
            | Refusal::RangeNotConfigured { .. }
            | Refusal::NoNodeFits
            | Refusal::OnNode(_),
        ) => false,
        Ok(sorted) => matches!(
            sorted.most_telling(),
            Some(NodeRefusal::NoAddressLeft | NodeRefusal::SpareElsewhere { .. })
        ),
    }
}

/// Whether a pod could run on some of these nodes if the holders of these addresses were
/// gone and had left them to their group. The ledger is the same before and after.
pub fn would_serve(
    ledger: &mut Ledger,
    claimant: &Claimant,
    addresses: &[IpAddr],
    offers: &[Offer<'_>],
) -> bool {
    let held = addresses.iter().filter_map(|ip| ledger.record(*ip));
    let held: Vec<Record> = held.cloned().collect();
    for record in &held {
        ledger.observe(Record {
            key: claimant.group_key.clone(),
            node: String::new(),
            uid: String::new(),
            ..record.clone()
        });
    }
    let fits = wake::fits(ledger, claimant, offers);
    for record in held {
        ledger.observe(record);
    }
    fits
}
