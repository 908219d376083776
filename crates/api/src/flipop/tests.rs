use std::net::IpAddr;

use regex::Regex;

use super::*;

/// Texts that FLIPOP's definition takes, and the addresses that they mean.
const GOOD: [(&str, &str); 14] = [
    ("1.2.3.4", "1.2.3.4"),
    ("192.168.001.010", "192.168.1.10"),
    ("255.255.255.255", "255.255.255.255"),
    ("::", "::"),
    ("::1", "::1"),
    ("1::", "1::"),
    ("fe80::1%eth0", "fe80::1"),
    ("2604:a880:4:1d0::2:f000", "2604:a880:4:1d0::2:f000"),
    ("1:2:3:4:5:6:7:8", "1:2:3:4:5:6:7:8"),
    ("1:2:3:4:5:6:7::", "1:2:3:4:5:6:7:0"),
    ("1::3:4:5:6:7:8", "1:0:3:4:5:6:7:8"),
    ("::ffff:10.0.0.1", "::ffff:10.0.0.1"),
    ("64:ff9b::10.0.0.1", "64:ff9b::a00:1"),
    ("1:2:3:4:5:6:10.0.0.1", "1:2:3:4:5:6:a00:1"),
];

const BAD: [&str; 13] = [
    "",
    "1.2.3",
    "1.2.3.4.5",
    "1.2.3.256",
    "1.2.3.0004",
    "a.b.c.d",
    "1.2.3.4/32",
    " 1.2.3.4",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1::2::3",
    "12345::",
    "example.com",
];

#[test]
fn an_address_fits_exactly_one_pattern_and_is_read() {
    let patterns = [address::v4_pattern(), address::v6_pattern()];
    let patterns = patterns.map(|pattern| Regex::new(&pattern).unwrap());
    let fitting = |text: &str| patterns.iter().filter(|it| it.is_match(text)).count();
    for (text, meant) in GOOD {
        assert_eq!(fitting(text), 1, "{text}");
        let meant: IpAddr = meant.parse().unwrap();
        assert_eq!(address::parse(text), Some(meant), "{text}");
    }
    for text in BAD {
        assert_eq!(fitting(text), 0, "{text}");
        assert_eq!(address::parse(text), None, "{text}");
    }
}

#[test]
fn a_lifetime_that_is_none_is_the_default() {
    let with = |ttl| DnsRecordSet {
        ttl,
        ..DnsRecordSet::default()
    };
    let told = [0, -1, i64::MAX, 120].map(|ttl| with(ttl).ttl_or(60));
    assert_eq!(told, [60, 60, 60, 120]);
}
