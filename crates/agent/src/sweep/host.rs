//! The network of the host, as far as leftovers are concerned.

use std::collections::BTreeMap;

use floe_core::node::stale::{self, HostLink, HostRoute, LinkKind, Owner};
use floe_net::netlink::{self, Netlink};

/// What is on the host that could be a leftover.
#[derive(Clone, Debug, Default)]
pub struct Network {
    /// Links.
    pub links: Vec<HostLink>,
    /// Routes through links that were made for containers.
    pub routes: Vec<HostRoute>,
}

/// Looks at the network of the host and changes it. All calls block.
pub trait Host: Send + Sync {
    /// What is there.
    fn observe(&self) -> Result<Network, String>;

    /// Removes a link, if it is still the one that was seen.
    fn remove_link(&self, link: &HostLink) -> Result<(), String>;

    /// Removes a route, if it is still there.
    fn remove_route(&self, route: &HostRoute) -> Result<(), String>;
}

/// The kernel of this host.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kernel;

impl Host for Kernel {
    fn observe(&self) -> Result<Network, String> {
        let mut netlink = open()?;
        let links = netlink.links().map_err(|it| it.to_string())?;
        let links: Vec<HostLink> = links.iter().map(host_link).collect();
        let owned: BTreeMap<u32, (&str, String)> = links
            .iter()
            .filter_map(|link| match stale::owner(link)? {
                Owner::Container(id) => Some((link.index, (link.name.as_str(), id))),
                // Its routes go with it.
                Owner::Beginning(_) => None,
            })
            .collect();
        let routes = netlink.routes().map_err(|it| it.to_string())?;
        let routes = routes
            .iter()
            .filter(|route| route.table == MAIN && is_whole(route))
            .filter_map(|route| {
                let (device, container) = owned.get(&route.link)?;
                Some(HostRoute {
                    dst: route.dst,
                    device: (*device).to_owned(),
                    container: container.clone(),
                })
            })
            .collect();
        Ok(Network { links, routes })
    }

    fn remove_link(&self, link: &HostLink) -> Result<(), String> {
        let mut netlink = open()?;
        let there = netlink.link_at(link.index).map_err(|it| it.to_string())?;
        if there.is_some_and(|there| host_link(&there) == *link) {
            netlink.remove(link.index).map_err(|it| it.to_string())?;
        }
        Ok(())
    }

    fn remove_route(&self, route: &HostRoute) -> Result<(), String> {
        let mut netlink = open()?;
        let Some(link) = netlink.link(&route.device).map_err(|it| it.to_string())? else {
            return Ok(());
        };
        let owner = stale::owner(&host_link(&link));
        if owner != Some(Owner::Container(route.container.clone())) {
            return Ok(());
        }
        for there in netlink.routes().map_err(|it| it.to_string())? {
            if there.link == link.index && there.dst == route.dst && there.table == MAIN {
                netlink.remove_route(&there).map_err(|it| it.to_string())?;
            }
        }
        Ok(())
    }
}

/// The main table.
const MAIN: u32 = 254;

/// Whether a route leads to a single address, as those to pods do.
fn is_whole(route: &netlink::Route) -> bool {
    let dst = route.dst;
    dst.prefix_len() == dst.max_prefix_len()
}

fn host_link(link: &netlink::Link) -> HostLink {
    HostLink {
        index: link.index,
        name: link.name.clone(),
        alias: link.alias.clone(),
        kind: match &link.kind {
            netlink::LinkKind::Veth => LinkKind::Veth,
            netlink::LinkKind::Macvlan => LinkKind::Macvlan,
            netlink::LinkKind::Ipvlan => LinkKind::Ipvlan,
            netlink::LinkKind::Bridge
            | netlink::LinkKind::Vlan { .. }
            | netlink::LinkKind::Other(_) => LinkKind::Other,
        },
    }
}

fn open() -> Result<Netlink, String> {
    Netlink::open().map_err(|it| it.to_string())
}
