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
        tos: 0,
        preference: 0,
        expires: None,
        metrics: BTreeMap::new(),
    }
}

fn address(net: &str) -> MovedAddress {
    MovedAddress {
        net: net.parse().unwrap(),
        scope: 0,
        no_prefix_route: false,
        peer: None,
        broadcast: None,
        metric: 0,
        lifetime: None,
    }
}

fn example() -> Move {
    Move {
        device: "uplink".into(),
        bridge: "docker".into(),
        addresses: vec![address("192.168.0.2/24")],
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
    let mut special = example();
    special.addresses.push(MovedAddress {
        peer: Some("10.7.0.1".parse().unwrap()),
        broadcast: Some("10.7.0.255".parse().unwrap()),
        metric: 7,
        lifetime: Some(Lifetime {
            preferred: 0,
            valid: 60,
        }),
        ..address("10.7.0.2/32")
    });
    special.routes.push(MovedRoute {
        tos: 16,
        preference: 1,
        expires: Some(30),
        metrics: [(2, 1400), (8, 1300)].into(),
        ..route("10.8.0.0/16", None)
    });
    assert_eq!(Move::parse(&special.to_json()), Ok(special));
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

    let moves = |dst: &str, protocol, metric| {
        let addresses = [address("192.168.0.2/24"), address("fd00:5::2/64")];
        let it = MovedRoute {
            metric,
            protocol,
            ..route(dst, None)
        };
        it.moves(&addresses)
    };
    assert!(moves("0.0.0.0/0", 3, 0));
    assert!(moves("fd00:1::/64", 4, 0));
    assert!(moves("224.0.0.0/4", 3, 0));
    assert!(!moves("192.168.0.0/24", 2, 0));
    assert!(!moves("fd00:5::/64", 2, 256));
    assert!(!moves("fe80::/64", 2, 256));
    assert!(!moves("ff00::/8", 3, 256));
    // In the kernel's name, but not by the kernel.
    assert!(moves("192.168.0.0/24", 2, 100));
    assert!(moves("10.1.0.0/24", 2, 0));
    assert!(moves("fd00:5::/64", 2, 100));
}

#[test]
fn the_route_to_a_network_moves_if_the_kernel_would_not_make_it_again() {
    let by_kernel = |dst: &str, metric| MovedRoute {
        protocol: 2,
        metric,
        ..route(dst, None)
    };
    let bare = MovedAddress {
        no_prefix_route: true,
        ..address("10.0.0.2/24")
    };
    assert!(by_kernel("10.0.0.0/24", 0).moves(&[bare]));
    let peer = MovedAddress {
        peer: Some("10.9.0.1".parse().unwrap()),
        ..address("10.0.0.2/32")
    };
    assert!(!by_kernel("10.9.0.1/32", 0).moves(&[peer]));
    assert!(by_kernel("10.0.0.2/32", 0).moves(&[peer]));
    let peer = MovedAddress {
        peer: Some("fd00:9::1".parse().unwrap()),
        ..address("fd00::2/64")
    };
    assert!(!by_kernel("fd00::/64", 256).moves(&[peer]));
    // It comes too late for routes through the peer.
    assert!(by_kernel("fd00:9::1/128", 256).moves(&[peer]));
    let metric = MovedAddress {
        metric: 50,
        ..address("10.0.0.2/24")
    };
    assert!(!by_kernel("10.0.0.0/24", 50).moves(&[metric]));
    assert!(by_kernel("10.0.0.0/24", 0).moves(&[metric]));
}

#[test]
fn a_next_hop_must_be_on_a_network_that_moves() {
    let mut host = on(&["10.0.0.2/24", "fd00::2/64"], &["172.31.1.1/32"]);
    let reached = [
        "10.0.0.1",
        "172.31.1.1",
        "fd00::1",
        "fe80::1", // Every link has that network.
    ];
    for gateway in reached {
        host.routes.push(route("10.50.0.0/16", Some(gateway)));
        assert_eq!(host.unmovable(), None, "{gateway}");
    }
    // A route of another table helps only those in it.
    let aside = MovedRoute {
        table: 77,
        ..route("172.31.2.1/32", None)
    };
    host.routes.push(aside);
    let through = |table| MovedRoute {
        table,
        ..route("10.53.0.0/16", Some("172.31.2.1"))
    };
    host.routes.push(through(77));
    assert_eq!(host.unmovable(), None);
    let mut lost = host.clone();
    lost.routes.push(through(254));
    assert_eq!(lost.unmovable().unwrap().reason(), "GatewayOutOfReach");
    let far = MovedRoute {
        on_link: true,
        ..route("10.51.0.0/16", Some("10.1.0.1"))
    };
    host.routes.push(far);
    assert_eq!(host.unmovable(), None);

    for gateway in ["10.1.0.1", "fd01::1"] {
        let mut host = host.clone();
        host.routes.push(route("10.52.0.0/16", Some(gateway)));
        let refused = host.unmovable().unwrap();
        assert_eq!(refused.reason(), "GatewayOutOfReach");
        assert!(refused.to_string().contains(gateway), "{refused}");
    }
    // Nobody makes the route to the network of this one.
    host.addresses[0].no_prefix_route = true;
    assert_eq!(host.unmovable().unwrap().reason(), "GatewayOutOfReach");
    host.routes.push(route("10.0.0.0/24", None));
    assert_eq!(host.unmovable(), None);
    // Through a peer.
    let mut host = on(&["10.0.0.2/32"], &[]);
    host.routes.push(route("0.0.0.0/0", Some("10.9.0.1")));
    assert!(host.unmovable().is_some());
    host.addresses[0].peer = Some("10.9.0.1".parse().unwrap());
    assert_eq!(host.unmovable(), None);
}

#[test]
fn a_move_that_was_cut_short_goes_on_with_what_was_and_what_is() {
    let mut old = on(&["10.0.0.2/24", "10.0.0.3/24"], &["0.0.0.0/0"]);
    let mut now = on(
        &["10.0.0.4/24", "10.0.0.3/24"],
        &["0.0.0.0/0", "10.9.0.0/16"],
    );
    let lifetime = Some(Lifetime {
        preferred: 5,
        valid: 9,
    });
    now.addresses[1].lifetime = lifetime;
    old.join(&now);
    let mut both = on(
        &["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"],
        &["0.0.0.0/0", "10.9.0.0/16"],
    );
    both.addresses[1].lifetime = lifetime;
    assert_eq!(old, both);

    // Several next hops of IPv6 are several routes; of IPv4 there is one.
    let mut old = on(&[], &[]);
    for gateway in ["fd00::1", "fd00::9"] {
        let mut now = on(&[], &[]);
        now.routes = vec![
            route("::/0", Some(gateway)),
            route("0.0.0.0/0", Some(gateway)),
        ];
        old.join(&now);
    }
    let seen: Vec<_> = old
        .routes
        .iter()
        .map(|it| (it.dst.to_string(), it.gateway.unwrap().to_string()))
        .collect();
    let expected = [
        ("::/0", "fd00::1"),
        ("0.0.0.0/0", "fd00::9"),
        ("::/0", "fd00::9"),
    ];
    assert_eq!(
        seen,
        expected.map(|(dst, via)| (dst.to_owned(), via.to_owned()))
    );
}

#[test]
fn journals_are_named_like_their_device() {
    assert_eq!(journal_of("eth0"), "eth0.json");
}

/// What is on a link: addresses, and destinations of routes.
fn on(addresses: &[&str], routes: &[&str]) -> Move {
    Move {
        addresses: addresses.iter().map(|net| address(net)).collect(),
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
