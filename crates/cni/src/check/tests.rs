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
        parent: Some(40 + index),
        is_blocked: false,
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
    plan_beside(&addresses, "eth0", Routing::Vlan, &others())
}

fn never(_: &Nic) -> bool {
    false
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
    healthy().check(&nics(), "eth0", never).unwrap();
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
        let error = pod.check(&nics(), "eth0", never).unwrap_err();
        assert_eq!(error.message, message);
        assert_eq!(error.code, Code::CheckFailed);
    }
}

#[test]
fn both_families_of_an_interface_stay_together() {
    let mut pod = healthy();
    pod.links.push(link(3, "eth1", "10.0.0.6"));
    pod.addresses[1].link = 3;
    let error = pod.check(&nics(), "eth0", never).unwrap_err();
    assert_eq!(error.message, "fd00::5/64 is on eth1, not on eth0");
}

#[test]
fn each_of_several_interfaces_needs_its_rule() {
    let addresses = [
        info("10.0.0.5/24", "10.0.0.1"),
        info("10.0.0.6/24", "10.0.0.1"),
    ];
    let nics = plan_beside(&addresses, "eth0", Routing::Vlan, &others());
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
    let ends = pod.check(&nics, "eth0", never).unwrap();
    assert_eq!(ends, [Some(42), Some(43)]);
    let whole = pod.rules.clone();
    pod.rules.pop();
    let error = pod.check(&nics, "eth0", never).unwrap_err();
    assert_eq!(error.message, "there is no rule from 10.0.0.6/32");
    // One that leads into the main table, or to another interface, is none.
    for (priority, table) in [(1001, 254), (32765, 1001), (1000, 1000)] {
        pod.rules.clone_from(&whole);
        pod.rules[1].priority = priority;
        pod.rules[1].table = table;
        let error = pod.check(&nics, "eth0", never).unwrap_err();
        assert_eq!(error.code, Code::CheckFailed, "{table}: {error}");
    }
    pod.rules.clone_from(&whole);
    pod.routes
        .retain(|it| it.table != 1001 || it.gateway.is_none());
    let error = pod.check(&nics, "eth0", never).unwrap_err();
    let message = "eth7 has no route to 0.0.0.0/0 in table 1001";
    assert_eq!(error.message, message);
}

#[test]
fn a_second_network_needs_its_own_table_when_the_first_has_the_default_route() {
    let nics = plan_beside(
        &[info("10.0.0.6/24", "10.0.0.1")],
        "eth1",
        Routing::Vlan,
        &others(),
    );
    let mut pod = Pod {
        links: vec![link(3, "eth1", "10.0.0.6")],
        addresses: vec![address(3, "10.0.0.6/24")],
        routes: pod::routes(&nics[0], 3, false),
        rules: pod::rules(&nics[0]),
    };
    pod.check(&nics, "eth1", never).unwrap();
    // Somebody else has come first.
    for route in &mut pod.routes {
        if route.table == pod::TABLE_MAIN {
            route.link = 2;
        }
    }
    pod.check(&nics, "eth1", never).unwrap();
    pod.rules.clear();
    let error = pod.check(&nics, "eth1", never).unwrap_err();
    assert_eq!(error.message, "there is no rule from 10.0.0.6/32");
    // Without a default route at all nothing is right.
    pod.routes.clear();
    let error = pod.check(&nics, "eth1", never).unwrap_err();
    assert_eq!(error.message, "eth1 has no route to 0.0.0.0/0");
}

type HarmHost = fn(&mut Host);

#[test]
fn each_end_on_the_host_is_judged_by_itself() {
    let nics = nics();
    let (nic, own) = (&nics[0], Alias::new("net", "c", "eth0"));
    let proxy = |link: u32, ip: &str| Neighbour {
        link,
        ip: ip.parse().unwrap(),
        mac: None,
        is_proxy: true,
        is_permanent: false,
    };
    let healthy = || Host {
        links: vec![
            Link {
                master: Some(9),
                ..link(42, "v-hc-l0", "10.0.0.5")
            },
            link(43, "v-hc-l1", "10.0.0.5"),
        ],
        routes: ["10.0.0.5/32", "fd00::5/128"]
            .map(|dst| Route {
                dst: dst.parse().unwrap(),
                gateway: None,
                ..pod::routes(nic, 43, false)[0]
            })
            .into(),
        proxies: vec![proxy(9, "fd00::5"), proxy(43, "fd00::1")],
    };
    healthy().check(&own, 42, nic, false).unwrap();
    healthy().check(&own, 43, nic, true).unwrap();
    let cases: [(u32, bool, HarmHost, &str); 7] = [
        (
            44,
            false,
            |_| {},
            "the host's end of an interface is missing or down",
        ),
        (
            42,
            false,
            |host| host.links[0].is_up = false,
            "the host's end of an interface is missing or down",
        ),
        (
            43,
            true,
            |host| host.links[1].alias = Some("floe:net:other:eth0".into()),
            "the host's end of an interface is missing or down",
        ),
        (43, false, |_| {}, "v-hc-l1 is in no bridge"),
        (
            43,
            true,
            |host| host.routes.truncate(0),
            "the host has no route to 10.0.0.5",
        ),
        (
            43,
            true,
            |host| host.proxies.retain(|it| it.link != 9),
            "the host does not answer for fd00::5",
        ),
        (
            43,
            true,
            |host| host.proxies.retain(|it| it.link == 9),
            "the host does not answer for the gateway fd00::1",
        ),
    ];
    for (end, is_routed, harm, message) in cases {
        let mut host = healthy();
        harm(&mut host);
        let error = host.check(&own, end, nic, is_routed).unwrap_err();
        assert_eq!(error.message, message);
    }
}
