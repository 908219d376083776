//! The segment learns at once where an address lives.

use std::net::IpAddr;

use super::harness::capture::{Capture, Frame};
use super::harness::journey::settled;
use super::harness::lab::{deliver, wait_for};
use super::harness::mode::{BRIDGE, Family, Given, MACVLAN, Mode, PURE, Seen, UNDERLAY, UNTAGGED};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};

/// The override flag of a neighbour advertisement.
const OVERRIDE: u8 = 0x20;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn every_address_is_announced_with_its_own_hardware_address() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        settled(&site, &mode);
        let pod = site.pod("loud");
        let all = [Given::v4(0, 61), Given::v6(0, 61), Given::v4(0, 62)];
        let wire = Capture::start(&site.outside, "wire");
        Attachment::new(site.node(), &mode, &pod, &all).add();
        let told: Vec<_> = site.seen(&wire).iter().filter_map(announcement).collect();
        for (given, nic) in [(all[0], all[0]), (all[1], all[0]), (all[2], all[2])] {
            let mac = mac_on_the_segment(&site, &mode, &nic);
            let of_it: Vec<_> = told.iter().filter(|it| it.address == given.ip).collect();
            assert!(!of_it.is_empty(), "{} {given:?}: {told:?}", mode.title);
            for it in &of_it {
                assert_eq!(it.mac, mac, "{} {given:?}", mode.title);
                assert_eq!(it.form, "answer", "{} {given:?}", mode.title);
            }
            if given.ip.is_ipv4() {
                assert_eq!(of_it.len(), 2, "{} {given:?}: {told:?}", mode.title);
            }
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn no_announcement_is_lost_when_nobody_is_asked_before() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        settled(&site, &mode);
        let wire = Capture::start(&site.outside, "wire");
        let all: Vec<_> = (100..120).map(|host| Given::v4(0, host)).collect();
        for given in &all {
            let pod = site.pod(&given.ip.to_string());
            Attachment::new(site.node(), &mode, &pod, &[*given])
                .with("duplicate_address_detection", false)
                .add();
        }
        let told: Vec<_> = site.seen(&wire).iter().filter_map(announcement).collect();
        for given in all {
            let of_it = told.iter().filter(|it| it.address == given.ip);
            assert_eq!(of_it.count(), 2, "{} {given:?}: {told:?}", mode.title);
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_announcement_is_a_request_where_the_configuration_says_so() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let pod = site.pod("loud");
        let given = Given::v4(0, 63);
        let wire = Capture::start(&site.outside, "wire");
        Attachment::new(site.node(), &mode, &pod, &[given])
            .with("gratuitous_arp_request", true)
            .add();
        let told: Vec<_> = site.seen(&wire).iter().filter_map(announcement).collect();
        let forms: Vec<_> = told.iter().filter(|it| it.address == given.ip).collect();
        assert_eq!(forms.len(), 2, "{} {told:?}", mode.title);
        assert!(forms.iter().all(|it| it.form == "request"), "{told:?}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_neighbour_entry_moves_with_a_pod_that_its_node_answers_for() {
    for mode in [PURE, UNDERLAY] {
        for family in [Family::V4, Family::V6] {
            let site = Site::new(2);
            let [old, new] = [0, 1].map(|node: usize| site.nodes[node].net.mac(UPLINK));
            let given = mode.addresses(family, 64);
            let ip = given[0].ip;
            let known = || site.outside.neighbour(ip);

            let pod = site.pod("here");
            let attachment = Attachment::new(&site.nodes[0], &mode, &pod, &given);
            attachment.add();
            deliver(&site.outside.udp(given[0].gateway), &pod.udp(ip), "hello");
            assert_eq!(known(), Some(old), "{} {family:?}", mode.title);
            attachment.del();

            let pod = site.pod("there");
            Attachment::new(&site.nodes[1], &mode, &pod, &given).add();
            // Nobody has asked since: it was told.
            wait_for("the neighbour entry to move", || {
                (known().as_ref() == Some(&new)).then_some(())
            });
            deliver(&site.outside.udp(given[0].gateway), &pod.udp(ip), "again");
        }
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_switch_learns_where_a_pod_with_its_own_hardware_address_is_now() {
    for mode in [BRIDGE, MACVLAN] {
        for family in [Family::V4, Family::V6] {
            let site = Site::new(2);
            let given = mode.addresses(family, 65);
            let mac = given[0].mac();
            for (number, port) in ["port-0", "port-1"].into_iter().enumerate() {
                let pod = site.pod("mover");
                let node = &site.nodes[number];
                let attachment = Attachment::new(node, &mode, &pod, &given);
                attachment.add();
                wait_for("the switch to learn it", || {
                    (site.port_of(&mac).as_deref() == Some(port)).then_some(())
                });
                let outside = site.outside.udp(given[0].gateway);
                deliver(&outside, &pod.udp(given[0].ip), "hello");
                attachment.del();
            }
        }
    }
}

/// Somebody says unasked where an address lives.
#[derive(Debug)]
struct Announcement {
    address: IpAddr,
    mac: String,
    form: &'static str,
}

fn announcement(frame: &Frame) -> Option<Announcement> {
    match frame.bytes.get(12..14)? {
        [0x08, 0x06] => gratuitous_arp(frame.bytes.get(14..42)?),
        [0x86, 0xdd] => advertisement(&frame.bytes),
        _ => None,
    }
}

fn gratuitous_arp(arp: &[u8]) -> Option<Announcement> {
    let sender: [u8; 4] = arp[14..18].try_into().ok()?;
    if sender != arp[24..28] {
        return None;
    }
    Some(Announcement {
        address: sender.into(),
        mac: hex(&arp[8..14]),
        form: if arp[7] == 2 { "answer" } else { "request" },
    })
}

fn advertisement(frame: &[u8]) -> Option<Announcement> {
    let (header, message) = (frame.get(14..54)?, frame.get(54..86)?);
    let everybody: std::net::Ipv6Addr = "ff02::1".parse().unwrap();
    let to_all = header[6] == 58 && header[24..40] == everybody.octets();
    if !to_all || message[0] != 136 || message[4] & OVERRIDE == 0 {
        return None;
    }
    let target: [u8; 16] = message[8..24].try_into().ok()?;
    Some(Announcement {
        address: target.into(),
        mac: hex(&message[26..32]),
        form: "answer",
    })
}

fn hex(bytes: &[u8]) -> String {
    let parts: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    parts.join(":")
}

fn mac_on_the_segment(site: &Site, mode: &Mode, first: &Given) -> String {
    match mode.seen {
        Seen::Own => first.mac(),
        Seen::Node => site.node().net.mac(UPLINK),
    }
}
