//! What a deleted pool gives back.

use super::desk::{Desk, Fault, addresses, ip, listed};
use crate::nodepool::cloud::{Class, Mark};

fn mark(cluster: &str, pool: &str, purchase: &str) -> Mark {
    Mark {
        cluster: cluster.into(),
        pool: pool.into(),
        purchase: purchase.into(),
    }
}

/// One bought, one given by a person, one of another cluster, one of another pool, one that
/// was bought and taken out of the list.
fn desk() -> Desk {
    let mut desk = Desk::new("10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4");
    for (address, mark) in [
        ("10.0.0.1", Some(mark("cluster", "pool", "1"))),
        ("10.0.0.2", None),
        ("10.0.0.3", Some(mark("another", "pool", "1"))),
        ("10.0.0.4", Some(mark("cluster", "other", "1"))),
        ("10.0.0.5", Some(mark("cluster", "pool", "2"))),
    ] {
        desk.cloud.insert(ip(address), listed(ip(address), mark));
    }
    desk
}

#[test]
fn only_what_is_proven_to_be_bought_is_given_back() {
    let mut desk = desk();
    desk.nodes(&[("a", None), ("b", None), ("c", None), ("d", None)]);
    desk.pass(10);
    assert!(desk.at("10.0.0.1").is_some());
    assert!(!desk.pool.is_reclaimed());
    desk.calls.clear();
    desk.configure(|it| it.reclaims = true);
    assert!(!desk.pool.is_reclaimed());
    desk.pass(10);
    assert!(desk.pool.is_reclaimed());
    let left: Vec<_> = desk.cloud.keys().copied().collect();
    assert_eq!(left, addresses("10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5"));
    assert_eq!(desk.count("Release"), 1);
    assert_eq!(desk.count("Detach"), 1, "off its server first");
    assert_eq!(desk.count("Assign"), 0);
}

#[test]
fn without_marks_nothing_is_given_back() {
    let mut desk = desk().with(|it| {
        it.capabilities.marks = false;
        it.reclaims = true;
    });
    desk.pass(100);
    assert!(desk.pool.is_reclaimed());
    assert_eq!(desk.count("Release") + desk.count("Detach"), 0);
}

#[test]
fn what_cannot_be_given_back_now_is_given_back_later() {
    let mut desk = desk();
    desk.configure(|it| it.reclaims = true);
    desk.fail("Release", Class::Unavailable);
    desk.faults.push(("Release", Fault::DoneUnheard));
    desk.pass(1);
    assert!(!desk.pool.is_reclaimed());
    let error = desk.view().ips[&ip("10.0.0.1")].error.clone();
    assert!(error.is_some_and(|it| it.message.starts_with("giving IP back: ")));
    desk.pass(100);
    assert!(desk.pool.is_reclaimed());
    assert!(!desk.cloud.contains_key(&ip("10.0.0.1")));
}

#[test]
fn a_purchase_that_may_have_been_made_is_given_back_too() {
    let mut desk = Desk::new("").with(|it| it.desired = 1);
    desk.faults.push(("Buy", Fault::DoneSilent));
    desk.run();
    let memory = desk.pool.memory().clone();
    assert!(memory.purchase.is_some());
    desk.spec.reclaims = true;
    desk.restart(memory);
    desk.run();
    assert!(!desk.pool.is_reclaimed(), "it may still come");
    desk.pass(100);
    assert!(desk.cloud.is_empty());
    assert!(desk.pool.is_reclaimed());
    assert_eq!((desk.count("Buy"), desk.count("Release")), (1, 1));
}
