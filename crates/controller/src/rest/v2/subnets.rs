//! How full the configured ranges are.

use std::collections::BTreeMap;

use axum::{Json, extract::State};
use floe_api::rest::v2::{NodeSubnet, Subnet, SubnetList};
use floe_core::{
    config::{Entry, Topology},
    ipam::state,
};
use ipnet::IpNet;

use super::{parameters::Parameters, problem::Refused};
use crate::rest::{
    Rest,
    access::{Access, Caller},
    openapi::Refusals,
};

/// How many addresses of an entry are what.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    bound: u64,
    kept: u64,
    spare: u64,
    reserved: u64,
    foreign: u64,
    /// Of the ranges that are set aside for them.
    shared: u64,
}

/// Show how full the configured ranges are
///
/// Right: `list floatingips.galaxy.k8s.io`.
#[utoipa::path(
    get, path = "/v2/subnets", tag = "subnets", operation_id = "listSubnets",
    responses((status = 200, description = "All entries", body = SubnetList), Refusals),
)]
pub async fn list(
    State(rest): State<Rest>,
    caller: Caller,
    parameters: Parameters,
) -> Result<Json<SubnetList>, Refused> {
    caller.may(&Access::ips("list")).await?;
    parameters.read(|_| Ok(()))?;
    // A copy, so that the pass over all records does not hold up decisions.
    let topology = rest.store.read(|books| books.ledger().topology().clone());
    let (tallies, outside) = rest.directory.look(|catalogue| {
        let mut tallies = vec![Tally::default(); topology.config().entries().len()];
        let mut outside = 0;
        for row in catalogue.rows() {
            let is_shared = row.state == state::State::Shared;
            let shared_of = || is_shared.then(|| topology.shared_of(row.ip)).flatten();
            match topology.entry_of(row.ip) {
                Some(entry) => tallies[entry.position()].count(row.state),
                None => match shared_of() {
                    Some(entry) => tallies[entry.position()].shared += 1,
                    None => outside += 1,
                },
            }
        }
        (tallies, outside)
    });
    let nodes = nodes(&rest, &topology);
    let entries = topology.config().entries().iter().zip(tallies);
    Ok(Json(SubnetList {
        items: entries
            .map(|(entry, tally)| shown(entry, &tally, &nodes))
            .collect(),
        outside,
    }))
}

impl Tally {
    fn count(&mut self, state: state::State) {
        *match state {
            state::State::Bound => &mut self.bound,
            state::State::Kept => &mut self.kept,
            state::State::Spare => &mut self.spare,
            state::State::Reserved => &mut self.reserved,
            // A record is never free, and what is shared has no place among the
            // addresses for pods.
            state::State::Shared | state::State::Foreign | state::State::Free => &mut self.foreign,
        } += 1;
    }

    fn all(&self) -> u64 {
        self.bound + self.kept + self.spare + self.reserved + self.foreign
    }
}

/// How many nodes each node subnet has.
fn nodes(rest: &Rest, topology: &Topology) -> BTreeMap<IpNet, u64> {
    let mut nodes = BTreeMap::new();
    for (_, address) in rest.cluster.all_nodes() {
        if let Some(subnet) = address.and_then(|address| topology.node_subnet(address)) {
            *nodes.entry(subnet).or_default() += 1;
        }
    }
    nodes
}

fn shown(entry: &Entry, tally: &Tally, nodes: &BTreeMap<IpNet, u64>) -> Subnet {
    let capacity = entry.addresses().len();
    let ranges = entry.addresses().ranges();
    let shared = entry.shared().ranges();
    let node_subnets = entry.node_subnets().iter();
    Subnet {
        subnet: entry.network().to_string(),
        gateway: entry.gateway().to_string(),
        vlan: Some(entry.vlan()).filter(|vlan| *vlan != 0),
        ranges: ranges.map(|range| range.to_string()).collect(),
        capacity: capacity.to_string(),
        free: capacity.saturating_sub(tally.all().into()).to_string(),
        bound: tally.bound,
        kept: tally.kept,
        spare: tally.spare,
        reserved: tally.reserved,
        foreign: tally.foreign,
        shared_ranges: shared.map(|range| range.to_string()).collect(),
        shared: tally.shared,
        node_subnets: node_subnets
            .map(|subnet| NodeSubnet {
                subnet: subnet.to_string(),
                nodes: nodes.get(subnet).copied().unwrap_or(0),
            })
            .collect(),
    }
}
