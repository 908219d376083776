//! The bytes of netlink: a header, a struct that depends on the kind of message, and
//! attributes, which may hold attributes. Numbers are in the host's order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use floe_core::announce::Mac;
use nix::libc;

use super::NetlinkError;

/// The size of the header of each message.
pub const HEADER: usize = 16;

/// Says that an attribute holds attributes; only some parts of the kernel ask for it.
pub const NESTED: u16 = 0x8000;

/// `AF_INET` and `AF_INET6` as messages have them.
pub const V4: u8 = 2;
pub const V6: u8 = 10;

/// A message to the kernel, built from front to end.
#[derive(Debug)]
pub struct Request {
    bytes: Vec<u8>,
}

impl Request {
    /// A message of a kind, with its own struct.
    pub fn new(kind: u16, flags: i32, body: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend([0; 4]);
        bytes.extend(kind.to_ne_bytes());
        bytes.extend([0; 10]);
        bytes.extend(body);
        Self { bytes }.flag(flags | libc::NLM_F_REQUEST)
    }

    /// Adds a flag of the message.
    pub fn flag(mut self, flag: i32) -> Self {
        let flag = u16::try_from(flag).expect("all flags of messages are in the lower 16 bits");
        for (byte, more) in self.bytes[6..8].iter_mut().zip(flag.to_ne_bytes()) {
            *byte |= more;
        }
        self
    }

    /// Adds an attribute.
    pub fn put(mut self, kind: u16, value: &[u8]) -> Self {
        let start = self.begin(kind);
        self.bytes.extend(value);
        self.end(start);
        self
    }

    /// Adds a number.
    pub fn put_u32(self, kind: u16, value: u32) -> Self {
        self.put(kind, &value.to_ne_bytes())
    }

    /// Adds a text with the zero at its end that the kernel expects of names.
    pub fn put_name(mut self, kind: u16, value: &str) -> Self {
        let start = self.begin(kind);
        self.bytes.extend(value.as_bytes());
        self.bytes.push(0);
        self.end(start);
        self
    }

    /// Adds an address.
    pub fn put_ip(self, kind: u16, value: IpAddr) -> Self {
        match value {
            IpAddr::V4(ip) => self.put(kind, &ip.octets()),
            IpAddr::V6(ip) => self.put(kind, &ip.octets()),
        }
    }

    /// Adds something only if it is given.
    pub fn with<T>(self, value: Option<T>, put: impl FnOnce(Self, T) -> Self) -> Self {
        match value {
            Some(value) => put(self, value),
            None => self,
        }
    }

    /// Adds an attribute that holds attributes, behind a struct of its own.
    pub fn nest(mut self, kind: u16, body: &[u8], fill: impl FnOnce(Self) -> Self) -> Self {
        let start = self.begin(kind);
        self.bytes.extend(body);
        let mut filled = fill(self);
        filled.end(start);
        filled
    }

    /// The whole message.
    pub fn finish(&mut self, sequence: u32) -> &[u8] {
        let length = u32::try_from(self.bytes.len()).expect("a message has less than 4 GiB");
        self.bytes[..4].copy_from_slice(&length.to_ne_bytes());
        self.bytes[8..12].copy_from_slice(&sequence.to_ne_bytes());
        &self.bytes
    }

    fn begin(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        start
    }

    fn end(&mut self, start: usize) {
        let length = u16::try_from(self.bytes.len() - start)
            .expect("names and aliases are checked before, and all else has a fixed size");
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
        self.bytes.resize(aligned(self.bytes.len()), 0);
    }
}

/// Shows all attributes to `each`, in their order.
pub fn attributes<'a>(
    mut bytes: &'a [u8],
    mut each: impl FnMut(u16, &'a [u8]) -> Result<(), NetlinkError>,
) -> Result<(), NetlinkError> {
    while !bytes.is_empty() {
        let length = usize::from(u16_of(bytes)?);
        let kind = u16_of(bytes.get(2..).unwrap_or_default())?;
        let value = bytes.get(4..length).ok_or_else(|| short("attribute"))?;
        // The upper two bits only say how the value is to be read.
        each(kind & 0x3fff, value)?;
        bytes = bytes.get(aligned(length)..).unwrap_or_default();
    }
    Ok(())
}

/// The struct at the beginning of a message, and the attributes behind it.
pub fn body<const N: usize>(bytes: &[u8]) -> Result<(&[u8; N], &[u8]), NetlinkError> {
    bytes.split_first_chunk().ok_or_else(|| short("message"))
}

pub fn u16_of(bytes: &[u8]) -> Result<u16, NetlinkError> {
    let bytes = bytes.first_chunk().ok_or_else(|| short("number"))?;
    Ok(u16::from_ne_bytes(*bytes))
}

pub fn u32_of(bytes: &[u8]) -> Result<u32, NetlinkError> {
    let bytes = bytes.first_chunk().ok_or_else(|| short("number"))?;
    Ok(u32::from_ne_bytes(*bytes))
}

pub fn i32_of(bytes: &[u8]) -> Result<i32, NetlinkError> {
    Ok(u32_of(bytes)?.cast_signed())
}

/// A text, which may or may not end with a zero.
pub fn text_of(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}

pub fn ip_of(bytes: &[u8]) -> Result<IpAddr, NetlinkError> {
    if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
        return Ok(Ipv4Addr::from(octets).into());
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(octets) => Ok(Ipv6Addr::from(octets).into()),
        Err(_) => Err(short("address")),
    }
}

/// A hardware address, if it is one of Ethernet.
pub fn mac_of(bytes: &[u8]) -> Option<Mac> {
    <[u8; 6]>::try_from(bytes).ok().map(Mac)
}

/// The number of a family.
pub fn family_of(ip: IpAddr) -> u8 {
    if ip.is_ipv4() { V4 } else { V6 }
}

/// The address of a family that stands for all.
pub fn unspecified(family: u8) -> Option<IpAddr> {
    match family {
        V4 => Some(Ipv4Addr::UNSPECIFIED.into()),
        V6 => Some(Ipv6Addr::UNSPECIFIED.into()),
        _ => None,
    }
}

/// A length with the padding that follows it.
pub const fn aligned(length: usize) -> usize {
    length.next_multiple_of(4)
}

fn short(what: &str) -> NetlinkError {
    NetlinkError::Malformed(format!("{what} with a wrong length"))
}

#[cfg(test)]
mod tests;
