use proptest::prelude::*;

use super::*;

fn range(text: &str) -> IpRange {
    text.parse().unwrap()
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

#[test]
fn texts_that_are_ranges() {
    let cases = [
        ("192.168.0.0~192.168.1.1", "192.168.0.0~192.168.1.1", 258),
        ("192.168.0.1~192.168.0.1", "192.168.0.1", 1),
        ("192.168.0.1", "192.168.0.1", 1),
        (
            "0.0.0.0~255.255.255.255",
            "0.0.0.0~255.255.255.255",
            1 << 32,
        ),
        ("255.255.255.255", "255.255.255.255", 1),
        ("fd00:0::1~FD00::f", "fd00::1~fd00::f", 15),
        (
            "fd00::~fd00::ffff:ffff:ffff:ffff",
            "fd00::~fd00::ffff:ffff:ffff:ffff",
            1 << 64,
        ),
        ("::ffff:10.0.0.1~10.0.0.3", "10.0.0.1~10.0.0.3", 3),
        (
            "::~::fffe:ffff:ffff",
            "::~::fffe:ffff:ffff",
            0xffff_0000_0000,
        ),
        (
            "::1:0:0:0~ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            "0:0:0:0:1::~ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
            u128::MAX - 0xffff_ffff_ffff,
        ),
    ];
    for (text, printed, len) in cases {
        let range = range(text);
        assert_eq!(range, self::range(printed), "{text}");
        assert_eq!(range.len(), len, "{text}");
        assert_eq!(self::range(&range.to_string()), range, "{text}");
    }
    assert_eq!(range("10.0.0.1~10.0.0.3").to_string(), "10.0.0.1~10.0.0.3");
    assert_eq!(range("10.0.0.1~10.0.0.1").to_string(), "10.0.0.1");
}

#[test]
fn texts_that_are_no_ranges() {
    let cases = [
        "",
        "~",
        "10.0.0.1~",
        "~10.0.0.1",
        "192.168.0.0~192.168.0.256",
        "10.0.0.2~10.0.0.1",
        "10.0.0.1~10.0.0.2~10.0.0.3",
        "10.0.0.1-10.0.0.2",
        " 10.0.0.1",
        "10.0.0.1 ~ 10.0.0.2",
        "10.0.0.1~10.0.0.2 ",
        "10.0.0.1/24",
        "010.0.0.1",
        "10.0.0.1~fd00::1",
        "fd00::2~fd00::1",
        // From outside into the block of IPv4-mapped addresses, and over it.
        "::~::ffff:10.0.0.1",
        "::~ffff::",
    ];
    for text in cases {
        let error = text.parse::<IpRange>().unwrap_err();
        assert_eq!(error.to_string(), format!("invalid ip range {text}"));
        assert_eq!(error.reason(), "InvalidRange");
    }
}

#[test]
fn ends_and_members() {
    let v4 = range("10.0.0.254~10.0.1.1");
    assert!(v4.is_v4());
    assert_eq!((v4.first(), v4.last()), (ip("10.0.0.254"), ip("10.0.1.1")));
    for inside in ["10.0.0.254", "10.0.0.255", "10.0.1.1", "::ffff:10.0.1.0"] {
        assert!(v4.contains(ip(inside)), "{inside}");
    }
    for outside in ["10.0.0.253", "10.0.1.2", "::10.0.1.0", "fd00::1"] {
        assert!(!v4.contains(ip(outside)), "{outside}");
    }
    let v6 = range("fd00::1~fd00::3");
    assert!(!v6.is_v4());
    assert!(v6.contains(ip("fd00::2")));
    assert!(!v6.contains(ip("fd00::4")));
    assert_eq!(IpRange::single(ip("::ffff:10.0.0.1")), range("10.0.0.1"));
    assert_eq!(
        IpRange::new(ip("10.0.0.1"), ip("10.0.0.2")),
        Ok(range("10.0.0.1~10.0.0.2"))
    );
    assert_eq!(
        IpRange::new(ip("10.0.0.2"), ip("10.0.0.1"))
            .unwrap_err()
            .to_string(),
        "invalid ip range 10.0.0.2~10.0.0.1"
    );
}

#[test]
fn ranges_that_share_addresses() {
    let cases = [
        ("10.0.0.1~10.0.0.3", "10.0.0.3~10.0.0.5", true),
        ("10.0.0.1~10.0.0.9", "10.0.0.3~10.0.0.5", true),
        ("10.0.0.1~10.0.0.3", "10.0.0.4~10.0.0.5", false),
        ("fd00::1~fd00::3", "fd00::3", true),
        ("fd00::1~fd00::3", "fd00::4", false),
        ("0.0.0.0~255.255.255.255", "::1", false),
    ];
    for (a, b, shared) in cases {
        assert_eq!(range(a).overlaps(&range(b)), shared, "{a} {b}");
        assert_eq!(range(b).overlaps(&range(a)), shared, "{b} {a}");
    }
}

#[test]
fn json_is_the_text() {
    let ranges: Vec<IpRange> = serde_json::from_str(r#"["10.0.0.1~10.0.0.3","fd00::1"]"#).unwrap();
    assert_eq!(ranges, [range("10.0.0.1~10.0.0.3"), range("fd00::1")]);
    let json = serde_json::to_string(&ranges).unwrap();
    assert_eq!(json, r#"["10.0.0.1~10.0.0.3","fd00::1"]"#);
    let error = serde_json::from_str::<IpRange>(r#""10.0.0.256""#).unwrap_err();
    assert!(
        error.to_string().starts_with("invalid ip range 10.0.0.256"),
        "{error}"
    );
}

proptest! {
    #[test]
    fn printing_and_parsing_v4(a: Ipv4Addr, b: Ipv4Addr) {
        let range = IpRange::new(a.min(b).into(), a.max(b).into()).unwrap();
        prop_assert_eq!(range.to_string().parse(), Ok(range));
        prop_assert_eq!(range.contains(a.into()) && range.contains(b.into()), true);
        prop_assert_eq!(IpRange::new(a.max(b).into(), a.min(b).into()).is_ok(), a == b);
    }

    #[test]
    fn printing_and_parsing_v6(a in 1_u128 << 64.., b in 1_u128 << 64..) {
        let (a, b) = (Ipv6Addr::from_bits(a), Ipv6Addr::from_bits(b));
        let range = IpRange::new(a.min(b).into(), a.max(b).into()).unwrap();
        prop_assert_eq!(range.to_string().parse(), Ok(range));
        let mid = Ipv6Addr::from_bits(a.to_bits() / 2 + b.to_bits() / 2);
        prop_assert_eq!(range.contains(mid.into()), a.min(b) <= mid);
    }

    #[test]
    fn any_text_is_refused_with_its_own_words(text in "[0-9a-f.:~ ]{0,24}") {
        match text.parse::<IpRange>() {
            Ok(range) => prop_assert_eq!(range.to_string().parse(), Ok(range)),
            Err(error) => prop_assert_eq!(error.text, text),
        }
    }
}
