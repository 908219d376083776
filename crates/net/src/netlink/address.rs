//! Addresses of links.

mod lent;
mod moved;

use std::net::IpAddr;

use floe_core::node::moves::Lifetime;
use ipnet::IpNet;
use nix::libc;

use super::{
    Netlink, NetlinkError, done_unless,
    wire::{Request, V4, V6, attributes, body, family_of, ip_of, u32_of},
};

const IFA_FLAGS: u16 = 8;
const IFA_METRIC: u16 = 9;
const NO_DUPLICATE_DETECTION: u32 = 0x02;
const PERMANENT: u32 = 0x80;
const NO_PREFIX_ROUTE: u32 = 0x200;
/// Of a time that never comes.
const FOR_EVER: u32 = u32::MAX;

/// An address of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Address {
    /// The index of the link.
    pub link: u32,
    /// The address with the length of its network.
    pub net: IpNet,
    /// Its scope, as in `rtnetlink`: 0 is the whole world, 253 the link.
    pub scope: u8,
    /// Whether the kernel makes no route to its network.
    pub no_prefix_route: bool,
    /// Whether it goes by itself after some time, as one learned from a router does.
    pub is_temporary: bool,
}

impl Netlink {
    /// All addresses, of one link if it is given; a link that is gone has none.
    pub fn addresses(&mut self, link: Option<u32>) -> Result<Vec<Address>, NetlinkError> {
        let seen = self.seen_addresses(link)?;
        Ok(seen.into_iter().map(|it| it.address).collect())
    }

    fn seen_addresses(&mut self, link: Option<u32>) -> Result<Vec<Seen>, NetlinkError> {
        let request = || Request::new(libc::RTM_GETADDR, 0, &header(0, 0, 0, 0, link.unwrap_or(0)));
        let listed = self.socket.list(request, "addresses", |bytes| {
            // Older kernels send those of all links.
            Ok(read(bytes)?.filter(|it| link.is_none_or(|link| it.address.link == link)))
        });
        match listed {
            Err(error) if error.errno() == Some(libc::ENODEV) => Ok(Vec::new()),
            listed => listed,
        }
    }

    /// Adds an address, of IPv6 without the kernel's duplicate detection; whether
    /// it was not there already. One added here never goes by itself.
    pub fn add_address(&mut self, address: &Address) -> Result<bool, NetlinkError> {
        let plain = Seen {
            address: *address,
            peer: None,
            broadcast: None,
            metric: 0,
            lifetime: None,
        };
        self.add_seen(&plain)
    }

    fn add_seen(&mut self, seen: &Seen) -> Result<bool, NetlinkError> {
        let address = seen.address;
        let what = || format!("add {} to link {}", address.net, address.link);
        done_unless(self.socket.tell(new(seen), what), &[libc::EEXIST])
    }

    /// Removes an address; whether it was there.
    pub fn remove_address(&mut self, link: u32, net: IpNet) -> Result<bool, NetlinkError> {
        let ip = net.addr();
        let header = header(family_of(ip), net.prefix_len(), 0, 0, link);
        // Without `IFA_ADDRESS`, so that it is found also when it has a peer.
        let request = Request::new(libc::RTM_DELADDR, 0, &header).put_ip(libc::IFA_LOCAL, ip);
        let what = || format!("remove {net} from link {link}");
        done_unless(
            self.socket.tell(request, what),
            &[libc::EADDRNOTAVAIL, libc::ENODEV],
        )
    }
}

/// An address with all that the kernel has to know to make it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    address: Address,
    peer: Option<IpAddr>,
    broadcast: Option<IpAddr>,
    metric: u32,
    lifetime: Option<Lifetime>,
}

/// `struct ifaddrmsg`.
fn header(family: u8, length: u8, flags: u8, scope: u8, link: u32) -> [u8; 8] {
    let [a, b, c, d] = link.to_ne_bytes();
    [family, length, flags, scope, a, b, c, d]
}

fn new(seen: &Seen) -> Request {
    message(seen, libc::NLM_F_CREATE | libc::NLM_F_EXCL)
}

fn message(seen: &Seen, how: i32) -> Request {
    let Address {
        link, net, scope, ..
    } = seen.address;
    let ip = net.addr();
    let mut flags = 0;
    if ip.is_ipv6() {
        flags |= NO_DUPLICATE_DETECTION;
    }
    if seen.address.no_prefix_route {
        flags |= NO_PREFIX_ROUTE;
    }
    let header = header(family_of(ip), net.prefix_len(), 0, scope, link);
    Request::new(libc::RTM_NEWADDR, how, &header)
        .put_ip(libc::IFA_LOCAL, ip)
        .put_ip(libc::IFA_ADDRESS, seen.peer.unwrap_or(ip))
        .put_u32(IFA_FLAGS, flags)
        .with(seen.broadcast, |request, it| {
            request.put_ip(libc::IFA_BROADCAST, it)
        })
        .with(Some(seen.metric).filter(|it| *it > 0), |request, it| {
            request.put_u32(IFA_METRIC, it)
        })
        .with(seen.lifetime, |request, it| {
            // `struct ifa_cacheinfo`, of which the rest is the kernel's.
            let mut value = [0; 16];
            value[..4].copy_from_slice(&it.preferred.to_ne_bytes());
            value[4..8].copy_from_slice(&it.valid.to_ne_bytes());
            request.put(libc::IFA_CACHEINFO, &value)
        })
}

pub(super) fn read(bytes: &[u8]) -> Result<Option<Seen>, NetlinkError> {
    let (header, rest) = body::<8>(bytes)?;
    let [family, length, flags, scope, link @ ..] = header;
    if ![V4, V6].contains(family) {
        return Ok(None);
    }
    let (mut local, mut other, mut broadcast) = (None, None, None);
    let (mut metric, mut lifetime) = (0, None);
    let mut flags = u32::from(*flags);
    attributes(rest, |kind, value| {
        match kind {
            libc::IFA_LOCAL => local = Some(ip_of(value)?),
            libc::IFA_ADDRESS => other = Some(ip_of(value)?),
            libc::IFA_BROADCAST => broadcast = Some(ip_of(value)?),
            libc::IFA_CACHEINFO => {
                lifetime = Some(Lifetime {
                    preferred: u32_of(value)?,
                    valid: u32_of(value.get(4..).unwrap_or_default())?,
                });
            }
            IFA_FLAGS => flags = u32_of(value)?,
            IFA_METRIC => metric = u32_of(value)?,
            _ => {}
        }
        Ok(())
    })?;
    // Where both are, the second is the peer's.
    let Some(ip) = local.or(other) else {
        return Ok(None);
    };
    let net = IpNet::new(ip, *length)
        .map_err(|error| NetlinkError::Malformed(format!("address {ip}/{length}: {error}")))?;
    Ok(Some(Seen {
        address: Address {
            link: u32_of(link)?,
            net,
            scope: *scope,
            no_prefix_route: flags & NO_PREFIX_ROUTE != 0,
            is_temporary: flags & PERMANENT == 0,
        },
        peer: other.filter(|it| *it != ip),
        broadcast,
        metric,
        lifetime: lifetime.filter(|it| it.valid != FOR_EVER || it.preferred != FOR_EVER),
    }))
}

#[cfg(test)]
mod tests;
