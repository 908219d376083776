//! `galaxy-k8s-sriov` with real virtual functions.

use std::fs;

use super::harness::capture::Capture;
use super::harness::lab::{Namespace, deliver, wait_for};
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

/// The machine as a node with one card, and the other card outside.
struct Scene {
    node: Node,
    card: Card,
    outside: Namespace,
    folder: tempfile::TempDir,
}

impl Scene {
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

    /// Every function has its link here again, and no VLAN.
    fn has_only_free_functions(&self) {
        let count = || {
            let links = fs::read_dir(&self.card.device).unwrap();
            let functions = links.map(|entry| entry.unwrap().path()).filter(|path| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.starts_with("virtfn") && path.join("net").exists()
            });
            functions.count()
        };
        wait_for("both functions to return", || (count() >= 2).then_some(()));
        let shown = self
            .node
            .net
            .ip(&format!("link show dev {}", self.card.name));
        assert!(!shown.contains(&format!("vlan {TAG}")), "{shown}");
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        // The next test would only wait longer for the cards, and say so.
        let _ = fs::write(self.card.device.join("sriov_numvfs"), "0");
    }
}

fn given(host: u8) -> Given {
    Given::v4(TAG, host)
}
