//! The plugins on a kernel with VLANs and ipvlan.

#[path = "cni_galaxy.rs"]
mod galaxy;
#[allow(
    dead_code,
    clippy::duplicate_mod,
    reason = "tests on the host's kernel use the same, and other parts of it"
)]
#[path = "../netns/cni/harness.rs"]
mod harness;
#[path = "cni_sriov.rs"]
mod sriov;

use std::thread;

use harness::journey::{journey, settled};
use harness::lab::deliver;
use harness::mode::{BRIDGE, FAMILIES, Family, Given, MACVLAN, Mode, PURE, Seen, UNDERLAY};
use harness::plugin::Attachment;
use harness::site::{Site, UPLINK};
use harness::view::View;

use super::in_guest;

/// How many pods come at once. Processes start slowly in here.
const CROWD: u8 = 24;
const TAG: u16 = 2;

const TAGGED_BRIDGE: Mode = Mode {
    title: "tagged-bridge",
    vlan: TAG,
    shared: Some("docker2"),
    ..BRIDGE
};
/// As on the bridge: only untagged addresses are routed.
const TAGGED_PURE: Mode = Mode {
    title: "tagged-pure",
    vlan: TAG,
    seen: Seen::Own,
    shared: Some("docker2"),
    ..PURE
};
const TAGGED_MACVLAN: Mode = Mode {
    title: "tagged-macvlan",
    vlan: TAG,
    shared: Some("vlan2"),
    ..MACVLAN
};
const TAGGED_UNDERLAY: Mode = Mode {
    title: "tagged-underlay",
    vlan: TAG,
    ..UNDERLAY
};
const IPVLAN_L2: Mode = Mode {
    title: "ipvlan-l2",
    switch: "ipvlan",
    ipvlan: "l2",
    veth: None,
    seen: Seen::Node,
    kind: "ipvlan",
    shared: None,
    ..BRIDGE
};
const IPVLAN_L3: Mode = Mode {
    title: "ipvlan-l3",
    ipvlan: "l3",
    ..IPVLAN_L2
};
const IPVLAN_L3S: Mode = Mode {
    title: "ipvlan-l3s",
    ipvlan: "l3s",
    ..IPVLAN_L2
};
const TAGGED_IPVLAN: Mode = Mode {
    title: "tagged-ipvlan",
    vlan: TAG,
    shared: Some("vlan2"),
    ..IPVLAN_L2
};

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_on_the_bridge_of_a_vlan_is_reached_and_leaves_no_trace() {
    every_family(&TAGGED_BRIDGE);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_in_pure_mode_on_a_vlan_is_reached_and_leaves_no_trace() {
    every_family(&TAGGED_PURE);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_with_macvlan_on_a_vlan_is_reached_and_leaves_no_trace() {
    every_family(&TAGGED_MACVLAN);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_on_the_underlay_of_a_vlan_is_reached_and_leaves_no_trace() {
    every_family(&TAGGED_UNDERLAY);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_with_ipvlan_l2_is_reached_and_leaves_no_trace() {
    every_family(&IPVLAN_L2);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_with_ipvlan_l3_is_reached_and_leaves_no_trace() {
    every_family(&IPVLAN_L3);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_with_ipvlan_l3s_is_reached_and_leaves_no_trace() {
    every_family(&IPVLAN_L3S);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_with_ipvlan_on_a_vlan_is_reached_and_leaves_no_trace() {
    every_family(&TAGGED_IPVLAN);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn an_address_that_a_host_on_the_vlan_has_is_refused() {
    in_guest();
    for mode in [
        TAGGED_BRIDGE,
        TAGGED_MACVLAN,
        TAGGED_UNDERLAY,
        TAGGED_IPVLAN,
    ] {
        conflicts(&mode, &format!("wire.{TAG}"));
    }
    for mode in [IPVLAN_L2, IPVLAN_L3, IPVLAN_L3S] {
        conflicts(&mode, "wire");
    }
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn of_two_pods_of_a_node_only_one_gets_an_address_by_ipvlan() {
    in_guest();
    for mode in [IPVLAN_L2, IPVLAN_L3, IPVLAN_L3S, TAGGED_IPVLAN] {
        let site = site_for(&mode);
        for family in [Family::V4, Family::V6] {
            let given = mode.addresses(family, 83);
            let pods = [site.pod("first"), site.pod("second")];
            let first = Attachment::new(site.node(), &mode, &pods[0], &given);
            first.add();
            let second = Attachment::new(site.node(), &mode, &pods[1], &given);
            let failure = second.refused();
            assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
            let expected = format!("AddressConflict: {} is already in use", given[0].ip);
            assert!(failure.message.starts_with(&expected), "{failure:?}");
            assert_eq!(View::of(&pods[1]).names(), [""; 0], "{}", mode.title);
            first.del();
        }
    }
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn the_nodes_own_address_is_never_given_to_an_ipvlan() {
    in_guest();
    for mode in [IPVLAN_L2, IPVLAN_L3] {
        let site = site_for(&mode);
        for own in [Given::v4(0, 2), Given::v6(0, 2)] {
            let pod = site.pod("thief");
            let failure = Attachment::new(site.node(), &mode, &pod, &[own]).refused();
            assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
        }
    }
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn the_same_address_on_another_vlan_is_no_conflict() {
    in_guest();
    let site = Site::new(1);
    site.tag(TAG);
    site.tag(3);
    // It answers for an address only where it has it.
    site.outside.set("ipv4/conf/all/arp_ignore", "1");
    let given = Given::v4(TAG, 80);
    site.outside
        .ip(&format!("address add {} dev wire.3", given.net()));
    let pod = site.pod("apart");
    Attachment::new(site.node(), &TAGGED_MACVLAN, &pod, &[given]).add();
    assert_eq!(View::of(&pod).global_addresses("eth0"), [given.net()]);
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn many_pods_at_once_share_the_devices_of_a_vlan_that_is_not_there_yet() {
    in_guest();
    let site = Site::new(1);
    site.tag(TAG);
    let pods: Vec<_> = (0..CROWD)
        .map(|number| {
            let given = Given::v4(TAG, 100 + number);
            (given, site.pod(&number.to_string()))
        })
        .collect();
    let attachments: Vec<_> = pods
        .iter()
        .map(|(given, pod)| Attachment::new(site.node(), &TAGGED_BRIDGE, pod, &[*given]))
        .collect();
    let all = |command: &'static str| {
        thread::scope(|scope| {
            for attachment in &attachments {
                scope.spawn(move || {
                    let reply = attachment.call(command);
                    assert!(reply.is_success(), "{command}: {reply:?}");
                });
            }
        });
    };
    all("ADD");
    let view = View::of(&site.node().net);
    let vlans = view
        .names()
        .into_iter()
        .filter(|name| view.kind(name) == "vlan");
    assert_eq!(vlans.collect::<Vec<_>>(), ["vlan2"]);
    for (given, pod) in [&pods[0], &pods[pods.len() - 1]] {
        let outside = site.outside.udp(given.gateway);
        deliver(&outside, &pod.udp(given.ip), "one of many");
    }
    all("DEL");
    let view = View::of(&site.node().net);
    let mut names = view.names();
    names.sort_unstable();
    assert_eq!(names, ["docker2", UPLINK, "vlan2"]);
}

fn every_family(mode: &Mode) {
    in_guest();
    let site = site_for(mode);
    for family in FAMILIES {
        journey(&site, mode, family);
    }
}

/// A site with what a mode needs of its administrator.
fn site_for(mode: &Mode) -> Site {
    let site = Site::new(1);
    if mode.vlan == 0 {
        return site;
    }
    site.tag(mode.vlan);
    if mode.plugin == UNDERLAY.plugin {
        // This plugin makes no VLAN devices.
        site.node().net.batch(&format!(
            "link add link {UPLINK} name {UPLINK}.{TAG} type vlan id {TAG}
             address add 192.168.{TAG}.2/24 dev {UPLINK}.{TAG}
             address add fd00:c{TAG}::2/64 dev {UPLINK}.{TAG} nodad
             link set {UPLINK}.{TAG} up\n"
        ));
        harness::lab::wait_for("the device's link-local address", || {
            let view = View::of(&site.node().net);
            let addresses = view.addresses(&format!("{UPLINK}.{TAG}"));
            addresses
                .iter()
                .any(|it| it.starts_with("fe80:"))
                .then_some(())
        });
    }
    site
}

fn conflicts(mode: &Mode, wire: &str) {
    let site = site_for(mode);
    let before = settled(&site, mode);
    for family in [Family::V4, Family::V6] {
        let given = mode.addresses(family, 80);
        let nodad = if family == Family::V6 { "nodad" } else { "" };
        site.outside.ip(&format!(
            "address add {} dev {wire} {nodad}",
            given[0].net()
        ));
        let pod = site.pod("late");
        let failure = Attachment::new(site.node(), mode, &pod, &given).refused();
        assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
        let (ip, mac) = (given[0].ip, site.outside.mac("wire"));
        let expected = format!("AddressConflict: {ip} is already in use by {mac}");
        assert_eq!(failure.message, expected, "{}", mode.title);
        assert_eq!(View::of(&pod).names(), [""; 0], "{}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}
