//! An address that somebody has already is not given to a pod.

use std::net::IpAddr;
use std::time::{Duration, Instant};

use super::harness::capture::Capture;
use super::harness::journey::settled;
use super::harness::lab::{deliver, wait_for};
use super::harness::mode::{BRIDGE, Family, Given, MACVLAN, Seen, UNTAGGED};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn an_address_that_a_host_outside_has_is_refused_with_its_hardware_address() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let mac = site.outside.mac("wire");
        let taken = [Given::v4(0, 80), Given::v6(0, 80)];
        for given in taken {
            let nodad = if given.ip.is_ipv6() { "nodad" } else { "" };
            site.outside
                .ip(&format!("address add {} dev wire {nodad}", given.net()));
        }
        // Alone, and as the second of two addresses.
        let free = Given::v4(0, 81);
        for all in [
            vec![taken[0]],
            vec![taken[1]],
            vec![free, taken[1]],
            vec![free, taken[0]],
        ] {
            let pod = site.pod("late");
            let attachment = Attachment::new(site.node(), &mode, &pod, &all);
            let failure = attachment.refused();
            let ip = all.last().unwrap().ip;
            assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
            let expected = format!("AddressConflict: {ip} is already in use by {mac}");
            assert!(
                failure.message.starts_with(&expected),
                "{} {failure:?}",
                mode.title
            );
            assert_eq!(View::of(&pod).names(), [""; 0], "{} {ip}", mode.title);
            before.must_return(site.node(), &format!("{} {ip}", mode.title));
            // A runtime deletes what it failed to add.
            attachment.del();
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_stale_copy_of_the_pod_on_another_node_is_found() {
    for mode in UNTAGGED {
        for family in [Family::V4, Family::V6] {
            let site = Site::new(2);
            let given = mode.addresses(family, 82);
            let stale = site.pod("stale");
            Attachment::new(&site.nodes[0], &mode, &stale, &given).add();
            let pod = site.pod("new");
            let attachment = Attachment::new(&site.nodes[1], &mode, &pod, &given);
            let failure = attachment.refused();
            let mac = match mode.seen {
                Seen::Own => given[0].mac(),
                Seen::Node => site.nodes[0].net.mac(UPLINK),
            };
            assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
            assert!(
                failure.message.ends_with(&format!("in use by {mac}")),
                "{} {family:?} {failure:?}",
                mode.title
            );
            assert_eq!(View::of(&pod).names(), [""; 0]);
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_of_the_same_node_is_found_too() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let given = mode.addresses(Family::V4, 83);
        let first = site.pod("first");
        Attachment::new(site.node(), &mode, &first, &given).add();
        let second = site.pod("second");
        let failure = Attachment::new(site.node(), &mode, &second, &given).refused();
        assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
        let (inside, outside) = (first.udp(given[0].ip), site.outside.udp(given[0].gateway));
        deliver(&outside, &inside, "the first pod still answers");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_nodes_own_address_is_never_given_to_a_pod() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let mac = site.node().net.mac(UPLINK);
        for given in [Given::v4(0, 2), Given::v6(0, 2)] {
            let pod = site.pod("thief");
            let attachment = Attachment::new(site.node(), &mode, &pod, &[given]);
            let failure = attachment.refused();
            assert_eq!(failure.code, 101, "{} {failure:?}", mode.title);
            assert!(failure.message.ends_with(&mac), "{failure:?}");
            before.must_return(site.node(), mode.title);
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_bridge_that_opens_its_ports_late_is_waited_for() {
    let site = Site::new(1);
    let node = &site.node().net;
    // With spanning tree a port passes nothing for twice this time.
    node.batch(&format!(
        "link add own type bridge stp_state 1 forward_delay 200
         link set {UPLINK} master own
         link set own up\n"
    ));
    wait_for("the uplink's port to open", || {
        let shown = node.ip(&format!("-d link show dev {UPLINK}"));
        shown.contains("state forwarding").then_some(())
    });
    let given = Given::v4(0, 90);
    site.outside
        .ip(&format!("address add {} dev wire", given.net()));
    let pod = site.pod("early");
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[given]).with("device", "own");
    let failure = attachment.refused();
    assert_eq!(failure.code, 101, "{failure:?}");
    // A port that is still closed when a pod comes: nobody can be asked.
    node.ip("link set own type bridge forward_delay 3000");
    node.ip(&format!("link set {UPLINK} nomaster"));
    node.ip(&format!("link set {UPLINK} master own"));
    let failure = attachment.refused();
    assert_eq!(failure.code, 50, "{failure:?}");
    assert!(
        failure.message.starts_with("ParentLinkDown: "),
        "{failure:?}"
    );
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn nobody_is_asked_when_the_configuration_says_so() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let given = Given::v4(0, 84);
        site.outside
            .ip(&format!("address add {} dev wire", given.net()));
        let wire = Capture::start(&site.outside, "wire");
        let pod = site.pod("bold");
        Attachment::new(site.node(), &mode, &pod, &[given])
            .with("duplicate_address_detection", false)
            .add();
        assert_eq!(View::of(&pod).global_addresses("eth0"), [given.net()]);
        assert_eq!(probed(&site, &wire), Vec::<IpAddr>::new(), "{}", mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn all_addresses_are_asked_about_within_one_window() {
    let site = Site::new(1);
    settled(&site, &BRIDGE);
    let wire = Capture::start(&site.outside, "wire");
    let all = [85, 86, 87].map(|host| Given::v4(0, host));
    let pod = site.pod("window");
    let attachment =
        Attachment::new(site.node(), &BRIDGE, &pod, &all).with("duplicate_address_window_ms", 1000);
    let started = Instant::now();
    attachment.add();
    let took = started.elapsed();
    assert!(took >= Duration::from_secs(1), "{took:?}");
    assert!(took < Duration::from_secs(2), "{took:?}");
    let probed = probed(&site, &wire);
    for given in all {
        assert!(probed.contains(&given.ip), "{given:?} not in {probed:?}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_pods_that_want_one_address_at_once_never_both_get_it() {
    for mode in [BRIDGE, MACVLAN] {
        let site = Site::new(2);
        let given = mode.addresses(Family::V4, 88);
        let pods = [site.pod("one"), site.pod("two")];
        for (node, pod) in site.nodes.iter().zip(&pods) {
            // The shared devices are there, so both ask at the same time.
            let attachment = Attachment::new(node, &mode, pod, &[Given::v4(0, 89)]);
            attachment.add();
            attachment.del();
        }
        let replies: Vec<bool> = std::thread::scope(|scope| {
            let calls: Vec<_> = site
                .nodes
                .iter()
                .zip(&pods)
                .map(|(node, pod)| {
                    let attachment = Attachment::new(node, &mode, pod, &given);
                    scope.spawn(move || attachment.call("ADD").is_success())
                })
                .collect();
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        let winners = replies.iter().filter(|success| **success).count();
        assert!(winners <= 1, "{}", mode.title);
    }
}

/// The addresses about which ARP probes of RFC 5227 have passed the wire.
fn probed(site: &Site, wire: &Capture) -> Vec<IpAddr> {
    let frames = site.seen(wire);
    let targets = frames.iter().filter_map(|frame| {
        let arp = frame.bytes.get(14..42)?;
        let target: [u8; 4] = arp[24..28].try_into().ok()?;
        let is_probe = frame.bytes[12..14] == [0x08, 0x06] && arp[14..18] == [0; 4];
        is_probe.then(|| IpAddr::from(target))
    });
    targets.collect()
}
