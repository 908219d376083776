//! `galaxy-k8s-sriov` with real virtual functions.

use std::fs;
use std::time::Instant;

use floe_net::lock::Lock;

use super::harness::capture::{Capture, Frame};
use super::harness::lab::{Namespace, PATIENCE, deliver, wait_for};
use super::harness::mode::{Given, Mode, PURE};
use super::harness::plugin::Attachment;
use super::harness::site::Node;
use super::harness::view::View;
use super::in_guest;
use crate::sriov::{Card, cards, turn};

const SRIOV: Mode = Mode {
    title: "sriov",
    plugin: "galaxy-k8s-sriov",
    switch: "",
    ..PURE
};
const TAG: u16 = 100;

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_pod_gets_a_virtual_function_in_its_vlan_and_returns_it() {
    in_guest();
    let _turn = turn();
    let scene = Scene::new();
    let pod = scene.pod("first");
    let all = [given(5), Given::of("fd00:100::5/64", TAG, "fd00:100::1")];
    let attachment = scene.attachment(&pod, &all);
    let early = Capture::start(&scene.outside, "card");
    let result = attachment.add();
    assert_eq!(result["ips"][0]["address"], all[0].net(), "{result}");

    let view = View::of(&pod);
    assert_eq!(view.names(), ["eth0"]);
    assert_eq!(view.link_text("eth0", "address"), all[0].mac());
    let expected: Vec<String> = all.iter().map(Given::net).collect();
    assert_eq!(view.global_addresses("eth0"), expected);
    assert!(view.defaults().contains(&("eth0", "192.168.100.1")));
    for given in &all {
        let wire = Capture::start(&scene.outside, "card");
        let inside = pod.udp(given.ip);
        let outside = scene.outside.udp(given.gateway);
        let text = format!("from the function at {}", given.ip);
        deliver(&inside, &outside, &text);
        let frame = wire.frame(&text);
        assert_eq!(frame.vlan, Some(TAG));
        assert_eq!(frame.source(), all[0].mac());
        deliver(&outside, &inside, "to the function");
    }
    // It asked with a hardware address that no pod has.
    let frames = early.frames_until(&format!("from the function at {}", all[0].ip));
    let probes: Vec<_> = frames.iter().filter(|frame| is_probe(frame)).collect();
    assert!(!probes.is_empty(), "{} frames", frames.len());
    let is_random = |frame: &&Frame| frame.source().starts_with("fe:");
    assert!(probes.iter().all(is_random), "{probes:?}");
    attachment.check(&result).nothing();
    let tag = |vlan: u16| {
        let function = result["interfaces"][0]["pciID"].as_str().unwrap();
        let number = scene.number_of(function);
        let card = &scene.card.name;
        let change = format!("link set {card} vf {number} vlan {vlan}");
        scene.node.net.ip(&change);
    };
    tag(0);
    assert_eq!(attachment.check(&result).failure().code, 103);
    tag(TAG);
    attachment.check(&result).nothing();
    pod.ip("address flush dev eth0 scope global");
    assert_eq!(attachment.check(&result).failure().code, 103);

    attachment.del();
    assert_eq!(View::of(&pod).names(), [""; 0]);
    attachment.del();
    drop(pod);
    attachment.del();
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn pods_get_functions_of_their_own_until_none_is_left() {
    in_guest();
    let _turn = turn();
    let scene = Scene::new();
    let mut pods = Vec::new();
    for number in 0..2 {
        let pod = scene.pod(&format!("pod-{number}"));
        scene.attachment(&pod, &[given(10 + number)]).add();
        pods.push(pod);
    }
    let late = scene.pod("late");
    let refused = scene.attachment(&late, &[given(12)]).refused();
    assert!(refused.message.contains(&scene.card.name), "{refused:?}");
    assert_eq!(View::of(&late).names(), [""; 0]);

    // A pod that vanished without a word: its function serves the next one.
    let mut lost = pods.remove(0);
    let attachment = scene.attachment(&lost, &[given(10)]);
    lost.hide();
    lost.end();
    attachment.del();
    wait_for("the function of the lost pod", || {
        let next = scene.attachment(&late, &[given(12)]);
        next.call("ADD").is_success().then_some(())
    });
    assert_eq!(
        View::of(&late).link_text("eth0", "address"),
        given(12).mac()
    );
    let outside = scene.outside.udp(given(12).gateway);
    deliver(&outside, &late.udp(given(12).ip), "to the next pod");
    scene.attachment(&late, &[given(12)]).del();
    scene.attachment(&pods[0], &[given(11)]).del();
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn an_address_that_a_host_on_the_vlan_has_is_refused_and_the_function_is_free() {
    in_guest();
    let _turn = turn();
    let scene = Scene::new();
    let taken = given(80);
    scene
        .outside
        .ip(&format!("address add {} dev v{TAG}", taken.net()));
    let pod = scene.pod("late");
    let failure = scene.attachment(&pod, &[taken]).refused();
    assert_eq!(failure.code, 101, "{failure:?}");
    assert!(
        failure.message.contains(&scene.outside.mac("card")),
        "{failure:?}"
    );
    assert_eq!(View::of(&pod).names(), [""; 0]);
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_second_add_of_an_attachment_leaves_the_function_of_the_first_alone() {
    in_guest();
    let _turn = turn();
    let scene = Scene::with_functions();
    let pod = scene.pod("twice");
    let attachment = scene.attachment(&pod, &[given(20)]);
    let result = attachment.add();
    let failure = attachment.refused();
    assert_eq!(failure.code, 100, "{failure:?}");
    assert!(
        failure.message.starts_with("LinkNameTaken: "),
        "{failure:?}"
    );
    attachment.check(&result).nothing();
    let outside = scene.outside.udp(given(20).gateway);
    deliver(&outside, &pod.udp(given(20).ip), "to the first");
    attachment.del();
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_function_that_another_call_has_in_hand_is_not_touched() {
    in_guest();
    let _turn = turn();
    let scene = Scene::with_functions();
    let mut pod = scene.pod("late");
    let attachment = scene.attachment(&pod, &[given(21)]);
    let result = attachment.add();
    let function = result["interfaces"][0]["pciID"].as_str().unwrap();
    let number = scene.number_of(function);
    // The pod is gone without a word, and the function is back: as another ADD sees it.
    pod.hide();
    pod.end();
    scene.wait_for_functions();
    let path = scene.node.run.join("functions").join(function);
    let held = Lock::take(&path, Instant::now() + PATIENCE).unwrap();
    let failure = attachment.call("DEL").failure();
    assert_eq!(failure.code, 11, "{failure:?}");
    assert_eq!(scene.vlan_of(number), TAG, "it was taken out of its VLAN");
    drop(held);
    attachment.del();
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_function_that_comes_back_late_is_made_what_it_was() {
    in_guest();
    let _turn = turn();
    let scene = Scene::with_functions();
    let lose = |name: &str, host: u8| {
        let mut pod = scene.pod(name);
        let attachment = scene
            .attachment(&pod, &[given(host)])
            .with("mtu", 1400)
            .variable("CNI_IFNAME", "late0");
        attachment.add();
        // Nobody reaches it any more, and a process in it keeps it alive.
        pod.hide();
        attachment.del();
        pod.end();
        scene.wait_for_functions();
        assert_ne!(
            Some(scene.functions()),
            scene.before,
            "it is as the pod had it"
        );
        attachment
    };
    // The next DEL finds it, as the agent sends one when it finds the note.
    let attachment = lose("first", 22);
    attachment.del();
    scene.has_only_free_functions();
    // Another pod that gets it gives back what it was before, and not what it found.
    let gone = lose("second", 23);
    let pods = [scene.pod("third"), scene.pod("fourth")];
    let next: Vec<_> = pods
        .iter()
        .zip([24, 25])
        .map(|(pod, host)| scene.attachment(pod, &[given(host)]))
        .collect();
    for attachment in &next {
        attachment.add();
    }
    // The old attachment has nothing any more.
    gone.del();
    for (pod, host) in pods.iter().zip([24, 25]) {
        let outside = scene.outside.udp(given(host).gateway);
        deliver(&outside, &pod.udp(given(host).ip), "still here");
    }
    for attachment in &next {
        attachment.del();
    }
    scene.has_only_free_functions();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn the_nodes_own_address_is_never_given_to_a_function() {
    in_guest();
    let _turn = turn();
    let scene = Scene::with_functions();
    let (taken, card) = (given(26), &scene.card.name);
    scene
        .node
        .net
        .ip(&format!("address add {} dev {card}", taken.net()));
    let pod = scene.pod("thief");
    let failure = scene.attachment(&pod, &[taken]).refused();
    scene
        .node
        .net
        .ip(&format!("address delete {} dev {card}", taken.net()));
    assert_eq!(failure.code, 101, "{failure:?}");
    scene.has_only_free_functions();
}

/// The machine as a node with one card, and the other card outside.
struct Scene {
    node: Node,
    card: Card,
    outside: Namespace,
    folder: tempfile::TempDir,
    /// What the functions were before any pod came: name, MAC and MTU of each link.
    before: Option<Vec<(String, String, u64)>>,
}

impl Scene {
    /// A card whose functions were made before.
    fn with_functions() -> Self {
        let mut scene = Self::new();
        fs::write(scene.card.device.join("sriov_numvfs"), "2").unwrap();
        scene.wait_for_functions();
        // Somebody may give them other names when they come.
        scene.before = Some(wait_for("the names of the functions", || {
            let seen = scene.functions();
            (seen == scene.functions()).then_some(seen)
        }));
        scene
    }

    fn new() -> Self {
        let [card, other] = cards();
        let folder = tempfile::tempdir().unwrap();
        let outside = Namespace::new(folder.path(), "outside");
        let node = Node::machine(folder.path());
        node.net.batch(&format!(
            "link set {} up\nlink set {} netns {} name card\n",
            card.name,
            other.name,
            outside.path().display()
        ));
        outside.batch(&format!(
            "link set card up
             link add link card name v{TAG} type vlan id {TAG}
             address add 192.168.{TAG}.1/24 dev v{TAG}
             address add fd00:{TAG}::1/64 dev v{TAG} nodad
             link set v{TAG} up\n"
        ));
        wait_for("the carrier of the card", || {
            let carrier = format!("/sys/class/net/{}/carrier", card.name);
            let carrier = fs::read_to_string(carrier).unwrap_or_default();
            (carrier.trim() == "1").then_some(())
        });
        Self {
            node,
            card,
            outside,
            folder,
            before: None,
        }
    }

    fn pod(&self, name: &str) -> Namespace {
        Namespace::new(self.folder.path(), name)
    }

    fn attachment(&self, pod: &Namespace, all: &[Given]) -> Attachment<'_> {
        Attachment::new(&self.node, &SRIOV, pod, all)
            .with("device", self.card.name.as_str())
            .with("vf_num", 2)
    }

    /// Every function has its link here again, as it was, and no VLAN.
    fn has_only_free_functions(&self) {
        self.wait_for_functions();
        for number in 0..2 {
            assert_eq!(self.vlan_of(number), 0, "function {number}");
        }
        if let Some(before) = &self.before {
            assert_eq!(self.functions(), *before);
        }
        let notes = self.node.state.join("functions");
        let notes = fs::read_dir(notes).into_iter().flatten().count();
        assert_eq!(notes, 0, "nothing is noted");
    }

    /// Waits until the links of all functions are here.
    fn wait_for_functions(&self) {
        wait_for("both functions", || {
            (self.functions().len() == 2).then_some(())
        });
    }

    /// Name, MAC and MTU of the links of the functions that are here.
    fn functions(&self) -> Vec<(String, String, u64)> {
        let links = (0..2).filter_map(|number| {
            let folder = self.card.device.join(format!("virtfn{number}/net"));
            let link = fs::read_dir(folder).ok()?.next()?.ok()?;
            let read = |file: &str| fs::read_to_string(link.path().join(file));
            let (mac, mtu) = (read("address").ok()?, read("mtu").ok()?);
            let name = link.file_name().into_string().ok()?;
            Some((name, mac.trim().to_owned(), mtu.trim().parse().ok()?))
        });
        links.collect()
    }

    /// The number of a function on its card, by its PCI address.
    fn number_of(&self, pci: &str) -> usize {
        let is_it = |number: &usize| {
            let link = self.card.device.join(format!("virtfn{number}"));
            link.canonicalize().unwrap().ends_with(pci)
        };
        (0..2).find(is_it).unwrap()
    }

    /// The VLAN that the card puts a function into.
    fn vlan_of(&self, number: usize) -> u16 {
        let shown = self
            .node
            .net
            .ip(&format!("link show dev {}", self.card.name));
        let start = format!("vf {number} ");
        let line = shown.lines().find(|it| it.trim_start().starts_with(&start));
        let mut words = line.unwrap_or_else(|| panic!("{shown}")).split([' ', ',']);
        let vlan = words.find(|it| *it == "vlan").and(words.next());
        vlan.map_or(0, |vlan| vlan.parse().unwrap())
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The next test would only wait longer for the cards, and say so.
        let _ = fs::write(self.card.device.join("sriov_numvfs"), "0");
    }
}

/// Whether a frame is an ARP request without a sender.
fn is_probe(frame: &Frame) -> bool {
    const REQUEST: [u8; 10] = [0x08, 0x06, 0, 1, 0x08, 0, 6, 4, 0, 1];
    let arp = frame.bytes.windows(28).find(|it| it.starts_with(&REQUEST));
    arp.is_some_and(|arp| arp[16..20] == [0; 4])
}

fn given(host: u8) -> Given {
    Given::v4(TAG, host)
}
