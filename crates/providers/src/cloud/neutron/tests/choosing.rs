//! Which address of a server a floating IP leads to.

use std::collections::BTreeSet;

use serde_json::json;

use crate::cloud::neutron::{
    ports::{choose, targets},
    server_id,
    wire::Port,
};
use floe_core::nodepool::cloud::Class;

fn port(id: &str, owner: &str, fixed: &[(&str, &str)], tags: &[&str]) -> Port {
    let fixed: Vec<_> = fixed
        .iter()
        .map(|(subnet, ip)| json!({ "subnet_id": subnet, "ip_address": ip }))
        .collect();
    let port = json!({ "id": id, "device_id": "s", "device_owner": owner,
        "fixed_ips": fixed, "tags": tags });
    serde_json::from_value(port).unwrap()
}

/// What is chosen for a server with these ports when `in` is the routed subnet.
fn chosen(ports: &[Port]) -> Result<(String, String), (Class, String)> {
    let routed = BTreeSet::from(["in".to_owned()]);
    targets("s", ports)
        .and_then(|targets| choose("s", &targets, &routed, "net"))
        .map(|target| (target.port, target.address.to_string()))
        .map_err(|refusal| (refusal.class, refusal.message))
}

#[test]
fn the_port_with_a_way_outside_is_chosen() {
    let ports = [
        port("a", "compute:nova", &[("storage", "10.9.0.4")], &[]),
        port(
            "b",
            "compute:nova",
            &[("in", "10.0.0.4"), ("in6", "fd00::4")],
            &[],
        ),
    ];
    let wanted = ("b".to_owned(), "10.0.0.4".to_owned());
    assert_eq!(chosen(&ports), Ok(wanted));
}

#[test]
fn several_are_refused_by_name_unless_one_port_is_tagged() {
    let second = |tags: &[&str]| port("b", "compute:az2", &[("in", "10.0.0.5")], tags);
    let first = port("a", "compute:az1", &[("in", "10.0.0.4")], &["web"]);
    let (class, words) = chosen(&[first.clone(), second(&[])]).unwrap_err();
    assert_eq!(class, Class::Invalid);
    assert!(
        words.contains("10.0.0.4 (port a), 10.0.0.5 (port b)"),
        "{words}"
    );
    let wanted = ("b".to_owned(), "10.0.0.5".to_owned());
    assert_eq!(chosen(&[first, second(&["floe"])]), Ok(wanted));
    let both = port("a", "", &[("in", "10.0.0.4"), ("in", "10.0.0.6")], &[]);
    assert_eq!(chosen(&[both]).unwrap_err().0, Class::Invalid);
}

#[test]
fn without_a_port_there_is_no_server_and_without_a_way_no_target() {
    assert_eq!(chosen(&[]).unwrap_err().0, Class::ServerUnknown);
    let router = port("r", "network:router_interface", &[("in", "10.0.0.1")], &[]);
    assert_eq!(chosen(&[router]).unwrap_err().0, Class::ServerUnknown);
    let v6 = port("a", "compute:nova", &[("in", "fd00::1")], &[]);
    assert_eq!(chosen(&[v6]).unwrap_err().0, Class::Invalid);
    let storage = port("a", "compute:nova", &[("storage", "10.9.0.4")], &[]);
    let (class, words) = chosen(&[storage]).unwrap_err();
    assert_eq!(class, Class::Invalid);
    assert!(words.contains("10.9.0.4"), "{words}");
}

#[test]
fn all_forms_of_provider_ids_name_a_server() {
    for (text, id) in [
        ("openstack:///u-1", Some("u-1")),
        ("openstack://one/u-1", Some("u-1")),
        ("openstack:///one/u-1", Some("u-1")),
        ("openstack://u-1", None),
        ("openstack:///", None),
        ("hcloud://7", None),
    ] {
        assert_eq!(server_id(text), id, "{text}");
    }
}
