//! How often the cloud is asked, and what lists may and may not say.

use std::{sync::Arc, time::Duration};

use super::desk::{A, B, Desk, Fault, ip, listed, set};
use crate::nodepool::{
    cloud::{Class, Listed, Listing, Refusal},
    pool::{Answer, Call, State},
};

#[test]
fn an_idle_pool_lists_once_a_minute_and_does_nothing_else() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("x", None)]);
    desk.pass(60);
    desk.calls.clear();
    desk.pass(3600);
    assert!(desk.calls.len() <= 60, "{}", desk.calls.len());
    assert_eq!(desk.count("List"), desk.calls.len());
    assert!(desk.calls.len() >= 59);
}

#[test]
fn a_list_that_cannot_be_had_changes_nothing_that_was_known() {
    let mut desk = Desk::new("192.168.1.1 172.16.2.2");
    desk.nodes(&[("x", None)]);
    desk.pass(10);
    for _ in 0..5 {
        desk.fail("List", Class::Unavailable);
    }
    desk.pass(60);
    let view = desk.view();
    assert_eq!(view.published, Some(set(B)), "still in DNS");
    assert_eq!(desk.state(B), State::Active);
    let error = view.error.expect("an error");
    assert_eq!(error.reason, "ProviderUnavailable");
    assert_eq!(error.message, "retrieving IPs current provider ID: no");
    desk.pass(60);
    assert_eq!(desk.view().error, None);
}

#[test]
fn nothing_is_published_or_assigned_before_the_cloud_was_heard() {
    let mut desk = Desk::new(A);
    for _ in 0..3 {
        desk.fail("List", Class::Unauthorized);
    }
    desk.run();
    desk.nodes(&[("x", None)]);
    desk.run();
    let view = desk.view();
    assert_eq!(view.published, None);
    assert_eq!(view.ips[&ip(A)].state, State::Error);
    assert_eq!(desk.message(A), "retrieving IPs current provider ID: no");
    assert_eq!(desk.count("Assign"), 0);
    desk.pass(1000);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn nothing_is_assigned_before_nodes_are_told() {
    let mut desk = Desk::new(A);
    desk.put(A, Some("x"));
    desk.pass(100);
    assert_eq!(desk.view().published, None);
    assert_eq!(desk.count("Assign"), 0);
    assert!(desk.pool.memory().unfit_since.is_empty());
}

#[test]
fn a_list_that_was_begun_before_an_order_was_done_does_not_count() {
    let mut desk = Desk::new(A);
    desk.run();
    // A list is under way when the order is given and done.
    desk.faults.push(("List", Fault::Silent));
    desk.pass(60);
    desk.nodes(&[("x", None)]);
    desk.run();
    assert_eq!(desk.state(A), State::Active);
    let old = vec![listed(ip(A), None)];
    desk.pool
        .answered(&Call::List, Answer::Listed(listing(&old)), desk.now);
    assert_eq!(desk.state(A), State::Active);
    // The same goes for somebody else's list, as long as it may be older.
    desk.pool
        .answered(&Call::List, Answer::Listed(listing(&old)), desk.now);
    assert_eq!(desk.state(A), State::Active);
}

#[test]
fn somebody_elses_list_saves_one() {
    let mut desk = Desk::new(A);
    desk.nodes(&[]);
    desk.pass(50);
    let list: Vec<Listed> = desk.cloud.values().cloned().collect();
    desk.pool
        .answered(&Call::List, Answer::Listed(listing(&list)), desk.now);
    desk.calls.clear();
    desk.pass(25);
    assert_eq!(desk.calls.len(), 0);
}

#[test]
fn an_address_that_one_list_leaves_out_is_not_lost_yet() {
    let mut desk = Desk::new(A);
    desk.nodes(&[("x", None)]);
    desk.pass(10);
    let kept = desk.cloud.remove(&ip(A)).expect("it is there");
    // The next list is not just one second away, but it is soon.
    desk.pass(51);
    assert_eq!(desk.view().published, Some(set(A)));
    assert_eq!(desk.state(A), State::Active);
    desk.cloud.insert(ip(A), kept);
    desk.pass(10);
    assert_eq!(desk.state(A), State::Active);
    assert_eq!(desk.count("Assign"), 1);
}

#[test]
fn too_many_calls_hold_back_every_call() {
    let mut desk = Desk::new(A);
    let refusal = Refusal::new(Class::RateLimited, "slow down");
    let wait = Some(Duration::from_secs(30));
    desk.faults
        .push(("List", Fault::Refuse(refusal.after(wait))));
    desk.nodes(&[("x", None)]);
    desk.pass(29);
    assert_eq!(desk.calls.len(), 1);
    desk.pass(5);
    assert_eq!(desk.state(A), State::Active);
}

fn listing(all: &[Listed]) -> Arc<Listing> {
    Arc::new(all.iter().cloned().collect())
}
