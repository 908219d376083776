//! Changes of the specification.

use super::desk::{A, B, Desk, addresses, ip, set};
use crate::nodepool::pool::State;

#[test]
fn the_tail_beyond_the_wanted_number_is_left_alone() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| it.desired = 1);
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["192.168.1.1 x"]);
    assert_eq!(desk.state(B), State::Disabled);
    assert_eq!(desk.view().published, Some(set(A)));
    // It is used when more are wanted, and left where it is when fewer are.
    desk.configure(|it| it.desired = 2);
    desk.pass(10);
    assert_eq!(desk.at(B).as_deref(), Some("y"));
    desk.configure(|it| it.desired = 1);
    desk.pass(100);
    assert_eq!(desk.at(B).as_deref(), Some("y"));
    assert_eq!(desk.state(B), State::Disabled);
    assert!(!desk.view().annotations.contains_key("y"));
    assert_eq!(desk.count("Buy"), 0);
}

#[test]
fn a_node_whose_address_leaves_the_list_is_served_first() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.capabilities.per_server = None;
    });
    desk.nodes(&[("x", None), ("y", None), ("z", None)]);
    desk.pass(10);
    assert_eq!(desk.at(A).as_deref(), Some("y"));
    assert_eq!(desk.view().assignable_nodes, ["z"]);
    desk.configure(|it| it.ips = addresses(B));
    desk.run();
    assert_eq!(desk.view().assignable_nodes, ["y", "z"]);
    assert!(!desk.view().annotations.contains_key("y"));
    assert!(!desk.view().ips.contains_key(&ip(A)));
    assert_eq!(desk.at(A).as_deref(), Some("y"), "it is not taken off");
    desk.put("10.9.9.9", None);
    desk.configure(|it| it.ips = addresses("172.16.2.2 10.9.9.9"));
    desk.pass(10);
    assert_eq!(desk.at("10.9.9.9").as_deref(), Some("y"));
    assert_eq!(desk.view().assignable_nodes, ["z"]);
}

#[test]
fn another_provider_or_region_begins_anew_without_waiting_for_nodes() {
    for change in ["provider", "region"] {
        let mut desk = Desk::new("192.168.1.1 172.16.2.2");
        desk.nodes(&[("x", None), ("y", None)]);
        desk.pass(10);
        desk.put(A, None);
        desk.put(B, None);
        desk.calls.clear();
        desk.configure(|it| match change {
            "provider" => it.provider = "other".into(),
            _ => it.region = "beta".into(),
        });
        assert_eq!(desk.view().published, None, "{change}");
        desk.pass(10);
        assert_eq!(
            desk.assignments(),
            ["172.16.2.2 x", "192.168.1.1 y"],
            "{change}"
        );
    }
}

#[test]
fn a_list_with_repetitions_counts_each_address_once() {
    let mut desk = Desk::new("192.168.1.1 192.168.1.1").with(|it| it.desired = 2);
    desk.pass(5);
    assert_eq!(desk.count("Buy"), 1);
    assert_eq!(desk.view().ips.len(), 2);
}

#[test]
fn all_nodes_at_once_or_one_by_one_is_the_same() {
    let mut all = Desk::new("192.168.1.1 172.16.2.2");
    all.nodes(&[("x", None)]);
    let mut one = Desk::new("192.168.1.1 172.16.2.2");
    one.node("x", None);
    for desk in [&mut all, &mut one] {
        desk.pass(5);
    }
    all.nodes(&[("x", None), ("y", None)]);
    one.node("y", None);
    for desk in [&mut all, &mut one] {
        desk.pass(5);
    }
    assert_eq!(all.view(), one.view());
    assert_eq!(all.assignments(), one.assignments());
    all.nodes(&[("y", None)]);
    one.pool.node(&super::desk::server("x"), None, one.now);
    assert_eq!(all.view(), one.view());
    assert_eq!(all.state(B), State::NoMatch);
}
