use super::{
    super::{super::wire::HEADER, read},
    *,
};

fn example(dst: &str, gateway: &str) -> MovedRoute {
    MovedRoute {
        dst: dst.parse().unwrap(),
        gateway: Some(gateway.parse().unwrap()),
        src: None,
        table: 254,
        metric: 0,
        protocol: 4,
        scope: 0,
        on_link: false,
        tos: 0,
        preference: 0,
        expires: None,
        metrics: BTreeMap::new(),
    }
}

fn seen(request: &mut Request) -> Seen {
    read(&request.finish(1)[HEADER..]).unwrap().unwrap()
}

#[test]
fn what_is_asked_for_is_what_would_be_read() {
    for moved in [
        example("0.0.0.0/0", "10.0.0.1"),
        MovedRoute {
            tos: 16,
            metrics: [(1, 4), (2, 1400), (8, 1300)].into(),
            src: Some("10.0.0.2".parse().unwrap()),
            metric: 100,
            ..example("10.9.0.0/16", "10.0.0.1")
        },
        MovedRoute {
            preference: 1,
            expires: Some(600),
            metric: 1024,
            ..example("::/0", "fe80::1")
        },
    ] {
        let route = plain(7, &moved);
        let seen = seen(&mut new(&route, &moved));
        assert_eq!(seen.moved(&route), moved);
        assert_eq!(seen.routes().collect::<Vec<_>>(), [route]);
        assert_eq!(seen.unmovable(7, None), None);
    }
}

#[test]
fn what_cannot_be_said_to_the_kernel_again_is_not_moved() {
    let plainly = example("10.9.0.0/16", "10.0.0.1");
    let route = plain(7, &plainly);
    let metrics = |request: Request| {
        request.nest(libc::RTA_METRICS, &[], |request| {
            request.put_name(CONGESTION_CONTROL, "reno")
        })
    };
    let cases = [
        new(&route, &plainly).put_u32(RTA_NH_ID, 5),
        new(&route, &plainly).put_u32(libc::RTA_FLOW, 5),
        new(&route, &plainly).put(RTA_ENCAP, &[]),
        new(&route, &plainly).put_u32(99, 5),
        metrics(new(&route, &plainly)),
    ];
    for mut request in cases {
        let refused = seen(&mut request).unmovable(7, None).unwrap();
        assert_eq!(refused.reason(), "RouteUnknown", "{refused}");
        assert!(refused.to_string().contains("10.9.0.0/16"), "{refused}");
    }
}

#[test]
fn the_time_that_a_route_has_left_comes_in_ticks() {
    let plainly = example("::/0", "fe80::1");
    let cache = |ticks: u32| {
        let mut value = [0; 32];
        value[8..12].copy_from_slice(&ticks.to_ne_bytes());
        value
    };
    for (ticks, seconds) in [(0, None), (5, Some(1)), (60_000, Some(600))] {
        let request = new(&plain(7, &plainly), &plainly);
        let seen = seen(&mut request.put(libc::RTA_CACHEINFO, &cache(ticks)));
        assert_eq!(seen.extras.expires, seconds);
    }
}

#[test]
fn only_alike_next_hops_of_the_links_of_a_move_are_routes_of_their_own() {
    let hop = |link: u32, weight: u8| {
        let length = 8_u16.to_ne_bytes();
        [&length[..], &[0, weight], &link.to_ne_bytes()].concat()
    };
    let of = |dst: &str, hops: &[Vec<u8>]| {
        let bare = MovedRoute {
            gateway: None,
            ..example(dst, "fe80::1")
        };
        let request = message(libc::RTM_NEWROUTE, 0, 0, &plain(0, &bare));
        let seen = seen(&mut request.put(libc::RTA_MULTIPATH, &hops.concat()));
        seen.unmovable(7, Some(8))
    };
    assert_eq!(of("fd00::/64", &[hop(7, 0), hop(8, 0)]), None);
    for (dst, hops) in [
        ("10.0.0.0/8", [hop(7, 0), hop(8, 0)]),
        ("fd00::/64", [hop(7, 0), hop(9, 0)]),
        ("fd00::/64", [hop(7, 1), hop(8, 0)]),
    ] {
        let refused = of(dst, &hops).unwrap();
        assert_eq!(refused.reason(), "MultipathRoute", "{refused}");
    }
}
