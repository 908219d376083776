use super::{super::wire::HEADER, *};

#[test]
fn what_is_asked_for_is_what_would_be_read() {
    for route in [
        route("10.0.0.0/8", Some("192.168.0.1"), 254),
        route("0.0.0.0/0", Some("192.168.0.1"), 1000),
        route("10.0.0.5/32", None, 254),
        route("::/0", Some("fe80::1"), 300),
        route("fd00::/64", None, 254),
        route("10.0.0.0/8", Some("fe80::1"), 254),
        Route {
            src: Some("10.0.0.5".parse().unwrap()),
            metric: 77,
            on_link: true,
            ..route("0.0.0.0/0", Some("192.168.0.1"), 254)
        },
    ] {
        assert_eq!(routes(&bytes(&route)), [route]);
    }
}

#[test]
fn the_host_part_of_a_destination_is_dropped() {
    let read = routes(&bytes(&route("10.1.2.3/8", None, 254)));
    assert_eq!(read[0].dst.to_string(), "10.0.0.0/8");
}

#[test]
fn a_route_with_two_next_hops_is_two_routes() {
    let hop = |link: u32, gateway: [u8; 4]| {
        let attribute = [&8_u16.to_ne_bytes()[..], &5_u16.to_ne_bytes(), &gateway].concat();
        [
            &16_u16.to_ne_bytes()[..],
            &[0, 0],
            &link.to_ne_bytes(),
            &attribute,
        ]
        .concat()
    };
    let hops = [hop(2, [10, 0, 0, 1]), hop(3, [10, 1, 0, 1])].concat();
    let mut header = [0; 12];
    (header[0], header[4], header[7]) = (V4, 254, libc::RTN_UNICAST);
    let mut request = Request::new(libc::RTM_NEWROUTE, 0, &header).put(libc::RTA_MULTIPATH, &hops);
    let read = routes(&request.finish(1)[HEADER..]);
    let found: Vec<_> = read
        .iter()
        .map(|route| (route.link, route.gateway.unwrap().to_string()))
        .collect();
    assert_eq!(
        found,
        [(2, "10.0.0.1".to_owned()), (3, "10.1.0.1".to_owned())]
    );
}

#[test]
fn routes_of_the_hosts_own_addresses_and_routes_that_refuse_are_left_out() {
    for kind in [
        libc::RTN_LOCAL,
        libc::RTN_BROADCAST,
        libc::RTN_BLACKHOLE,
        libc::RTN_UNREACHABLE,
    ] {
        let mut message = bytes(&route("10.0.0.1/32", None, 254));
        message[7] = kind;
        assert_eq!(routes(&message), []);
    }
}

fn routes(bytes: &[u8]) -> Vec<Route> {
    let seen = read(bytes).unwrap();
    seen.iter().flat_map(Seen::routes).collect()
}

fn bytes(route: &Route) -> Vec<u8> {
    let mut request = message(libc::RTM_NEWROUTE, 0, 0, route);
    request.finish(1)[HEADER..].to_vec()
}

fn route(dst: &str, gateway: Option<&str>, table: u32) -> Route {
    Route {
        dst: dst.parse().unwrap(),
        gateway: gateway.map(|ip| ip.parse().unwrap()),
        link: 7,
        src: None,
        table,
        metric: 0,
        protocol: 4,
        scope: 0,
        on_link: false,
    }
}
