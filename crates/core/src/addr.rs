//! IP addresses, ranges of them, sets of them, and their object names.
//!
//! Everything here knows both families and never walks addresses one by one,
//! so a `/8` or an IPv6 `/64` costs as much as a single address.
//!
//! An IPv4 address has one form only: [`canonical`] turns the IPv6 spelling
//! `::ffff:10.0.0.1` into `10.0.0.1`. Ranges and sets apply it to whatever
//! they are given, so two spellings of one address can never be two addresses.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};

pub use range::{IpRange, RangeError};
pub use set::IpSet;

pub mod name;
pub mod range;
pub mod set;

/// The one form of an address: IPv4-mapped IPv6 becomes IPv4.
pub fn canonical(ip: IpAddr) -> IpAddr {
    ip.to_canonical()
}

/// Parses an address and brings it into its one form.
pub fn parse(text: &str) -> Option<IpAddr> {
    text.parse().ok().map(canonical)
}

/// Parses an address with the length of its network, keeps its host bits and brings
/// it into its one form. The length of an IPv4-mapped address counts in its own family
/// or, up to 32, in that of IPv4.
pub fn parse_with_length(text: &str) -> Option<IpNet> {
    let (ip, length) = text.split_once('/')?;
    let is_number = matches!(length.len(), 1..=3) && length.bytes().all(|c| c.is_ascii_digit());
    let length: u8 = length.parse().ok().filter(|_| is_number)?;
    let written: IpAddr = ip.parse().ok()?;
    let ip = canonical(written);
    let length = match length.checked_sub(96) {
        Some(shorter) if ip != written => shorter,
        _ => length,
    };
    IpNet::new(ip, length).ok()
}

/// Parses a subnet, drops its host bits and brings it into its one form: a
/// subnet of IPv4-mapped addresses becomes an IPv4 subnet.
pub fn parse_net(text: &str) -> Option<IpNet> {
    let net: IpNet = text.parse().ok()?;
    let v4 = |ip| Ipv4Net::new(ip, net.prefix_len().checked_sub(96)?).ok();
    let net = match (net, canonical(net.addr())) {
        (IpNet::V6(_), IpAddr::V4(ip)) => v4(ip).map_or(net, IpNet::V4),
        _ => net,
    };
    Some(net.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv4_address_has_one_form() {
        let ip: IpAddr = "10.0.0.1".parse().unwrap();
        assert_eq!(parse("10.0.0.1"), Some(ip));
        assert_eq!(parse("::ffff:10.0.0.1"), Some(ip));
        assert_eq!(parse("::ffff:a00:1"), Some(ip));
        // The older "compatible" form is an IPv6 address of its own.
        assert_eq!(parse("::10.0.0.1"), "::10.0.0.1".parse().ok());
        for text in ["", " 10.0.0.1", "10.0.0.1/24", "010.0.0.1", "fe80::1%eth0"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn an_address_with_length_keeps_its_host_bits() {
        let cases = [
            ("10.0.1.2/24", "10.0.1.2/24"),
            ("10.0.1.2/0", "10.0.1.2/0"),
            ("fd00::1:2/64", "fd00::1:2/64"),
            ("::ffff:10.0.1.2/120", "10.0.1.2/24"),
            ("::ffff:10.0.1.2/128", "10.0.1.2/32"),
            ("::ffff:10.0.1.2/24", "10.0.1.2/24"),
        ];
        for (text, net) in cases {
            assert_eq!(parse_with_length(text).unwrap().to_string(), net, "{text}");
        }
        for text in [
            "",
            "10.0.1.2",
            "10.0.1.2/",
            "10.0.1.2/33",
            "10.0.1.2/+8",
            "10.0.1.2/0024",
            "10.0.1.2/256",
            "10.0.1.2/24/24",
            " 10.0.1.2/24",
            "fd00::/129",
            "::ffff:10.0.1.2/64",
            "::ffff:10.0.1.2/129",
        ] {
            assert_eq!(parse_with_length(text), None, "{text}");
        }
    }

    #[test]
    fn a_subnet_has_one_form() {
        let cases = [
            ("10.0.1.2/24", "10.0.1.0/24"),
            ("10.0.1.2/32", "10.0.1.2/32"),
            ("10.0.1.2/0", "0.0.0.0/0"),
            ("fd00::1:2/112", "fd00::1:0/112"),
            ("::ffff:10.0.1.2/120", "10.0.1.0/24"),
            ("::ffff:10.0.1.2/96", "0.0.0.0/0"),
            // Wider than the mapped block: IPv6, whatever its host bits said.
            ("::ffff:10.0.1.2/80", "::/80"),
        ];
        for (text, net) in cases {
            assert_eq!(parse_net(text).unwrap().to_string(), net, "{text}");
        }
        for text in ["", "10.0.1.2", "10.0.1.2/33", "fd00::/129", " 10.0.1.2/24"] {
            assert_eq!(parse_net(text), None, "{text}");
        }
    }
}
