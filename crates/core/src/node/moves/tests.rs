use super::*;

fn route(dst: &str, gateway: Option<&str>) -> MovedRoute {
    MovedRoute {
        dst: dst.parse().unwrap(),
        gateway: gateway.map(|gateway| gateway.parse().unwrap()),
        src: None,
        table: 254,
        metric: 0,
        protocol: 3,
        scope: 0,
        on_link: false,
    }
}

fn example() -> Move {
    Move {
        device: "uplink".into(),
        bridge: "docker".into(),
        addresses: vec![MovedAddress {
            net: "192.168.0.2/24".parse().unwrap(),
            scope: 0,
            no_prefix_route: false,
        }],
        routes: vec![
            route("0.0.0.0/0", Some("192.168.0.1")),
            route("10.1.0.0/16", Some("172.16.0.1")),
            route("172.16.0.1/32", None),
        ],
        complete: false,
    }
}

#[test]
fn a_journal_reads_back_as_it_was_written() {
    assert_eq!(Move::parse(&example().to_json()), Ok(example()));
}

#[test]
fn a_journal_of_few_words_is_enough() {
    let text = r#"{"device":"eth0","bridge":"docker",
        "addresses":[{"net":"10.0.0.2/24"}],
        "routes":[{"dst":"0.0.0.0/0","gateway":"10.0.0.1","table":254,"protocol":3,"scope":0}]}"#;
    let read = Move::parse(text).unwrap();
    assert_eq!(read.addresses[0].scope, 0);
    assert_eq!(read.routes, [route("0.0.0.0/0", Some("10.0.0.1"))]);
}

#[test]
fn a_journal_that_names_no_link_is_refused() {
    for name in ["", ".", "..", "a/b", "a b", "0123456789abcdef", "a\n"] {
        for member in 0..2 {
            let mut journal = example();
            *[&mut journal.device, &mut journal.bridge][member] = name.to_owned();
            let refused = Move::parse(&journal.to_json()).unwrap_err();
            assert_eq!(refused, MoveError::NoLink(name.into()));
            assert_eq!(refused.reason(), "JournalUnreadable");
        }
    }
}

#[test]
fn what_is_no_journal_is_refused() {
    for text in ["", "[]", "{}", "null", "{\"device\":\"a\"}"] {
        assert!(
            matches!(Move::parse(text), Err(MoveError::Malformed(_))),
            "{text}"
        );
    }
}

#[test]
fn next_hops_come_before_the_routes_that_use_them() {
    let order: Vec<String> = example()
        .routes_in_order()
        .iter()
        .map(|route| route.dst.to_string())
        .collect();
    assert_eq!(order, ["172.16.0.1/32", "10.1.0.0/16", "0.0.0.0/0"]);
}

#[test]
fn what_belongs_to_the_link_itself_stays() {
    let moves = |net: &str| MovedAddress::moves(net.parse().unwrap());
    assert!(moves("192.168.0.2/24"));
    assert!(moves("169.254.7.1/16"));
    assert!(moves("fd00::2/64"));
    assert!(!moves("fe80::2/64"));

    let moves = |dst: &str, protocol| MovedRoute::moves(protocol, dst.parse().unwrap());
    assert!(moves("0.0.0.0/0", 3));
    assert!(moves("fd00:1::/64", 4));
    assert!(!moves("192.168.0.0/24", 2));
    assert!(!moves("ff00::/8", 3));
}

#[test]
fn journals_are_named_like_their_device() {
    assert_eq!(journal_of("eth0"), "eth0.json");
}

/// What is on a link: addresses, and destinations of routes.
fn on(addresses: &[&str], routes: &[&str]) -> Move {
    Move {
        addresses: addresses
            .iter()
            .map(|net| MovedAddress {
                net: net.parse().unwrap(),
                scope: 0,
                no_prefix_route: false,
            })
            .collect(),
        routes: routes.iter().map(|dst| route(dst, None)).collect(),
        ..example()
    }
}

#[test]
fn what_goes_back_depends_on_how_far_the_move_came_and_what_became_of_it() {
    let journal = on(
        &["10.0.0.2/24", "10.0.0.3/24"],
        &["0.0.0.0/0", "10.9.0.0/16"],
    );
    let complete = Move {
        complete: true,
        ..journal.clone()
    };
    let nothing = on(&[], &[]);
    let changed = on(
        &["10.0.0.3/24", "10.0.0.4/24"],
        &["0.0.0.0/0", "10.8.0.0/16"],
    );
    let all = (
        &["10.0.0.2/24", "10.0.0.3/24"][..],
        &["0.0.0.0/0", "10.9.0.0/16"][..],
    );
    let none = (&[][..], &[][..]);
    let cases = [
        (
            "cut short on floe's bridge: all that was and is",
            &journal,
            Some(&changed),
            true,
            &nothing,
            (
                &["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"][..],
                &["0.0.0.0/0", "10.9.0.0/16", "10.8.0.0/16"][..],
            ),
        ),
        (
            "cut short on another bridge: only what was",
            &journal,
            Some(&changed),
            false,
            &nothing,
            all,
        ),
        (
            "complete on floe's bridge: what is there now",
            &complete,
            Some(&changed),
            true,
            &nothing,
            (
                &["10.0.0.3/24", "10.0.0.4/24"],
                &["0.0.0.0/0", "10.8.0.0/16"],
            ),
        ),
        (
            "complete on another bridge: what was and still is",
            &complete,
            Some(&changed),
            false,
            &nothing,
            (&["10.0.0.3/24"], &["0.0.0.0/0"]),
        ),
        ("booted: nothing", &complete, None, false, &changed, none),
        (
            "bridge removed by hand: what was",
            &complete,
            None,
            false,
            &nothing,
            all,
        ),
    ];
    for (story, journal, bridge, own, device, (addresses, routes)) in cases {
        let back = journal.back(bridge, own, device);
        let expected = on(addresses, routes);
        assert_eq!(back.addresses, expected.addresses, "{story}");
        assert_eq!(back.routes, expected.routes, "{story}");
    }
}
