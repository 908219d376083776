//! Who reaches the holder, and what he sees.

use std::{net::IpAddr, time::Instant};

use floe_core::vip::rules::{NodeRules, TABLE, TABLES, removal};
use floe_net::nft::Nft;

use super::{
    super::{Space, ip},
    SOON, Scene, VIP4,
    echo::{Echo, PROTOCOLS, ping, raw, tcp, udp},
    vips,
};

/// Asks in all ways; `a1` must answer as the shared address. Whom it sees is returned.
fn asks(space: &Space, vip: IpAddr) -> String {
    let connection = tcp(space, vip, SOON).unwrap_or_else(|error| panic!("{vip}: {error}"));
    let mut words = connection.greeting.split(' ');
    assert_eq!(words.next(), Some("a1"), "{vip}");
    let seen = words.next().unwrap().to_owned();
    let answer = udp(space, vip, SOON).unwrap_or_else(|error| panic!("{vip}: {error}"));
    assert_eq!(answer, (format!("a1 {seen}"), vip));
    for protocol in PROTOCOLS {
        let from = raw(space, vip, protocol, SOON);
        let from = from.unwrap_or_else(|error| panic!("{vip} protocol {protocol}: {error}"));
        assert_eq!(from, vip, "protocol {protocol}");
    }
    assert!(ping(space, vip), "{vip} does not answer");
    seen
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn every_protocol_reaches_the_holder_from_outside_and_it_sees_the_client() {
    let scene = Scene::serving();
    let seen = vips().map(|vip| asks(&scene.client, vip));
    assert_eq!(seen, ["10.9.0.1", "fd00:9::1"]);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn every_protocol_reaches_the_holder_from_its_own_node() {
    let scene = Scene::serving();
    for vip in vips() {
        asks(&scene.a.space, vip);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn every_protocol_reaches_the_holder_from_a_pod_on_the_same_bridge() {
    let scene = Scene::serving();
    for vip in vips() {
        asks(&scene.a.pod("a2").space, vip);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_holder_reaches_itself_by_every_protocol() {
    let scene = Scene::serving();
    let pod = &scene.a.pod("a1").space;
    for vip in vips() {
        assert!(tcp(pod, vip, SOON).unwrap().greeting.starts_with("a1 "));
        let (words, from) = udp(pod, vip, SOON).unwrap();
        assert!(words.starts_with("a1 "), "{words}");
        assert_eq!(from, vip);
        for protocol in PROTOCOLS {
            let from = raw(pod, vip, protocol, SOON);
            let from = from.unwrap_or_else(|error| panic!("{vip} protocol {protocol}: {error}"));
            assert_eq!(from, vip, "protocol {protocol}");
        }
        assert!(ping(pod, vip));
    }
}

/// The node, and pods on the bridge of the holder, are seen with one address of the node. By
/// protocols without ports the kernel cannot tell them apart then, so they have to take turns:
/// a limit that the guide names.
#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn many_on_the_node_of_the_holder_reach_it_by_protocols_without_ports_in_turns() {
    let scene = Scene::serving();
    for vip in vips() {
        for name in ["", "a2", "a1", ""] {
            let place = if name.is_empty() {
                &scene.a.space
            } else {
                &scene.a.pod(name).space
            };
            asks(place, vip);
            assert!(scene.a.forget() > 0);
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn every_protocol_reaches_the_holder_from_another_node_and_its_pods() {
    let scene = Scene::serving();
    for vip in vips() {
        asks(&scene.b.space, vip);
    }
    let seen = vips().map(|vip| asks(&scene.b.pod("b1").space, vip));
    assert_eq!(seen, ["10.2.0.11", "fd00:2::11"]);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_holder_leaves_with_the_address_if_it_shall_and_only_to_outside() {
    let mut scene = Scene::serving();
    let outside = Echo::start(&scene.client, "outside");
    let holder = scene.a.pod("a1").both();
    for (vip, pod) in vips().into_iter().zip(holder) {
        scene.a.rules.leave_as(pod, vip).unwrap();
    }
    for net in ["10.1.0.0/16", "10.2.0.0/16", "fd00:1::/64", "fd00:2::/64"] {
        scene.a.rules.add_inside(net.parse().unwrap());
    }
    scene.a.program();
    let pod = &scene.a.pod("a1").space;
    for (to, vip) in [("10.9.0.1", VIP4), ("fd00:9::1", super::VIP6)] {
        let connection = tcp(pod, ip(to), SOON).unwrap();
        assert_eq!(connection.greeting, format!("{} {vip}", outside.name));
        let (words, from) = udp(pod, ip(to), SOON).unwrap();
        assert_eq!((words, from), (format!("outside {vip}"), ip(to)));
    }
    for (to, own) in scene.b.pod("b1").both().into_iter().zip(holder) {
        let connection = tcp(pod, to, SOON).unwrap();
        assert_eq!(connection.greeting, format!("b1 {own}"));
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_thousand_addresses_are_one_transaction() {
    let mut scene = Scene::serving();
    let pod = scene.a.pod("a1").v4;
    for number in 0..1000_u16 {
        let [high, low] = number.to_be_bytes();
        let vip = IpAddr::from([10, 200, high, low]);
        scene.a.rules.hold(vip, pod, "cni0").unwrap();
        scene.a.rules.announce(vip);
    }
    let start = Instant::now();
    scene.a.program();
    println!("1,000 addresses were programmed in {:?}", start.elapsed());
    let gateway = scene.client.link("eth0").index;
    scene.client.route("10.200.0.0/16", "10.9.0.2", gateway);
    for vip in ["10.200.0.0", "10.200.1.244", "10.200.3.231"] {
        let connection = tcp(&scene.client, ip(vip), SOON).unwrap();
        assert_eq!(connection.greeting, "a1 10.9.0.1");
    }
    // Those that were there before are as they were.
    for vip in vips() {
        asks(&scene.client, vip);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn what_the_kernel_lists_is_what_was_programmed_and_a_loss_is_found() {
    let mut scene = Scene::serving();
    scene.a.rules.add_inside("10.1.0.0/16".parse().unwrap());
    let pod = scene.a.pod("a1").v4;
    for number in 0..200 {
        let vip = IpAddr::from([10, 200, 0, number]);
        scene.a.rules.hold(vip, pod, "cni0").unwrap();
    }
    scene.a.program();
    let find = |node: &super::Node| {
        let listed = node.space.netns.run(|| Nft::default().list(TABLE));
        let listed = listed.unwrap().unwrap().unwrap_or_default();
        node.rules.find_fault(&listed)
    };
    assert_eq!(find(&scene.a), None);
    // Somebody else's hands.
    for (script, reason) in [
        ("flush chain inet floe-vip guard", "RuleMissing"),
        (
            "delete element inet floe-vip held4 { 10.9.0.100 }",
            "ElementMissing",
        ),
        ("flush set inet floe-vip alive", "NotAlive"),
        ("delete table inet floe-vip", "ChainMissing"),
    ] {
        scene.a.nft(script);
        let fault = find(&scene.a).expect(script);
        assert_eq!(fault.reason(), reason, "{script}");
        scene.a.program();
        scene.a.live(super::LONG);
        assert_eq!(find(&scene.a), None);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_removal_leaves_nothing_and_can_be_repeated() {
    let scene = Scene::serving();
    for _ in 0..2 {
        for script in TABLES.map(removal) {
            scene.a.nft(&script);
        }
    }
    let netns = &scene.a.space.netns;
    let ruleset = netns.run(|| Nft::default().list(TABLE)).unwrap().unwrap();
    assert_eq!(ruleset, None);
    // A node that serves nothing takes its rules too.
    scene.a.nft(&NodeRules::default().script());
    let listed = netns.run(|| Nft::default().list(TABLE)).unwrap().unwrap();
    assert!(listed.unwrap().contains("chain guard"));
}
