//! Routes.

pub mod lead;
pub mod moved;

use std::net::IpAddr;

use ipnet::IpNet;
use moved::Extras;
use nix::libc;

use super::{
    Netlink, NetlinkError, done_unless,
    wire::{
        Request, V4, V6, aligned, attributes, body, family_of, ip_of, u16_of, u32_of, unspecified,
    },
};

const RTA_VIA: u16 = 18;
/// Of a route that is removed: whatever its scope.
const ANY_SCOPE: u8 = libc::RT_SCOPE_NOWHERE;
const ON_LINK: u8 = 4;

/// A route.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Where to; the default route has length 0.
    pub dst: IpNet,
    /// The next hop; without it the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// The index of the link that it uses.
    pub link: u32,
    /// The source that it prefers.
    pub src: Option<IpAddr>,
    /// The table; 254 is the main one.
    pub table: u32,
    /// The metric; 0 lets the kernel choose.
    pub metric: u32,
    /// Who made it, as in `rtnetlink`: 2 is the kernel, 3 boot, 4 static.
    pub protocol: u8,
    /// Its scope, as in `rtnetlink`.
    pub scope: u8,
    /// Whether the next hop counts as reachable on the link, whatever its network.
    pub on_link: bool,
}

impl Netlink {
    /// All routes of both families and all tables that lead somewhere: neither those of
    /// this host's own addresses and broadcasts, nor those that refuse. One with several
    /// next hops is several routes.
    pub fn routes(&mut self) -> Result<Vec<Route>, NetlinkError> {
        let seen = self.seen_routes()?;
        Ok(seen.iter().flat_map(Seen::routes).collect())
    }

    fn seen_routes(&mut self) -> Result<Vec<Seen>, NetlinkError> {
        let request = || Request::new(libc::RTM_GETROUTE, 0, &[0; 12]);
        self.socket.list(request, "routes", read)
    }

    /// Adds a route; whether there was none to the same destination with the same
    /// metric in the same table.
    pub fn add_route(&mut self, route: &Route) -> Result<bool, NetlinkError> {
        let exclusive = libc::NLM_F_CREATE | libc::NLM_F_EXCL;
        let told = self.tell_route(libc::RTM_NEWROUTE, exclusive, route, "add");
        done_unless(told, &[libc::EEXIST])
    }

    /// Removes the route to this destination through this link and next hop, of this
    /// table, and of this metric if it is not 0; whether it was there.
    pub fn remove_route(&mut self, route: &Route) -> Result<bool, NetlinkError> {
        let any = Route {
            src: None,
            protocol: 0,
            scope: ANY_SCOPE,
            on_link: false,
            ..*route
        };
        let told = self.tell_route(libc::RTM_DELROUTE, 0, &any, "remove");
        done_unless(told, &[libc::ESRCH, libc::ENODEV])
    }

    fn tell_route(
        &mut self,
        kind: u16,
        flags: i32,
        route: &Route,
        verb: &str,
    ) -> Result<(), NetlinkError> {
        self.socket
            .tell(message(kind, flags, 0, route), || words(verb, route))
    }
}

/// Completes "cannot ...".
fn words(verb: &str, route: &Route) -> String {
    let Route { dst, link, .. } = route;
    match route.gateway {
        Some(gateway) => format!("{verb} the route to {dst} via {gateway} of link {link}"),
        None => format!("{verb} the route to {dst} of link {link}"),
    }
}

fn message(kind: u16, flags: i32, tos: u8, route: &Route) -> Request {
    let dst = route.dst.trunc();
    let family = family_of(dst.addr());
    // Tables above 255 have their number in an attribute only.
    let table = u8::try_from(route.table).unwrap_or(libc::RT_TABLE_UNSPEC);
    let mut header = [0; 12];
    header[..8].copy_from_slice(&[
        family,
        dst.prefix_len(),
        0,
        tos,
        table,
        route.protocol,
        route.scope,
        libc::RTN_UNICAST,
    ]);
    if route.on_link {
        header[8..].copy_from_slice(&u32::from(ON_LINK).to_ne_bytes());
    }
    Request::new(kind, flags, &header)
        .with(
            (dst.prefix_len() > 0).then_some(dst.addr()),
            |request, dst| request.put_ip(libc::RTA_DST, dst),
        )
        .put_u32(libc::RTA_OIF, route.link)
        .put_u32(libc::RTA_TABLE, route.table)
        .with(route.gateway, |request, gateway| {
            put_gateway(request, family, gateway)
        })
        .with(route.src, |request, src| {
            request.put_ip(libc::RTA_PREFSRC, src)
        })
        .with(
            (route.metric > 0).then_some(route.metric),
            |request, metric| request.put_u32(libc::RTA_PRIORITY, metric),
        )
}

fn put_gateway(request: Request, family: u8, gateway: IpAddr) -> Request {
    if family_of(gateway) == family {
        return request.put_ip(libc::RTA_GATEWAY, gateway);
    }
    let mut value = u16::from(family_of(gateway)).to_ne_bytes().to_vec();
    match gateway {
        IpAddr::V4(ip) => value.extend(ip.octets()),
        IpAddr::V6(ip) => value.extend(ip.octets()),
    }
    request.put(RTA_VIA, &value)
}

/// A route as the kernel tells it.
pub(super) struct Seen {
    /// What all next hops have in common.
    common: Route,
    hops: Vec<Hop>,
    is_multipath: bool,
    tos: u8,
    extras: Extras,
}

impl Seen {
    /// One route for each next hop.
    fn routes(&self) -> impl Iterator<Item = Route> {
        self.hops.iter().map(|hop| Route {
            gateway: hop.gateway,
            link: hop.link,
            on_link: hop.on_link,
            ..self.common
        })
    }
}

/// A route, or none if it is of no interest.
pub(super) fn read(bytes: &[u8]) -> Result<Option<Seen>, NetlinkError> {
    let (header, rest) = body::<12>(bytes)?;
    let [
        family,
        length,
        _,
        tos,
        table,
        protocol,
        scope,
        kind,
        flags @ ..,
    ] = header;
    let flags = u32_of(flags)?;
    let is_cached = flags & libc::RTM_F_CLONED != 0;
    if ![V4, V6].contains(family) || *kind != libc::RTN_UNICAST || is_cached {
        return Ok(None);
    }
    let Some(mut dst) = unspecified(*family) else {
        return Ok(None);
    };
    let (mut src, mut metric, mut table) = (None, 0, u32::from(*table));
    let mut hop = Hop {
        on_link: flags & u32::from(ON_LINK) != 0,
        ..Hop::default()
    };
    let mut more = [].as_slice();
    let mut extras = Extras::default();
    attributes(rest, |kind, value| {
        match kind {
            libc::RTA_DST => dst = ip_of(value)?,
            libc::RTA_PREFSRC => src = Some(ip_of(value)?),
            libc::RTA_PRIORITY => metric = u32_of(value)?,
            libc::RTA_TABLE => table = u32_of(value)?,
            libc::RTA_MULTIPATH => more = value,
            libc::RTA_OIF | libc::RTA_GATEWAY | RTA_VIA => hop.read(kind, value)?,
            _ => extras.read(kind, value)?,
        }
        Ok(())
    })?;
    let dst = IpNet::new(dst, *length)
        .map_err(|error| NetlinkError::Malformed(format!("route to {dst}/{length}: {error}")))?;
    let is_multipath = !more.is_empty();
    let hops = if is_multipath {
        read_hops(more)?
    } else {
        vec![hop]
    };
    let common = Route {
        dst,
        gateway: None,
        link: 0,
        src,
        table,
        metric,
        protocol: *protocol,
        scope: *scope,
        on_link: false,
    };
    Ok(Some(Seen {
        common,
        hops,
        is_multipath,
        tos: *tos,
        extras,
    }))
}

/// The part of a route that differs between its next hops.
#[derive(Default)]
struct Hop {
    link: u32,
    gateway: Option<IpAddr>,
    on_link: bool,
    /// How much more than the least share it gets.
    weight: u8,
}

impl Hop {
    fn read(&mut self, kind: u16, value: &[u8]) -> Result<(), NetlinkError> {
        match kind {
            libc::RTA_OIF => self.link = u32_of(value)?,
            libc::RTA_GATEWAY => self.gateway = Some(ip_of(value)?),
            RTA_VIA => self.gateway = Some(ip_of(value.get(2..).unwrap_or_default())?),
            _ => {}
        }
        Ok(())
    }
}

/// A list of `struct rtnexthop`, each with attributes.
fn read_hops(mut bytes: &[u8]) -> Result<Vec<Hop>, NetlinkError> {
    let mut hops = Vec::new();
    while !bytes.is_empty() {
        let length = usize::from(u16_of(bytes)?);
        let Some((header, rest)) = bytes.get(..length).and_then(<[u8]>::split_first_chunk::<8>)
        else {
            let text = "next hop with a wrong length".to_owned();
            return Err(NetlinkError::Malformed(text));
        };
        let mut hop = Hop {
            link: u32_of(&header[4..])?,
            gateway: None,
            on_link: header[2] & ON_LINK != 0,
            weight: header[3],
        };
        attributes(rest, |kind, value| hop.read(kind, value))?;
        hops.push(hop);
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(hops)
}

#[cfg(test)]
mod tests;
