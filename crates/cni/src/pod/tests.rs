use floe_core::node::nic::{Routing, plan};

use super::*;

fn info(ip: &str, gateway: &str) -> IpInfo {
    IpInfo {
        ip: ip.parse().unwrap(),
        vlan: 0,
        gateway: gateway.parse().unwrap(),
    }
}

fn net(text: &str) -> IpNet {
    text.parse().unwrap()
}

/// Table, destination, next hop, and whether that one is declared to be on the link.
fn seen(nic: &Nic, is_routed: bool) -> Vec<(u32, String, String, bool)> {
    let routes = routes(nic, 7, is_routed).into_iter().map(|it| {
        assert_eq!(it.link, 7);
        let gateway = it.gateway.map_or(String::new(), |ip| ip.to_string());
        (it.table, it.dst.to_string(), gateway, it.on_link)
    });
    routes.collect()
}

#[test]
fn a_single_interface_has_a_default_route_and_no_rules() {
    let nics = plan(&[info("10.0.0.5/24", "10.0.0.1")], "eth0", Routing::Vlan);
    assert_eq!(
        seen(&nics[0], false),
        [(254, "0.0.0.0/0".into(), "10.0.0.1".into(), false)]
    );
    assert_eq!(rules(&nics[0]), []);
}

#[test]
fn a_gateway_outside_of_the_network_is_declared_to_be_on_the_link() {
    let nics = plan(&[info("10.0.0.5/32", "10.0.0.1")], "eth0", Routing::Vlan);
    let seen_v4 = seen(&nics[0], false);
    assert!(seen_v4.contains(&(254, "0.0.0.0/0".into(), "10.0.0.1".into(), true)));
    let nics = plan(&[info("fd00::5/128", "fe80::1")], "eth0", Routing::Vlan);
    assert_eq!(
        seen(&nics[0], false),
        [(254, "::/0".into(), "fe80::1".into(), false)]
    );
}

#[test]
fn ipv6_of_a_routed_pod_goes_through_the_gateway_only() {
    let nics = plan(&[info("fd00::5/64", "fd00::1")], "eth0", Routing::Underlay);
    assert_eq!(
        seen(&nics[0], true),
        [
            (254, "fd00::1/128".into(), String::new(), false),
            (254, "::/0".into(), "fd00::1".into(), false)
        ]
    );
}

#[test]
fn each_of_several_interfaces_has_rules_to_its_own_table() {
    let addresses = [
        info("10.0.0.5/24", "10.0.0.1"),
        info("10.0.0.6/24", "10.0.0.1"),
        info("10.0.0.7/24", "10.0.0.1"),
    ];
    let nics = plan(&addresses, "eth0", Routing::Vlan);
    assert_eq!(nics.len(), 3);
    for (nic, (number, info)) in nics.iter().zip((0..).zip(addresses)) {
        let rule = Rule {
            priority: 1000 + number,
            from: IpNet::from(info.ip.addr()),
            table: 1000 + number,
        };
        assert_eq!(rules(nic), [rule]);
        let own = routes(nic, 7, false);
        let own: Vec<_> = own.iter().filter(|it| it.table == 1000 + number).collect();
        assert_eq!(own.len(), 2);
        assert!(
            own.iter()
                .any(|it| it.dst == net("10.0.0.0/24") && it.scope == 253)
        );
        assert!(
            own.iter()
                .any(|it| it.dst == net("0.0.0.0/0") && it.gateway.is_some())
        );
    }
}
