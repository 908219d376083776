use proptest::prelude::*;

use std::collections::BTreeSet;

use super::*;
use crate::node::names::mac_of;

fn info(ip: &str, vlan: u16, gateway: &str) -> IpInfo {
    IpInfo {
        ip: ip.parse().unwrap(),
        vlan,
        gateway: gateway.parse().unwrap(),
    }
}

/// A line for each interface:
/// `eth0#0 vlan 2 <mac> <addresses> | <main routes> | <table>: <its routes>`.
fn shown(nics: &[Nic]) -> Vec<String> {
    let routes = |routes: &[NicRoute]| {
        let texts: Vec<String> = routes
            .iter()
            .map(|route| match route.gateway {
                Some(gateway) => format!("{} via {gateway}", route.dst),
                None => route.dst.to_string(),
            })
            .collect();
        texts.join(", ")
    };
    nics.iter()
        .map(|nic| {
            let addresses: Vec<String> = nic
                .addresses
                .iter()
                .map(|info| info.ip.to_string())
                .collect();
            let table = match &nic.own_table {
                Some(own) => {
                    assert_eq!(own.table, own.priority);
                    format!("{}: {}", own.table, routes(&own.routes))
                }
                None => "-".to_owned(),
            };
            format!(
                "{}#{} vlan {} {} {} | {} | {table}",
                nic.name,
                nic.number,
                nic.vlan,
                nic.mac,
                addresses.join(" "),
                routes(&nic.routes),
            )
        })
        .collect()
}

/// The plan of galaxy-k8s-vlan on `eth0`.
fn vlan(addresses: &[IpInfo]) -> Vec<String> {
    shown(&plan(addresses, "eth0", Routing::Vlan))
}

#[test]
fn one_address_is_one_interface_with_the_default_route() {
    let addresses = [info("192.168.0.68/26", 2, "192.168.0.65")];
    let expected =
        ["eth0#0 vlan 2 02:42:c0:a8:00:44 192.168.0.68/26 | 0.0.0.0/0 via 192.168.0.65 | -"];
    assert_eq!(vlan(&addresses), expected);
    let underlay = plan(&addresses, "eth0", Routing::Underlay);
    assert_eq!(shown(&underlay), expected);
}

#[test]
fn no_address_is_no_interface() {
    assert_eq!(plan(&[], "eth0", Routing::Vlan), []);
}

#[test]
fn of_two_in_two_vlans_the_second_has_the_default_route() {
    let addresses = [
        info("192.168.0.68/26", 2, "192.168.0.65"),
        info("192.168.1.3/24", 3, "192.168.1.1"),
    ];
    assert_eq!(
        vlan(&addresses),
        [
            "eth0#0 vlan 2 02:42:c0:a8:00:44 192.168.0.68/26 \
             | 10.0.0.0/8 via 192.168.0.65, 172.16.0.0/12 via 192.168.0.65, \
             192.168.0.0/16 via 192.168.0.65 \
             | 1000: 192.168.0.64/26, 0.0.0.0/0 via 192.168.0.65",
            "eth1#1 vlan 3 02:42:c0:a8:01:03 192.168.1.3/24 \
             | 0.0.0.0/0 via 192.168.1.1 \
             | 1001: 192.168.1.0/24, 0.0.0.0/0 via 192.168.1.1",
        ]
    );
}

#[test]
fn two_in_one_subnet_answer_each_through_their_own_interface() {
    let addresses = [
        info("10.0.0.2/24", 0, "10.0.0.1"),
        info("10.0.0.3/24", 0, "10.0.0.1"),
    ];
    assert_eq!(
        vlan(&addresses),
        [
            "eth0#0 vlan 0 02:42:0a:00:00:02 10.0.0.2/24 \
             | 10.0.0.0/8 via 10.0.0.1, 172.16.0.0/12 via 10.0.0.1, 192.168.0.0/16 via 10.0.0.1 \
             | 1000: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
            "eth1#1 vlan 0 02:42:0a:00:00:03 10.0.0.3/24 \
             | 0.0.0.0/0 via 10.0.0.1 \
             | 1001: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
        ]
    );
}

#[test]
fn of_three_in_one_subnet_the_first_has_the_default_route() {
    let addresses = ["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"].map(|ip| info(ip, 0, "10.0.0.1"));
    assert_eq!(
        vlan(&addresses),
        [
            "eth0#0 vlan 0 02:42:0a:00:00:02 10.0.0.2/24 | 0.0.0.0/0 via 10.0.0.1 \
             | 1000: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
            "eth1#1 vlan 0 02:42:0a:00:00:03 10.0.0.3/24 |  \
             | 1001: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
            "eth2#2 vlan 0 02:42:0a:00:00:04 10.0.0.4/24 |  \
             | 1002: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
        ]
    );
}

#[test]
fn dual_stack_is_one_interface() {
    let v4 = info("10.0.0.2/24", 2, "10.0.0.1");
    let v6 = info("fd00::2/64", 2, "fd00::1");
    assert_eq!(
        vlan(&[v4, v6]),
        ["eth0#0 vlan 2 02:42:0a:00:00:02 10.0.0.2/24 fd00::2/64 \
             | 0.0.0.0/0 via 10.0.0.1, ::/0 via fd00::1 | -"]
    );
    assert_eq!(
        vlan(&[v6, v4]),
        ["eth0#0 vlan 2 06:45:50:14:e8:8a fd00::2/64 10.0.0.2/24 \
             | 0.0.0.0/0 via 10.0.0.1, ::/0 via fd00::1 | -"]
    );
}

#[test]
fn families_in_two_vlans_are_two_interfaces() {
    let addresses = [
        info("10.0.0.2/24", 2, "10.0.0.1"),
        info("fd00::2/64", 3, "fd00::1"),
    ];
    assert_eq!(
        vlan(&addresses),
        [
            "eth0#0 vlan 2 02:42:0a:00:00:02 10.0.0.2/24 | 0.0.0.0/0 via 10.0.0.1 \
             | 1000: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
            "eth1#1 vlan 3 06:45:50:14:e8:8a fd00::2/64 | ::/0 via fd00::1 \
             | 1001: fd00::/64, ::/0 via fd00::1",
        ]
    );
}

#[test]
fn two_of_one_family_and_one_of_the_other() {
    let addresses = [
        info("10.0.0.2/24", 2, "10.0.0.1"),
        info("10.1.0.2/24", 3, "10.1.0.1"),
        info("fd00::2/64", 3, "fd00::1"),
    ];
    assert_eq!(
        vlan(&addresses),
        [
            "eth0#0 vlan 2 02:42:0a:00:00:02 10.0.0.2/24 \
             | 10.0.0.0/8 via 10.0.0.1, 172.16.0.0/12 via 10.0.0.1, 192.168.0.0/16 via 10.0.0.1 \
             | 1000: 10.0.0.0/24, 0.0.0.0/0 via 10.0.0.1",
            "eth1#1 vlan 3 02:42:0a:01:00:02 10.1.0.2/24 fd00::2/64 \
             | 0.0.0.0/0 via 10.1.0.1, ::/0 via fd00::1 \
             | 1001: 10.1.0.0/24, 0.0.0.0/0 via 10.1.0.1, fd00::/64, ::/0 via fd00::1",
        ]
    );
}

#[test]
fn with_one_vlan_the_other_family_joins_the_first_interface() {
    let addresses = [
        info("10.0.0.2/24", 2, "10.0.0.1"),
        info("10.0.0.3/24", 2, "10.0.0.1"),
        info("fd00::2/64", 2, "fd00::1"),
        info("fd00::3/64", 2, "fd00::1"),
    ];
    let nics = plan(&addresses, "eth0", Routing::Vlan);
    let on = |nic: &Nic| nic.addresses.clone();
    assert_eq!(on(&nics[0]), [addresses[0], addresses[2]]);
    assert_eq!(on(&nics[1]), [addresses[1], addresses[3]]);
    assert_eq!(nics.len(), 2);
}

#[test]
fn only_ipv6_is_an_interface_like_any_other() {
    assert_eq!(
        vlan(&[info("fd00::1:2/64", 0, "fe80::1")]),
        ["eth0#0 vlan 0 06:45:50:15:e8:8a fd00::1:2/64 | ::/0 via fe80::1 | -"]
    );
    // galaxy's rule for two addresses is one for IPv4.
    assert_eq!(
        vlan(&[
            info("fd00::2/64", 2, "fd00::1"),
            info("fd01::3/64", 3, "fd01::1"),
        ]),
        [
            "eth0#0 vlan 2 06:45:50:14:e8:8a fd00::2/64 | ::/0 via fd00::1 \
             | 1000: fd00::/64, ::/0 via fd00::1",
            "eth1#1 vlan 3 06:3d:71:3f:2a:90 fd01::3/64 |  \
             | 1001: fd01::/64, ::/0 via fd01::1",
        ]
    );
}

#[test]
fn further_interfaces_skip_the_name_of_the_first() {
    let addresses = ["10.0.0.2/24", "10.0.0.3/24", "10.0.0.4/24"].map(|ip| info(ip, 0, "10.0.0.1"));
    let cases = [
        ("eth0", [("eth0", 0), ("eth1", 1), ("eth2", 2)]),
        ("eth1", [("eth1", 1), ("eth2", 2), ("eth3", 3)]),
        ("eth2", [("eth2", 2), ("eth1", 1), ("eth3", 3)]),
        ("eth12", [("eth12", 12), ("eth1", 1), ("eth2", 2)]),
        // Multus names interfaces so: two of its networks must not collide.
        ("net1", [("net1", 1), ("eth1", 2), ("eth2", 3)]),
        ("net2", [("net2", 2), ("eth1", 1), ("eth2", 3)]),
        ("wan", [("wan", 0), ("eth1", 1), ("eth2", 2)]),
        ("eth100", [("eth100", 0), ("eth1", 1), ("eth2", 2)]),
        (
            "99999999999",
            [("99999999999", 0), ("eth1", 1), ("eth2", 2)],
        ),
        (
            "999999999999999999999999",
            [("999999999999999999999999", 0), ("eth1", 1), ("eth2", 2)],
        ),
    ];
    for (ifname, expected) in cases {
        let nics = plan(&addresses, ifname, Routing::Vlan);
        let found: Vec<(&str, usize)> = nics
            .iter()
            .map(|nic| (nic.name.as_str(), nic.number))
            .collect();
        assert_eq!(found, expected);
        for nic in &nics {
            let own = nic.own_table.as_ref().unwrap();
            assert_eq!(own.table, 1000 + u32::try_from(nic.number).unwrap());
        }
    }
}

#[test]
fn what_other_attachments_have_is_left_to_them() {
    let addresses = ["10.0.0.2/24", "10.0.0.3/24"].map(|ip| info(ip, 0, "10.0.0.1"));
    let in_use = InUse {
        names: ["lo", "eth0", "eth1"].map(str::to_owned).into(),
        numbers: [0, 1, 3].into(),
    };
    let nics = plan_beside(&addresses, "net1", Routing::Vlan, &in_use);
    let found: Vec<(&str, usize)> = nics
        .iter()
        .map(|nic| (nic.name.as_str(), nic.number))
        .collect();
    assert_eq!(found, [("net1", 2), ("eth2", 4)]);
}

#[test]
fn a_second_network_has_its_own_table_and_the_first_needs_none() {
    let addresses = [info("10.0.0.2/24", 0, "10.0.0.1")];
    for (names, expected) in [
        (vec![], None),
        (vec!["lo"], None),
        (vec!["lo", "eth0"], Some(1001)),
    ] {
        let in_use = InUse {
            names: names.iter().copied().map(str::to_owned).collect(),
            numbers: BTreeSet::new(),
        };
        let nics = plan_beside(&addresses, "eth1", Routing::Vlan, &in_use);
        let table = nics[0].own_table.as_ref().map(|own| own.table);
        assert_eq!(table, expected, "{names:?}");
    }
}

#[test]
fn underlay_leaves_the_default_route_to_the_first() {
    let addresses = [
        info("192.168.2.69/26", 2, "192.168.2.65"),
        info("192.168.3.3/24", 3, "192.168.3.1"),
    ];
    assert_eq!(
        shown(&plan(&addresses, "eth0", Routing::Underlay)),
        [
            "eth0#0 vlan 2 02:42:c0:a8:02:45 192.168.2.69/26 | 0.0.0.0/0 via 192.168.2.65 \
             | 1000: 192.168.2.64/26, 0.0.0.0/0 via 192.168.2.65",
            "eth1#1 vlan 3 02:42:c0:a8:03:03 192.168.3.3/24 |  \
             | 1001: 192.168.3.0/24, 0.0.0.0/0 via 192.168.3.1",
        ]
    );
}

#[test]
fn a_gateway_outside_the_subnet_is_made_reachable_first() {
    assert_eq!(
        vlan(&[
            info("10.0.0.2/32", 0, "169.254.1.1"),
            info("fd00::2/128", 0, "fd00::1"),
            info("10.0.0.3/32", 0, "169.254.1.1"),
        ]),
        [
            "eth0#0 vlan 0 02:42:0a:00:00:02 10.0.0.2/32 fd00::2/128 \
             | 169.254.1.1/32, 10.0.0.0/8 via 169.254.1.1, 172.16.0.0/12 via 169.254.1.1, \
             192.168.0.0/16 via 169.254.1.1, fd00::1/128, ::/0 via fd00::1 \
             | 1000: 169.254.1.1/32, 0.0.0.0/0 via 169.254.1.1, fd00::1/128, ::/0 via fd00::1",
            "eth1#1 vlan 0 02:42:0a:00:00:03 10.0.0.3/32 \
             | 169.254.1.1/32, 0.0.0.0/0 via 169.254.1.1 \
             | 1001: 169.254.1.1/32, 0.0.0.0/0 via 169.254.1.1",
        ]
    );
}

#[test]
fn without_a_gateway_there_is_no_way_out() {
    for none in ["0.0.0.0", "::", "fd00::1"] {
        assert_eq!(
            vlan(&[info("10.0.0.2/24", 0, none)]),
            ["eth0#0 vlan 0 02:42:0a:00:00:02 10.0.0.2/24 |  | -"],
            "{none}"
        );
    }
    // The default route goes to the first that has one.
    let with = info("10.0.0.2/24", 2, "10.0.0.1");
    let without = info("10.1.0.2/24", 3, "0.0.0.0");
    let first = "02:42:0a:00:00:02 10.0.0.2/24 | 0.0.0.0/0 via 10.0.0.1 |";
    let lines = vlan(&[with, without]);
    assert!(lines[0].contains(first), "{lines:?}");
    assert!(lines[1].contains("|  | 1001: 10.1.0.0/24"), "{lines:?}");
    let lines = vlan(&[without, with]);
    assert!(lines[0].contains("|  | 1000: 10.1.0.0/24"), "{lines:?}");
    assert!(lines[1].contains(first), "{lines:?}");
}

#[test]
fn an_address_that_is_named_twice_counts_once() {
    let one = info("10.0.0.2/24", 2, "10.0.0.1");
    let again = info("10.0.0.2/25", 3, "10.0.0.1");
    assert_eq!(vlan(&[one, one, again]), vlan(&[one]));
}

#[test]
fn ipv6_addresses_that_end_alike_have_different_hardware_addresses() {
    let addresses = ["fd00::5/64", "fd01::5/64", "fd02::5/64"].map(|ip| info(ip, 0, "fe80::1"));
    let nics = plan(&addresses, "eth0", Routing::Vlan);
    let macs: BTreeSet<Mac> = nics.iter().map(|nic| nic.mac).collect();
    assert_eq!(macs.len(), 3);
    let of_pods = addresses.map(|it| mac_of(it.ip.addr()));
    assert_eq!(BTreeSet::from(of_pods).len(), 3, "also in different pods");
}

/// Few values, so that many of them meet.
fn some_info() -> impl Strategy<Value = IpInfo> {
    let v4 = (
        0..3_u8,
        1..9_u8,
        prop_oneof![Just(24_u8), Just(32)],
        0..3_u8,
    )
        .prop_map(|(net, host, length, gateway)| {
            let gateway = if gateway == 0 {
                [0; 4]
            } else {
                [10, 0, net, 254]
            };
            (
                IpAddr::from([10, 0, net, host]),
                length,
                IpAddr::from(gateway),
            )
        });
    let v6 = (
        0..3_u16,
        1..9_u16,
        prop_oneof![Just(64_u8), Just(128)],
        0..3_u16,
    )
        .prop_map(|(net, host, length, gateway)| {
            let gateway = match gateway {
                0 => Ipv6Addr::UNSPECIFIED,
                1 => Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1),
                _ => Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, 0xff),
            };
            let ip = Ipv6Addr::new(0xfd00, net, 0, 0, 0, 0, 0, host);
            (IpAddr::from(ip), length, IpAddr::from(gateway))
        });
    (prop_oneof![v4, v6], 0..3_u16).prop_map(|((ip, length, gateway), vlan)| IpInfo {
        ip: IpNet::new(ip, length).unwrap(),
        vlan,
        gateway,
    })
}

fn some_ifname() -> impl Strategy<Value = String> {
    prop_oneof![
        "eth[0-9]{1,2}",
        "net[0-9]",
        Just("wan".to_owned()),
        "[a-z]{1,4}[0-9]{0,11}",
    ]
}

fn all_different<T: Ord>(items: impl Iterator<Item = T>) -> bool {
    let all: Vec<T> = items.collect();
    all.iter().collect::<BTreeSet<_>>().len() == all.len()
}

proptest! {
    #[test]
    fn a_plan_keeps_its_promises(
        addresses in prop::collection::vec(some_info(), 0..10),
        ifname in some_ifname(),
        underlay: bool,
        names in prop::collection::btree_set("eth[0-9]|net[0-9]", 0..6),
        numbers in prop::collection::btree_set(0..12_usize, 0..6),
    ) {
        let routing = if underlay { Routing::Underlay } else { Routing::Vlan };
        let mut in_use = InUse { names, numbers };
        in_use.names.remove(&ifname);
        let nics = plan_beside(&addresses, &ifname, routing, &in_use);

        // Names, numbers, hardware addresses and tables are unique and free.
        prop_assert!(all_different(nics.iter().map(|nic| &nic.name)));
        prop_assert!(all_different(nics.iter().map(|nic| nic.number)));
        prop_assert!(all_different(nics.iter().map(|nic| nic.mac)));
        prop_assert!(nics.iter().all(|nic| !in_use.names.contains(&nic.name)));
        prop_assert!(nics.iter().all(|nic| !in_use.numbers.contains(&nic.number)));
        if let Some(first) = nics.first() {
            prop_assert_eq!(&first.name, &ifname);
            prop_assert_eq!(first.addresses[0], addresses[0]);
        }

        // Every address is on exactly one interface, of its VLAN.
        let planned: Vec<IpInfo> = nics.iter().flat_map(|nic| nic.addresses.clone()).collect();
        prop_assert!(all_different(planned.iter().map(|info| info.ip.addr())));
        for info in &addresses {
            prop_assert!(planned.iter().any(|other| other.ip.addr() == info.ip.addr()));
        }
        for nic in &nics {
            prop_assert!(!nic.addresses.is_empty());
            prop_assert!(all_different(nic.addresses.iter().map(|info| info.ip.addr().is_ipv4())));
            prop_assert!(nic.addresses.iter().all(|info| info.vlan == nic.vlan));
            // Neither a group's nor one that a manufacturer gave.
            prop_assert_eq!(nic.mac.0[0] & 3, 2);
        }

        // One default route of each family, if there is any gateway.
        let main: Vec<NicRoute> = nics.iter().flat_map(|nic| nic.routes.clone()).collect();
        for v4 in [true, false] {
            let has_gateway = planned
                .iter()
                .any(|info| info.ip.addr().is_ipv4() == v4 && !info.gateway.is_unspecified());
            let defaults = main
                .iter()
                .filter(|route| route.dst.prefix_len() == 0 && route.dst.addr().is_ipv4() == v4)
                .count();
            prop_assert_eq!(defaults, usize::from(has_gateway));
        }

        for nic in &nics {
            // Own tables exactly where there are several interfaces.
            let is_one_of_several = nics.len() > 1 || !in_use.names.is_empty();
            prop_assert_eq!(nic.own_table.is_some(), is_one_of_several);
            let own = nic.own_table.iter().flat_map(|own| own.routes.clone());
            for routes in [nic.routes.clone(), own.collect()] {
                prop_assert!(all_different(routes.iter().map(|route| route.dst)));
                for (at, route) in routes.iter().enumerate() {
                    let Some(gateway) = route.gateway else { continue };
                    let IpAddr::V6(v6) = gateway else {
                        prop_assert!(reachable(nic, &routes[..at], gateway));
                        continue;
                    };
                    prop_assert!(v6.is_unicast_link_local() || reachable(nic, &routes[..at], gateway));
                }
            }
        }
    }
}

/// Whether the kernel would take a route through this gateway.
fn reachable(nic: &Nic, before: &[NicRoute], gateway: IpAddr) -> bool {
    let connected = nic.addresses.iter().any(|info| info.ip.contains(&gateway));
    let routed = before
        .iter()
        .any(|route| route.gateway.is_none() && route.dst.contains(&gateway));
    connected || routed
}
