//! The nodes of a record set, and the addresses that its name shall say.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use floe_api::flipop::records::{AddressFamily, NodeDNSRecordSet};
use floe_core::{
    ipam::families::Family,
    nodepool::{pool::Server, records::NodeAddresses},
};
use jiff::Timestamp;
use tracing::warn;

use crate::nodepools::{
    check::RecordsPlan,
    names::Keeper,
    sight::{Judged, Looked, Sight},
};

/// A record set that is followed.
pub(super) struct Running {
    pub plan: RecordsPlan,
    pub sight: Sight,
    pub keeper: Keeper,
    /// As they were seen last, by server.
    nodes: BTreeMap<Server, Judged>,
    /// Fitting nodes that have no address of the kind.
    without: Vec<String>,
}

impl Running {
    /// One that has not looked yet.
    pub fn new(plan: RecordsPlan, sight: Sight, keeper: Keeper) -> Self {
        Self {
            plan,
            sight,
            keeper,
            nodes: BTreeMap::new(),
            without: Vec::new(),
        }
    }

    /// Tells the keeper which addresses there are, once that is known.
    pub fn look(&mut self, object: &NodeDNSRecordSet, now: Timestamp) {
        match self.sight.look(&self.plan.rule) {
            None => return,
            Some(Looked::All(judged)) => self.nodes = judged,
            Some(Looked::Changed(judged)) => {
                for (server, it) in judged {
                    match it {
                        Some(it) => self.nodes.insert(server, it),
                        None => self.nodes.remove(&server),
                    };
                }
            }
        }
        let kind = object.spec.address_type();
        let wants = |ip: &IpAddr| {
            object.spec.wants(if ip.is_ipv4() {
                AddressFamily::IPv4
            } else {
                AddressFamily::IPv6
            })
        };
        let mut addresses = BTreeSet::new();
        let mut without = Vec::new();
        for it in self.nodes.values().filter(|it| it.seen.unfit.is_none()) {
            let notes = &it.node.notes;
            let own = kind.of(&NodeAddresses {
                status: it.node.addresses.clone(),
                // FLIPOP writes only the first.
                annotation: notes.all.clone().or_else(|| notes.v4.clone()),
            });
            let own: BTreeSet<IpAddr> = own.into_iter().filter(wants).collect();
            if own.is_empty() {
                without.push(it.seen.name.clone());
            }
            addresses.extend(own);
        }
        if self.without != without && !without.is_empty() {
            warn!(reason = "NodeWithoutAddress", nodes = ?without, "nodes without an address for DNS");
        }
        self.without = without;
        let wanted = [
            (AddressFamily::IPv4, Family::V4),
            (AddressFamily::IPv6, Family::V6),
        ];
        let wanted = wanted.into_iter().filter(|(it, _)| object.spec.wants(*it));
        self.keeper
            .about(wanted.map(|(_, family)| family).collect());
        self.keeper.want(Some(&addresses), now);
    }
}
