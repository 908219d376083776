//! Pods with several addresses, and with several networks.

use super::harness::capture::{Capture, Frame};
use super::harness::journey::settled;
use super::harness::lab::{Namespace, deliver};
use super::harness::mode::{BRIDGE, Family, Given, MACVLAN, Mode, PURE, Seen, UNDERLAY, UNTAGGED};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn three_addresses_of_one_subnet_each_answer_with_their_own_hardware_address() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("three");
        let all = [71, 72, 73].map(|host| Given::v4(0, host));
        let empty = View::of(&pod).lines();
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        let result = attachment.add();
        let listed = result["ips"].as_array().unwrap().iter();
        let listed: Vec<_> = listed.map(|ip| ip["address"].as_str().unwrap()).collect();
        assert_eq!(listed, all.map(|given| given.net()), "{}", mode.title);

        let view = View::of(&pod);
        assert_eq!(view.names(), ["eth0", "eth1", "eth2"], "{}", mode.title);
        for (number, given) in all.iter().enumerate() {
            let name = format!("eth{number}");
            assert_eq!(
                view.global_addresses(&name),
                [given.net()],
                "{}",
                mode.title
            );
            assert_eq!(
                view.link_text(&name, "address"),
                given.mac(),
                "{}",
                mode.title
            );
        }
        for given in &all {
            answers_alone(&site, &mode, &pod, given);
        }
        attachment.check(&result).nothing();
        attachment.del();
        assert_eq!(View::of(&pod).lines(), empty, "{}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn of_two_addresses_the_first_has_the_private_networks_and_the_second_the_default() {
    for mode in [BRIDGE, PURE, MACVLAN] {
        let site = Site::new(1);
        site.outside.ip("address add 192.168.7.1/24 dev wire");
        let before = settled(&site, &mode);
        let pod = site.pod(mode.title);
        let all = two();
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        let result = attachment.add();
        let view = View::of(&pod);
        assert_eq!(view.defaults(), [("eth1", "192.168.7.1")], "{}", mode.title);
        for dst in ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"] {
            let routes = view.routes("main", dst);
            assert_eq!(routes, [("eth0", "192.168.0.1")], "{} {dst}", mode.title);
        }
        for given in &all {
            answers_alone(&site, &mode, &pod, given);
        }
        attachment.check(&result).nothing();
        attachment.del();
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn of_two_addresses_on_the_underlay_the_first_has_the_default() {
    let site = Site::new(1);
    site.outside.ip("address add 192.168.7.1/24 dev wire");
    // The node reaches the second network directly too.
    let node = &site.node().net;
    node.ip(&format!("address add 192.168.7.2/24 dev {UPLINK}"));
    let before = settled(&site, &UNDERLAY);
    let pod = site.pod("underlay");
    let all = two();
    let attachment = Attachment::new(site.node(), &UNDERLAY, &pod, &all);
    attachment.add();
    let view = View::of(&pod);
    assert_eq!(view.defaults(), [("eth0", "192.168.0.1")]);
    assert_eq!(view.routes("main", "192.168.7.0/24"), [("eth1", "")]);
    let names = [attachment.host_link("-u0"), attachment.host_link("-u1")];
    let host = View::of(node);
    for name in &names {
        assert_eq!(host.link_text(name, "ifalias"), attachment.alias());
    }
    for given in &all {
        answers_alone(&site, &UNDERLAY, &pod, given);
    }
    attachment.del();
    before.must_return(site.node(), "underlay");
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn two_dual_stack_pairs_are_two_interfaces() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("pairs");
        let (a, b) = (
            mode.addresses(Family::Dual, 81),
            mode.addresses(Family::Dual, 82),
        );
        let all = [a[0], a[1], b[0], b[1]];
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        let result = attachment.add();
        let view = View::of(&pod);
        assert_eq!(view.names(), ["eth0", "eth1"], "{}", mode.title);
        for (name, pair) in [("eth0", &a), ("eth1", &b)] {
            let expected: Vec<String> = pair.iter().map(Given::net).collect();
            assert_eq!(view.global_addresses(name), expected, "{}", mode.title);
            assert_eq!(
                view.link_text(name, "address"),
                pair[0].mac(),
                "{}",
                mode.title
            );
        }
        for given in &all {
            let (inside, outside) = (pod.udp(given.ip), site.outside.udp(given.gateway));
            deliver(&outside, &inside, "there");
            deliver(&inside, &outside, "and back");
        }
        attachment.check(&result).nothing();
        attachment.del();
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn further_interfaces_skip_names_that_are_taken() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("taken");
        pod.ip("link add eth1 type bridge");
        let all = [Given::v4(0, 78), Given::v4(0, 79)];
        let attachment = Attachment::new(site.node(), &mode, &pod, &all);
        // Twice, because nothing of the first time may count.
        for _ in 0..2 {
            attachment.add();
            let view = View::of(&pod);
            assert_eq!(
                view.global_addresses("eth0"),
                [all[0].net()],
                "{}",
                mode.title
            );
            assert_eq!(
                view.global_addresses("eth2"),
                [all[1].net()],
                "{}",
                mode.title
            );
            if let Some(suffix) = mode.veth {
                let name = attachment.host_link(suffix);
                let host = View::of(&site.node().net);
                assert_eq!(host.link_text(&name, "ifalias"), attachment.alias());
            }
            attachment.del();
        }
        assert_eq!(View::of(&pod).names(), ["eth1"], "{}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn both_networks_of_a_pod_answer_for_themselves_and_pass_check() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("networks");
        let empty = View::of(&pod).lines();
        let both = [Given::v4(0, 74), Given::v4(0, 75)];
        let first = Attachment::new(site.node(), &mode, &pod, &both[..1]);
        let second = Attachment::new(site.node(), &mode, &pod, &both[1..])
            .with("name", "second")
            .variable("CNI_IFNAME", "eth1");
        let results = [first.add(), second.add()];
        // Who comes second has no default route in the main table, and does not say so.
        let view = View::of(&pod);
        assert_eq!(view.defaults(), [("eth0", "192.168.0.1")], "{}", mode.title);
        assert_eq!(results[0]["routes"][0]["dst"], "0.0.0.0/0", "{results:?}");
        assert!(results[1].get("routes").is_none(), "{results:?}");
        for (attachment, result) in [&first, &second].into_iter().zip(&results) {
            attachment.check(result).nothing();
        }
        for given in &both {
            answers_alone(&site, &mode, &pod, given);
            let far = site.outside.udp(given.far());
            let wire = Capture::start(&site.outside, "wire");
            let text = format!("to the far end from {}", given.ip);
            deliver(&pod.udp(given.ip), &far, &text);
            let mac = match mode.seen {
                Seen::Own => given.mac(),
                Seen::Node => site.node().net.mac(UPLINK),
            };
            assert_eq!(wire.frame(&text).source(), mac, "{} {given:?}", mode.title);
        }
        pod.ip("rule delete priority 1001");
        assert_eq!(second.check(&results[1]).failure().code, 103);
        second.del();
        first.check(&results[0]).nothing();
        first.del();
        let mut left = View::of(&pod).lines();
        left.retain(|line| !empty.contains(line));
        assert!(left.is_empty(), "{}: {left:?}", mode.title);
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_end_of_one_network_of_a_pod_leaves_its_other_one() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pod = site.pod("networks");
        let first = Attachment::new(site.node(), &mode, &pod, &[Given::v4(0, 74)]);
        let second = Attachment::new(site.node(), &mode, &pod, &[Given::v4(0, 75)])
            .with("name", "second")
            .variable("CNI_IFNAME", "eth1");
        first.add();
        second.add();
        assert_eq!(View::of(&pod).names(), ["eth0", "eth1"], "{}", mode.title);
        first.del();
        let view = View::of(&pod);
        assert_eq!(view.names(), ["eth1"], "{}", mode.title);
        assert_eq!(view.global_addresses("eth1"), ["192.168.0.75/24"]);
        if let Some(suffix) = mode.veth {
            let host = View::of(&site.node().net);
            assert!(host.link(&first.host_link(suffix)).is_none());
            let other = second.host_link(&suffix.replace('0', "1"));
            assert_eq!(host.link_text(&other, "ifalias"), second.alias());
        }
        let (inside, outside) = (
            pod.udp("192.168.0.75".parse().unwrap()),
            site.outside.udp("192.168.0.1".parse().unwrap()),
        );
        deliver(&outside, &inside, "still here");
        second.del();
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn devices_that_galaxy_made_are_removed_with_their_pod() {
    let site = Site::new(1);
    let before = settled(&site, &BRIDGE);
    let pod = site.pod("galaxys");
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[Given::v4(0, 76)]);
    let node = &site.node().net;
    for (suffix, name) in [("-l0", "eth0"), ("-l1", "eth1")] {
        node.ip(&format!(
            "link add {} type veth peer name {name} netns {}",
            attachment.host_link(suffix),
            pod.path().display()
        ));
    }
    // Somebody else's, which only looks a little like it.
    node.ip("link add v-hffffffff0-l0 type veth peer name other");
    attachment.del();
    let view = View::of(node);
    assert!(view.link("v-hffffffff0-l0").is_some());
    assert!(view.link(&attachment.host_link("-l0")).is_none());
    assert!(view.link(&attachment.host_link("-l1")).is_none());
    node.ip("link delete v-hffffffff0-l0");
    before.must_return(site.node(), "after galaxy's pod");
}

/// Two addresses of different subnets.
fn two() -> [Given; 2] {
    [
        Given::v4(0, 77),
        Given::of("192.168.7.78/24", 0, "192.168.7.1"),
    ]
}

/// An address is answered for by the right hardware address only, and what is sent
/// from it leaves through its own interface.
fn answers_alone(site: &Site, mode: &Mode, pod: &Namespace, given: &Given) {
    site.outside.ip("neighbour flush dev wire");
    let wire = Capture::start(&site.outside, "wire");
    let (inside, outside) = (pod.udp(given.ip), site.outside.udp(given.gateway));
    deliver(&outside, &inside, "a question");
    let answer = format!("the answer of {}", given.ip);
    deliver(&inside, &outside, &answer);
    let frames = wire.frames_until(&answer);
    let mac = match mode.seen {
        Seen::Own => given.mac(),
        Seen::Node => site.node().net.mac(UPLINK),
    };
    assert_eq!(
        frames.last().unwrap().source(),
        mac,
        "{} {given:?}",
        mode.title
    );
    let answers: Vec<String> = frames
        .iter()
        .filter_map(|it| arp_answer(it, given))
        .collect();
    assert!(!answers.is_empty(), "{} {given:?}", mode.title);
    assert!(
        answers.iter().all(|it| *it == mac),
        "{} {given:?}: {answers:?}",
        mode.title
    );
}

/// The hardware address in an ARP reply for an address.
fn arp_answer(frame: &Frame, given: &Given) -> Option<String> {
    let std::net::IpAddr::V4(ip) = given.ip else {
        return None;
    };
    let arp = frame.bytes.strip_prefix(&frame.bytes[..12])?;
    let arp = arp.strip_prefix(&[0x08, 0x06])?;
    let (operation, sender, address) = (arp.get(6..8)?, arp.get(8..14)?, arp.get(14..18)?);
    let hex: Vec<String> = sender.iter().map(|byte| format!("{byte:02x}")).collect();
    (operation == [0, 2] && address == ip.octets()).then(|| hex.join(":"))
}
