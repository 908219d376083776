//! Failures that a cloud answers with, and which other node or address may be tried then.

use super::desk::{A, B, Desk, Fault};
use crate::nodepool::{
    cloud::{Class, Refusal},
    pool::{State, Unfit},
};

/// A status 500: the cloud has failed, and part of it may be done.
fn failed() -> Fault {
    let refusal = Refusal::new(Class::Unclear, "internal error (status 500)");
    Fault::Refuse(Refusal {
        answered: true,
        ..refusal
    })
}

/// The seconds of each assignment within the first `limit` seconds, with address and node.
fn assignments(desk: &mut Desk, limit: i64) -> Vec<(i64, String)> {
    let began = desk.now;
    let mut seen = Vec::new();
    desk.run();
    while desk.now.duration_since(began).as_secs() <= limit {
        let all = desk.assignments();
        for it in &all[seen.len()..] {
            seen.push((desk.now.duration_since(began).as_secs(), it.clone()));
        }
        desk.pass(1);
    }
    seen
}

#[test]
fn an_assignment_that_the_cloud_failed_is_tried_again_soon_and_shows_its_words() {
    let mut desk = Desk::new(A);
    for _ in 0..4 {
        desk.faults.push(("Assign", failed()));
    }
    desk.nodes(&[("x", None)]);
    let began = desk.now;
    desk.run();
    assert_eq!(
        desk.message(A),
        "assigning IP to node: internal error (status 500)"
    );
    desk.now = began;
    let seen = assignments(&mut desk, 60);
    let moments: Vec<i64> = seen.iter().map(|it| it.0).collect();
    assert_eq!(moments, [0, 1, 2, 7, 12]);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.message(A), "");
    assert_eq!(desk.view().ips[&super::desk::ip(A)].assignment_errors, 4);
}

#[test]
fn a_failure_that_was_done_all_the_same_is_not_tried_again() {
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", failed()));
    desk.nodes(&[("x", None)]);
    // The cloud has done it before it failed, as the next list shows.
    while desk.count("Assign") == 0 {
        let calls = desk.pool.poll(desk.now);
        for call in &calls {
            desk.answer_one(call);
        }
    }
    desk.put(A, Some("x"));
    desk.pass(60);
    assert_eq!(desk.count("Assign"), 1);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn within_ten_seconds_of_a_failure_the_address_goes_to_no_other_node() {
    let mut desk = Desk::new(A);
    for _ in 0..9 {
        desk.faults.push(("Assign", failed()));
    }
    desk.nodes(&[("x", None), ("y", None)]);
    let seen = assignments(&mut desk, 60);
    let (soon, late): (Vec<_>, Vec<_>) = seen.iter().partition(|it| it.0 < 10);
    assert!(soon.iter().all(|it| it.1.ends_with(" x")), "{seen:?}");
    assert!(late.iter().any(|it| it.1.ends_with(" y")), "{seen:?}");
    // A node that no longer fits is not tried again, and the next one waits for lists.
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", failed()));
    desk.nodes(&[("x", None), ("y", None)]);
    desk.run();
    desk.nodes(&[("x", Some(Unfit::Tainted)), ("y", None)]);
    let seen = assignments(&mut desk, 60);
    assert_eq!(seen.len(), 2, "{seen:?}");
    assert!(seen[1].0 >= 10 && seen[1].1.ends_with(" y"), "{seen:?}");
}

#[test]
fn what_is_refused_without_a_cause_is_tried_on_another_node_that_fits() {
    let mut desk = Desk::new(A);
    desk.fail("Assign", Class::Invalid);
    desk.nodes(&[("x", None), ("y", None)]);
    let seen = assignments(&mut desk, 30);
    let nodes: Vec<&str> = seen.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(nodes, [format!("{A} x"), format!("{A} y")]);
    assert_eq!(seen[1].0, 1);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn an_address_that_no_node_may_have_keeps_no_other_from_them() {
    let mut desk = Desk::new(&format!("{A} {B}"));
    desk.nodes(&[("x", None)]);
    desk.fail("Assign", Class::Invalid);
    let seen = assignments(&mut desk, 30);
    let orders: Vec<&str> = seen.iter().map(|it| it.1.as_str()).collect();
    assert_eq!(orders, [format!("{B} x"), format!("{A} x")]);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn the_address_that_was_bought_last_is_used_before_those_that_were_there() {
    let mut desk = Desk::new(A).with(|spec| spec.desired = 3);
    desk.put(A, None);
    desk.nodes(&[("x", None)]);
    desk.pass(30);
    assert_eq!(desk.count("Buy"), 2);
    let bought = desk.view().ips.len();
    assert_eq!(bought, 3);
    let [first] = &desk.assignments()[..] else {
        panic!("{:?}", desk.assignments());
    };
    let last = desk.spec.ips.last().expect("it was entered").to_string();
    assert_eq!(first, &format!("{last} x"));
}

#[test]
fn a_purchase_that_takes_long_keeps_nobody_waiting() {
    let mut desk = Desk::new(A).with(|spec| spec.desired = 2);
    desk.put(A, None);
    desk.fail("Buy", Class::Quota);
    desk.nodes(&[("x", None)]);
    desk.run();
    assert_eq!(desk.assignments(), [format!("{A} x")]);
}
