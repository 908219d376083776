//! The order for the kernel's part: what the keeper says, and what only objects know.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use floe_api::floe::virtualip::VirtualIP;
use floe_core::{
    addr,
    vip::{Mode, VipId, keeper::Serving},
};

use super::plan::{Detail, Order};

/// The order to serve this. `nodes` are the addresses of all nodes that were ever seen: one
/// whose pod is no candidate for a while is a node all the same, and rules that change with
/// every such pod would be in the way of the moves that follow from it.
pub fn order(
    serving: &Serving,
    objects: &BTreeMap<VipId, Arc<VirtualIP>>,
    nodes: &BTreeSet<IpAddr>,
) -> Order {
    let detail = |id: &VipId| {
        let object = objects.get(id)?;
        let announcement = &object.spec.announcement;
        let holder = object.status.as_ref().and_then(|it| it.holder.as_ref());
        Some(Detail {
            interface: announcement.interface.clone(),
            egress: announcement.egress,
            mode: holder
                .and_then(|it| Mode::parse(&it.mode))
                .unwrap_or_default(),
        })
    };
    let details = serving.roles.keys();
    let statuses = || objects.values().filter_map(|it| it.status.as_ref());
    Order {
        serving: serving.clone(),
        details: details
            .filter_map(|id| Some((id.clone(), detail(id)?)))
            .collect(),
        known: statuses()
            .flat_map(|it| &it.addresses)
            .map(|ip| addr::canonical(*ip))
            .collect(),
        nodes: nodes.clone(),
    }
}
