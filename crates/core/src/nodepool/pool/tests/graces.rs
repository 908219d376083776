//! How long a node that does not fit keeps its address.

use std::time::Duration;

use super::desk::{A, Desk, Fault, ip, server};
use crate::nodepool::{
    cloud::Class,
    pool::{Grace, State, Unfit},
};

fn desk() -> Desk {
    let mut desk = Desk::new(A).with(|it| {
        it.grace = Grace {
            pod_not_ready: Duration::from_secs(20),
            node_not_ready: Duration::from_secs(40),
            node_gone: Duration::from_mins(1),
        };
    });
    desk.nodes(&[("x", None)]);
    desk.pass(5);
    desk.node("y", None);
    desk.pass(5);
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    desk
}

#[test]
fn each_cause_has_its_own() {
    for (cause, seconds) in [
        (Some(Unfit::PodNotReady), 20),
        (Some(Unfit::NodeNotReady), 40),
        (Some(Unfit::NoPod), 0),
        (Some(Unfit::Tainted), 0),
        (Some(Unfit::Deleted), 0),
        (Some(Unfit::Unlabelled), 0),
        (None, 60),
    ] {
        let mut desk = desk();
        match cause {
            Some(cause) => desk.node("x", Some(cause)),
            None => desk.pool.node(&server("x"), None, desk.now),
        }
        desk.run();
        if seconds > 0 {
            desk.pass(seconds - 1);
            assert_eq!(desk.at(A).as_deref(), Some("x"), "{cause:?}");
            assert_eq!(desk.state(A), State::NoMatch);
            desk.pass(1);
        }
        assert_eq!(desk.at(A).as_deref(), Some("y"), "{cause:?}");
        let reason = cause.map_or("NodeGone", Unfit::reason);
        assert_eq!(desk.pool.memory().moves[&ip(A)].reason, reason);
        assert!(desk.pool.memory().unfit_since.is_empty());
    }
}

#[test]
fn who_recovers_in_time_keeps_it_and_the_next_time_counts_anew() {
    let mut desk = desk();
    for _ in 0..5 {
        desk.node("x", Some(Unfit::PodNotReady));
        desk.pass(19);
        desk.node("x", None);
        desk.pass(3);
    }
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    assert!(desk.pool.memory().unfit_since.is_empty());
}

#[test]
fn a_worse_cause_ends_it_and_a_drain_does_not_wait() {
    let mut desk = desk();
    desk.node("x", Some(Unfit::NodeNotReady));
    desk.pass(30);
    desk.node("x", Some(Unfit::PodNotReady));
    desk.run();
    assert_eq!(desk.at(A).as_deref(), Some("y"), "20 seconds are long over");

    let mut desk = self::desk();
    desk.node("x", Some(Unfit::PodNotReady));
    desk.pass(5);
    desk.node("x", Some(Unfit::Tainted));
    desk.run();
    assert_eq!(desk.at(A).as_deref(), Some("y"));
}

#[test]
fn a_restart_does_not_begin_it_anew() {
    let mut desk = desk();
    desk.node("x", Some(Unfit::NodeNotReady));
    desk.pass(30);
    let memory = desk.pool.memory().clone();
    desk.restart(memory);
    desk.run();
    desk.nodes(&[("x", Some(Unfit::NodeNotReady)), ("y", None)]);
    desk.pass(9);
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    desk.pass(1);
    assert_eq!(desk.at(A).as_deref(), Some("y"));
}

#[test]
fn a_server_that_the_cloud_does_not_know_has_none() {
    // The cloud has taken the address off when the server was deleted.
    let mut desk = desk();
    desk.pool.node(&server("x"), None, desk.now);
    desk.put(A, None);
    desk.pass(51);
    assert_eq!(desk.at(A).as_deref(), Some("y"));

    // It still lists the address there, but says that there is no such server.
    let mut desk = self::desk().with(|it| it.capabilities.steals = false);
    desk.fail("Detach", Class::ServerUnknown);
    desk.node("x", Some(Unfit::Tainted));
    desk.run();
    assert_eq!(desk.at(A).as_deref(), Some("x"));
    desk.pool.node(&server("x"), None, desk.now);
    desk.pass(61);
    assert_eq!(desk.at(A).as_deref(), Some("y"), "no grace, just the retry");
}

#[test]
fn an_address_on_its_way_to_a_node_that_stops_to_fit_arrives_before_it_moves_on() {
    let mut desk = Desk::new(A);
    desk.faults.push(("Assign", Fault::Slow(3)));
    desk.nodes(&[("x", None), ("y", None)]);
    desk.run();
    desk.node("x", Some(Unfit::Tainted));
    desk.pass(3);
    assert_eq!(desk.count("Assign"), 1);
    assert_eq!(desk.state(A), State::InProgress);
    desk.pass(10);
    assert_eq!(desk.assignments(), ["192.168.1.1 x", "192.168.1.1 y"]);
}
