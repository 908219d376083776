//! Routes that lead an address to the node that has it now, while neighbours still
//! send to this one.

use std::net::IpAddr;

use ipnet::IpNet;
use nix::libc;

use super::{
    super::{Netlink, NetlinkError},
    Route,
};

/// The maker of these routes, by which they are found again.
const LEADING: u8 = 240;
const MAIN: u32 = 254;

impl Netlink {
    /// Sends what comes in for an address on to another node, reached through this link,
    /// instead of wherever it was sent before.
    pub fn lead(&mut self, address: IpAddr, node: IpAddr, link: u32) -> Result<(), NetlinkError> {
        let route = Route {
            dst: IpNet::from(address),
            gateway: Some(node),
            link,
            src: None,
            table: MAIN,
            metric: 0,
            protocol: LEADING,
            scope: libc::RT_SCOPE_UNIVERSE,
            on_link: true,
        };
        let replace = libc::NLM_F_CREATE | libc::NLM_F_REPLACE;
        self.tell_route(libc::RTM_NEWROUTE, replace, &route, "add")
    }

    /// All routes that lead addresses to other nodes.
    pub fn leading(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let mut routes = self.routes()?;
        routes.retain(|route| route.protocol == LEADING);
        Ok(routes)
    }

    /// Ends what [`Netlink::lead`] began; whether there was something to end.
    pub fn stop_leading(&mut self, address: IpAddr) -> Result<bool, NetlinkError> {
        let mut was_there = false;
        for route in self.leading()? {
            if route.dst == IpNet::from(address) {
                was_there |= self.remove_route(&route)?;
            }
        }
        Ok(was_there)
    }
}
