//! What galaxy's own tests of its plugins say, on the host's kernel.

use serde_json::json;

use super::harness::lab::{Namespace, deliver};
use super::harness::mode::{BRIDGE, Given, Mode, PURE};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_hosts_address_default_and_static_route_reappear_on_the_bridge() {
    let site = Site::new(1);
    let node = site.node();
    let mac = node.net.mac(UPLINK);
    let pod = pod_of_galaxy(&site);
    attachment(&site, &BRIDGE, &pod).add();

    let view = View::of(&node.net);
    let own = ["192.168.0.2/24", "fd00:c0::2/64"];
    assert_eq!(view.global_addresses("docker"), own);
    assert_eq!(view.global_addresses(UPLINK), [""; 0]);
    assert_eq!(view.link_text("docker", "address"), mac);
    assert_eq!(view.link_text("docker", "ifalias"), "floe:bridge");
    assert_eq!(view.link_text(UPLINK, "master"), "docker");
    let to_bridge = [("docker", "192.168.0.1")];
    assert_eq!(view.routes("main", "10.99.0.0/16"), to_bridge);
    assert_eq!(
        view.routes("main", "fd00:99::/48"),
        [("docker", "fd00:c0::1")]
    );
    let mut defaults = view.defaults();
    defaults.sort_unstable();
    assert_eq!(
        defaults,
        [("docker", "192.168.0.1"), ("docker", "fd00:c0::1")]
    );
    assert_eq!(view.routes("main", "192.168.0.0/24"), [("docker", "")]);
    for (own, outside) in node
        .addresses()
        .into_iter()
        .zip(["192.168.0.1", "fd00:c0::1"])
    {
        let (here, there) = (
            node.net.udp(own),
            site.outside.udp(outside.parse().unwrap()),
        );
        deliver(&here, &there, "the node still reaches its neighbours");
        deliver(&there, &here, "and they the node");
    }
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_on_the_default_bridge_is_as_galaxy_makes_it() {
    let site = Site::new(1);
    let pod = pod_of_galaxy(&site);
    let attachment = attachment(&site, &BRIDGE, &pod);
    assert_eq!(attachment.add(), galaxys_result());
    is_as_galaxy_makes_it(&site, &pod);
    let view = View::of(&site.node().net);
    let name = attachment.host_link("-l0");
    assert_eq!(view.link_text(&name, "master"), "docker");
    attachment.del();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_pod_in_pure_mode_is_as_galaxy_makes_it() {
    let site = Site::new(1);
    let pod = pod_of_galaxy(&site);
    let attachment = attachment(&site, &PURE, &pod);
    assert_eq!(attachment.add(), galaxys_result());
    is_as_galaxy_makes_it(&site, &pod);
    let view = View::of(&site.node().net);
    let own = ["192.168.0.2/24", "fd00:c0::2/64"];
    assert_eq!(view.global_addresses(UPLINK), own, "the address stays");
    let name = attachment.host_link("-l0");
    assert_eq!(view.link_text(&name, "master"), "");
    assert_eq!(view.routes("main", "192.168.0.68"), [(name.as_str(), "")]);
    attachment.del();
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn a_device_without_address_needs_its_bridge_already() {
    let site = Site::new(1);
    let node = &site.node().net;
    node.ip(&format!("address flush dev {UPLINK} scope global"));
    let pod = pod_of_galaxy(&site);
    let failure = attachment(&site, &BRIDGE, &pod).refused();
    let expected = format!("No available address found on device {UPLINK}");
    assert!(failure.message.contains(&expected), "{failure:?}");
    assert!(View::of(node).link("docker").is_none());

    node.batch(&format!(
        "link add docker type bridge\nlink set docker up\nlink set {UPLINK} master docker\n"
    ));
    attachment(&site, &BRIDGE, &pod).add();
    is_as_galaxy_makes_it(&site, &pod);
}

#[test]
#[ignore = "needs root: cargo xtask test --only netns"]
fn the_first_device_that_exists_is_taken_from_the_list() {
    let site = Site::new(1);
    for mode in [PURE, BRIDGE] {
        let pod = pod_of_galaxy(&site);
        let mut attachment = attachment(&site, &mode, &pod);
        attachment.config.remove("device");
        let attachment = attachment.with("devices", json!(["eth7", UPLINK, "lo"]));
        attachment.add();
        is_as_galaxy_makes_it(&site, &pod);
        attachment.del();
    }
}

/// The outside host has galaxy's gateway too.
fn pod_of_galaxy(site: &Site) -> Namespace {
    site.outside.ip("address replace 192.168.0.65/26 dev wire");
    site.pod("galaxy")
}

fn attachment<'a>(site: &'a Site, mode: &Mode, pod: &Namespace) -> Attachment<'a> {
    let given = Given::of("192.168.0.68/26", 0, "192.168.0.65");
    Attachment::new(site.node(), mode, pod, &[given]).with("cniVersion", "0.2.0")
}

fn galaxys_result() -> serde_json::Value {
    json!({
        "cniVersion": "0.2.0",
        "ip4": {
            "ip": "192.168.0.68/26",
            "gateway": "192.168.0.65",
            "routes": [{"dst": "0.0.0.0/0"}],
        },
        "dns": {},
    })
}

fn is_as_galaxy_makes_it(site: &Site, pod: &Namespace) {
    let view = View::of(pod);
    assert_eq!(view.names(), ["eth0"]);
    assert_eq!(view.global_addresses("eth0"), ["192.168.0.68/26"]);
    assert_eq!(view.link_text("eth0", "address"), "02:42:c0:a8:00:44");
    assert_eq!(view.defaults(), [("eth0", "192.168.0.65")]);
    let inside = pod.udp("192.168.0.68".parse().unwrap());
    let outside = site.outside.udp("192.168.0.65".parse().unwrap());
    deliver(&outside, &inside, "ping");
    deliver(&inside, &outside, "pong");
}
