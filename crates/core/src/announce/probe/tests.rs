use super::*;

const OWN: Mac = Mac([0x3e, 1, 2, 3, 4, 5]);
const OTHER: Mac = Mac([0x52, 9, 9, 9, 9, 9]);
const WINDOW: Duration = Duration::from_millis(200);

const V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 5);
const LINK: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The hardware address that the address will have in the end, and a stale copy
/// of the pod has.
const FINAL4: Mac = Mac([2, 0x42, 10, 0, 0, 5]);
const FINAL6: Mac = Mac([6, 0x42, 0, 0, 0, 5]);

fn v4() -> Inquiry {
    Inquiry::new(V4.into(), OWN, WINDOW)
}

fn v6() -> Inquiry {
    Inquiry::new(V6.into(), OWN, WINDOW)
}

fn times(inquiry: &Inquiry) -> Vec<u128> {
    let frames = inquiry.frames();
    frames.iter().map(|(at, _)| at.as_millis()).collect()
}

#[test]
fn three_probes_are_spread_over_the_window() {
    assert_eq!(times(&v4()), [0, 60, 120]);
    assert_eq!(times(&v6()), [0, 60, 120]);
    let long = Inquiry::new(V4.into(), OWN, Duration::from_secs(2));
    assert_eq!(times(&long), [0, 600, 1200]);
    let none = Inquiry::new(V4.into(), OWN, Duration::ZERO);
    assert_eq!(times(&none), [0, 0, 0]);
    for (_, frame) in v4().frames() {
        assert_eq!(frame, arp::probe(OWN, V4));
    }
    for (_, frame) in v6().frames() {
        assert_eq!(frame, ndp::probe(OWN, V6));
    }
}

#[test]
fn with_an_asker_proxies_are_asked_too() {
    let asker = Ipv4Addr::new(10, 0, 0, 1);
    let inquiry = v4().with_asker(asker.into()).with_asker(LINK.into());
    assert_eq!(times(&inquiry), [0, 0, 60, 60, 120, 120]);
    let frames = inquiry.frames();
    assert_eq!(frames[0].1, arp::probe(OWN, V4));
    assert_eq!(frames[1].1, arp::request(OWN, asker, V4));

    let inquiry = v6().with_asker(asker.into()).with_asker(LINK.into());
    assert_eq!(times(&inquiry), [0, 0, 60, 60, 120, 120]);
    let frames = inquiry.frames();
    assert_eq!(frames[0].1, ndp::probe(OWN, V6));
    assert_eq!(frames[1].1, ndp::solicitation(OWN, LINK, V6));
}

#[test]
fn of_several_askers_the_best_one_asks() {
    let all = |inquiry: Inquiry, askers: &[&str]| {
        let given = askers.iter().map(|asker| asker.parse().unwrap());
        given.fold(inquiry, Inquiry::with_asker).frames()
    };
    let only = all(v4(), &["10.0.0.1"]);
    assert_eq!(only.len(), 6);
    assert_eq!(all(v4(), &["10.0.0.5", "10.0.0.1", "10.1.0.1"]), only);
    let only = all(v6(), &["fe80::1"]);
    assert_eq!(only.len(), 6);
    assert_eq!(
        all(v6(), &["fd00::1", "fe80::1", "fe80::2", "fd00::2"]),
        only
    );
    assert_eq!(all(v6(), &["fd00::1", "fd00::2"]), all(v6(), &["fd00::1"]));
}

#[test]
fn nobody_asks_on_behalf_of_the_address_itself() {
    for ip in [V4.into(), Ipv4Addr::UNSPECIFIED.into(), LINK.into()] {
        assert_eq!(v4().with_asker(ip).frames(), v4().frames(), "{ip}");
    }
    for ip in [V6.into(), Ipv6Addr::UNSPECIFIED.into(), V4.into()] {
        assert_eq!(v6().with_asker(ip).frames(), v6().frames(), "{ip}");
    }
}

#[test]
fn an_address_is_asked_about_in_its_one_form() {
    let mapped = Inquiry::new(V4.to_ipv6_mapped().into(), OWN, WINDOW);
    assert_eq!(mapped.address(), IpAddr::V4(V4));
    assert_eq!(mapped.frames(), v4().frames());
}

#[test]
fn the_groups_of_an_ipv6_address_have_to_be_heard() {
    assert_eq!(v4().groups(), []);
    let groups = [
        Mac([0x33, 0x33, 0, 0, 0, 1]),
        Mac([0x33, 0x33, 0xff, 0, 0, 5]),
    ];
    assert_eq!(v6().groups(), groups);
}

#[test]
fn whoever_uses_or_probes_an_ipv4_address_is_in_conflict() {
    let neighbour = Ipv4Addr::new(10, 0, 0, 9);
    let cases: [(&str, [u8; arp::FRAME], Option<Mac>); 12] = [
        (
            "an announcement",
            arp::gratuitous_reply(OTHER, V4),
            Some(OTHER),
        ),
        (
            "an announcement by request",
            arp::gratuitous_request(OTHER, V4),
            Some(OTHER),
        ),
        (
            "a question from the address",
            arp::request(OTHER, V4, neighbour),
            Some(OTHER),
        ),
        (
            "a stale copy of the pod",
            arp::gratuitous_reply(FINAL4, V4),
            Some(FINAL4),
        ),
        (
            "the address at our own interface",
            arp::gratuitous_reply(OWN, V4),
            Some(OWN),
        ),
        ("a foreign probe", arp::probe(OTHER, V4), Some(OTHER)),
        (
            "a probe of a stale copy",
            arp::probe(FINAL4, V4),
            Some(FINAL4),
        ),
        ("our probe, come back", arp::probe(OWN, V4), None),
        (
            "a probe for another address",
            arp::probe(OTHER, neighbour),
            None,
        ),
        (
            "a question about the address",
            arp::request(OTHER, neighbour, V4),
            None,
        ),
        (
            "our own question, come back",
            arp::request(OWN, neighbour, V4),
            None,
        ),
        (
            "an announcement of another",
            arp::gratuitous_reply(OTHER, neighbour),
            None,
        ),
    ];
    for (what, frame, mac) in cases {
        let expected = mac.map(|mac| Conflict {
            address: V4.into(),
            mac,
        });
        assert_eq!(v4().judge(&frame), expected, "{what}");
        assert_eq!(v6().judge(&frame), None, "{what}");
    }
}

#[test]
fn an_ordinary_reply_to_us_is_a_conflict() {
    let mut frame = arp::gratuitous_reply(OTHER, V4);
    frame[..6].copy_from_slice(&OWN.0);
    frame[32..38].copy_from_slice(&OWN.0);
    // What the target of a reply to a probe is: nothing.
    frame[38..].fill(0);
    assert_eq!(v4().judge(&frame).map(|conflict| conflict.mac), Some(OTHER));
}

#[test]
fn a_reply_from_nowhere_is_no_probe() {
    let mut frame = arp::probe(OTHER, V4);
    frame[21] = 2;
    assert_eq!(v4().judge(&frame), None);
}

#[test]
fn whoever_uses_or_probes_an_ipv6_address_is_in_conflict() {
    let neighbour = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9);
    // It ends like the address, so it has the same group.
    let twin = Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, 5);
    let cases = [
        (
            "an announcement",
            ndp::advertisement(OTHER, V6),
            Some(OTHER),
        ),
        (
            "a stale copy of the pod",
            ndp::advertisement(FINAL6, V6),
            Some(FINAL6),
        ),
        ("a foreign probe", ndp::probe(OTHER, V6), Some(OTHER)),
        (
            "a question from the address",
            ndp::solicitation(OTHER, V6, neighbour),
            Some(OTHER),
        ),
        ("our probe, come back", ndp::probe(OWN, V6), None),
        ("a probe for a twin", ndp::probe(OTHER, twin), None),
        (
            "an announcement of a twin",
            ndp::advertisement(OTHER, twin),
            None,
        ),
        (
            "a question about the address",
            ndp::solicitation(OTHER, LINK, V6),
            None,
        ),
    ];
    for (what, frame, mac) in cases {
        let expected = mac.map(|mac| Conflict {
            address: V6.into(),
            mac,
        });
        assert_eq!(v6().judge(&frame), expected, "{what}");
        assert_eq!(v4().judge(&frame), None, "{what}");
    }
}

#[test]
fn an_advertisement_without_a_hardware_address_names_its_sender() {
    let mut frame = Vec::new();
    etherparse::PacketBuilder::ethernet2(OTHER.0, OWN.0)
        .ipv6(LINK.octets(), LINK.octets(), 255)
        .icmpv6_raw(136, 0, [0x40, 0, 0, 0])
        .write(&mut frame, &V6.octets())
        .unwrap();
    assert_eq!(v6().judge(&frame).map(|conflict| conflict.mac), Some(OTHER));
}

#[test]
fn other_traffic_is_no_conflict() {
    let mut ping = Vec::new();
    etherparse::PacketBuilder::ethernet2(OTHER.0, OWN.0)
        .ipv6(V6.octets(), LINK.octets(), 255)
        .icmpv6_echo_request(1, 1)
        .write(&mut ping, &[0; 24])
        .unwrap();
    for frame in [&ping[..], &[], &[0; 14], &[0xff; 200]] {
        assert_eq!(v4().judge(frame), None);
        assert_eq!(v6().judge(frame), None);
    }
}

#[test]
fn a_conflict_names_the_address_and_who_has_it() {
    let conflict = v4().judge(&arp::gratuitous_reply(FINAL4, V4)).unwrap();
    assert_eq!(conflict.reason(), "AddressConflict");
    assert_eq!(
        conflict.to_string(),
        "10.0.0.5 is already in use by 02:42:0a:00:00:05"
    );
}
