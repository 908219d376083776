//! What there is on the host, and which of its links leads where.

use std::{cmp::Reverse, net::IpAddr};

use floe_core::vip::rules::LOOPBACK;
use floe_net::netlink::{Address, Link, LinkKind, Route};

use super::{MAIN, Room};

/// What there is on the host.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    /// All links.
    pub links: Vec<Link>,
    /// All addresses.
    pub addresses: Vec<Address>,
    /// All routes.
    pub routes: Vec<Route>,
    /// Whether the kernel can stop frames on their way out.
    pub can_guard: bool,
}

impl Survey {
    /// The link of an index.
    pub(super) fn link_at(&self, index: u32) -> Option<&Link> {
        self.links.iter().find(|it| it.index == index)
    }

    /// The link of a name, if frames can be sent there.
    pub(super) fn link_named(&self, name: &str) -> Option<&Link> {
        let usable = |it: &&Link| it.name == name && it.mac.is_some() && it.is_up;
        self.links.iter().find(usable)
    }

    /// The link with the smallest subnet that has an address.
    pub(super) fn link_near(&self, ip: IpAddr) -> Option<&Link> {
        let near = self.addresses.iter().filter(|it| {
            let single = it.net.prefix_len() == it.net.max_prefix_len();
            it.scope == 0 && !single && it.net.contains(&ip)
        });
        let usable = near.filter_map(|it| {
            let link = self.link_at(it.link)?;
            (link.is_up && link.mac.is_some()).then_some((it.net.prefix_len(), link))
        });
        usable
            .max_by_key(|(length, link)| (*length, Reverse(link.index)))
            .map(|(_, link)| link)
    }

    /// The link by which another host is reached, without a router in between.
    pub(super) fn link_to(&self, node: IpAddr) -> Option<&Link> {
        self.link_near(node)
    }

    /// The name of the link by which a pod of this node is reached. A pod on the host's own
    /// network is the host.
    pub(super) fn link_to_pod(&self, pod: IpAddr) -> Option<&str> {
        if self.addresses.iter().any(|it| it.net.addr() == pod) {
            return Some(LOOPBACK);
        }
        let leads = |it: &&Route| {
            it.table == MAIN
                && it.dst.prefix_len() > 0
                && it.dst.contains(&pod)
                && it.dst.addr().is_ipv4() == pod.is_ipv4()
        };
        let best = self
            .routes
            .iter()
            .filter(leads)
            .max_by_key(|it| (it.dst.prefix_len(), Reverse(it.metric)))?;
        self.link_at(best.link).map(|it| it.name.as_str())
    }

    /// The links of the host by which the frames of a pod leave it.
    pub(super) fn exits_of(&self, room: &Room) -> Vec<&str> {
        let lower = room.lower.filter(|_| self.can_guard);
        let Some(lower) = lower.and_then(|index| self.link_at(index)) else {
            return Vec::new();
        };
        if lower.kind != LinkKind::Veth {
            return vec![&lower.name];
        }
        let Some(bridge) = lower.master else {
            return Vec::new();
        };
        let ports = self.links.iter().filter(|it| it.master == Some(bridge));
        ports
            .filter(|it| it.kind != LinkKind::Veth)
            .map(|it| it.name.as_str())
            .collect()
    }
}
