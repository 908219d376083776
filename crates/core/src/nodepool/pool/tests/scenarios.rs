//! FLIPOP's own scenarios.

use std::time::Duration;

use super::desk::{A, B, Desk, Fault, addresses, ip, set};
use crate::nodepool::{
    cloud::{Class, Refusal},
    pool::{State, Unfit},
};

#[test]
fn one_node_fits_and_gets_the_last_address() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[
        ("rio-grande", None),
        ("orinoco", Some(Unfit::NodeNotReady)),
        ("ganges", Some(Unfit::Tainted)),
    ]);
    desk.pass(2);
    assert_eq!(desk.assignments(), ["172.16.2.2 rio-grande"]);
    let view = desk.view();
    assert_eq!(view.ips[&ip(B)].state, State::Active);
    assert_eq!(view.ips[&ip(B)].node.as_deref(), Some("rio-grande"));
    assert_eq!(
        view.ips[&ip(B)].server.as_deref(),
        Some("mock://rio-grande")
    );
    assert_eq!(view.ips[&ip(B)].assignments, 1);
    assert_eq!(view.ips[&ip(A)].state, State::Unassigned);
    assert_eq!(view.ips[&ip(A)].assignments, 0);
    assert_eq!(view.published, Some(set(B)));
    assert_eq!(view.assignable_nodes, Vec::<String>::new());
    assert_eq!(view.annotations["rio-grande"], set(B));
}

#[test]
fn missing_addresses_are_bought_and_the_last_one_is_used_first() {
    let mut desk = Desk::new("").with(|it| it.desired = 2);
    desk.nodes(&[("rio-grande", None)]);
    desk.pass(2);
    assert_eq!(desk.spec.ips, addresses("10.0.1.1 10.0.2.2"));
    assert_eq!(desk.count("Buy"), 2);
    assert_eq!(desk.assignments(), ["10.0.2.2 rio-grande"]);
    assert_eq!(desk.state("10.0.2.2"), State::Active);
    assert_eq!(desk.state("10.0.1.1"), State::Unassigned);
    assert_eq!(desk.pool.memory().purchase, None);
}

#[test]
fn what_is_in_place_stays() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.put(B, Some("rio-grande"));
    desk.nodes(&[("rio-grande", None)]);
    desk.pass(2);
    assert_eq!(desk.assignments(), Vec::<String>::new());
    assert_eq!(desk.state(B), State::Active);
    assert_eq!(desk.state(A), State::Unassigned);
    assert_eq!(desk.view().published, Some(set(B)));
    assert_eq!(desk.view().annotations["rio-grande"], set(B));
}

#[test]
fn two_nodes_are_served_by_name() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("b", None), ("a", None)]);
    desk.pass(2);
    assert_eq!(desk.assignments(), ["172.16.2.2 a", "192.168.1.1 b"]);
}

#[test]
fn nothing_is_assigned_and_nothing_published_while_nobody_fits() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("a", Some(Unfit::NoPod)), ("b", Some(Unfit::PodNotReady))]);
    desk.pass(2);
    assert_eq!(desk.assignments(), Vec::<String>::new());
    assert_eq!(desk.state(A), State::Unassigned);
    assert_eq!(desk.state(B), State::Unassigned);
    assert_eq!(desk.view().published, Some(set("")));
}

#[test]
fn an_address_is_taken_from_a_tainted_node_for_the_first_by_name() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.cool_off = Duration::from_secs(1);
    });
    desk.put(A, Some("n3"));
    desk.put(B, Some("n5"));
    desk.nodes(&[
        ("n1", None),
        ("n3", Some(Unfit::Tainted)),
        ("n4", None),
        ("n5", None),
    ]);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["192.168.1.1 n1"]);
    assert_eq!(desk.view().assignable_nodes, ["n4"]);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.state(B), State::Active);
}

#[test]
fn verifying() {
    // One is owned by a server that nobody knows, one is free: both can be used.
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.put(A, Some("stranger"));
    desk.nodes(&[]);
    desk.pass(1);
    assert_eq!(desk.state(A), State::NoMatch);
    assert_eq!(desk.state(B), State::Unassigned);
    desk.node("x", None);
    desk.node("y", None);
    desk.pass(2);
    assert_eq!(desk.assignments(), ["172.16.2.2 x", "192.168.1.1 y"]);
}

#[test]
fn an_address_that_somebody_moved_is_followed() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(5);
    assert_eq!(desk.at(B).as_deref(), Some("x"));
    // Somebody puts the address of x on y, where it pushes off nothing.
    desk.put(B, Some("y"));
    desk.put(A, None);
    desk.pass(61);
    assert_eq!(desk.state(B), State::Active);
    assert_eq!(desk.at(B).as_deref(), Some("y"));
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    assert_eq!(
        desk.assignments().last().map(String::as_str),
        Some("192.168.1.1 x")
    );
}

#[test]
fn an_address_that_vanishes_costs_its_node_nothing_but_the_address() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2 10.9.9.9");
    desk.nodes(&[("x", None), ("y", None), ("z", None), ("zz", None)]);
    desk.pass(5);
    assert_eq!(desk.at("10.9.9.9").as_deref(), Some("x"));
    desk.cloud.remove(&ip("10.9.9.9"));
    desk.pass(70);
    assert_eq!(desk.state("10.9.9.9"), State::Error);
    assert_eq!(
        desk.message("10.9.9.9"),
        "retrieving IPs current provider ID: not found"
    );
    // It waits before those who have never had one.
    assert_eq!(desk.view().assignable_nodes, ["x", "zz"]);
    assert_eq!(desk.view().published, Some(set("192.168.1.1 172.16.2.2")));
    // It comes back.
    desk.put("10.9.9.9", None);
    desk.pass(70);
    assert_eq!(desk.at("10.9.9.9").as_deref(), Some("x"));
    assert_eq!(desk.state("10.9.9.9"), State::Active);
}

#[test]
fn an_assignment_under_way_is_shown_and_annotated_but_not_published() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None)]);
    desk.faults.push(("Assign", Fault::Slow(2)));
    desk.run();
    let view = desk.view();
    assert_eq!(view.ips[&ip(A)].state, State::InProgress);
    assert_eq!(view.ips[&ip(A)].server.as_deref(), Some("mock://x"));
    assert_eq!(view.annotations["x"], set(A));
    assert_eq!(view.published, Some(set("")));
    assert_eq!(view.ips[&ip(A)].assignments, 1);
    assert_eq!(desk.pool.memory().pending.len(), 1);
    desk.pass(3);
    assert_eq!(desk.count("Check"), 2);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.view().published, Some(set(A)));
    assert_eq!(desk.pool.memory().pending.len(), 0);
}

#[test]
fn a_refused_assignment_is_shown_and_not_annotated() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None)]);
    let refusal = Refusal::new(Class::Invalid, "the droplet is upside down");
    desk.faults.push(("Assign", Fault::Refuse(refusal)));
    desk.run();
    let view = desk.view();
    assert_eq!(view.ips[&ip(A)].state, State::Error);
    assert_eq!(
        desk.message(A),
        "assigning IP to node: the droplet is upside down"
    );
    assert_eq!(view.ips[&ip(A)].assignment_errors, 1);
    assert_eq!(view.node_errors, ["x"]);
    assert_eq!(view.assignable_nodes, ["x"]);
    assert!(view.annotations.is_empty());
    desk.pass(61);
    assert_eq!(desk.state(A), State::Active);
    assert!(desk.view().node_errors.is_empty());
    assert_eq!(desk.message(A), "");
}

#[test]
fn cool_off_separates_assignments_and_both_stay_queued() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.cool_off = Duration::from_secs(30);
    });
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(29);
    assert_eq!(desk.assignments(), ["172.16.2.2 x"]);
    assert_eq!(desk.view().assignable_nodes, ["y"]);
    assert_eq!(desk.state(A), State::Unassigned);
    desk.pass(1);
    assert_eq!(desk.assignments(), ["172.16.2.2 x", "192.168.1.1 y"]);
    // A shorter one ends earlier, and a new process knows when the last one was.
    desk.configure(|it| it.cool_off = Duration::from_mins(5));
    desk.pass(10);
    let memory = desk.pool.memory().clone();
    desk.restart(memory);
    desk.nodes(&[("x", None), ("y", Some(Unfit::Tainted)), ("z", None)]);
    desk.pass(60);
    assert_eq!(desk.count("Assign"), 2);
    desk.configure(|it| it.cool_off = Duration::from_secs(70));
    desk.run();
    assert_eq!(desk.at(A).as_deref(), Some("z"));
}

#[test]
fn a_node_that_stops_to_fit_keeps_its_address_until_somebody_needs_it() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None)]);
    desk.pass(5);
    desk.node("x", Some(Unfit::PodNotReady));
    desk.pass(300);
    let view = desk.view();
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    assert_eq!(view.ips[&ip(A)].state, State::NoMatch);
    assert_eq!(view.ips[&ip(A)].node, None);
    assert!(view.annotations.is_empty());
    assert_eq!(view.published, Some(set("")));
    // It recovers: nothing is called for that.
    desk.node("x", None);
    desk.run();
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.view().annotations["x"], set(A));
    assert_eq!(desk.count("Assign"), 1);
    // Somebody needs it: it goes at once.
    desk.node("y", None);
    desk.pass(5);
    assert_eq!(desk.count("Assign"), 1);
    desk.node("x", Some(Unfit::PodNotReady));
    desk.run();
    assert_eq!(desk.at(A).as_deref(), Some("y"));
}

#[test]
fn parked_addresses_are_taken_in_the_order_of_their_release_and_free_ones_before() {
    let mut desk = Desk::new("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4");
    for (address, node) in [("10.0.0.1", "a"), ("10.0.0.2", "b"), ("10.0.0.3", "c")] {
        desk.put(address, Some(node));
    }
    desk.nodes(&[("a", None), ("b", None), ("c", None)]);
    desk.pass(5);
    for name in ["b", "c", "a"] {
        desk.node(name, Some(Unfit::Tainted));
    }
    desk.run();
    for name in ["t", "s", "r", "q"] {
        desk.node(name, None);
        desk.pass(1);
    }
    assert_eq!(
        desk.assignments(),
        ["10.0.0.4 t", "10.0.0.2 s", "10.0.0.3 r", "10.0.0.1 q"]
    );
}
