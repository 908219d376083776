use floe_core::{ipam::args::IpInfo, node::names::mac_of};

use super::*;

fn info(ip: &str, gateway: &str) -> IpInfo {
    IpInfo {
        ip: ip.parse().unwrap(),
        vlan: 0,
        gateway: gateway.parse().unwrap(),
    }
}

fn link(index: u32, name: &str, ip: &str) -> Link {
    Link {
        index,
        name: name.into(),
        alias: Some("floe:net:c:eth0".into()),
        mac: Some(mac_of(ip.parse().unwrap())),
        mtu: 1500,
        is_up: true,
        has_carrier: true,
        master: None,
        parent: None,
        is_elsewhere: true,
        kind: LinkKind::Veth,
    }
}

fn address(link: u32, net: &str) -> Address {
    Address {
        link,
        net: net.parse().unwrap(),
        scope: 0,
        no_prefix_route: false,
        is_temporary: false,
    }
}

fn nics() -> Vec<Nic> {
    let addresses = [
        info("10.0.0.5/24", "10.0.0.1"),
        info("fd00::5/64", "fd00::1"),
    ];
    plan(&addresses, "eth0", Routing::Vlan)
}

/// A pod with one interface for both families, as it should be.
fn healthy() -> Pod {
    let nics = nics();
    assert_eq!(nics.len(), 1);
    Pod {
        links: vec![link(2, "eth0", "10.0.0.5")],
        addresses: vec![address(2, "10.0.0.5/24"), address(2, "fd00::5/64")],
        routes: pod::routes(&nics[0], 2, false),
        rules: Vec::new(),
    }
}

#[test]
fn a_healthy_pod_passes() {
    healthy().check(&nics(), "eth0").unwrap();
}

#[test]
fn whatever_is_missing_is_named() {
    type Harm = fn(&mut Pod);
    let cases: [(Harm, &str); 6] = [
        (
            |pod| pod.links.clear(),
            "no interface of this attachment has 10.0.0.5/24",
        ),
        (
            |pod| pod.addresses.truncate(1),
            "no interface of this attachment has fd00::5/64",
        ),
        (|pod| pod.links[0].is_up = false, "eth0 is down"),
        (
            |pod| pod.links[0].mac = None,
            "eth0 has not the MAC 02:42:0a:00:00:05",
        ),
        (
            |pod| pod.routes.retain(|it| it.dst.addr().is_ipv6()),
            "eth0 has no route to 0.0.0.0/0",
        ),
        (
            |pod| pod.links[0].name = "eth1".into(),
            "10.0.0.5/24 is on eth1, not on eth0",
        ),
    ];
    for (harm, message) in cases {
        let mut pod = healthy();
        harm(&mut pod);
        let error = pod.check(&nics(), "eth0").unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.code, Code::CheckFailed);
    }
}

#[test]
fn both_families_of_an_interface_stay_together() {
    let mut pod = healthy();
    pod.links.push(link(3, "eth1", "10.0.0.6"));
    pod.addresses[1].link = 3;
    let error = pod.check(&nics(), "eth0").unwrap_err();
    assert_eq!(error.message, "fd00::5/64 is on eth1, not on eth0");
}

#[test]
fn each_of_several_interfaces_needs_its_rule() {
    let addresses = [
        info("10.0.0.5/24", "10.0.0.1"),
        info("10.0.0.6/24", "10.0.0.1"),
    ];
    let nics = plan(&addresses, "eth0", Routing::Vlan);
    let mut pod = Pod {
        links: vec![link(2, "eth0", "10.0.0.5"), link(3, "eth7", "10.0.0.6")],
        addresses: vec![address(2, "10.0.0.5/24"), address(3, "10.0.0.6/24")],
        routes: [
            pod::routes(&nics[0], 2, false),
            pod::routes(&nics[1], 3, false),
        ]
        .concat(),
        rules: [pod::rules(&nics[0]), pod::rules(&nics[1])].concat(),
    };
    pod.check(&nics, "eth0").unwrap();
    pod.rules.pop();
    let error = pod.check(&nics, "eth0").unwrap_err();
    assert_eq!(error.message, "there is no rule from 10.0.0.6/32");
}
