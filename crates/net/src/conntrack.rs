//! Connections that the kernel remembers.
//!
//! Asked for over netlink and not through a program: that one reads the whole list for
//! each address, and a node that dies may have had a thousand of them.

use std::{collections::BTreeSet, net::IpAddr};

use nix::{libc, sys::socket::SockProtocol};

use crate::netlink::{
    NetlinkError,
    socket::Socket,
    wire::{NESTED, Request, attributes, body, ip_of},
};

const LIST: u16 = 0x0101;
const DELETE: u16 = 0x0102;
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const ID: u16 = 12;
const ZONE: u16 = 18;
const ADDRESSES: u16 = 1;
const V4_SOURCE: u16 = 1;
const V4_DESTINATION: u16 = 2;
const V6_SOURCE: u16 = 3;
const V6_DESTINATION: u16 = 4;

/// Makes the kernel of this thread's namespace forget all connections that were made to
/// one of these addresses, and those that left with one of them; how many there were.
/// The next packet of each is judged by the rules as if it were the first.
///
/// # Guarantees
/// The list is read once, however many addresses there are.
pub fn forget(addresses: &BTreeSet<IpAddr>) -> Result<usize, NetlinkError> {
    let is_one = |it: &Connection| it.destinations().any(|ip| addresses.contains(&ip));
    forget_those(addresses, is_one)
}

/// The same for connections to these addresses that are not translated: they began while no
/// rule existed for the address, and no rule reaches them.
pub fn forget_untranslated(addresses: &BTreeSet<IpAddr>) -> Result<usize, NetlinkError> {
    let is_one = |it: &Connection| {
        let to = it.original.destination;
        to.is_some_and(|ip| addresses.contains(&ip)) && it.reply.source == to
    };
    forget_those(addresses, is_one)
}

fn forget_those(
    addresses: &BTreeSet<IpAddr>,
    is_one: impl Fn(&Connection) -> bool,
) -> Result<usize, NetlinkError> {
    if addresses.is_empty() {
        return Ok(0);
    }
    let mut socket = Socket::open_for(SockProtocol::NetlinkNetFilter)?;
    let request = || Request::new(LIST, 0, &header(0));
    let found = socket.list(request, "connections", |bytes| {
        Ok(read(bytes)?.filter(&is_one))
    })?;
    let mut forgotten = 0;
    for connection in found {
        let what = || "forget a connection".to_owned();
        match socket.tell(connection.deletion(), what) {
            Ok(()) => forgotten += 1,
            // It ended by itself, or another has taken its place.
            Err(error) if error.errno() == Some(libc::ENOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(forgotten)
}

/// A connection, as far as it is needed to name it.
#[derive(Debug, PartialEq, Eq)]
struct Connection {
    family: u8,
    /// Its first packet.
    original: Tuple,
    /// The answers to it.
    reply: Tuple,
    /// What makes it itself, as the kernel wrote it.
    name: Vec<u8>,
    id: Option<Vec<u8>>,
    zone: Option<Vec<u8>>,
}

/// The addresses of packets in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tuple {
    source: Option<IpAddr>,
    destination: Option<IpAddr>,
}

impl Connection {
    fn destinations(&self) -> impl Iterator<Item = IpAddr> {
        let both = [self.original.destination, self.reply.destination];
        both.into_iter().flatten()
    }

    fn deletion(&self) -> Request {
        Request::new(DELETE, 0, &header(self.family))
            .put(ORIGINAL | NESTED, &self.name)
            .with(self.id.as_ref(), |request, id| request.put(ID, id))
            .with(self.zone.as_ref(), |request, zone| request.put(ZONE, zone))
    }
}

/// `struct nfgenmsg`.
fn header(family: u8) -> [u8; 4] {
    [family, 0, 0, 0]
}

/// A connection; none without what names it, because a deletion that names nothing
/// deletes everything.
fn read(bytes: &[u8]) -> Result<Option<Connection>, NetlinkError> {
    let (header, rest) = body::<4>(bytes)?;
    let mut connection = Connection {
        family: header[0],
        original: Tuple::default(),
        reply: Tuple::default(),
        name: Vec::new(),
        id: None,
        zone: None,
    };
    attributes(rest, |kind, value| {
        match kind {
            ORIGINAL => {
                connection.name = value.to_vec();
                connection.original = tuple(value)?;
            }
            REPLY => connection.reply = tuple(value)?,
            ID => connection.id = Some(value.to_vec()),
            ZONE => connection.zone = Some(value.to_vec()),
            _ => {}
        }
        Ok(())
    })?;
    Ok((!connection.name.is_empty()).then_some(connection))
}

fn tuple(bytes: &[u8]) -> Result<Tuple, NetlinkError> {
    let mut tuple = Tuple::default();
    attributes(bytes, |kind, value| {
        if kind != ADDRESSES {
            return Ok(());
        }
        attributes(value, |kind, value| {
            match kind {
                V4_SOURCE | V6_SOURCE => tuple.source = Some(ip_of(value)?),
                V4_DESTINATION | V6_DESTINATION => tuple.destination = Some(ip_of(value)?),
                _ => {}
            }
            Ok(())
        })
    })?;
    Ok(tuple)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::wire::HEADER;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_connection_is_read_and_named_by_what_the_kernel_wrote() {
        let tuple = |request: Request, source: &str, destination: &str| {
            request.nest(ADDRESSES | NESTED, &[], |request| {
                request
                    .put_ip(V4_SOURCE, ip(source))
                    .put_ip(V4_DESTINATION, ip(destination))
            })
        };
        let mut request = Request::new(LIST, 0, &header(2))
            .nest(ORIGINAL | NESTED, &[], |request| {
                tuple(request, "10.9.0.1", "10.9.0.100")
            })
            .nest(REPLY | NESTED, &[], |request| {
                tuple(request, "10.244.1.5", "10.9.0.1")
            })
            .put(ID, &[1, 2, 3, 4]);
        let bytes = request.finish(1)[HEADER..].to_vec();
        let connection = read(&bytes).unwrap().unwrap();
        let to: Vec<_> = connection.destinations().collect();
        assert_eq!(to, [ip("10.9.0.100"), ip("10.9.0.1")]);
        assert_eq!(connection.reply.source, Some(ip("10.244.1.5")));
        let mut deletion = connection.deletion();
        let bytes = deletion.finish(1)[HEADER..].to_vec();
        let named = read(&bytes).unwrap().unwrap();
        assert_eq!(named.name, connection.name);
        assert_eq!(named.id, Some(vec![1, 2, 3, 4]));
    }

    #[test]
    fn what_names_no_connection_is_none() {
        assert_eq!(read(&header(2)).unwrap(), None);
        assert!(read(&[2]).is_err());
    }

    #[test]
    fn without_addresses_nothing_is_asked() {
        assert_eq!(forget(&BTreeSet::new()).unwrap(), 0);
    }
}
