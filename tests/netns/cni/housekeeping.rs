//! VERSION, STATUS and GC.

use std::fs;

use serde_json::{Value, json};

use super::harness::journey::settled;
use super::harness::lab::{Namespace, deliver};
use super::harness::mode::{BRIDGE, Given, MACVLAN, PURE, UNDERLAY, UNTAGGED};
use super::harness::plugin::{Attachment, NETWORK};
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_versions_that_are_spoken_are_told() {
    let site = Site::new(1);
    let pod = site.pod("none");
    for mode in UNTAGGED {
        let mut attachment = Attachment::new(site.node(), &mode, &pod, &[]);
        attachment.variables.clear();
        let reply = attachment
            .send("VERSION", br#"{"cniVersion":"1.0.0"}"#)
            .result();
        let spoken = reply["supportedVersions"].as_array().unwrap();
        for version in [
            "0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0",
        ] {
            assert!(spoken.contains(&json!(version)), "{version} in {reply}");
        }
        assert!(reply["cniVersion"].is_string(), "{reply}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn status_says_whether_a_pod_could_be_attached() {
    for mode in UNTAGGED {
        let site = Site::new(1);
        let pod = site.pod("none");
        let before = settled(&site, &mode);
        let status = |device: &str| {
            let mut attachment =
                Attachment::new(site.node(), &mode, &pod, &[]).with("device", device);
            // A runtime names no container here.
            attachment.variables.retain(|name, _| *name == "CNI_PATH");
            attachment.call("STATUS")
        };
        status(UPLINK).nothing();
        let failure = status("eth9").failure();
        assert!(
            [50, 51].contains(&failure.code),
            "{} {failure:?}",
            mode.title
        );
        assert!(failure.message.contains("eth9"), "{failure:?}");
        before.must_return(site.node(), mode.title);
        // The parent is down.
        site.node().net.ip(&format!("link set {UPLINK} down"));
        let failure = status(UPLINK).failure();
        assert!(
            [50, 51].contains(&failure.code),
            "{} {failure:?}",
            mode.title
        );
        assert!(failure.message.contains(UPLINK), "{failure:?}");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn collection_removes_what_is_not_valid_any_more_and_only_of_its_own_network() {
    for mode in UNTAGGED {
        if mode.veth.is_none() {
            continue;
        }
        let site = Site::new(1);
        let before = settled(&site, &mode);
        let pods = ["kept", "lost", "other"].map(|name| site.pod(name));
        let at = |pod: usize, network: &str| {
            let host = 40 + u8::try_from(pod).unwrap();
            Attachment::new(site.node(), &mode, &pods[pod], &[Given::v4(0, host)])
                .with("name", network)
        };
        let (kept, lost, other) = (at(0, NETWORK), at(1, NETWORK), at(2, "another"));
        for attachment in [&kept, &lost, &other] {
            attachment.add();
        }
        collect(
            &kept,
            &[json!({"containerID": kept.container, "ifname": "eth0"})],
        );
        let host = View::of(&site.node().net);
        let suffix = mode.veth.unwrap();
        assert!(
            host.link(&kept.host_link(suffix)).is_some(),
            "{}",
            mode.title
        );
        assert!(
            host.link(&lost.host_link(suffix)).is_none(),
            "{}",
            mode.title
        );
        assert!(
            host.link(&other.host_link(suffix)).is_some(),
            "{}",
            mode.title
        );
        still_reached(&site, &pods[0], 40);
        still_reached(&site, &pods[2], 42);

        collect(&kept, &[]);
        collect(&other, &[]);
        before.must_return(site.node(), mode.title);
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn collection_without_a_list_removes_nothing() {
    let site = Site::new(1);
    let pod = site.pod("kept");
    let attachment = Attachment::new(site.node(), &BRIDGE, &pod, &[Given::v4(0, 43)]);
    attachment.add();
    let mut collection = attachment.clone();
    collection.variables.retain(|name, _| *name == "CNI_PATH");
    // Nobody said that nothing is valid.
    assert_eq!(collection.call("GC").failure().code, 7);
    still_reached(&site, &pod, 43);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn collection_of_macvlan_leaves_pods_alone() {
    let site = Site::new(1);
    let pod = site.pod("kept");
    let attachment = Attachment::new(site.node(), &MACVLAN, &pod, &[Given::v4(0, 44)]);
    attachment.add();
    let valid = json!({"containerID": attachment.container, "ifname": "eth0"});
    collect(&attachment, &[valid]);
    still_reached(&site, &pod, 44);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_del_that_knows_only_whose_it_is_ends_that_the_host_answers_for_a_lost_pod() {
    for mode in [PURE, UNDERLAY] {
        let site = Site::new(1);
        let node = site.node();
        let before = settled(&site, &mode);
        let pod = site.pod("lost");
        let attachment = Attachment::new(node, &mode, &pod, &[Given::v6(0, 45)]);
        attachment.add();
        let file = format!("proxies/{}:eth0.json", attachment.container);
        let file = node.state.join(file);
        let written: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
        // By this the agent knows which DEL was lost.
        assert_eq!(written["network"], NETWORK, "{written}");
        assert_eq!(written["kind"], mode.plugin, "{written}");

        let link = attachment.host_link(mode.veth.unwrap());
        node.net.ip(&format!("link delete {link}"));
        let mut lost = attachment.clone();
        lost.config
            .retain(|name, _| ["cniVersion", "name", "type"].contains(&name.as_str()));
        let known = ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_PATH"];
        lost.variables.retain(|name, _| known.contains(name));
        lost.del();
        assert!(!file.exists(), "{}", mode.title);
        before.must_return(node, mode.title);
    }
}

fn collect(attachment: &Attachment<'_>, valid: &[Value]) {
    let mut collection = attachment.clone().with("cni.dev/valid-attachments", valid);
    collection.variables.retain(|name, _| *name == "CNI_PATH");
    collection.call("GC").nothing();
}

fn still_reached(site: &Site, pod: &Namespace, host: u8) {
    let given = Given::v4(0, host);
    let outside = site.outside.udp(given.gateway);
    deliver(&outside, &pod.udp(given.ip), "still reached");
}
