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
const V4_DESTINATION: u16 = 2;
const V6_DESTINATION: u16 = 4;

/// Makes the kernel of this thread's namespace forget all connections that were made to
/// one of these addresses, and those that left with one of them; how many there were.
/// The next packet of each is judged by the rules as if it were the first.
///
/// # Guarantees
/// The list is read once, however many addresses there are.
pub fn forget(addresses: &BTreeSet<IpAddr>) -> Result<usize, NetlinkError> {
    if addresses.is_empty() {
        return Ok(0);
    }
    let mut socket = Socket::open_for(SockProtocol::NetlinkNetFilter)?;
    let request = || Request::new(LIST, 0, &header(0));
    let found = socket.list(request, "connections", |bytes| {
        Ok(read(bytes)?.filter(|it| it.destinations.iter().any(|ip| addresses.contains(ip))))
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
    /// Of its first packet, and of the answers to it.
    destinations: Vec<IpAddr>,
    /// What makes it itself, as the kernel wrote it.
    original: Vec<u8>,
    id: Option<Vec<u8>>,
    zone: Option<Vec<u8>>,
}

impl Connection {
    fn deletion(&self) -> Request {
        Request::new(DELETE, 0, &header(self.family))
            .put(ORIGINAL | NESTED, &self.original)
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
        destinations: Vec::new(),
        original: Vec::new(),
        id: None,
        zone: None,
    };
    attributes(rest, |kind, value| {
        match kind {
            ORIGINAL => {
                connection.original = value.to_vec();
                connection.destinations.extend(destination(value)?);
            }
            REPLY => connection.destinations.extend(destination(value)?),
            ID => connection.id = Some(value.to_vec()),
            ZONE => connection.zone = Some(value.to_vec()),
            _ => {}
        }
        Ok(())
    })?;
    Ok((!connection.original.is_empty()).then_some(connection))
}

fn destination(tuple: &[u8]) -> Result<Option<IpAddr>, NetlinkError> {
    let mut found = None;
    attributes(tuple, |kind, value| {
        if kind != ADDRESSES {
            return Ok(());
        }
        attributes(value, |kind, value| {
            if [V4_DESTINATION, V6_DESTINATION].contains(&kind) {
                found = Some(ip_of(value)?);
            }
            Ok(())
        })
    })?;
    Ok(found)
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
                    .put_ip(1, ip(source))
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
        assert_eq!(connection.destinations, [ip("10.9.0.100"), ip("10.9.0.1")]);
        let mut deletion = connection.deletion();
        let bytes = deletion.finish(1)[HEADER..].to_vec();
        let named = read(&bytes).unwrap().unwrap();
        assert_eq!(named.original, connection.original);
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
