//! The host's own address moves to the bridge, and is never lost on the way.

use std::thread;
use std::time::Duration;

use serde_json::json;

use super::harness::lab::deliver;
use super::harness::mode::{BRIDGE, Given};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};
use super::harness::view::{Snapshot, View};

/// The addresses of the first node.
const OWN: [&str; 2] = ["192.168.0.2/24", "fd00:c0::2/64"];

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_plugin_killed_at_any_moment_never_costs_the_node_its_address() {
    // An ADD comes to its question about duplicates within a few milliseconds.
    for moment in 0..24 {
        let site = Site::new(1);
        let node = site.node();
        let pod = site.pod("killed");
        let attachment = Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 30)]);
        let config = json!(attachment.config).to_string();
        let mut child = attachment.start("ADD", config.as_bytes());
        thread::sleep(Duration::from_micros(moment * 500));
        child.kill().unwrap();
        child.wait().unwrap();

        let view = View::of(&node.net);
        for own in OWN {
            let places = [UPLINK, "docker"].map(|name| view.addresses(name));
            let there = places.iter().flatten().any(|address| address == own);
            assert!(there, "moment {moment}: {own} is gone");
        }
        // What a runtime does next: away with it, and once more.
        attachment.del();
        attachment.add();
        is_moved(&site, &format!("moment {moment}"));
        attachment.del();
        let names = View::of(&node.net).names().join(" ");
        assert!(!names.contains("v-"), "moment {moment}: {names}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_move_that_cannot_be_made_leaves_everything_as_it_was() {
    let site = Site::new(1);
    let node = site.node();
    // Something else has the name of the bridge.
    node.net.ip("link add docker type veth peer name elsewhere");
    let before = Snapshot::of(node);
    let pod = site.pod("unlucky");
    let attachment = Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 31)]);
    let failure = attachment.refused();
    assert!(failure.message.contains("docker"), "{failure:?}");
    before.must_return(node, "a name that is taken");

    // The device belongs to somebody else's bridge.
    node.net.batch(&format!(
        "link delete docker\nlink add theirs type bridge\nlink set theirs up\n\
         link set {UPLINK} master theirs\n"
    ));
    let before = Snapshot::of(node);
    let reply = attachment.call("ADD");
    if reply.is_success() {
        // It may use the bridge that is there, but not take the device out of it.
        let view = View::of(&node.net);
        assert_eq!(view.link_text(UPLINK, "master"), "theirs");
        attachment.del();
    }
    let view = View::of(&node.net);
    assert_eq!(view.link_text(UPLINK, "master"), "theirs");
    let (_, lost) = before.changes(&Snapshot::of(node));
    assert!(
        !lost.iter().any(|line| line.starts_with("link ")),
        "{lost:?}"
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn routes_with_metric_source_and_other_tables_move_too() {
    let site = Site::new(1);
    let node = site.node();
    node.net.batch(&format!(
        "address add 192.168.0.102/24 dev {UPLINK}
         route add 10.50.0.0/16 via 192.168.0.1 metric 7 src 192.168.0.102
         route add 10.51.0.0/16 dev {UPLINK} scope link
         route add 10.52.0.0/16 via 192.168.0.1 table 77
         route add 198.51.100.1 via 192.168.99.1 dev {UPLINK} onlink
         route add fd00:51::/48 via fd00:c0::1 metric 9\n"
    ));
    let pod = site.pod("routes");
    Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 32)]).add();
    let view = View::of(&node.net);
    let via = [("docker", "192.168.0.1")];
    assert_eq!(view.routes("main", "10.50.0.0/16"), via);
    assert_eq!(view.routes("main", "10.51.0.0/16"), [("docker", "")]);
    assert_eq!(view.routes("77", "10.52.0.0/16"), via);
    assert_eq!(
        view.routes("main", "198.51.100.1"),
        [("docker", "192.168.99.1")]
    );
    assert_eq!(
        view.routes("main", "fd00:51::/48"),
        [("docker", "fd00:c0::1")]
    );
    let lines = view.lines();
    let with_source = lines
        .iter()
        .find(|line| line.contains("10.50.0.0/16"))
        .unwrap();
    assert!(
        with_source.contains("\"metric\":7") && with_source.contains("192.168.0.102"),
        "{with_source}"
    );
    let own = ["192.168.0.102/24", OWN[0], OWN[1]];
    assert_eq!(view.global_addresses("docker"), own);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn connections_of_the_node_survive_the_move() {
    let site = Site::new(1);
    let node = site.node();
    let [own, _] = node.addresses();
    let listener = site
        .outside
        .within(|| std::net::TcpListener::bind("192.168.0.1:80").unwrap());
    let near = node
        .net
        .within(|| std::net::TcpStream::connect("192.168.0.1:80").unwrap());
    let (mut far, from) = listener.accept().unwrap();
    assert_eq!(from.ip(), own);
    let pod = site.pod("survivor");
    Attachment::new(node, &BRIDGE, &pod, &[Given::v4(0, 33)]).add();
    std::io::Write::write_all(&mut far, b"still there").unwrap();
    near.set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    let mut text = [0; 11];
    std::io::Read::read_exact(&mut &near, &mut text).unwrap();
    assert_eq!(&text, b"still there");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn pods_that_come_and_go_do_not_change_the_address_by_which_a_bridge_is_known() {
    let site = Site::new(1);
    let node = site.node();
    // Above nearly all that the kernel would give to a veth.
    let mac = "f2:ff:ff:ff:ff:01";
    node.net.batch(&format!(
        "link add theirs type bridge
         link set theirs up
         link set {UPLINK} address {mac}
         link set {UPLINK} master theirs\n"
    ));
    let known_by = || {
        let view = View::of(&node.net);
        view.link_text("theirs", "address").to_owned()
    };
    assert_eq!(known_by(), mac);
    let pods = ["first", "second", "third"].map(|name| site.pod(name));
    for (pod, host) in pods.iter().zip(34..) {
        let attachment =
            Attachment::new(node, &BRIDGE, pod, &[Given::v4(0, host)]).with("device", "theirs");
        attachment.add();
        let view = View::of(&node.net);
        let end = view.link_text(&attachment.host_link("-l0"), "address");
        assert!(end.starts_with("fe:"), "{end}");
        assert_eq!(known_by(), mac);
        attachment.del();
        assert_eq!(known_by(), mac);
    }
}

fn is_moved(site: &Site, what: &str) {
    let node = site.node();
    let view = View::of(&node.net);
    assert_eq!(view.global_addresses("docker"), OWN, "{what}");
    assert_eq!(view.global_addresses(UPLINK), [""; 0], "{what}");
    assert_eq!(
        view.routes("main", "10.99.0.0/16"),
        [("docker", "192.168.0.1")],
        "{what}"
    );
    let mut defaults = view.defaults();
    defaults.sort_unstable();
    let expected = [("docker", "192.168.0.1"), ("docker", "fd00:c0::1")];
    assert_eq!(defaults, expected, "{what}");
    let here = node.net.udp(node.addresses()[0]);
    let there = site.outside.udp("192.168.0.1".parse().unwrap());
    deliver(&there, &here, "the node is reached");
}
