//! Addresses that a node itself has, by the rules and on the loopback link.

use std::{collections::BTreeSet, io::ErrorKind, net::IpAddr, time::Duration};

use floe_core::announce::{Mac, arp};
use floe_net::{
    netlink::LOOPBACK,
    packet::{Ethertype, Packets},
};

use super::{
    super::ip,
    Echo, LONG, Node, SOON, Scene, VIP4,
    echo::{tcp, udp},
    until, vips,
};

/// How long is waited for what must not come.
const VAIN: Duration = Duration::from_millis(400);

impl Node {
    /// Gives this node both addresses itself for so long, as an agent does.
    fn own(&mut self, left: Duration) {
        for vip in vips() {
            self.rules.own(vip);
        }
        self.program();
        self.live(left);
        for vip in vips() {
            let netlink = &mut self.space.netlink;
            assert!(netlink.lend_address(LOOPBACK, vip, left).unwrap());
        }
    }

    /// Answers for both addresses, and says so.
    fn speak(&mut self) {
        for vip in vips() {
            self.rules.announce(vip);
        }
        self.program();
        self.responder.set(BTreeSet::from(vips())).unwrap();
    }

    fn has(&mut self, vip: IpAddr) -> bool {
        let lent = self.space.netlink.lent_addresses(LOOPBACK).unwrap();
        lent.contains(&vip)
    }
}

/// Who answers the client's question for an address of IPv4, each as often as it does.
fn answers(scene: &mut Scene, vip: &str) -> Vec<Mac> {
    let link = scene.client.link("eth0");
    let (index, own) = (link.index, link.mac.unwrap());
    let opened = scene
        .client
        .netns
        .run(|| Packets::open(index, Ethertype::Arp));
    let arps = opened.unwrap().unwrap();
    let (asker, target) = ("10.9.0.1".parse().unwrap(), vip.parse().unwrap());
    arps.send(&arp::request(own, asker, target)).unwrap();
    let deadline = std::time::Instant::now() + VAIN;
    let mut heard = Vec::new();
    while let Some(frame) = arps.receive(deadline).unwrap() {
        // A reply to the client, from the address.
        let IpAddr::V4(from) = ip(vip) else {
            unreachable!("it is of IPv4")
        };
        if frame[20..22] == [0, 2] && frame[28..32] == from.octets() {
            heard.push(Mac(frame[22..28].try_into().unwrap()));
        }
    }
    heard
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn whoever_listens_on_a_node_is_reached_at_its_address_until_it_may_not_answer() {
    let mut scene = Scene::new();
    let _echo = Echo::start(&scene.a.space, "host a");
    scene.a.own(LONG);
    scene.a.speak();
    for vip in vips() {
        let mut outer = tcp(&scene.client, vip, SOON).unwrap();
        assert!(outer.greeting.starts_with("host a "), "{}", outer.greeting);
        udp(&scene.client, vip, SOON).unwrap();
        // From another node, and from pods of both.
        for space in [
            &scene.b.space,
            &scene.a.pod("a1").space,
            &scene.b.pod("b1").space,
        ] {
            let reached = tcp(space, vip, SOON).unwrap();
            assert!(reached.greeting.starts_with("host a "));
        }
        scene.a.live(Duration::from_millis(1500));
        scene.a.wait_for_death();
        // The address is still there: the kernel was told a long time.
        assert!(scene.a.has(vip));
        let error = outer.say("too late", VAIN).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock, "{vip}");
        assert!(tcp(&scene.client, vip, VAIN).is_err(), "{vip}");
        assert!(udp(&scene.client, vip, VAIN).is_err(), "{vip}");
        scene.a.live(LONG);
        outer.hear("too late", 4 * SOON).unwrap();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_kernel_does_not_answer_for_it_and_only_the_responder_does() {
    let mut scene = Scene::new();
    scene.a.own(LONG);
    // Prepared: it has the address, and nobody says so.
    assert_eq!(answers(&mut scene, VIP4), []);
    scene.a.speak();
    let mac = scene.a.space.link("eth0").mac.unwrap();
    assert_eq!(answers(&mut scene, VIP4), [mac], "once, not twice");
    scene.a.live(Duration::from_millis(1500));
    scene.a.wait_for_death();
    assert_eq!(answers(&mut scene, VIP4), []);
    // The kernel's own addresses are answered for as ever.
    assert_eq!(answers(&mut scene, "10.9.0.2"), [mac]);
    // It would answer, if it were not kept from it.
    scene
        .a
        .nft("delete table arp floe-vip\ndelete table netdev floe-vip\n");
    assert_eq!(answers(&mut scene, VIP4), [mac]);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn nothing_is_sent_from_it_and_no_subnet_comes_with_it_and_it_goes_by_itself() {
    let mut scene = Scene::new();
    let before = scene.a.space.ip("route show table main");
    scene.a.own(Duration::from_secs(2));
    let shown = scene.a.space.ip("addr show dev lo");
    assert!(shown.contains("10.9.0.100/32"), "{shown}");
    assert!(shown.contains("fd00:9::100/128"), "{shown}");
    assert_eq!(shown.matches("deprecated").count(), 2, "{shown}");
    assert_eq!(scene.a.space.ip("route show table main"), before);
    for (to, own) in [("10.9.0.1", "10.9.0.2"), ("fd00:9::1", "fd00:9::2")] {
        let route = scene.a.space.ip(&format!("route get {to}"));
        assert!(route.contains(&format!("src {own} ")), "{route}");
    }
    let scene = std::cell::RefCell::new(scene);
    until("both are gone", || {
        vips().iter().all(|vip| !scene.borrow_mut().a.has(*vip))
    });
}
