use etherparse::{
    ArpEthIpv4Packet, ArpOperation, EtherType, Ethernet2Header, LinkSlice, NetSlice, SlicedPacket,
};
use proptest::prelude::*;

use super::*;

const OWN: Mac = Mac([0x3e, 1, 2, 3, 4, 5]);
const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 5);
const HOST: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

#[test]
fn another_reader_sees_what_is_meant() {
    let request = |sender: Ipv4Addr, mac: Mac| ArpEthIpv4Packet {
        operation: ArpOperation::REQUEST,
        sender_mac: mac.0,
        sender_ipv4: sender.octets(),
        target_mac: [0; 6],
        target_ipv4: IP.octets(),
    };
    let reply = ArpEthIpv4Packet {
        operation: ArpOperation::REPLY,
        target_mac: OWN.0,
        ..request(IP, OWN)
    };
    let cases = [
        (probe(OWN, IP), request(Ipv4Addr::UNSPECIFIED, OWN)),
        (super::request(OWN, HOST, IP), request(HOST, OWN)),
        (gratuitous_reply(OWN, IP), reply),
        (gratuitous_request(OWN, IP), request(IP, OWN)),
    ];
    for (frame, expected) in cases {
        assert_eq!(frame.len(), 42);
        let sliced = SlicedPacket::from_ethernet(&frame).unwrap();
        let Some(LinkSlice::Ethernet2(ethernet)) = sliced.link else {
            panic!("not Ethernet: {frame:?}");
        };
        assert_eq!(ethernet.destination(), [0xff; 6]);
        assert_eq!(ethernet.source(), OWN.0);
        let Some(NetSlice::Arp(arp)) = sliced.net else {
            panic!("not ARP: {frame:?}");
        };
        assert_eq!(arp.to_packet().try_eth_ipv4().unwrap(), expected);
    }
}

#[test]
fn padding_is_ignored_and_a_short_frame_is_nothing() {
    let frame = gratuitous_reply(OWN, IP);
    let packet = parse(&frame).unwrap();
    let mut padded = frame.to_vec();
    padded.resize(60, 0xaa);
    assert_eq!(parse(&padded), Some(packet));
    for length in 0..frame.len() {
        assert_eq!(parse(&frame[..length]), None, "{length} bytes");
    }
}

#[test]
fn what_is_not_arp_for_ipv4_over_ethernet_is_nothing() {
    // The byte to change, and what to.
    let cases = [
        ("another Ethernet type", 13, 0x00),
        ("another hardware", 15, 6),
        ("another protocol", 16, 0x86),
        ("longer hardware addresses", 18, 8),
        ("longer protocol addresses", 19, 16),
        ("operation 0", 21, 0),
        ("a reverse request", 21, 3),
        ("an operation beyond a byte", 20, 1),
    ];
    let frame = probe(OWN, IP);
    assert!(parse(&frame).is_some());
    for (what, at, byte) in cases {
        let mut frame = frame;
        frame[at] = byte;
        assert_eq!(parse(&frame), None, "{what}");
    }
    // With a VLAN tag it is another network's.
    let mut tagged = frame.to_vec();
    tagged.splice(12..12, [0x81, 0, 0, 2]);
    assert_eq!(parse(&tagged), None);
}

proptest! {
    #[test]
    fn packets_of_another_writer_are_read(
        reply: bool,
        source: [u8; 6],
        sender_mac: [u8; 6],
        sender_ipv4: [u8; 4],
        target_mac: [u8; 6],
        target_ipv4: [u8; 4],
    ) {
        let operation = if reply { ArpOperation::REPLY } else { ArpOperation::REQUEST };
        let header = Ethernet2Header { source, destination: [0xff; 6], ether_type: EtherType::ARP };
        let packet = ArpEthIpv4Packet { operation, sender_mac, sender_ipv4, target_mac, target_ipv4 };
        let frame = [&header.to_bytes()[..], &packet.to_bytes()[..]].concat();
        prop_assert_eq!(parse(&frame), Some(Packet {
            operation: if reply { Operation::Reply } else { Operation::Request },
            sender_mac: Mac(sender_mac),
            sender_ip: sender_ipv4.into(),
            target_mac: Mac(target_mac),
            target_ip: target_ipv4.into(),
        }));
    }

    #[test]
    fn bytes_that_look_like_arp_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 0..64),
        kind: bool,
    ) {
        if bytes.len() >= 20 {
            bytes[12..14].copy_from_slice(&[8, 6]);
            if kind {
                bytes[14..20].copy_from_slice(&KIND);
            }
        }
        let _ = parse(&bytes);
    }
}
