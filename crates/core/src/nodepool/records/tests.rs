use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn ips(texts: &str) -> BTreeSet<IpAddr> {
    texts.split_whitespace().map(ip).collect()
}

fn record(id: u32, address: &str, ttl: u32) -> Existing<u32> {
    Existing {
        id,
        address: ip(address),
        ttl,
        tidy: true,
    }
}

/// What it is, the records, the addresses, and what to do.
type Case<'a> = (&'a str, &'a [Existing<u32>], &'a str, Vec<Change<u32>>);

fn edit(id: u32, address: &str) -> Change<u32> {
    Change::Edit {
        id,
        address: ip(address),
    }
}

fn create(address: &str) -> Change<u32> {
    Change::Create {
        address: ip(address),
    }
}

#[test]
fn records_become_what_is_wanted_with_the_fewest_changes() {
    let two = [record(1, "192.0.2.1", 60), record(2, "192.0.2.2", 60)];
    let proxied = [Existing {
        tidy: false,
        ..record(1, "192.0.2.1", 60)
    }];
    let cases: [Case<'_>; 10] = [
        ("already right", &two, "192.0.2.1 192.0.2.2", vec![]),
        (
            "one says something else",
            &two,
            "192.0.2.1 192.0.2.9",
            vec![edit(2, "192.0.2.9")],
        ),
        (
            "one more",
            &two,
            "192.0.2.1 192.0.2.2 192.0.2.3",
            vec![create("192.0.2.3")],
        ),
        (
            "one less",
            &two,
            "192.0.2.2",
            vec![Change::Delete { id: 1 }],
        ),
        (
            "none at all",
            &two,
            "",
            vec![Change::Delete { id: 1 }, Change::Delete { id: 2 }],
        ),
        ("from nothing", &[], "192.0.2.1", vec![create("192.0.2.1")]),
        (
            "another lifetime",
            &[record(1, "192.0.2.1", 300)],
            "192.0.2.1",
            vec![edit(1, "192.0.2.1")],
        ),
        ("proxied", &proxied, "192.0.2.1", vec![edit(1, "192.0.2.1")]),
        (
            "twice the same",
            &[record(1, "192.0.2.1", 60), record(2, "192.0.2.1", 60)],
            "192.0.2.1",
            vec![Change::Delete { id: 2 }],
        ),
        (
            "a record of IPv4 does not become one of IPv6, and deletions are last",
            &[record(1, "192.0.2.1", 60)],
            "2001:db8::1",
            vec![create("2001:db8::1"), Change::Delete { id: 1 }],
        ),
    ];
    for (what, existing, wanted, expected) in cases {
        assert_eq!(changes(existing, &ips(wanted), 60), expected, "{what}");
    }
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
    let nodes = BTreeMap::from([
        ("a".to_owned(), node(Some("203.0.113.1"))),
        ("b".to_owned(), node(Some("203.0.113.2,2001:db8::2"))),
        ("c".to_owned(), node(None)),
    ]);
    for (word, addresses, without) in [
        ("", "192.0.2.7 2001:db8::7", ""),
        ("ExternalIP", "192.0.2.7 2001:db8::7", ""),
        ("InternalIP", "10.0.0.7", ""),
        ("Hostname", "", "a b c"),
        (BY_ANNOTATION, "203.0.113.1 203.0.113.2 2001:db8::2", "c"),
    ] {
        let (found, missing) = of_nodes(&AddressType::parse(word), &nodes);
        assert_eq!(found, ips(addresses), "{word}");
        assert_eq!(missing, without.split_whitespace().collect::<Vec<_>>());
    }
}
