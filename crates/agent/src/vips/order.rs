//! The order for the kernel's part: what the keeper says, and what only objects know.

use std::{collections::BTreeMap, sync::Arc};

use floe_api::floe::virtualip::VirtualIP;
use floe_core::{
    addr,
    vip::{Mode, VipId, keeper::Serving},
};

use super::plan::{Detail, Order};

/// The order to serve this.
pub fn order(serving: &Serving, objects: &BTreeMap<VipId, Arc<VirtualIP>>) -> Order {
    let detail = |id: &VipId| {
        let object = objects.get(id)?;
        let announcement = &object.spec.announcement;
        let holder = object.status.as_ref().and_then(|it| it.holder.as_ref());
        Some(Detail {
            interface: announcement.interface.clone(),
            egress: announcement.egress,
            mode: match holder.map(|it| it.mode.as_str()) {
                Some("direct") => Mode::Direct,
                _ => Mode::Nat,
            },
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
        nodes: statuses()
            .flat_map(|it| &it.candidates)
            .map(|it| addr::canonical(it.node_address))
            .collect(),
    }
}
