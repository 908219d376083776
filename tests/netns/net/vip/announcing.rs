//! Who is answered, who is told, and when not.

use std::{
    collections::BTreeSet,
    net::IpAddr,
    time::{Duration, Instant},
};

use floe_core::announce::{Mac, arp, ndp};
use floe_net::{
    boottime::{self, Deadline},
    packet::{Ethertype, Packets},
    responder::Responder,
};

use super::{
    super::{Space, cable, ip},
    SOON, VIP4, VIP6, until, vips,
};

/// How long is waited for an answer that must not come.
const VAIN: Duration = Duration::from_millis(300);

/// A responder at the right end of a cable, and an asker at its left end.
struct Pair {
    left: Space,
    right: Space,
    deadline: Deadline,
    responder: Responder,
    arps: Packets,
    discoveries: Packets,
}

impl Pair {
    fn new() -> Self {
        let (mut left, right) = cable();
        let deadline = Deadline::default();
        deadline.set(boottime::now() + Duration::from_mins(2));
        let responder = right
            .netns
            .run(|| Responder::start("eth0", deadline.clone()))
            .unwrap()
            .unwrap();
        responder.set(BTreeSet::from(vips())).unwrap();
        let link = left.link("eth0").index;
        let open = |what| {
            let opened = left.netns.run(|| Packets::open(link, what));
            opened.unwrap().unwrap()
        };
        let (arps, discoveries) = (open(Ethertype::Arp), open(Ethertype::Ipv6));
        discoveries.join(ndp::group_mac(ndp::ALL_NODES)).unwrap();
        Self {
            left,
            right,
            deadline,
            responder,
            arps,
            discoveries,
        }
    }

    /// Asks for an address: who says that it has it.
    fn ask(&mut self, address: IpAddr, patience: Duration) -> Option<Mac> {
        let own = self.left.link("eth0").mac.unwrap();
        match address {
            IpAddr::V4(target) => {
                let asker = "10.9.0.1".parse().unwrap();
                self.arps.send(&arp::request(own, asker, target)).unwrap();
            }
            IpAddr::V6(target) => {
                let asker = "fd00:9::1".parse().unwrap();
                let question = ndp::solicitation(own, asker, target);
                self.discoveries.send(&question).unwrap();
            }
        }
        self.hear(address, patience)
    }

    /// Who says that it has an address.
    fn hear(&self, address: IpAddr, patience: Duration) -> Option<Mac> {
        let deadline = Instant::now() + patience;
        loop {
            let found = match address {
                IpAddr::V4(ip) => {
                    let frame = self.arps.receive(deadline).unwrap()?;
                    arp::parse(&frame)
                        .filter(|it| it.sender_ip == ip)
                        .map(|it| it.sender_mac)
                }
                IpAddr::V6(ip) => {
                    let frame = self.discoveries.receive(deadline).unwrap()?;
                    ndp::parse(&frame)
                        .filter(|it| it.target == ip && it.message != ndp::Message::Solicitation)
                        .and_then(|it| it.link_mac)
                }
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn those_who_ask_are_answered_for_these_addresses_and_no_others() {
    let mut pair = Pair::new();
    let mac = pair.right.link("eth0").mac;
    for vip in vips() {
        assert_eq!(pair.ask(vip, SOON), mac, "{vip}");
    }
    for other in ["10.9.0.101", "fd00:9::101"] {
        assert_eq!(pair.ask(ip(other), VAIN), None, "{other}");
    }
    assert_eq!(pair.responder.answers().answered, 2);
    pair.responder.check().unwrap();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn nobody_is_answered_or_told_after_the_deadline() {
    let mut pair = Pair::new();
    let deadline = pair.deadline.clone();
    deadline.set(boottime::now() + Duration::from_millis(300));
    until("the deadline passes", || deadline.left().is_none());
    for vip in vips() {
        assert_eq!(pair.ask(vip, VAIN), None, "{vip}");
    }
    pair.responder.announce(vips());
    // Two questions, and each address once for now.
    until("both are withheld", || {
        pair.responder.answers().withheld >= 4
    });
    assert_eq!(pair.responder.answers().answered, 0);
    assert_eq!(pair.responder.answers().announced, 0);
    deadline.set(boottime::now() + Duration::from_mins(1));
    for vip in vips() {
        assert!(pair.ask(vip, SOON).is_some(), "{vip}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn addresses_come_and_go_and_those_that_stay_are_answered_for_all_the_time() {
    let mut pair = Pair::new();
    let stays = ip(VIP4);
    for number in 0..50_u8 {
        let other = IpAddr::from([10, 9, 1, number]);
        let discovered: IpAddr = format!("fd00:9::1:{number:x}").parse().unwrap();
        let all = BTreeSet::from([stays, other, discovered]);
        pair.responder.set(all).unwrap();
        for address in [stays, other, discovered] {
            assert!(pair.ask(address, SOON).is_some(), "{address}");
        }
    }
    pair.responder.set(BTreeSet::from([stays])).unwrap();
    assert_eq!(pair.ask(ip("10.9.1.49"), VAIN), None);
    assert_eq!(pair.ask(ip("fd00:9::1:31"), VAIN), None);
    assert_eq!(pair.ask(ip(VIP6), VAIN), None);
    assert!(pair.ask(stays, SOON).is_some());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn addresses_are_told_several_times_unless_they_are_taken_away() {
    let mut pair = Pair::new();
    let mac = pair.right.link("eth0").mac;
    pair.responder.announce(vips());
    for vip in vips() {
        for _ in 0..4 {
            assert_eq!(pair.hear(vip, SOON), mac, "{vip}");
        }
    }
    until("all are told", || pair.responder.answers().announced == 8);
    // One of which the node lets go is not told to the end.
    pair.responder.announce(vips());
    until("they are told", || pair.responder.answers().announced >= 10);
    pair.responder.set(BTreeSet::from([ip(VIP6)])).unwrap();
    while pair.hear(ip(VIP4), VAIN).is_some() {}
    let later = Duration::from_secs(3);
    assert_eq!(pair.hear(ip(VIP4), later), None);
    assert_eq!(pair.hear(ip(VIP6), SOON), mac);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_link_that_fails_is_noticed_and_served_again_when_it_is_back() {
    let mut pair = Pair::new();
    pair.right.ip("link set eth0 down");
    let error = pair.responder.check().unwrap_err();
    assert_eq!(error.reason(), "NoCarrier");
    pair.right.ip("link set eth0 up");
    until("it carries", || pair.responder.check().is_ok());
    // The other end needs a moment to notice.
    let link = pair.left.link("eth0").index;
    let carries = pair
        .left
        .netlink
        .wait_for_carrier(link, Instant::now() + SOON);
    assert!(carries.unwrap());
    for vip in vips() {
        assert!(pair.ask(vip, SOON).is_some(), "{vip}");
    }
    pair.right.ip("link del eth0");
    let error = pair.responder.check().unwrap_err();
    assert_eq!(error.reason(), "NoLink");
    let missing = pair
        .right
        .netns
        .run(|| Responder::start("eth0", Deadline::default()));
    assert_eq!(missing.unwrap().unwrap_err().reason(), "NoLink");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_link_with_another_hardware_address_is_told_as_it_is_now() {
    let mut pair = Pair::new();
    assert!(pair.ask(ip(VIP4), SOON).is_some());
    pair.right.ip("link set eth0 address 02:00:00:00:00:77");
    let new = Some(Mac([2, 0, 0, 0, 0, 0x77]));
    let deadline = Instant::now() + SOON;
    while pair.ask(ip(VIP4), SOON) != new {
        assert!(Instant::now() < deadline, "the old one is still told");
    }
}
