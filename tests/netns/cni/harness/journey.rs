//! The whole life of a pod's attachment, which is the same in every mode.

use std::net::IpAddr;

use serde_json::Value;

use super::capture::Capture;
use super::lab::{Namespace, deliver, wait_for};
use super::mode::{Family, Given, Mode, Seen};
use super::plugin::Attachment;
use super::site::{Node, Site};
use super::view::{Snapshot, View};

/// ADD, look, traffic, CHECK, DEL in all circumstances, and nothing left.
pub fn journey(site: &Site, mode: &Mode, family: Family) {
    let what = format!("{} {family:?}", mode.title);
    let node = site.node();
    // Interfaces of namespaces that have ended may live, and answer, a little longer: also
    // when the journey of another family begins.
    let number = match family {
        Family::V4 | Family::V6 => 68,
        Family::Dual => 69,
    };
    let addresses = mode.addresses(family, number);
    let before = settled(site, mode);

    let pod = site.pod(&format!("{}-{family:?}", mode.title));
    let empty = View::of(&pod).lines();
    let attachment = Attachment::new(node, mode, &pod, &addresses);
    let result = attachment.add();
    result_is_right(&result, &attachment, mode, &addresses);
    pod_is_right(&View::of(&pod), node, mode, &addresses);
    assert_eq!(pod.get("ipv6/conf/eth0/accept_ra"), "0", "{what}");
    host_is_right(&View::of(&node.net), &attachment, mode);
    for given in &addresses {
        traffic_flows(site, mode, &pod, given);
    }
    attachment.check(&result).nothing();
    pod.ip(&format!("address delete {} dev eth0", addresses[0].net()));
    let failure = attachment.check(&result).failure();
    assert_eq!(failure.code, 103, "{what}: {failure:?}");
    assert!(
        failure.message.contains(&addresses[0].ip.to_string()),
        "{what}: {failure:?}"
    );

    attachment.clone().with("prevResult", result).del();
    assert_eq!(View::of(&pod).lines(), empty, "{what}: in the pod");
    before.must_return(node, &format!("{what}: after DEL"));
    attachment.del();
    drop(pod);
    attachment.del();
    before.must_return(node, &format!("{what}: after the third DEL"));

    del_works_without_the_namespace(site, mode, &addresses, &before, &what);
}

/// What a node looks like once the shared devices of a mode are there.
pub fn settled(site: &Site, mode: &Mode) -> Snapshot {
    let node = site.node();
    let clean = Snapshot::of(node);
    let Some(shared) = mode.shared else {
        return clean;
    };
    if View::of(&node.net).link(shared).is_none() {
        let pod = site.pod("first");
        let given = mode.addresses(Family::V4, 250);
        let attachment = Attachment::new(node, mode, &pod, &given);
        attachment.add();
        attachment.del();
        wait_for("the shared device", || {
            let view = View::of(&node.net);
            let carries = view
                .addresses(shared)
                .iter()
                .any(|it| it.starts_with("fe80:"));
            carries.then_some(())
        });
    }
    Snapshot::of(node)
}

/// The answer to ADD names exactly what the pod has.
fn result_is_right(result: &Value, attachment: &Attachment<'_>, mode: &Mode, all: &[Given]) {
    assert_eq!(result["cniVersion"], "1.1.0", "{result}");
    let ips = result["ips"].as_array().unwrap();
    assert_eq!(ips.len(), all.len(), "{result}");
    for (ip, given) in ips.iter().zip(all) {
        assert_eq!(ip["address"], given.net(), "{result}");
        assert_eq!(ip["gateway"], given.gateway.to_string(), "{result}");
        let at = usize::try_from(ip["interface"].as_u64().unwrap()).unwrap();
        let interface = &result["interfaces"][at];
        assert_eq!(interface["name"], "eth0", "{result}");
        let sandbox = &attachment.variables["CNI_NETNS"];
        assert_eq!(interface["sandbox"], sandbox.as_str(), "{result}");
        if mode.kind != "ipvlan" {
            assert_eq!(interface["mac"], all[0].mac(), "{result}");
        }
    }
    for given in all {
        let dst = if given.ip.is_ipv4() {
            "0.0.0.0/0"
        } else {
            "::/0"
        };
        let routes = result["routes"].as_array().unwrap();
        assert!(routes.iter().any(|route| route["dst"] == dst), "{result}");
    }
    if let Some(suffix) = mode.veth {
        let name = attachment.host_link(suffix);
        let interfaces = result["interfaces"].as_array().unwrap();
        assert!(interfaces.iter().any(|it| it["name"] == name), "{result}");
    }
}

/// The pod has its interface with exactly its addresses.
fn pod_is_right(view: &View, node: &Node, mode: &Mode, all: &[Given]) {
    let title = mode.title;
    assert_eq!(view.names(), ["eth0"], "{title}");
    assert_eq!(view.kind("eth0"), mode.kind, "{title}");
    let mut expected: Vec<String> = all.iter().map(Given::net).collect();
    expected.sort();
    assert_eq!(view.global_addresses("eth0"), expected, "{title}");
    let mac = if mode.kind == "ipvlan" {
        node.net.mac(super::site::UPLINK)
    } else {
        all[0].mac()
    };
    assert_eq!(view.link_text("eth0", "address"), mac, "{title}");
    let mut defaults = view.defaults();
    defaults.sort_unstable();
    let gateways: Vec<String> = all.iter().map(|given| given.gateway.to_string()).collect();
    let mut expected: Vec<_> = gateways.iter().map(|it| ("eth0", it.as_str())).collect();
    expected.sort_unstable();
    if mode.is_layer_three() {
        // There is no neighbour to ask for: the device alone may lead out.
        let devices: Vec<_> = defaults.iter().map(|(device, _)| *device).collect();
        assert_eq!(devices, vec!["eth0"; all.len()], "{title}");
    } else {
        assert_eq!(defaults, expected, "{title}");
    }
}

/// The host has the pod's device under its known name, in the right place.
fn host_is_right(view: &View, attachment: &Attachment<'_>, mode: &Mode) {
    let Some(suffix) = mode.veth else {
        let of_pods = |name: &&str| name.starts_with("v-h") || name.starts_with("mv-");
        assert!(!view.names().iter().any(of_pods), "{:?}", view.names());
        return;
    };
    let name = attachment.host_link(suffix);
    let alias = view.link_text(&name, "ifalias");
    assert_eq!(alias, attachment.alias(), "{}", mode.title);
    let bridge = mode.shared.filter(|name| view.kind(name) == "bridge");
    let master = view.link_text(&name, "master");
    assert_eq!(master, bridge.unwrap_or_default(), "{}", mode.title);
}

/// Datagrams go from the outside to the pod and back, also beyond the gateway, with
/// the right hardware address and in the right VLAN.
fn traffic_flows(site: &Site, mode: &Mode, pod: &Namespace, given: &Given) {
    let what = format!("{} {}", mode.title, given.ip);
    let node = site.node();
    let own: IpAddr = node.addresses()[usize::from(given.ip.is_ipv6())];
    if mode.is_layer_three() {
        // Nobody answers for such a pod: its network has to route to the node.
        let (ip, way) = (given.ip, format!("via {own} dev wire"));
        site.outside.ip(&format!("route replace {ip} {way}"));
    }
    let wire = Capture::start(&site.outside, "wire");
    let inside = pod.udp(given.ip);
    let near = site.outside.udp(given.gateway);
    let far = site.outside.udp(given.far());
    deliver(&near, &inside, "from the neighbour");
    deliver(&far, &inside, "from afar");
    deliver(&inside, &far, "to the far end");
    deliver(&inside, &near, "to the neighbour");
    let frame = wire.frame("to the neighbour");
    let mac = match mode.seen {
        Seen::Own => pod.mac("eth0"),
        Seen::Node => node.net.mac(super::site::UPLINK),
    };
    assert_eq!(frame.source(), mac, "{what}");
    let vlan = (given.vlan != 0).then_some(given.vlan);
    assert_eq!(frame.vlan, vlan, "{what}");
    if !mode.is_layer_three() {
        assert_eq!(site.outside.neighbour(given.ip), Some(mac), "{what}");
    }
    if given.vlan == 0 && mode.kind == "veth" {
        // The node itself reaches its pods here; kubelet's probes need it.
        deliver(&node.net.udp(own), &inside, "from the node");
    }
}

/// DEL with the path gone but the namespace alive, and with all of it gone.
fn del_works_without_the_namespace(
    site: &Site,
    mode: &Mode,
    addresses: &[Given],
    before: &Snapshot,
    what: &str,
) {
    let mut pod = site.pod("hidden");
    let attachment = Attachment::new(site.node(), mode, &pod, addresses);
    attachment.add();
    pod.hide();
    attachment.del();
    before.must_return(site.node(), &format!("{what}: DEL without the path"));
    pod.end();

    let mut pod = site.pod("ended");
    // The interface in the hidden pod may live a little longer.
    let attachment = Attachment::new(site.node(), mode, &pod, addresses)
        .with("duplicate_address_detection", false);
    wait_for("the old pod's end", || {
        attachment.call("ADD").is_success().then_some(())
    });
    pod.hide();
    pod.end();
    attachment.del();
    attachment.clone().variable("CNI_NETNS", "").del();
    before.must_return(site.node(), &format!("{what}: DEL after the namespace"));
}
