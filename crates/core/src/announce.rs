//! Telling a network segment where an address lives, and asking whether somebody
//! has it already: ARP (RFC 826, 5227) and neighbour discovery (RFC 4861, 4862) as
//! bytes and decisions. Sockets are somebody else's business.
//!
//! Frames are whole, with their Ethernet header and without a VLAN tag: the kernel
//! takes the tag off before it hands a frame over, and puts it on after.

pub mod answer;
pub mod arp;
pub mod ndp;
pub mod probe;

use std::fmt;

/// A hardware address of Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Everybody on the segment.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// No address, where a packet has room for one that is not known.
    pub const UNKNOWN: Self = Self([0; 6]);
}

impl fmt::Display for Mac {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = self.0;
        write!(out, "{first:02x}")?;
        rest.iter().try_for_each(|byte| write!(out, ":{byte:02x}"))
    }
}

/// The length of an Ethernet header.
const HEADER: usize = 14;

/// The header of a frame.
fn header(destination: Mac, source: Mac, ethertype: u16) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    bytes[..6].copy_from_slice(&destination.0);
    bytes[6..12].copy_from_slice(&source.0);
    bytes[12..].copy_from_slice(&ethertype.to_be_bytes());
    bytes
}

/// The sender of a frame of this kind, and what follows its header.
fn open(frame: &[u8], ethertype: u16) -> Option<(Mac, &[u8])> {
    let (header, payload) = frame.split_first_chunk::<HEADER>()?;
    if header[12..] != ethertype.to_be_bytes() {
        return None;
    }
    Some((Mac(*header[6..].first_chunk()?), payload))
}
