//! The texts of a pool's addresses, as FLIPOP takes them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads such a text. Zeros before a number are taken, and mean nothing; a zone is left
/// out: no cloud's address has one.
pub fn parse(text: &str) -> Option<IpAddr> {
    if text.contains(':') {
        let bare = text.split('%').next().unwrap_or_default();
        return bare.parse::<Ipv6Addr>().ok().map(IpAddr::V6);
    }
    let mut octets = [0; 4];
    let mut parts = text.split('.');
    for octet in &mut octets {
        let part = parts.next()?;
        let is_number = (1..=3).contains(&part.len()) && part.bytes().all(|c| c.is_ascii_digit());
        *octet = part.parse().ok().filter(|_| is_number)?;
    }
    let address = IpAddr::V4(Ipv4Addr::from(octets));
    parts.next().is_none().then_some(address)
}
