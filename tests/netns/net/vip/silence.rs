//! A node that does not renew falls silent, without doing anything.

use std::{io::ErrorKind, time::Duration, time::Instant};

use floe_core::announce::{arp, ndp};
use floe_net::{
    boottime,
    nft::Nft,
    packet::{Ethertype, Packets},
    pulse::{self, PulseError},
};

use super::{
    super::ip,
    LONG, SOON, Scene, VIP4, VIP6,
    echo::{tcp, udp},
    until, vips,
};

/// How long is waited for what must not come.
const VAIN: Duration = Duration::from_millis(400);

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn without_a_refresh_old_and_new_connections_stop_until_there_is_one() {
    let scene = Scene::serving();
    let inside = &scene.a.pod("a2").space;
    for vip in vips() {
        scene.a.live(LONG);
        let mut outer = tcp(&scene.client, vip, SOON).unwrap();
        let mut local = tcp(&scene.a.space, vip, SOON).unwrap();
        let mut bridged = tcp(inside, vip, SOON).unwrap();
        outer.say("before", SOON).unwrap();

        scene.a.live(Duration::from_millis(1500));
        scene.a.wait_for_death();
        for connection in [&mut outer, &mut local, &mut bridged] {
            let error = connection.say("too late", VAIN).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{vip}");
        }
        for space in [&scene.client, &scene.a.space, inside] {
            assert!(tcp(space, vip, VAIN).is_err(), "{vip}");
            assert!(udp(space, vip, VAIN).is_err(), "{vip}");
        }

        // Nothing was lost but time.
        scene.a.live(LONG);
        for connection in [&mut outer, &mut local, &mut bridged] {
            connection.hear("too late", 4 * SOON).unwrap();
        }
        assert_eq!(
            tcp(&scene.client, vip, SOON)
                .unwrap()
                .greeting
                .split(' ')
                .next(),
            Some("a1")
        );
        udp(&scene.client, vip, SOON).unwrap();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn new_rules_do_not_make_a_node_live_longer() {
    let scene = Scene::serving();
    scene.a.live(Duration::from_millis(1500));
    scene.a.wait_for_death();
    scene.a.program();
    assert!(udp(&scene.client, ip(VIP4), VAIN).is_err());
    scene.a.live(LONG);
    udp(&scene.client, ip(VIP4), SOON).unwrap();
    scene.a.die();
    assert!(udp(&scene.client, ip(VIP4), VAIN).is_err());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_grant_that_comes_after_its_ticket_has_expired_is_refused() {
    let scene = Scene::serving();
    scene.a.die();
    let pulses = scene.a.rules.pulses();
    let granted = scene.a.space.netns.run(|| {
        let deadline = boottime::now() + LONG;
        let ticket = pulse::OF_NODE.take().unwrap();
        // As if the thread were stopped here.
        until("the ticket expires", || {
            let listed = Nft::default().list("inet floe-vip").unwrap();
            !listed.unwrap().contains("expires")
        });
        ticket.grant(pulses, deadline)
    });
    assert!(matches!(granted.unwrap(), Err(PulseError::Slow)));
    for vip in vips() {
        assert!(udp(&scene.client, vip, VAIN).is_err(), "{vip}");
    }
    scene.a.live(LONG);
    for vip in vips() {
        udp(&scene.client, vip, SOON).unwrap();
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_deadline_that_is_too_close_is_not_granted() {
    let scene = Scene::serving();
    scene.a.die();
    let pulses = scene.a.rules.pulses();
    for left in [0, 600, 605] {
        let granted = scene.a.space.netns.run(|| {
            let ticket = pulse::OF_NODE.take().unwrap();
            ticket.grant(pulses, boottime::now() + Duration::from_millis(left))
        });
        assert!(
            matches!(granted.unwrap(), Err(PulseError::TooLate)),
            "{left}"
        );
    }
    assert!(udp(&scene.client, ip(VIP4), VAIN).is_err());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn connections_of_an_ended_pair_stop_with_the_rules_and_those_of_a_leaving_one_with_the_node() {
    for leaves in [false, true] {
        let mut scene = Scene::serving();
        let mut old = vips().map(|vip| tcp(&scene.client, vip, SOON).unwrap());
        for connection in &mut old {
            connection.say("before", SOON).unwrap();
        }
        // What the kernel remembers of connections is not touched.
        let pairs = scene.a.rules.pairs();
        let mut rules = floe_core::vip::rules::NodeRules::default();
        rules.add_uplink("eth0").unwrap();
        rules.add_exit("eth0").unwrap();
        for vip in vips() {
            rules.know(vip);
        }
        if leaves {
            rules.leave(pairs);
        } else {
            rules.end(pairs);
        }
        scene.a.rules = rules;
        scene.a.program();
        for connection in &mut old {
            let answered = connection.say("after", if leaves { SOON } else { VAIN });
            assert_eq!(answered.is_ok(), leaves, "{answered:?}");
        }
        scene.a.die();
        for connection in &mut old {
            assert!(connection.say("dead", VAIN).is_err());
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_leaves_with_the_address_stops_too() {
    let mut scene = Scene::serving();
    let outside = super::Echo::start(&scene.client, "outside");
    let pod = scene.a.pod("a1").v4;
    scene.a.rules.leave_as(pod, ip(VIP4)).unwrap();
    scene.a.program();
    let holder = &scene.a.pod("a1").space;
    let mut connection = tcp(holder, ip("10.9.0.1"), SOON).unwrap();
    assert_eq!(connection.greeting, format!("{} {VIP4}", outside.name));
    scene.a.live(Duration::from_millis(1500));
    scene.a.wait_for_death();
    assert!(connection.say("too late", VAIN).is_err());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_kernel_drops_announcements_of_a_node_that_may_not_make_them() {
    let mut scene = Scene::serving();
    let far = |scene: &mut Scene, what| {
        let link = scene.client.link("eth0").index;
        let opened = scene.client.netns.run(|| Packets::open(link, what));
        opened.unwrap().unwrap()
    };
    let (arps, discoveries) = (
        far(&mut scene, Ethertype::Arp),
        far(&mut scene, Ethertype::Ipv6),
    );
    let link = scene.a.space.link("eth0");
    let (index, mac) = (link.index, link.mac.unwrap());
    let near = scene.a.space.netns.run(|| Packets::open_to_send(index));
    let near = near.unwrap().unwrap();
    let (v4, v6) = (VIP4.parse().unwrap(), VIP6.parse().unwrap());
    let frames = [
        arp::gratuitous_request(mac, v4).to_vec(),
        arp::gratuitous_reply(mac, v4).to_vec(),
        ndp::advertisement(mac, v6),
    ];
    // Sent by hand; what follows it shows whether it was dropped.
    let passes = |frame: &Vec<u8>| {
        let (socket, other) = if frame[12..14] == [8, 6] {
            let other = arp::gratuitous_request(mac, "10.9.0.99".parse().unwrap());
            (&arps, other.to_vec())
        } else {
            (
                &discoveries,
                ndp::advertisement(mac, "fd00:9::99".parse().unwrap()),
            )
        };
        near.send_now(frame).unwrap();
        near.send(&other).unwrap();
        let deadline = Instant::now() + SOON;
        let mut passed = false;
        loop {
            let heard = socket
                .receive(deadline)
                .unwrap()
                .expect("what is not shared");
            passed |= heard.starts_with(frame);
            if heard.starts_with(&other) {
                return passed;
            }
        }
    };
    assert!(frames.iter().all(passes));
    scene.a.live(Duration::from_millis(1500));
    scene.a.wait_for_death();
    assert!(!frames.iter().any(passes));
    // Alive, but another node announces them.
    scene.a.live(LONG);
    assert!(frames.iter().all(passes));
    let mut rules = floe_core::vip::rules::NodeRules::default();
    rules.add_exit("eth0").unwrap();
    for vip in vips() {
        rules.know(vip);
    }
    scene.a.nft(&rules.script());
    assert!(!frames.iter().any(passes));
}
