//! What a clean-up would do on a host.

use floe_core::node::moves::{BRIDGE_ALIAS, Move, VLAN_ALIAS};
use floe_net::netlink::{Link, LinkKind};

/// What to do, and what has to stay.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The steps, in this order.
    pub steps: Vec<Step>,
    /// What stays, though floe made it.
    pub kept: Vec<Kept>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Bring addresses and routes back to their device.
    MoveBack(Move),
    /// Forget a move whose device is gone.
    Forget(Move),
    /// Remove a link.
    Remove(Link),
}

impl Step {
    /// Whether it takes something away that pods can use unseen.
    pub fn can_hurt_unseen_pods(&self) -> bool {
        match self {
            Self::Remove(link) => link.alias.as_deref() == Some(VLAN_ALIAS),
            Self::MoveBack(_) | Self::Forget(_) => false,
        }
    }
}

/// Something that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// What it is.
    pub what: String,
    /// Why it stays.
    pub why: String,
}

/// Plans a clean-up. Moves are undone before bridges go, and bridges before the VLAN
/// devices in them. What somebody uses stays, with everything below it. `attached` is
/// how many containers are attached, if somebody knows: a macvlan in a pod cannot be seen
/// from here.
pub fn plan(journals: &[Move], links: &[Link], attached: Option<usize>) -> Plan {
    let mut plan = Plan::default();
    let mut needed = Vec::new();
    for journal in journals {
        let find = |name: &str| links.iter().find(|it| it.name == name);
        let (device, bridge) = (find(&journal.device), find(&journal.bridge));
        let users = bridge.map(|it| users(it, links, journals));
        let users = users.unwrap_or_default();
        let why = if !users.is_empty() {
            in_use(&users)
        } else if device.is_some() {
            plan.steps.push(Step::MoveBack(journal.clone()));
            continue;
        } else if bridge.is_none() {
            plan.steps.push(Step::Forget(journal.clone()));
            continue;
        } else {
            // The addresses are on the bridge, and have nowhere to go.
            format!("{} is not there any more", journal.device)
        };
        let what = format!("the move from {} to {}", journal.device, journal.bridge);
        plan.kept.push(Kept { what, why });
        needed.extend(bridge.map(|it| it.index));
    }
    for alias in [BRIDGE_ALIAS, VLAN_ALIAS] {
        let made = links.iter().filter(|it| it.alias.as_deref() == Some(alias));
        for link in made.filter(|it| !needed.contains(&it.index)) {
            let users = users(link, links, journals);
            let why = match attached {
                _ if !users.is_empty() => in_use(&users),
                None if alias == VLAN_ALIAS => "there is no folder of state files, so pods that \
                    nobody sees may use it; if there are none: --force"
                    .to_owned(),
                Some(count) if alias == VLAN_ALIAS && count > 0 => {
                    format!("{count} containers are attached, and may use it")
                }
                _ => {
                    plan.steps.push(Step::Remove(link.clone()));
                    continue;
                }
            };
            let what = link.name.clone();
            plan.kept.push(Kept { what, why });
        }
    }
    plan
}

/// The links that would lose something with this one: what lies above it, its ports but
/// those that floe brought there for all pods, and the users of the bridge that it is in.
fn users(link: &Link, links: &[Link], journals: &[Move]) -> Vec<String> {
    let is_brought = |port: &Link| {
        let is_moved = |it: &Move| it.device == port.name && it.bridge == link.name;
        matches!(port.kind, LinkKind::Vlan { .. }) || journals.iter().any(is_moved)
    };
    let own = links.iter().filter(|it| {
        let is_port = it.master == Some(link.index) && !is_brought(it);
        // The parent of a veth is its other end.
        let is_above =
            it.parent == Some(link.index) && !it.is_elsewhere && it.kind != LinkKind::Veth;
        is_port || is_above
    });
    let bridge = links.iter().find(|it| Some(it.index) == link.master);
    let through = bridge.map(|it| users(it, links, journals));
    let own = own.map(|it| it.name.clone());
    own.chain(through.unwrap_or_default()).collect()
}

fn in_use(users: &[String]) -> String {
    format!("in use by {}", users.join(", "))
}

#[cfg(test)]
mod tests;
