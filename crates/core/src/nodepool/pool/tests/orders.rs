//! What becomes of orders that do not go well.

use std::time::Duration;

use super::desk::{A, B, Desk, Fault, ip, listed, server, set};
use crate::nodepool::{
    cloud::{Class, Mark, Refusal, Taken},
    pool::{Answer, Call, State, Unfit},
};

#[test]
fn a_failed_assignment_is_tried_again_until_it_works() {
    for (class, moments) in [
        (Class::Unavailable, vec![0, 1, 2, 7, 12, 22]),
        (Class::Invalid, vec![0, 60, 360, 960]),
        (Class::ServerTaken, vec![0, 60, 360, 960]),
        (Class::HeldElsewhere, vec![0, 60, 360]),
        (Class::Busy, vec![0, 1, 2, 7]),
        (Class::RateLimited, vec![0, 1, 2, 7]),
    ] {
        // On a node that does not fit: where the first defect of FLIPOP strands both.
        let mut desk = Desk::new(A);
        desk.put(A, Some("old"));
        for _ in 1..moments.len() {
            desk.fail("Assign", class);
        }
        desk.nodes(&[("old", Some(Unfit::Tainted)), ("x", None)]);
        let began = desk.now;
        let mut seen = Vec::new();
        let mut count = 0;
        desk.run();
        while desk.now.duration_since(began).as_secs() <= 2_000 {
            if desk.count("Assign") > count {
                count = desk.count("Assign");
                seen.push(desk.now.duration_since(began).as_secs());
            }
            desk.pass(1);
        }
        assert_eq!(seen, moments, "{class:?}");
        assert_eq!(desk.state(A), State::Active, "{class:?}");
        assert_eq!(desk.at(A).as_deref(), Some("x"));
    }
}

#[test]
fn who_says_when_to_come_back_is_not_called_before() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("x", None)]);
    let wait = Some(Duration::from_secs(90));
    let refusal = Refusal::new(Class::RateLimited, "slow down").after(wait);
    desk.faults.push(("Assign", Fault::Refuse(refusal)));
    desk.run();
    let calls = desk.calls.len();
    assert_eq!(desk.message(B), "assigning IP to node: slow down");
    desk.pass(89);
    assert_eq!(desk.calls.len(), calls, "not even a list");
    desk.pass(1);
    assert_eq!(desk.state(B), State::Active);
}

#[test]
fn one_address_that_fails_does_not_stop_another() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.fail("Assign", Class::Unavailable);
    desk.nodes(&[("x", None)]);
    desk.run();
    // The node gets the other one at once, though the first will be tried again.
    assert_eq!(desk.assignments(), ["172.16.2.2 x", "192.168.1.1 x"]);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.state(B), State::Error);
    desk.pass(2);
    assert_eq!(desk.state(B), State::Unassigned, "nobody needs it any more");
}

#[test]
fn one_node_that_fails_does_not_stop_another() {
    let mut desk = Desk::new("192.168.1.1");
    desk.fail("Assign", Class::ServerTaken);
    desk.nodes(&[("x", None), ("y", None)]);
    desk.run();
    assert_eq!(desk.assignments(), ["192.168.1.1 x", "192.168.1.1 y"]);
    assert_eq!(desk.view().node_errors, ["x"]);
    assert_eq!(desk.view().assignable_nodes, ["x"]);
}

#[test]
fn no_loop_spins_while_something_waits() {
    // The second defect of FLIPOP: `run` panics if there is no rest.
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    for _ in 0..1000 {
        desk.fail("Assign", Class::Unavailable);
    }
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(3600);
    assert!(desk.count("Assign") <= 50, "{}", desk.count("Assign"));
    assert!(desk.count("Assign") >= 20, "{}", desk.count("Assign"));
}

#[test]
fn no_answer_is_resolved_by_lists_and_never_assumed() {
    // It was done.
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::DoneUnheard));
    desk.nodes(&[("x", None)]);
    desk.run();
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.view().ips[&ip(A)].assignments, 1);
    desk.pass(100);
    assert_eq!(desk.count("Assign"), 1);

    // It was not: nobody else gets it before lists have said so for long enough.
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::Lost));
    desk.nodes(&[("x", None), ("y", None)]);
    desk.run();
    desk.node("x", Some(Unfit::Tainted));
    desk.pass(9);
    assert_eq!(desk.state(A), State::InProgress);
    assert!(desk.view().annotations.is_empty());
    assert_eq!(desk.count("Assign"), 1);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["192.168.1.1 x", "192.168.1.1 y"]);
}

#[test]
fn an_order_under_way_survives_a_restart() {
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::Slow(3)));
    desk.nodes(&[("x", None)]);
    desk.run();
    let memory = desk.pool.memory().clone();
    desk.restart(memory);
    desk.nodes(&[("w", None), ("x", None)]);
    desk.run();
    assert_eq!(desk.state(A), State::InProgress);
    assert_eq!(desk.view().annotations["x"], set(A));
    desk.pass(10);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.assignments(), ["192.168.1.1 x"]);
    assert_eq!(desk.pool.memory().moves[&ip(A)].to, "x");
}

#[test]
fn an_order_that_fails_under_way_is_tried_again() {
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::Fails));
    desk.nodes(&[("x", None)]);
    desk.pass(1);
    assert_eq!(desk.message(A), "assigning IP to node: it broke");
    assert_eq!(desk.state(A), State::Error);
    desk.pass(5);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.count("Assign"), 2);
}

#[test]
fn an_order_that_nobody_knows_any_more_is_looked_for_in_lists() {
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::Slow(9)));
    desk.fail("Check", Class::AddressUnknown);
    desk.nodes(&[("x", None)]);
    desk.pass(1);
    assert_eq!(desk.state(A), State::InProgress);
    desk.pass(20);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.count("Assign"), 2);
    assert_eq!(desk.pool.memory().pending.len(), 0);
}

#[test]
fn an_answer_that_nobody_waits_for_changes_nothing() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(5);
    let before = desk.view();
    let call = Call::Assign {
        ip: ip(A),
        server: server("y"),
    };
    desk.pool
        .answered(&call, Answer::Taken(Taken::Done), desk.now);
    let check = Call::Check {
        ip: ip(A),
        handle: "old".into(),
    };
    desk.pool.answered(&check, Answer::Done, desk.now);
    assert_eq!(desk.view(), before);
}

#[test]
fn where_a_cloud_does_not_steal_the_address_is_taken_off_first() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.capabilities.steals = false;
    });
    desk.put(A, Some("old"));
    desk.put(B, Some("older"));
    desk.nodes(&[("old", Some(Unfit::Tainted)), ("x", None)]);
    desk.faults.push(("Detach", Fault::Slow(2)));
    desk.pass(20);
    // Only one of them: one node waits.
    assert_eq!(desk.assignments(), ["192.168.1.1 -", "192.168.1.1 x"]);
    let last = &desk.pool.memory().moves[&ip(A)];
    assert_eq!((last.from.as_str(), last.to.as_str()), ("old", "x"));
    assert_eq!(last.reason, "Tainted");
}

#[test]
fn a_second_address_never_pushes_the_first_off_a_server() {
    let mut desk = Desk::new(A).with(|it| {
        it.capabilities.displaces = true;
        it.capabilities.per_server = None;
    });
    // An address of somebody else is on x.
    desk.put("198.51.100.7", Some("x"));
    desk.nodes(&[("x", None)]);
    desk.pass(120);
    assert_eq!(desk.count("Assign"), 0);
    assert_eq!(desk.view().node_errors, ["x"]);
    desk.pass(30);
    // A node that is free may get it, but not by an old list.
    desk.put("198.51.100.8", Some("y"));
    desk.node("y", None);
    desk.pass(120);
    assert_eq!(
        desk.count("Assign"),
        0,
        "the list of before did not have it"
    );
    desk.put("198.51.100.8", None);
    desk.pass(70);
    assert_eq!(desk.at(A).as_deref(), Some("y"));
    // Another family is no obstacle.
    desk.put("2001:db8::1", None);
    desk.configure(|it| it.ips.push(ip("2001:db8::1")));
    desk.pass(10);
    assert_eq!(desk.at("2001:db8::1").as_deref(), Some("x"));
}

#[test]
fn where_servers_have_room_for_one_a_full_one_is_not_asked_for() {
    let mut desk = Desk::new(A);
    desk.put("198.51.100.7", Some("x"));
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["192.168.1.1 y"]);
    assert_eq!(desk.view().node_errors, ["x"]);
}

#[test]
fn a_node_gets_one_address_of_each_family() {
    let mut desk = Desk::new("192.168.1.1 2001:db8::1 172.16.2.2");
    desk.nodes(&[("x", None), ("y", None)]);
    desk.pass(10);
    assert_eq!(
        desk.assignments(),
        ["172.16.2.2 x", "192.168.1.1 y", "2001:db8::1 x"]
    );
    assert_eq!(desk.view().assignable_nodes, ["y"], "it has no IPv6");
    assert_eq!(desk.view().annotations["x"], set("172.16.2.2 2001:db8::1"));
}

#[test]
fn what_another_cluster_has_bought_is_not_touched() {
    let mut desk = Desk::new(A);
    let mark = Mark {
        cluster: "another".into(),
        pool: "pool".into(),
        purchase: "1".into(),
    };
    desk.cloud.insert(ip(A), listed(ip(A), Some(mark)));
    desk.nodes(&[("x", None)]);
    desk.pass(100);
    assert_eq!(desk.count("Assign"), 0);
    assert_eq!(desk.state(A), State::Error);
    let error = desk.view().ips[&ip(A)].error.clone().expect("an error");
    assert_eq!(error.reason, "HeldElsewhere");
}

#[test]
fn a_second_address_of_a_node_goes_to_one_that_has_none() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.capabilities.per_server = None;
    });
    desk.put(A, Some("x"));
    desk.put(B, Some("x"));
    desk.nodes(&[("x", None)]);
    desk.pass(100);
    assert_eq!(desk.count("Assign"), 0, "nobody needs it");
    desk.node("y", None);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["172.16.2.2 y"]);
    assert_eq!(desk.pool.memory().moves[&ip(B)].reason, "Surplus");
}

#[test]
fn what_is_only_on_its_way_makes_nothing_superfluous() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2").with(|it| {
        it.capabilities.per_server = None;
    });
    desk.put(B, Some("w"));
    desk.faults.push(("Assign", Fault::Slow(20)));
    desk.nodes(&[("w", None), ("x", None)]);
    desk.pass(5);
    assert_eq!(desk.assignments(), ["192.168.1.1 x"]);
    // Somebody puts the other one there, too; w has none now.
    desk.put(B, Some("x"));
    desk.pass(65);
    assert_eq!(desk.view().assignable_nodes, ["w"]);
    assert_eq!(desk.count("Assign"), 1, "x may never get the first");
}

#[test]
fn what_is_done_may_be_seen_late_but_not_for_ever() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None)]);
    desk.run();
    assert_eq!(desk.state(A), State::Active);
    // Lists that still show the old state are not believed at once.
    desk.put(A, None);
    desk.pass(3);
    assert_eq!(desk.state(A), State::InProgress);
    assert_eq!(desk.view().published, Some(set(A)));
    assert_eq!(desk.count("Assign"), 1);
    desk.pass(9);
    assert_eq!(desk.state(A), State::Error);
    assert_eq!(desk.message(A), "state unknown; cache / provider mismatch");
    desk.pass(10);
    assert_eq!(desk.count("Assign"), 2);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn an_address_that_others_are_busy_with_is_left_alone() {
    let mut desk = Desk::new(A);
    desk.cloud.get_mut(&ip(A)).expect("it is there").busy = true;
    desk.nodes(&[("x", None)]);
    desk.pass(5);
    assert_eq!(desk.count("Assign"), 0);
    desk.cloud.get_mut(&ip(A)).expect("it is there").busy = false;
    desk.pass(10);
    assert_eq!(desk.state(A), State::Active);
}
