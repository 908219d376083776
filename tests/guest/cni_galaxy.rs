//! What galaxy's own tests of its plugins say about VLANs.

use serde_json::{Value, json};

use super::harness::capture::Capture;
use super::harness::lab::{Namespace, deliver};
use super::harness::mode::{Given, UNDERLAY};
use super::harness::plugin::Attachment;
use super::harness::site::{Site, UPLINK};
use super::harness::view::View;
use super::{TAGGED_BRIDGE, in_guest};

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn a_vlan_with_prefixes_gets_the_devices_that_galaxy_makes() {
    in_guest();
    let site = site();
    let pod = site.pod("galaxy");
    let attachment = attachment(
        &site,
        &pod,
        &[Given::of("192.168.0.68/26", 2, "192.168.0.65")],
    );
    let result = attachment.add();
    let expected = json!({
        "cniVersion": "0.2.0",
        "ip4": {
            "ip": "192.168.0.68/26",
            "gateway": "192.168.0.65",
            "routes": [{"dst": "0.0.0.0/0"}],
        },
        "dns": {},
    });
    assert_eq!(result, expected);
    devices_are_right(&site, &attachment, 2, "-l0");
    assert_eq!(View::of(&pod).defaults(), [("eth0", "192.168.0.65")]);
    reached(&site, &pod, "192.168.0.68", "192.168.0.65", 2);
    attachment.del();
    let view = View::of(&site.node().net);
    assert!(view.link(&attachment.host_link("-l0")).is_none());
    assert!(view.link("br2").is_some(), "the bridge stays");
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn two_addresses_on_two_vlans_share_the_routes_as_with_galaxy() {
    in_guest();
    let site = site();
    let pod = site.pod("galaxy");
    let attachment = attachment(
        &site,
        &pod,
        &[
            Given::of("192.168.0.68/26", 2, "192.168.0.65"),
            Given::of("192.168.1.3/24", 3, "192.168.1.1"),
        ],
    );
    let result = attachment.add();
    let private = ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"];
    let routes: Vec<&Value> = result["ip4"]["routes"].as_array().unwrap().iter().collect();
    let listed: Vec<_> = routes
        .iter()
        .map(|it| it["dst"].as_str().unwrap())
        .collect();
    assert_eq!(listed, private, "{result}");
    assert_eq!(result["ip4"]["ip"], "192.168.0.68/26", "{result}");
    devices_are_right(&site, &attachment, 2, "-l0");
    devices_are_right(&site, &attachment, 3, "-l1");
    let view = View::of(&pod);
    assert_eq!(view.defaults(), [("eth1", "192.168.1.1")]);
    for dst in private {
        assert_eq!(
            view.routes("main", dst),
            [("eth0", "192.168.0.65")],
            "{dst}"
        );
    }
    reached(&site, &pod, "192.168.0.68", "192.168.0.65", 2);
    reached(&site, &pod, "192.168.1.3", "192.168.1.1", 3);
    attachment.del();
}

#[test]
#[ignore = "needs the guest kernel: cargo xtask test --only guest"]
fn the_underlay_uses_the_vlan_device_that_is_there() {
    in_guest();
    let site = Site::new(1);
    site.outside.batch(
        "link add link wire name wire.2 type vlan id 2
         address add 192.168.2.65/26 dev wire.2
         link set wire.2 up\n",
    );
    let node = &site.node().net;
    node.batch(&format!(
        "link add link {UPLINK} name {UPLINK}.2 type vlan id 2
         address add 192.168.2.68/26 dev {UPLINK}.2
         link set {UPLINK}.2 up\n"
    ));
    let pod = site.pod("galaxy");
    let given = Given::of("192.168.2.69/26", 2, "192.168.2.65");
    let attachment =
        Attachment::new(site.node(), &UNDERLAY, &pod, &[given]).with("cniVersion", "0.2.0");
    attachment.add();
    let name = attachment.host_link("-u0");
    let view = View::of(node);
    assert_eq!(view.routes("main", "192.168.2.69"), [(name.as_str(), "")]);
    assert_eq!(View::of(&pod).defaults(), [("eth0", "192.168.2.65")]);
    reached(&site, &pod, "192.168.2.69", "192.168.2.65", 2);
    attachment.del();

    // A VLAN that nobody has made, and one that is there twice.
    let absent = Given::of("192.168.2.70/26", 5, "192.168.2.65");
    let failure = Attachment::new(site.node(), &UNDERLAY, &pod, &[absent]).refused();
    assert!(
        failure.message.contains("no vlan device with vlanID 5"),
        "{failure:?}"
    );
    node.batch(
        "link add other type veth peer name far\nlink add link other name other.2 type vlan id 2\n",
    );
    let failure = Attachment::new(site.node(), &UNDERLAY, &pod, &[given]).refused();
    assert!(
        failure.message.contains("found 2 device with same vlanID"),
        "{failure:?}"
    );
}

/// The outside host is galaxy's two gateways.
fn site() -> Site {
    let site = Site::new(1);
    site.outside.batch(
        "address delete 192.168.0.1/24 dev wire
         link add link wire name wire.2 type vlan id 2
         address add 192.168.0.65/26 dev wire.2
         link set wire.2 up
         link add link wire name wire.3 type vlan id 3
         address add 192.168.1.1/24 dev wire.3
         link set wire.3 up\n",
    );
    site
}

fn attachment<'a>(site: &'a Site, pod: &Namespace, all: &[Given]) -> Attachment<'a> {
    Attachment::new(site.node(), &TAGGED_BRIDGE, pod, all)
        .with("cniVersion", "0.2.0")
        .with("vlan_name_prefix", format!("{UPLINK}."))
        .with("bridge_name_prefix", "br")
}

fn devices_are_right(site: &Site, attachment: &Attachment<'_>, vlan: u16, suffix: &str) {
    let view = View::of(&site.node().net);
    let (device, bridge) = (format!("{UPLINK}.{vlan}"), format!("br{vlan}"));
    assert_eq!(view.link_text(&device, "link"), UPLINK);
    assert_eq!(view.link_text(&device, "master"), bridge);
    assert_eq!(view.link_text(&device, "ifalias"), "floe:vlan");
    assert_eq!(view.link_text(&bridge, "ifalias"), "floe:bridge");
    let veth = attachment.host_link(suffix);
    assert_eq!(view.link_text(&veth, "master"), bridge);
    let own = ["192.168.0.2/24", "fd00:c0::2/64"];
    assert_eq!(view.global_addresses(UPLINK), own, "the address stays");
}

fn reached(site: &Site, pod: &Namespace, ip: &str, gateway: &str, vlan: u16) {
    let wire = Capture::start(&site.outside, "wire");
    let inside = pod.udp(ip.parse().unwrap());
    let outside = site.outside.udp(gateway.parse().unwrap());
    deliver(&outside, &inside, "ping");
    let pong = format!("pong of {ip}");
    deliver(&inside, &outside, &pong);
    assert_eq!(wire.frame(&pong).vlan, Some(vlan));
}
