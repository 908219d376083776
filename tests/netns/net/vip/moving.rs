//! An address moves: old connections end at once, and new ones reach the new holder.

use std::{
    collections::BTreeSet,
    io::ErrorKind,
    net::{IpAddr, UdpSocket},
    process::Command,
};

use floe_net::conntrack;

use super::{
    super::{Space, ip},
    LONG, SOON, Scene, VIP4,
    echo::{Connection, tcp, udp},
    until, vips,
};

/// A connection that is refused by who does not know it.
fn is_reset(connection: &mut Connection) {
    let error = connection.say("are you there?", SOON).unwrap_err();
    assert!(
        [ErrorKind::ConnectionReset, ErrorKind::UnexpectedEof].contains(&error.kind()),
        "{error:?}"
    );
}

/// How many connections to an address the kernel remembers, by a program of others.
fn connections(space: &Space, protocol: &str, to: IpAddr) -> usize {
    let output = space.netns.run(|| {
        Command::new("conntrack")
            .args(["-L", "-p", protocol, "-d", &to.to_string()])
            .output()
    });
    let text = String::from_utf8(output.unwrap().unwrap().stdout).unwrap();
    text.lines().count()
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn old_connections_are_reset_when_another_pod_of_the_node_takes_over() {
    let mut scene = Scene::serving();
    let mut old = vips().map(|vip| tcp(&scene.client, vip, SOON).unwrap());
    for connection in &mut old {
        connection.say("hello", SOON).unwrap();
    }
    let earlier = scene.a.rules.clone();
    scene.a.hold("a2");
    let changed = scene.a.rules.changed_since(&earlier);
    assert_eq!(changed, BTreeSet::from(vips()));
    assert!(scene.a.forget() >= 2);
    for connection in &mut old {
        is_reset(connection);
    }
    for vip in vips() {
        let greeting = tcp(&scene.client, vip, SOON).unwrap().greeting;
        assert!(greeting.starts_with("a2 "), "{greeting}");
        let (words, from) = udp(&scene.client, vip, SOON).unwrap();
        assert!(words.starts_with("a2 "), "{words}");
        assert_eq!(from, vip);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn old_connections_are_reset_when_another_node_takes_over() {
    let mut scene = Scene::serving();
    let mut old = vips().map(|vip| tcp(&scene.client, vip, SOON).unwrap());
    // The first node is dead to the world: nobody renews.
    scene.a.die();
    scene.a.deadline.end();
    scene.b.hold("b1");
    scene.b.live(LONG);
    scene.b.forget();
    scene.b.responder.announce(vips());
    for connection in &mut old {
        is_reset(connection);
    }
    for vip in vips() {
        let greeting = tcp(&scene.client, vip, SOON).unwrap().greeting;
        assert!(greeting.starts_with("b1 "), "{greeting}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn who_still_sends_to_the_old_node_is_led_to_the_new_one() {
    let mut scene = Scene::serving();
    let mac = scene.a.space.link("eth0").mac.unwrap();
    for vip in vips() {
        // A neighbour that heeds no announcement.
        scene.client.ip(&format!(
            "neigh replace {vip} lladdr {mac} dev eth0 nud permanent"
        ));
    }
    scene.b.hold("b1");
    scene.b.live(LONG);
    scene.b.forget();
    // The old holder stops answering, and leads to the new one.
    scene.a.responder.set(BTreeSet::new()).unwrap();
    for (vip, pod) in vips().into_iter().zip(scene.b.pod("b1").both()) {
        scene.a.rules.send_away(vip, pod).unwrap();
    }
    scene.a.program();
    scene.a.forget();
    let link = scene.a.space.link("eth0").index;
    let nodes = [ip("10.9.0.3"), ip("fd00:9::3")];
    for (vip, node) in vips().into_iter().zip(nodes) {
        scene.a.space.netlink.lead(vip, node, link).unwrap();
        // Again, as after a second move.
        scene.a.space.netlink.lead(vip, node, link).unwrap();
    }
    assert_eq!(scene.a.space.netlink.leading().unwrap().len(), 2);
    for vip in vips() {
        let connection = tcp(&scene.client, vip, SOON).unwrap();
        let client = if vip.is_ipv4() {
            "10.9.0.1"
        } else {
            "fd00:9::1"
        };
        assert_eq!(connection.greeting, format!("b1 {client}"));
        // And from the old node itself.
        let connection = tcp(&scene.a.pod("a1").space, vip, SOON).unwrap();
        assert!(connection.greeting.starts_with("b1 "));
    }
    for vip in vips() {
        assert!(scene.a.space.netlink.stop_leading(vip).unwrap());
        assert!(!scene.a.space.netlink.stop_leading(vip).unwrap());
    }
    assert!(scene.a.space.netlink.leading().unwrap().is_empty());
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn only_connections_of_the_given_addresses_are_forgotten() {
    let mut scene = Scene::serving();
    let other = ip("10.9.0.101");
    let pod = scene.a.pod("a2").v4;
    scene.a.rules.hold(other, pod, "cni0").unwrap();
    scene.a.rules.announce(other);
    scene.a.program();
    scene
        .a
        .responder
        .set(BTreeSet::from([ip(VIP4), other]))
        .unwrap();
    let mut stays = tcp(&scene.client, other, SOON).unwrap();
    let mut goes = tcp(&scene.client, ip(VIP4), SOON).unwrap();
    let listed = |vip: IpAddr| connections(&scene.a.space, "tcp", vip);
    assert_eq!((listed(ip(VIP4)), listed(other)), (1, 1));
    let forgotten = BTreeSet::from([ip(VIP4), ip("10.9.0.102")]);
    let count = scene.a.space.netns.run(|| conntrack::forget(&forgotten));
    assert_eq!(count.unwrap().unwrap(), 1);
    assert_eq!((listed(ip(VIP4)), listed(other)), (0, 1));
    stays.say("still here", SOON).unwrap();
    // The kernel takes it up again, because the pod is the same.
    goes.say("here again", SOON).unwrap();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn connections_that_began_without_rules_are_forgotten_and_translated_ones_go_on() {
    let mut scene = Scene::new();
    // A client with an old neighbour entry sends while the node serves nothing.
    scene.a.program();
    let mac = scene.a.space.link("eth0").mac.unwrap();
    let stale = format!("neigh replace {VIP4} lladdr {mac} dev eth0");
    scene.client.ip(&stale);
    let socket = scene.client.netns.run(|| UdpSocket::bind("0.0.0.0:0"));
    let socket = socket.unwrap().unwrap();
    let send = || socket.send_to(b"?", (VIP4, 9)).unwrap();
    let remembered = |scene: &Scene| connections(&scene.a.space, "udp", ip(VIP4));
    send();
    until("the kernel remembers it", || remembered(&scene) == 1);
    scene.a.hold("a1");
    scene.a.live(LONG);
    let mut translated = tcp(&scene.client, ip(VIP4), SOON).unwrap();
    let all = BTreeSet::from([ip(VIP4)]);
    let forget = |scene: &Scene| {
        let forgotten = scene
            .a
            .space
            .netns
            .run(|| conntrack::forget_untranslated(&all));
        forgotten.unwrap().unwrap()
    };
    assert_eq!(forget(&scene), 1);
    assert_eq!(remembered(&scene), 0);
    assert_eq!(forget(&scene), 0, "the translated one is kept");
    translated.say("still here", SOON).unwrap();
}
