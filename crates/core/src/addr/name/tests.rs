use proptest::prelude::*;

use super::*;

#[test]
fn each_address_has_one_name() {
    let cases = [
        ("10.49.27.205", "10.49.27.205"),
        ("::ffff:10.49.27.205", "10.49.27.205"),
        ("0.0.0.0", "0.0.0.0"),
        ("fd00::1", "fd00-0000-0000-0000-0000-0000-0000-0001"),
        ("::", "0000-0000-0000-0000-0000-0000-0000-0000"),
        ("2001:DB8::ab:cd", "2001-0db8-0000-0000-0000-0000-00ab-00cd"),
    ];
    for (text, expected) in cases {
        let ip: IpAddr = text.parse().unwrap();
        assert_eq!(name(ip), expected);
        assert_eq!(parse(expected), Ok(canonical(ip)));
    }
}

#[test]
fn other_spellings_are_refused() {
    let not_canonical = [
        "fd00::1",
        "fd00--1",
        "fd00-0-0-0-0-0-0-1",
        "FD00-0000-0000-0000-0000-0000-0000-0001",
        "fd00:0000:0000:0000:0000:0000:0000:0001",
        "::ffff:10.0.0.1",
        "0000-0000-0000-0000-0000-ffff-0a00-0001",
        "0000-0000-0000-0000-0000-0000-10.0.0.1",
    ];
    for text in not_canonical {
        let error = parse(text).unwrap_err();
        assert_eq!(error.reason(), "NameNotCanonical", "{text}");
    }
    assert_eq!(
        parse("0000-0000-0000-0000-0000-ffff-0a00-0001")
            .unwrap_err()
            .to_string(),
        r#""0000-0000-0000-0000-0000-ffff-0a00-0001" is not the name of 10.0.0.1: that is "10.0.0.1""#
    );
    let no_address = [
        "",
        "pool1",
        "10.0.0",
        "10.0.0.01",
        "10-0-0-1",
        "fd00-0001",
        " 10.0.0.1",
    ];
    for text in no_address {
        let error = parse(text).unwrap_err();
        assert_eq!(error.reason(), "NameNotAnAddress", "{text}");
        assert_eq!(
            error.to_string(),
            format!("{text:?} is not the name of an IP address")
        );
    }
}

proptest! {
    #[test]
    fn names_come_back(ip: IpAddr) {
        let name = name(ip);
        prop_assert_eq!(parse(&name), Ok(canonical(ip)));
        // A name of an object is a DNS subdomain.
        prop_assert!(name.len() <= 253);
        prop_assert!(name.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_lowercase() || b"-.".contains(&b)));
        prop_assert!(name.starts_with(|c: char| c.is_ascii_alphanumeric()));
    }
}
