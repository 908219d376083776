//! What is answered to those who ask for an address that does not belong to a kernel.

use std::net::IpAddr;

use super::{Mac, arp, ndp};

/// A frame that answers a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// The address that was asked for.
    pub address: IpAddr,
    /// What to send.
    pub frame: Vec<u8>,
}

/// The answer to a frame, sent by `own`, if it asks for an address that is held. Probes
/// are answered too: who wants to use such an address has to know.
pub fn answer(frame: &[u8], own: Mac, is_held: impl Fn(IpAddr) -> bool) -> Option<Answer> {
    if let Some(packet) = arp::parse(frame) {
        let address = IpAddr::from(packet.target_ip);
        // One who tells where his address lives does not ask.
        let asks = packet.operation == arp::Operation::Request
            && packet.sender_ip != packet.target_ip
            && is_station(packet.sender_mac)
            && packet.sender_mac != own;
        return (asks && is_held(address)).then(|| Answer {
            address,
            frame: arp::reply(own, &packet).to_vec(),
        });
    }
    let packet = ndp::parse(frame)?;
    let address = IpAddr::from(packet.target);
    let asks = packet.message == ndp::Message::Solicitation
        && is_station(packet.frame_mac)
        && packet.frame_mac != own;
    (asks && is_held(address)).then(|| Answer {
        address,
        frame: ndp::answer(own, &packet),
    })
}

/// Whether an address is of one station, not of a group or of nobody.
fn is_station(mac: Mac) -> bool {
    mac != Mac::UNKNOWN && mac.0[0] & 1 == 0
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    const OWN: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const ASKER: Mac = Mac([2, 0, 0, 0, 0, 2]);
    const V4: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 100);
    const V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, 0, 0x100);

    fn of(frame: &[u8]) -> Option<Answer> {
        answer(frame, OWN, |ip| {
            ip == IpAddr::from(V4) || ip == IpAddr::from(V6)
        })
    }

    #[test]
    fn who_asks_by_arp_is_told_alone() {
        let asker = Ipv4Addr::new(10, 9, 0, 1);
        let answer = of(&arp::request(ASKER, asker, V4)).unwrap();
        assert_eq!(answer.address, IpAddr::from(V4));
        assert_eq!(answer.frame[..6], ASKER.0);
        assert_eq!(answer.frame[6..12], OWN.0);
        let packet = arp::parse(&answer.frame).unwrap();
        assert_eq!(
            packet,
            arp::Packet {
                operation: arp::Operation::Reply,
                sender_mac: OWN,
                sender_ip: V4,
                target_mac: ASKER,
                target_ip: asker,
            }
        );
        // Also who has no address yet.
        let answer = of(&arp::probe(ASKER, V4)).unwrap();
        let packet = arp::parse(&answer.frame).unwrap();
        assert_eq!(packet.target_ip, Ipv4Addr::UNSPECIFIED);
    }

    #[test]
    fn who_asks_by_neighbour_discovery_is_told_alone() {
        let asker = "fd00:9::1".parse().unwrap();
        let answer = of(&ndp::solicitation(ASKER, asker, V6)).unwrap();
        assert_eq!(answer.frame[..6], ASKER.0);
        let packet = ndp::parse(&answer.frame).unwrap();
        assert_eq!(
            packet,
            ndp::Packet {
                message: ndp::Message::Advertisement {
                    solicited: true,
                    overrides: true
                },
                frame_mac: OWN,
                source: V6,
                destination: asker,
                target: V6,
                link_mac: Some(OWN),
            }
        );
    }

    #[test]
    fn a_probe_by_neighbour_discovery_is_answered_to_everybody() {
        let answer = of(&ndp::probe(ASKER, V6)).unwrap();
        assert_eq!(answer.frame[..6], ndp::group_mac(ndp::ALL_NODES).0);
        let packet = ndp::parse(&answer.frame).unwrap();
        assert_eq!(packet.destination, ndp::ALL_NODES);
        assert_eq!(
            packet.message,
            ndp::Message::Advertisement {
                solicited: false,
                overrides: true
            }
        );
    }

    #[test]
    fn nothing_else_is_answered() {
        let asker = Ipv4Addr::new(10, 9, 0, 1);
        let mut from_group = arp::request(ASKER, asker, V4);
        from_group[22] |= 1;
        let mut cut = ndp::probe(ASKER, V6);
        cut.truncate(60);
        for frame in [
            arp::request(ASKER, asker, Ipv4Addr::new(10, 9, 0, 99)).to_vec(),
            arp::gratuitous_request(ASKER, V4).to_vec(),
            arp::gratuitous_reply(ASKER, V4).to_vec(),
            arp::request(OWN, asker, V4).to_vec(),
            from_group.to_vec(),
            ndp::probe(ASKER, "fd00:9::99".parse().unwrap()),
            ndp::advertisement(ASKER, V6),
            ndp::probe(OWN, V6),
            cut,
            Vec::new(),
        ] {
            assert_eq!(of(&frame), None, "{frame:?}");
        }
    }
}
