use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn ips(texts: &str) -> BTreeSet<IpAddr> {
    texts.split_whitespace().map(ip).collect()
}

#[test]
fn a_name_is_never_emptied_unless_asked() {
    let some = ips("192.0.2.1");
    let none = BTreeSet::new();
    assert_eq!(wanted(None, false), None);
    assert_eq!(wanted(None, true), None, "nobody knows yet");
    assert_eq!(wanted(Some(&none), false), None);
    assert_eq!(wanted(Some(&none), true), Some(none));
    assert_eq!(wanted(Some(&some), false), Some(some.clone()));
}

#[test]
fn nodes_give_the_addresses_of_the_type() {
    let node = |annotation: Option<&str>| NodeAddresses {
        status: [
            ("ExternalIP", "192.0.2.7"),
            ("ExternalIP", "2001:db8::7"),
            ("InternalIP", "10.0.0.7"),
            ("Hostname", "seven"),
        ]
        .map(|(kind, address)| (kind.to_owned(), address.to_owned()))
        .into(),
        annotation: annotation.map(str::to_owned),
    };
    let both = "203.0.113.2,2001:db8::2";
    for (word, annotation, addresses) in [
        ("", None, "192.0.2.7 2001:db8::7"),
        ("ExternalIP", Some(both), "192.0.2.7 2001:db8::7"),
        ("InternalIP", None, "10.0.0.7"),
        ("Hostname", Some(both), ""),
        (BY_ANNOTATION, Some("203.0.113.1"), "203.0.113.1"),
        (BY_ANNOTATION, Some(both), "203.0.113.2 2001:db8::2"),
        (BY_ANNOTATION, None, ""),
    ] {
        let found = AddressType::parse(word).of(&node(annotation));
        assert_eq!(found, ips(addresses), "{word} {annotation:?}");
    }
}

#[test]
fn a_time_that_nobody_asks_for_is_right_whatever_it_is() {
    let set = |ttl| RecordSet {
        zone: "example.com".into(),
        name: "www".into(),
        addresses: ips("192.0.2.1"),
        ttl,
        owner: "us".into(),
        families: BTreeSet::new(),
    };
    assert!(set(0).takes(1800) && set(30).takes(30) && !set(30).takes(1800));
    assert_eq!([0, 30].map(|ttl| set(ttl).ttl_or_usual()), [60, 30]);
}
