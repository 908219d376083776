use etherparse::{LinkSlice, NetSlice, PacketBuilder, SlicedPacket, TransportSlice};
use proptest::prelude::*;

use super::*;

const OWN: Mac = Mac([0x3e, 1, 2, 3, 4, 5]);

fn ip(text: &str) -> Ipv6Addr {
    text.parse().unwrap()
}

/// A packet of another writer, with a right checksum.
fn written(source: &str, destination: &str, kind: u8, flags: u8, rest: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([2; 6], [4; 6])
        .ipv6(ip(source).octets(), ip(destination).octets(), 255)
        .icmpv6_raw(kind, 0, [flags, 0, 0, 0])
        .write(&mut frame, rest)
        .unwrap();
    frame
}

fn with_options(target: &str, options: &[u8]) -> Vec<u8> {
    [&ip(target).octets()[..], options].concat()
}

#[test]
fn another_reader_sees_what_is_meant() {
    struct Case {
        frame: Vec<u8>,
        source: &'static str,
        destination: &'static str,
        group_mac: [u8; 6],
        kind: u8,
        flags: u8,
        options: Vec<u8>,
    }
    let option = |kind: u8| [&[kind, 1][..], &OWN.0].concat();
    let target = ip("fd00:1::ab:cdef");
    let cases = [
        Case {
            frame: probe(OWN, target),
            source: "::",
            destination: "ff02::1:ffab:cdef",
            group_mac: [0x33, 0x33, 0xff, 0xab, 0xcd, 0xef],
            kind: 135,
            flags: 0,
            options: Vec::new(),
        },
        Case {
            frame: solicitation(OWN, ip("fe80::1"), target),
            source: "fe80::1",
            destination: "ff02::1:ffab:cdef",
            group_mac: [0x33, 0x33, 0xff, 0xab, 0xcd, 0xef],
            kind: 135,
            flags: 0,
            options: option(1),
        },
        Case {
            frame: advertisement(OWN, target),
            source: "fd00:1::ab:cdef",
            destination: "ff02::1",
            group_mac: [0x33, 0x33, 0, 0, 0, 1],
            kind: 136,
            flags: 0x20,
            options: option(2),
        },
    ];
    for case in cases {
        let sliced = SlicedPacket::from_ethernet(&case.frame).unwrap();
        let Some(LinkSlice::Ethernet2(ethernet)) = sliced.link else {
            panic!("not Ethernet");
        };
        assert_eq!(ethernet.destination(), case.group_mac);
        assert_eq!(ethernet.source(), OWN.0);
        let Some(NetSlice::Ipv6(v6)) = sliced.net else {
            panic!("not IPv6");
        };
        assert_eq!(v6.header().source_addr(), ip(case.source));
        assert_eq!(v6.header().destination_addr(), ip(case.destination));
        assert_eq!(v6.header().hop_limit(), 255);
        let Some(TransportSlice::Icmpv6(icmp)) = sliced.transport else {
            panic!("not ICMPv6");
        };
        assert!(icmp.is_checksum_valid(v6.header().source(), v6.header().destination()));
        assert_eq!((icmp.type_u8(), icmp.code_u8()), (case.kind, 0));
        assert_eq!(icmp.bytes5to8(), [case.flags, 0, 0, 0]);
        let rest = [&target.octets()[..], &case.options].concat();
        assert_eq!(&icmp.slice()[8..], rest);
    }
}

#[test]
fn what_is_written_is_read() {
    let target = ip("fd00:1::5");
    let expected = Packet {
        message: Message::Solicitation,
        frame_mac: OWN,
        source: Ipv6Addr::UNSPECIFIED,
        destination: ip("ff02::1:ff00:5"),
        target,
        link_mac: None,
    };
    assert_eq!(parse(&probe(OWN, target)), Some(expected));
    let asked = Packet {
        source: ip("fe80::1"),
        link_mac: Some(OWN),
        ..expected
    };
    let frame = solicitation(OWN, ip("fe80::1"), target);
    assert_eq!(parse(&frame), Some(asked));
    let told = Packet {
        message: Message::Advertisement {
            solicited: false,
            overrides: true,
        },
        source: target,
        destination: ALL_NODES,
        ..asked
    };
    assert_eq!(parse(&advertisement(OWN, target)), Some(told));
}

#[test]
fn packets_of_another_writer_are_read() {
    // The answer of a router to a question: flags R, S and O, to one host.
    let rest = with_options("fd00::5", &[2, 1, 6, 0x42, 0, 0, 0, 5]);
    let answer = parse(&written("fd00::5", "fe80::1", 136, 0xe0, &rest)).unwrap();
    let message = Message::Advertisement {
        solicited: true,
        overrides: true,
    };
    assert_eq!(answer.message, message);
    assert_eq!(answer.frame_mac, Mac([2; 6]));
    assert_eq!(answer.link_mac, Some(Mac([6, 0x42, 0, 0, 0, 5])));

    // An answer without the option, as some send it to one host.
    let bare = with_options("fd00::5", &[]);
    let answer = parse(&written("fd00::5", "fe80::1", 136, 0x40, &bare)).unwrap();
    assert_eq!(answer.link_mac, None);

    // A probe of Linux carries a nonce (RFC 7527).
    let nonce = with_options("fd00::5", &[14, 1, 1, 2, 3, 4, 5, 6]);
    let probe = parse(&written("::", "ff02::1:ff00:5", 135, 0, &nonce)).unwrap();
    assert_eq!(probe.message, Message::Solicitation);
    assert_eq!(probe.link_mac, None);
}

#[test]
fn the_first_hardware_address_counts_and_other_options_are_skipped() {
    let options = [
        &[200, 2][..],
        &[0; 14],
        &[2, 2],
        &[9; 14],
        &[1, 1, 1, 1, 1, 1, 1, 1],
        &[2, 1, 6, 0x42, 0, 0, 0, 5],
        &[2, 1, 6, 0x42, 0, 0, 0, 6],
    ]
    .concat();
    let rest = with_options("fd00::5", &options);
    let packet = parse(&written("fd00::5", "ff02::1", 136, 0x20, &rest)).unwrap();
    assert_eq!(packet.link_mac, Some(Mac([6, 0x42, 0, 0, 0, 5])));
}

#[test]
fn invalid_packets_are_nothing() {
    let link = [1, 1, 2, 2, 2, 2, 2, 2];
    let own = with_options("fd00::5", &link);
    let bare = with_options("fd00::5", &[]);
    let group = with_options("ff02::1", &[]);
    let cases = [
        (
            "a probe with a hardware address",
            written("::", "ff02::1:ff00:5", 135, 0, &own),
        ),
        (
            "a probe for one host",
            written("::", "fd00::5", 135, 0, &bare),
        ),
        (
            "a question about a group",
            written("fe80::1", "ff02::1", 135, 0, &group),
        ),
        (
            "an advertisement of a group",
            written("fe80::1", "ff02::1", 136, 0, &group),
        ),
        (
            "an advertisement from nowhere",
            written("::", "ff02::1", 136, 0x20, &bare),
        ),
        (
            "from a group",
            written("ff02::2", "fd00::9", 136, 0x20, &bare),
        ),
        (
            "an answer for everybody",
            written("fd00::5", "ff02::1", 136, 0x60, &bare),
        ),
        (
            "an option of no length",
            written(
                "fd00::5",
                "ff02::1",
                136,
                0,
                &with_options("fd00::5", &[9, 0, 0, 0, 0, 0, 0, 0]),
            ),
        ),
        (
            "an option that is cut off",
            written(
                "fd00::5",
                "ff02::1",
                136,
                0,
                &with_options("fd00::5", &[2, 2, 0, 0, 0, 0, 0, 0]),
            ),
        ),
        (
            "half an option",
            written("fd00::5", "ff02::1", 136, 0, &with_options("fd00::5", &[2])),
        ),
        (
            "a router's advertisement",
            written("fe80::1", "ff02::1", 134, 0, &bare),
        ),
        (
            "a target that is cut off",
            written("fd00::5", "ff02::1", 136, 0, &ip("fd00::5").octets()[..15]),
        ),
    ];
    for (what, frame) in cases {
        assert_eq!(parse(&frame), None, "{what}");
    }
}

#[test]
fn a_packet_that_was_routed_is_nothing() {
    let mut frame = advertisement(OWN, ip("fd00::5"));
    // The hop limit is not part of the checksum.
    frame[21] = 254;
    assert_eq!(parse(&frame), None);
}

#[test]
fn padding_is_ignored_and_a_short_frame_is_nothing() {
    let frame = advertisement(OWN, ip("fd00::5"));
    let packet = parse(&frame);
    assert!(packet.is_some());
    let mut padded = frame.clone();
    padded.extend([0xaa; 7]);
    assert_eq!(parse(&padded), packet);
    for length in 0..frame.len() {
        assert_eq!(parse(&frame[..length]), None, "{length} bytes");
    }
}

proptest! {
    #[test]
    fn a_changed_message_is_noticed(
        target: u128,
        at in 54..86_usize,
        change in 1..=u8::MAX,
    ) {
        // The target of a multicast address would be refused for that.
        let target = Ipv6Addr::from(target & (u128::MAX >> 8));
        let mut frame = advertisement(OWN, target);
        prop_assert!(parse(&frame).is_some() || target.is_unspecified());
        frame[at] ^= change;
        prop_assert_eq!(parse(&frame), None);
    }

    #[test]
    fn the_checksum_is_right_for_every_address(target: u128, sender: u128, mac: [u8; 6]) {
        let frame = solicitation(Mac(mac), sender.into(), target.into());
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(TransportSlice::Icmpv6(icmp)) = sliced.transport else {
            panic!("not ICMPv6");
        };
        let group = solicited_node(target.into());
        prop_assert!(icmp.is_checksum_valid(sender.to_be_bytes(), group.octets()));
    }

    #[test]
    fn bytes_that_look_like_discovery_never_panic(
        rest in prop::collection::vec(any::<u8>(), 0..64),
        kind in 134..=137_u8,
    ) {
        // With a right checksum, so that the options are reached.
        let _ = parse(&written("fd00::5", "ff02::1", kind, 0x20, &rest));
        let rest = with_options("fd00::5", &rest);
        let _ = parse(&written("fd00::5", "ff02::1", kind, 0x20, &rest));
    }

    #[test]
    fn whatever_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes);
        if bytes.len() > 22 {
            bytes[12..15].copy_from_slice(&[0x86, 0xdd, 0x60]);
            bytes[18..22].copy_from_slice(&[0, 40, 58, 255]);
        }
        let _ = parse(&bytes);
    }
}
