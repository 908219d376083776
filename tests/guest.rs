//! What the guest kernel must be able to do: VLANs, ipvlan, SR-IOV, and control
//! groups of version 2.
//!
//! The compiled tests run inside the guest, all in one boot. Each works in
//! network namespaces of its own.

#![allow(
    clippy::unwrap_used,
    reason = "clippy takes the helpers of these tests for ordinary code"
)]

#[path = "guest/capture.rs"]
mod capture;
#[path = "guest/cgroups.rs"]
mod cgroups;
#[path = "guest/cni.rs"]
mod cni;
#[path = "guest/lab.rs"]
mod lab;
#[path = "guest/sriov.rs"]
mod sriov;

use capture::Capture;
use lab::{Namespace, cable, deliver};

/// Panics on the host, where these tests would fail in less telling ways.
fn in_guest() {
    assert!(
        std::env::var_os(floe_testbed::guest::GUEST_VARIABLE).is_some(),
        "this test runs in the guest kernel only: cargo xtask test --only guest"
    );
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn the_guest_has_a_kernel_and_files_of_its_own() {
    in_guest();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    let root = mounts
        .lines()
        .find(|line| line.split(' ').nth(1) == Some("/"));
    assert!(root.unwrap().contains(" overlay rw"), "{mounts}");
    let here = std::env::current_dir().unwrap();
    let own = mounts.lines().any(|line| {
        let mut words = line.split(' ').skip(1);
        words.next().map(std::path::Path::new) == Some(&here) && words.next() == Some("9p")
    });
    assert!(own, "{} is not shared: {mounts}", here.display());
    let modules = format!(
        "/lib/modules/{}/modules.dep",
        lab::run("uname", "-r").trim()
    );
    assert!(std::path::Path::new(&modules).exists());
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_vlan_device_tags_what_it_sends_and_receives_only_its_vlan() {
    in_guest();
    let (a, b) = (Namespace::new("vlan-a"), Namespace::new("vlan-b"));
    cable(&a, "wire", &b, "wire");
    for (namespace, host) in [(&a, 1), (&b, 2)] {
        namespace.ip(&format!("address add 10.1.0.{host}/24 dev wire"));
        namespace.ip("link add link wire name v7 type vlan id 7");
        namespace.ip(&format!("address add 10.7.0.{host}/24 dev v7"));
        namespace.ip("link set v7 up");
    }
    let (sent, arrived) = (Capture::start(&a, "wire"), Capture::start(&b, "wire"));

    deliver(
        &a.udp("10.1.0.1:7000"),
        &b.udp("10.1.0.2:7000"),
        "plain frame",
    );
    let to = b.udp("10.7.0.2:7000");
    deliver(&a.udp("10.7.0.1:7000"), &to, "frame of seven");
    for capture in [&sent, &arrived] {
        assert_eq!(capture.frame("plain frame").vlan, None);
        assert_eq!(capture.frame("frame of seven").vlan, Some(7));
    }

    // The same addresses and the right hardware address, but the wrong VLAN.
    let mac = b.mac("wire");
    a.ip("link add link wire name v9 type vlan id 9");
    a.ip("link set v9 up");
    a.ip("address add 10.9.0.1/24 dev v9");
    a.ip("route add 10.7.0.2/32 dev v9 src 10.9.0.1");
    a.ip(&format!("neighbour add 10.7.0.2 lladdr {mac} dev v9"));
    let stranger = a.udp("10.9.0.1:7000");
    stranger.send_to(b"astray", "10.7.0.2:7000").unwrap();
    assert_eq!(arrived.frame("astray").vlan, Some(9));
    a.ip("route delete 10.7.0.2/32 dev v9");
    let received = deliver(&a.udp("10.7.0.1:7001"), &to, "after");
    assert!(!received.contains(&"astray".to_owned()), "{received:?}");
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn ipvlan_l2_devices_share_the_hardware_address_of_their_parent() {
    in_guest();
    let (parent, outside) = (Namespace::new("ipl2-host"), Namespace::new("ipl2-out"));
    let (a, b) = (Namespace::new("ipl2-a"), Namespace::new("ipl2-b"));
    cable(&parent, "wire", &outside, "wire");
    outside.ip("address add 10.50.0.3/24 dev wire");
    for (namespace, name, host) in [(&a, "ipl2-a", 1), (&b, "ipl2-b", 2)] {
        parent.ip(&format!(
            "link add link wire name ip{host} netns {name} type ipvlan mode l2"
        ));
        namespace.ip(&format!("address add 10.50.0.{host}/24 dev ip{host}"));
        namespace.ip(&format!("link set ip{host} up"));
    }
    assert!(a.ip("-d link show dev ip1").contains("mode l2"));
    let capture = Capture::start(&outside, "wire");

    deliver(
        &a.udp("10.50.0.1:7000"),
        &b.udp("10.50.0.2:7000"),
        "between the two",
    );
    deliver(
        &a.udp("10.50.0.1:7001"),
        &outside.udp("10.50.0.3:7000"),
        "to the outside",
    );
    let frames = capture.frames_until("to the outside");
    assert_eq!(frames.last().unwrap().source(), parent.mac("wire"));
    assert!(
        !frames.iter().any(|frame| frame.contains("between the two")),
        "traffic between two devices of one parent was seen on the wire"
    );
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn ipvlan_l3_devices_route_between_subnets() {
    in_guest();
    let (parent, outside) = (Namespace::new("ipl3-host"), Namespace::new("ipl3-out"));
    let (a, b) = (Namespace::new("ipl3-a"), Namespace::new("ipl3-b"));
    cable(&parent, "wire", &outside, "wire");
    for (namespace, name, host) in [(&a, "ipl3-a", 1), (&b, "ipl3-b", 2)] {
        parent.ip(&format!(
            "link add link wire name ip{host} netns {name} type ipvlan mode l3"
        ));
        namespace.ip(&format!("address add 10.60.{host}.1/32 dev ip{host}"));
        namespace.ip(&format!("link set ip{host} up"));
        namespace.ip(&format!("route add default dev ip{host}"));
    }
    assert!(a.ip("-d link show dev ip1").contains("mode l3"));
    let (from, to) = (a.udp("10.60.1.1:7000"), b.udp("10.60.2.1:7000"));
    deliver(&from, &to, "there");
    deliver(&to, &from, "and back");
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_vlan_filtering_bridge_keeps_vlans_apart_and_tags_its_trunk() {
    in_guest();
    let bridge = Namespace::new("br-switch");
    let (ten, twenty) = (Namespace::new("br-ten"), Namespace::new("br-twenty"));
    let trunk = Namespace::new("br-trunk");
    bridge.ip("link add switch type bridge vlan_filtering 1 vlan_default_pvid 0");
    bridge.ip("link set switch up");
    for (namespace, port) in [(&ten, "ten"), (&twenty, "twenty"), (&trunk, "trunk")] {
        cable(&bridge, port, namespace, "wire");
        bridge.ip(&format!("link set {port} master switch"));
    }
    bridge.bridge("vlan add dev ten vid 10 pvid untagged");
    bridge.bridge("vlan add dev twenty vid 20 pvid untagged");
    // One subnet everywhere: only the VLANs keep the hosts apart.
    ten.ip("address add 10.80.0.1/24 dev wire");
    twenty.ip("address add 10.80.0.2/24 dev wire");
    for (vlan, host) in [(10, 11), (20, 12)] {
        bridge.bridge(&format!("vlan add dev trunk vid {vlan}"));
        trunk.ip(&format!(
            "link add link wire name v{vlan} type vlan id {vlan}"
        ));
        trunk.ip(&format!("address add 10.80.0.{host}/32 dev v{vlan}"));
        trunk.ip(&format!("link set v{vlan} up"));
    }
    trunk.ip("route add 10.80.0.1/32 dev v10 src 10.80.0.11");
    trunk.ip("route add 10.80.0.2/32 dev v20 src 10.80.0.12");
    let on_trunk = Capture::start(&trunk, "wire");
    let on_twenty = Capture::start(&twenty, "wire");

    // A broadcast floods every port of its VLAN; the marker after it proves
    // that the other VLAN would have got it by now.
    let (from, to) = (ten.udp("10.80.0.1:7000"), trunk.udp("10.80.0.11:7000"));
    deliver(&from, &to, "of ten");
    from.set_broadcast(true).unwrap();
    from.send_to(b"broadcast", "10.80.0.255:7000").unwrap();
    assert_eq!(on_trunk.frame("of ten").vlan, Some(10));
    assert_eq!(on_trunk.frame("broadcast").vlan, Some(10));

    let (from, to) = (trunk.udp("10.80.0.12:7000"), twenty.udp("10.80.0.2:7000"));
    deliver(&from, &to, "to twenty");
    let seen = on_twenty.frames_until("to twenty");
    assert_eq!(seen.last().unwrap().vlan, None, "the access port untags");
    assert!(
        !seen.iter().any(|frame| frame.contains("broadcast")),
        "VLAN 20 saw a frame of VLAN 10"
    );
    assert_eq!(on_trunk.frame("to twenty").vlan, Some(20));
}
