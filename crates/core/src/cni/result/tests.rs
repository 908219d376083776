use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn ip(address: &str, gateway: &str, interface: Option<usize>) -> Ip {
    Ip {
        address: address.parse().unwrap(),
        gateway: gateway.parse().ok(),
        interface,
    }
}

fn to(dst: &str) -> Route {
    Route::to(dst.parse().unwrap())
}

fn via(dst: &str, gw: &str) -> Route {
    Route::via(dst.parse().unwrap(), gw.parse().unwrap())
}

/// An outcome that uses everything of 1.1.0.
fn everything() -> Outcome {
    Outcome {
        interfaces: vec![
            Interface {
                name: "v-habc-l0".to_owned(),
                mac: Some("99:88:77:66:55:44".to_owned()),
                ..Interface::default()
            },
            Interface {
                name: "eth0".to_owned(),
                mac: Some("02:42:0a:01:00:05".to_owned()),
                mtu: Some(1500),
                sandbox: Some("/var/run/netns/blue".to_owned()),
                socket_path: Some("/run/vhost.sock".to_owned()),
                pci_id: Some("0000:01:10.0".to_owned()),
            },
        ],
        ips: vec![
            ip("10.1.0.5/16", "10.1.0.1", Some(1)),
            ip("fd00::5/64", "", Some(1)),
        ],
        routes: vec![
            to("0.0.0.0/0"),
            Route {
                mtu: Some(1400),
                advmss: Some(1360),
                priority: Some(10),
                table: Some(1000),
                scope: Some(0),
                ..via("fd01::/16", "fd00::1")
            },
        ],
        dns: Dns {
            nameservers: vec!["10.1.0.2".to_owned()],
            domain: Some("example.org".to_owned()),
            search: vec!["a.example.org".to_owned()],
            options: vec!["ndots:2".to_owned()],
        },
    }
}

const DNS: &str = concat!(
    r#""dns":{"nameservers":["10.1.0.2"],"domain":"example.org","#,
    r#""search":["a.example.org"],"options":["ndots:2"]}"#
);

/// What a version that lacks something makes of [`everything`].
fn before_1_1_0(mut outcome: Outcome) -> Outcome {
    for interface in &mut outcome.interfaces {
        (interface.mtu, interface.socket_path, interface.pci_id) = (None, None, None);
    }
    for route in &mut outcome.routes {
        *route = Route {
            gw: route.gw,
            ..Route::to(route.dst)
        };
    }
    outcome
}

fn before_0_3_0(outcome: Outcome) -> Outcome {
    let mut outcome = before_1_1_0(outcome);
    outcome.interfaces.clear();
    for ip in &mut outcome.ips {
        ip.interface = None;
    }
    outcome
}

#[test]
fn the_answer_of_galaxys_test_comes_out_exactly() {
    for routes in [
        vec![to("0.0.0.0/0")],
        vec![via("0.0.0.0/0", "192.168.0.65")],
    ] {
        let outcome = Outcome {
            interfaces: everything().interfaces,
            ips: vec![ip("192.168.0.68/26", "192.168.0.65", Some(1))],
            routes,
            ..Outcome::default()
        };
        assert_eq!(
            outcome.to_text(Version::V0_2_0),
            concat!(
                r#"{"cniVersion":"0.2.0","ip4":{"ip":"192.168.0.68/26","gateway":"192.168.0.65","#,
                r#""routes":[{"dst":"0.0.0.0/0"}]},"dns":{}}"#
            )
        );
    }
}

#[test]
fn of_two_addresses_the_old_form_lists_the_first_with_its_own_routes() {
    let outcome = Outcome {
        ips: vec![
            ip("192.168.0.68/26", "192.168.0.65", None),
            ip("192.168.1.3/24", "192.168.1.1", None),
        ],
        routes: vec![
            via("10.0.0.0/8", "192.168.0.65"),
            via("172.16.0.0/12", "192.168.0.65"),
            via("192.168.0.0/16", "192.168.0.65"),
            via("0.0.0.0/0", "192.168.1.1"),
            to("192.168.1.0/24"),
            via("203.0.113.0/24", "192.168.0.70"),
        ],
        ..Outcome::default()
    };
    assert_eq!(
        outcome.to_text(Version::V0_2_0),
        concat!(
            r#"{"cniVersion":"0.2.0","ip4":{"ip":"192.168.0.68/26","gateway":"192.168.0.65","#,
            r#""routes":[{"dst":"10.0.0.0/8"},{"dst":"172.16.0.0/12"},{"dst":"192.168.0.0/16"},"#,
            r#"{"dst":"203.0.113.0/24","gw":"192.168.0.70"}]},"dns":{}}"#
        )
    );
    // Three addresses with one gateway: its routes are those of the first.
    let outcome = Outcome {
        ips: vec![
            ip("10.0.0.5/24", "10.0.0.1", None),
            ip("10.0.0.6/24", "10.0.0.1", None),
        ],
        routes: vec![via("0.0.0.0/0", "10.0.0.1"), to("10.0.0.0/24")],
        ..Outcome::default()
    };
    assert_eq!(
        outcome.to_json(Version::V0_1_0)["ip4"]["routes"],
        json!([{"dst": "0.0.0.0/0"}, {"dst": "10.0.0.0/24"}])
    );
}

#[test]
fn every_version_has_the_form_of_its_specification() {
    let old = concat!(
        r#""ip4":{"ip":"10.1.0.5/16","gateway":"10.1.0.1","routes":[{"dst":"0.0.0.0/0"}]},"#,
        r#""ip6":{"ip":"fd00::5/64","routes":[{"dst":"fd01::/16","gw":"fd00::1"}]},"#
    );
    let interfaces = concat!(
        r#""interfaces":[{"name":"v-habc-l0","mac":"99:88:77:66:55:44"},"#,
        r#"{"name":"eth0","mac":"02:42:0a:01:00:05","sandbox":"/var/run/netns/blue"}],"#
    );
    let routes = r#""routes":[{"dst":"0.0.0.0/0"},{"dst":"fd01::/16","gw":"fd00::1"}],"#;
    let ips_0_3 = concat!(
        r#""ips":[{"version":"4","interface":1,"address":"10.1.0.5/16","gateway":"10.1.0.1"},"#,
        r#"{"version":"6","interface":1,"address":"fd00::5/64"}],"#
    );
    let ips_1_0 = concat!(
        r#""ips":[{"interface":1,"address":"10.1.0.5/16","gateway":"10.1.0.1"},"#,
        r#"{"interface":1,"address":"fd00::5/64"}],"#
    );
    let newest = concat!(
        r#""interfaces":[{"name":"v-habc-l0","mac":"99:88:77:66:55:44"},"#,
        r#"{"name":"eth0","mac":"02:42:0a:01:00:05","mtu":1500,"sandbox":"/var/run/netns/blue","#,
        r#""socketPath":"/run/vhost.sock","pciID":"0000:01:10.0"}],"#,
        r#""ips":[{"interface":1,"address":"10.1.0.5/16","gateway":"10.1.0.1"},"#,
        r#"{"interface":1,"address":"fd00::5/64"}],"#,
        r#""routes":[{"dst":"0.0.0.0/0"},{"dst":"fd01::/16","gw":"fd00::1","mtu":1400,"#,
        r#""advmss":1360,"priority":10,"table":1000,"scope":0}],"#
    );
    let table = [
        (Version::V0_1_0, old.to_owned()),
        (Version::V0_2_0, old.to_owned()),
        (Version::V0_3_0, [interfaces, ips_0_3, routes].concat()),
        (Version::V0_3_1, [interfaces, ips_0_3, routes].concat()),
        (Version::V0_4_0, [interfaces, ips_0_3, routes].concat()),
        (Version::V1_0_0, [interfaces, ips_1_0, routes].concat()),
        (Version::V1_1_0, newest.to_owned()),
    ];
    for (version, body) in table {
        let text = format!(r#"{{"cniVersion":"{version}",{body}{DNS}}}"#);
        assert_eq!(everything().to_text(version), text);
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(everything().to_json(version), json);
        let expected = match version {
            Version::V0_1_0 | Version::V0_2_0 => before_0_3_0(everything()),
            Version::V0_3_0 | Version::V0_3_1 | Version::V0_4_0 | Version::V1_0_0 => {
                before_1_1_0(everything())
            }
            Version::V1_1_0 => everything(),
        };
        assert_eq!(Outcome::from_json(&json).unwrap(), expected, "{version}");
    }
}

#[test]
fn the_result_of_an_ipam_plugin_is_read_without_interfaces() {
    let expected = Outcome {
        ips: vec![ip("10.1.0.5/16", "10.1.0.1", None)],
        routes: vec![to("0.0.0.0/0")],
        ..Outcome::default()
    };
    for json in [
        json!({"cniVersion": "0.2.0", "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1",
            "routes": [{"dst": "0.0.0.0/0"}]}, "dns": {}}),
        json!({"ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1",
            "routes": [{"dst": "0.0.0.0/0"}]}, "ip6": null}),
        json!({"cniVersion": "0.3.1", "ips": [{"version": "4", "address": "10.1.0.5/16",
            "gateway": "10.1.0.1"}], "routes": [{"dst": "0.0.0.0/0"}], "dns": {}}),
        json!({"cniVersion": "1.0.0", "interfaces": null, "ips": [{"interface": 0,
            "address": "10.1.0.5/16", "gateway": "10.1.0.1"}], "routes": [{"dst": "0.0.0.0/0",
            "gw": ""}], "dns": null}),
        json!({"cniVersion": "1.1.0", "ips": [{"interface": -1, "address": "10.1.0.5/16",
            "gateway": "::ffff:10.1.0.1"}], "routes": [{"dst": "10.9.8.7/0"}]}),
        // One version named, the other's form written.
        json!({"cniVersion": "1.0.0", "ip4": {"ip": "10.1.0.5/16", "gateway": "10.1.0.1",
            "routes": [{"dst": "0.0.0.0/0"}]}}),
        json!({"cniVersion": "0.2.0", "ips": [{"address": "10.1.0.5/16",
            "gateway": "10.1.0.1"}], "routes": [{"dst": "0.0.0.0/0"}]}),
        json!({"ips": [{"address": "10.1.0.5/16", "gateway": "10.1.0.1"}],
            "routes": [{"dst": "0.0.0.0/0"}], "unknown": [1]}),
    ] {
        assert_eq!(Outcome::from_json(&json).unwrap(), expected, "{json}");
    }
    assert_eq!(Outcome::from_json(&json!({})).unwrap(), Outcome::default());
}

#[test]
fn a_result_that_cannot_be_read_is_refused() {
    let table = [
        (json!(null), 6),
        (json!([]), 6),
        (json!("x"), 6),
        (json!({"cniVersion": 1}), 6),
        (json!({"cniVersion": "0.9.0"}), 1),
        (json!({"ips": {}}), 6),
        (json!({"ips": [null]}), 6),
        (json!({"ips": [[0, "10.0.0.5/24"]]}), 6),
        (json!({"ip4": ["10.0.0.5/24"]}), 6),
        (json!({"routes": [["0.0.0.0/0"]]}), 6),
        (json!({"dns": []}), 6),
        (json!({"ips": [{}]}), 6),
        (json!({"ips": [{"address": "10.0.0.5"}]}), 6),
        (
            json!({"ips": [{"address": "10.0.0.5/24", "gateway": "x"}]}),
            6,
        ),
        (json!({"ip4": {"ip": "10.0.0.5/40"}}), 6),
        (json!({"ip4": {}}), 6),
        (json!({"ips": [], "routes": [{"dst": "default"}]}), 6),
        (json!({"routes": [{"dst": "0.0.0.0/0", "gw": "x"}]}), 6),
        (json!({"interfaces": [{"name": 1}]}), 6),
        (json!({"interfaces": [{"name": "a", "mtu": -1}]}), 6),
        (json!({"dns": "8.8.8.8"}), 6),
    ];
    for (json, code) in table {
        let error = Outcome::from_json(&json).unwrap_err();
        assert_eq!(error.code.number(), code, "{json}: {error}");
    }
}

proptest! {
    #[test]
    fn an_outcome_survives_every_version_that_can_hold_it(outcome in outcomes()) {
        for version in Version::SUPPORTED {
            let held = match version {
                Version::V0_1_0 | Version::V0_2_0 => old_form(&outcome),
                Version::V0_3_0 | Version::V0_3_1 | Version::V0_4_0 | Version::V1_0_0 => {
                    before_1_1_0(outcome.clone())
                }
                Version::V1_1_0 => outcome.clone(),
            };
            let json = held.to_json(version);
            prop_assert_eq!(&Outcome::from_json(&json).unwrap(), &held, "{}", json);
            let text: Value = serde_json::from_str(&held.to_text(version)).unwrap();
            prop_assert_eq!(text, json);
        }
    }

    #[test]
    fn an_older_form_always_has_the_first_address_of_each_family(outcome in outcomes()) {
        let read = Outcome::from_json(&outcome.to_json(Version::V0_2_0)).unwrap();
        for is_v4 in [true, false] {
            let first = |outcome: &Outcome| {
                let of_family = |ip: &&Ip| ip.address.addr().is_ipv4() == is_v4;
                outcome.ips.iter().find(of_family).map(|ip| (ip.address, ip.gateway))
            };
            prop_assert_eq!(first(&read), first(&outcome));
        }
    }

    #[test]
    fn any_json_is_read_or_refused(json in any_json()) {
        if let Ok(outcome) = Outcome::from_json(&json) {
            let places = outcome.ips.iter().filter_map(|ip| ip.interface);
            prop_assert!(places.into_iter().all(|place| place < outcome.interfaces.len()));
            for version in Version::SUPPORTED {
                prop_assert!(Outcome::from_json(&outcome.to_json(version)).is_ok());
            }
        }
    }
}

/// The part of an outcome that 0.2.0 can hold.
fn old_form(outcome: &Outcome) -> Outcome {
    let mut old = Outcome {
        dns: outcome.dns.clone(),
        ..Outcome::default()
    };
    for is_v4 in [true, false] {
        let mut of_family = outcome
            .ips
            .iter()
            .filter(|ip| ip.address.addr().is_ipv4() == is_v4);
        let Some(first) = of_family.next() else {
            continue;
        };
        old.ips.push(Ip {
            interface: None,
            ..*first
        });
        let routes = outcome.routes.iter();
        let own = routes.filter(|route| route.dst.addr().is_ipv4() == is_v4);
        old.routes.extend(own.map(|route| Route {
            gw: route.gw.filter(|gw| Some(*gw) != first.gateway),
            ..Route::to(route.dst)
        }));
    }
    old
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    (
        prop::collection::vec(interfaces(), 0..4),
        prop::collection::vec(
            (
                networks(),
                prop::option::of(gateways()),
                prop::option::of(0_usize..4),
            ),
            0..5,
        ),
        prop::collection::vec(routes(), 0..5),
        dns(),
    )
        .prop_map(|(interfaces, ips, routes, dns)| Outcome {
            ips: ips
                .into_iter()
                .map(|(address, gateway, place)| Ip {
                    address,
                    gateway,
                    interface: place.filter(|place| *place < interfaces.len()),
                })
                .collect(),
            interfaces,
            routes,
            dns,
        })
}

fn interfaces() -> impl Strategy<Value = Interface> {
    let text = || prop::option::of("[a-z:/.0-9\"\\\\]{1,9}");
    (
        "[a-z0-9]{1,15}",
        text(),
        prop::option::of(any::<u32>()),
        text(),
        text(),
        text(),
    )
        .prop_map(|(name, mac, mtu, sandbox, socket_path, pci_id)| Interface {
            name,
            mac,
            mtu,
            sandbox,
            socket_path,
            pci_id,
        })
}

fn routes() -> impl Strategy<Value = Route> {
    let number = || prop::option::of(any::<u32>());
    (
        networks(),
        prop::option::of(gateways()),
        (number(), number(), number(), number()),
        prop::option::of(any::<u8>()),
    )
        .prop_map(|(dst, gw, (mtu, advmss, priority, table), scope)| Route {
            dst: dst.trunc(),
            gw,
            mtu,
            advmss,
            priority,
            table,
            scope,
        })
}

fn dns() -> impl Strategy<Value = Dns> {
    let texts = || prop::collection::vec("[a-z.0-9]{0,9}", 0..3);
    (texts(), prop::option::of("[a-z.]{1,9}"), texts(), texts()).prop_map(
        |(nameservers, domain, search, options)| Dns {
            nameservers,
            domain,
            search,
            options,
        },
    )
}

/// Few addresses, so that gateways and networks meet.
fn gateways() -> impl Strategy<Value = IpAddr> {
    prop_oneof![
        (0_u8..4).prop_map(|last| IpAddr::from(Ipv4Addr::new(10, 0, 0, last))),
        (0_u16..4).prop_map(|last| IpAddr::from(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last))),
    ]
}

fn networks() -> impl Strategy<Value = IpNet> {
    (gateways(), 0_u8..=32).prop_map(|(ip, length)| {
        let length = if ip.is_ipv4() { length } else { length * 4 };
        IpNet::new(ip, length).unwrap()
    })
}

/// JSON that often looks like something of the protocol.
pub(in crate::cni) fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-2_i64..5).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        prop::sample::select(vec![
            "",
            "x",
            "net",
            "1.0.0",
            "0.2.0",
            "1.1.0",
            "10.0.0.5/24",
            "10.0.0.1",
            "fd00::1/64",
            "fd00::1",
            "0.0.0.0/0",
            "host-local",
            "::ffff:10.0.0.1/97",
        ])
        .prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "cniVersion",
        "ip4",
        "ip6",
        "ip",
        "ips",
        "address",
        "gateway",
        "interface",
        "interfaces",
        "name",
        "routes",
        "dst",
        "gw",
        "dns",
        "domain",
        "type",
        "mtu",
        "containerID",
        "ifname",
    ]);
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(names.clone(), inner, 0..6).prop_map(|members| {
                members
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect()
            }),
        ]
    })
}
