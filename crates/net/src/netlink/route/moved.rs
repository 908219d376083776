//! Routes with everything that goes with them to another link.

use std::collections::BTreeMap;

use floe_core::node::moves::{MovedRoute, Unmovable};
use nix::libc;

use super::{
    super::{
        Netlink, NetlinkError, done_unless,
        wire::{Request, V6, attributes, family_of, i32_of, u32_of},
    },
    ANY_SCOPE, Route, Seen, message, words,
};

const RTA_PREF: u16 = 20;
const RTA_ENCAP: u16 = 22;
const RTA_EXPIRES: u16 = 23;
const RTA_PAD: u16 = 24;
const RTA_NH_ID: u16 = 30;
/// The one of the metrics that is a text: `RTAX_CC_ALGO`.
const CONGESTION_CONTROL: u16 = 16;
/// How often the kernel's clock ticks in a second, as it tells it to programs.
const TICKS: u32 = 100;

/// What a route has besides what all have.
#[derive(Default)]
pub struct Extras {
    preference: u8,
    expires: Option<u32>,
    metrics: BTreeMap<u16, u32>,
    unknown: Option<&'static str>,
}

/// A route through a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovingRoute {
    /// The route as it could be added to another link.
    pub route: MovedRoute,
    /// Why it cannot.
    pub unmovable: Option<Unmovable>,
}

impl Netlink {
    /// The routes through a link. Next hops of IPv6 that are on it and on `with` only count
    /// as routes of their own: the kernel keeps them so, and both links may have the
    /// same ones for a moment.
    pub fn moving_routes(
        &mut self,
        link: u32,
        with: Option<u32>,
    ) -> Result<Vec<MovingRoute>, NetlinkError> {
        let seen = self.seen_routes()?;
        let moving = seen.iter().flat_map(|seen| {
            let of_link = seen.routes().filter(move |it| it.link == link);
            of_link.map(move |route| MovingRoute {
                unmovable: seen.unmovable(link, with),
                route: seen.moved(&route),
            })
        });
        Ok(moving.collect())
    }

    /// Adds a route with all that belongs to it, before those that are there already;
    /// whether exactly this one was not.
    pub fn add_moved_route(&mut self, link: u32, moved: &MovedRoute) -> Result<bool, NetlinkError> {
        let route = plain(link, moved);
        let told = self
            .socket
            .tell(new(&route, moved), || words("add", &route));
        done_unless(told, &[libc::EEXIST])
    }

    /// Removes a route of a link; whether it was there.
    pub fn remove_moved_route(
        &mut self,
        link: u32,
        moved: &MovedRoute,
    ) -> Result<bool, NetlinkError> {
        let any = Route {
            src: None,
            protocol: 0,
            scope: ANY_SCOPE,
            on_link: false,
            ..plain(link, moved)
        };
        let request = message(libc::RTM_DELROUTE, 0, moved.tos, &any);
        let told = self.socket.tell(request, || words("remove", &any));
        done_unless(told, &[libc::ESRCH, libc::ENODEV])
    }
}

impl Extras {
    /// Reads an attribute that not every route has.
    pub fn read(&mut self, kind: u16, value: &[u8]) -> Result<(), NetlinkError> {
        match kind {
            RTA_PREF => self.preference = value.first().copied().unwrap_or_default(),
            libc::RTA_CACHEINFO => {
                // `rta_expires` of `struct rta_cacheinfo`.
                let ticks = i32_of(value.get(8..).unwrap_or_default())?;
                // Below zero it is about to go.
                let seconds = u32::try_from(ticks).unwrap_or(0) / TICKS;
                self.expires = (ticks != 0).then_some(seconds.max(1));
            }
            libc::RTA_METRICS => return self.read_metrics(value),
            RTA_EXPIRES => self.expires = Some(u32_of(value)?),
            RTA_PAD => {}
            libc::RTA_SRC => self.unknown = Some("a network of sources"),
            RTA_ENCAP => self.unknown = Some("an encapsulation"),
            RTA_NH_ID => self.unknown = Some("a next hop that is an object of its own"),
            libc::RTA_FLOW => self.unknown = Some("a realm"),
            _ => self.unknown = self.unknown.or(Some("an unknown attribute")),
        }
        Ok(())
    }

    fn read_metrics(&mut self, value: &[u8]) -> Result<(), NetlinkError> {
        attributes(value, |kind, value| {
            match u32_of(value) {
                Ok(number) if value.len() == 4 && kind != CONGESTION_CONTROL => {
                    self.metrics.insert(kind, number);
                }
                _ => self.unknown = Some("a congestion control"),
            }
            Ok(())
        })
    }
}

impl Seen {
    fn unmovable(&self, link: u32, with: Option<u32>) -> Option<Unmovable> {
        let dst = self.common.dst;
        if let Some(what) = self.extras.unknown {
            let what = what.to_owned();
            return Some(Unmovable::Unknown { dst, what });
        }
        let is_alike = family_of(dst.addr()) == V6
            && self
                .hops
                .iter()
                .all(|hop| (hop.link == link || Some(hop.link) == with) && hop.weight == 0);
        (self.is_multipath && !is_alike).then_some(Unmovable::Multipath(dst))
    }

    fn moved(&self, route: &Route) -> MovedRoute {
        MovedRoute {
            dst: route.dst,
            gateway: route.gateway,
            src: route.src,
            table: route.table,
            metric: route.metric,
            protocol: route.protocol,
            scope: route.scope,
            on_link: route.on_link,
            tos: self.tos,
            preference: self.extras.preference,
            expires: self.extras.expires,
            metrics: self.extras.metrics.clone(),
        }
    }
}

fn plain(link: u32, moved: &MovedRoute) -> Route {
    Route {
        dst: moved.dst,
        gateway: moved.gateway,
        link,
        src: moved.src,
        table: moved.table,
        metric: moved.metric,
        protocol: moved.protocol,
        scope: moved.scope,
        on_link: moved.on_link,
    }
}

fn new(route: &Route, moved: &MovedRoute) -> Request {
    let request = message(libc::RTM_NEWROUTE, libc::NLM_F_CREATE, moved.tos, route);
    let metrics = Some(&moved.metrics).filter(|it| !it.is_empty());
    request
        .with(
            Some(moved.preference).filter(|it| *it > 0),
            |request, it| request.put(RTA_PREF, &[it]),
        )
        .with(moved.expires, |request, it| {
            request.put_u32(RTA_EXPIRES, it)
        })
        .with(metrics, |request, metrics| {
            request.nest(libc::RTA_METRICS, &[], |request| {
                let put =
                    |request: Request, (kind, value): (&u16, &u32)| request.put_u32(*kind, *value);
                metrics.iter().fold(request, put)
            })
        })
}

#[cfg(test)]
mod tests;
