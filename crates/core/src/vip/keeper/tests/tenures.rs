//! Until when a node serves.

use super::{
    super::{Act, Event, LeaseAnswer, View},
    desk::{Desk, at, lease, view},
};
use crate::vip::{Mode, Timing};

#[test]
fn a_free_address_is_taken_in_a_new_term_and_served_until_the_lease_ends() {
    let free = view(None, &["a1"]);
    let mut desk = Desk::started(std::slice::from_ref(&free), &[]);
    assert!(!desk.holds());
    desk.read_own(Some(lease("1", 7, &[])));
    assert_eq!(desk.take_write(), None, "nothing is taken without a term");
    let expected = Some("1".to_owned());
    let write = Act::WriteLease {
        expected,
        term: 8,
        peers: [].into(),
    };
    assert_eq!(desk.acts, [write]);
    desk.now += 200;
    desk.renew();
    let taken = desk.accept_vip(&free);
    assert!(taken.is_held_by("a", 8));
    assert!(desk.holds());
    assert_eq!(
        desk.left(),
        2_800,
        "it counts from before the lease was sent"
    );
}

#[test]
fn who_holds_nothing_and_may_take_nothing_writes_no_lease() {
    let mut desk = Desk::started(&[view(Some("b1"), &["b1", "c1"])], &[]);
    desk.pass(400_000);
    assert_eq!(desk.acts, []);
}

#[test]
fn a_holder_renews_once_in_a_second_however_much_it_holds() {
    let mut desk = Desk::holding(&view(None, &["a1", "b1"]));
    let mut writes = 0;
    for _ in 0..200 {
        desk.pass(50);
        if desk
            .acts
            .iter()
            .any(|act| matches!(act, Act::WriteLease { .. }))
        {
            writes += 1;
            desk.renew();
        }
        assert_eq!(desk.acts, []);
    }
    assert_eq!(writes, 10);
    assert!(desk.holds());
}

#[test]
fn a_node_is_silent_when_its_lease_ends_and_a_late_answer_does_not_help() {
    let mut desk = Desk::holding(&view(None, &["a1", "b1"]));
    desk.pass(1_000);
    assert!(desk.take_renewal().is_some());
    desk.pass(1_999);
    assert!(desk.holds());
    assert_eq!(desk.next, Some(at(desk.now + 1)));
    desk.pass(1);
    assert_eq!(desk.role(), None, "the term is over at its deadline");
    let version = desk.version();
    // The renewal was sent two seconds ago and would last for one more.
    desk.tell(Event::LeaseWritten(LeaseAnswer::Written { version }));
    assert_eq!(desk.role(), None);
    assert_eq!(
        desk.take_renewal().map(|(term, _)| term),
        Some(9),
        "a new term"
    );
}

#[test]
fn a_new_term_that_is_accepted_too_late_does_not_begin() {
    let free = view(None, &["a1"]);
    let mut desk = Desk::started(&[free], &[]);
    desk.read_own(None);
    desk.now += 3_000;
    desk.renew();
    assert_eq!(desk.take_write(), None);
    assert_eq!(desk.take_renewal().map(|(term, _)| term), Some(2));
}

#[test]
fn a_lease_that_is_lost_does_not_bring_back_a_term() {
    let mut desk = Desk::started(&[view(Some("a1"), &["a1"])], &[]);
    desk.read_own(None);
    assert_eq!(
        desk.take_renewal().map(|(term, _)| term),
        Some(8),
        "7 was used"
    );
}

#[test]
fn a_lease_that_is_lost_or_restored_does_not_bring_back_a_term_of_an_earlier_process() {
    let timing = Timing {
        first_term: 1_000,
        ..Timing::default()
    };
    for (found, begun) in [
        (None, 1_000),
        (Some(lease("5", 40, &[])), 1_000),
        // Somebody's clock was ahead.
        (Some(lease("5", 2_000, &[])), 2_001),
    ] {
        let mut desk = Desk::with_timing(timing, &[view(None, &["a1"])]);
        desk.read_own(found.clone());
        let term = desk.take_renewal().map(|(term, _)| term);
        assert_eq!(term, Some(begun), "{found:?}");
    }
}

#[test]
fn a_term_ends_when_the_lease_shows_another() {
    let mut desk = Desk::holding(&view(None, &["a1", "b1"]));
    desk.pass(1_000);
    assert!(desk.take_renewal().is_some());
    desk.tell(Event::LeaseWritten(LeaseAnswer::Refused));
    desk.pass(100);
    assert!(desk.holds(), "it may have been an own write that was lost");
    desk.read_own(Some(lease("5", 9, &[])));
    assert_eq!(desk.role(), None);
}

#[test]
fn an_own_write_that_was_thought_lost_does_not_end_a_term() {
    let mut desk = Desk::holding(&view(None, &["a1", "b1"]));
    desk.pass(1_000);
    assert!(desk.take_renewal().is_some());
    desk.tell(Event::LeaseWritten(LeaseAnswer::Unknown));
    desk.pass(500);
    desk.read_own(Some(lease("5", 8, &["b"])));
    desk.renew();
    assert!(desk.holds());
    assert_eq!(desk.left(), 3_000);
}

#[test]
fn a_new_process_leaves_what_the_old_one_served_until_it_has_it_back() {
    let mine = view(Some("a1"), &["a1", "b1"]);
    let mut desk = Desk::started(std::slice::from_ref(&mine), &[]);
    desk.read_own(Some(lease("1", 7, &["b"])));
    desk.renew();
    assert_eq!(desk.serving, None, "the kernel is not told before");
    let back = desk.accept_vip(&mine);
    assert!(back.is_held_by("a", 8));
    assert_eq!(back.moves, mine.moves, "that is no move");
    assert!(desk.holds());
}

#[test]
fn a_new_process_lets_go_of_an_address_whose_pod_is_gone_when_the_kernel_is_silent() {
    // Nothing was told of its pod.
    let mine = view(Some("a9"), &["b1"]);
    let mut fresh = Desk::with_kernel(false, std::slice::from_ref(&mine), &[]);
    assert_eq!(fresh.take_write(), None, "the kernel may still serve it");
    let number = fresh.serving.as_ref().map(|it| it.number);
    fresh.tell(Event::Served(number.expect("it was told")));
    let free = fresh.accept_vip(&mine);
    assert_eq!((free.holder, free.moves), (None, 4));
}

/// The view of an address that a local pod had itself when an earlier process ended.
fn left_in_pod(candidates: &[&str]) -> View {
    let mut view = view(Some("a9"), candidates);
    let holder = view.holder.as_mut().expect("a9 holds it");
    holder.candidate.mode = Mode::Direct;
    view
}

#[test]
fn a_new_process_lets_go_of_an_address_in_a_pod_only_when_its_time_there_is_over() {
    let mine = left_in_pod(&["b1"]);
    let mut fresh = Desk::with_kernel(false, std::slice::from_ref(&mine), &[]);
    let number = fresh.serving.as_ref().map(|it| it.number);
    fresh.tell(Event::Served(number.expect("it was told")));
    fresh.pass(2_999);
    assert_eq!(fresh.take_write(), None, "the pod may still answer");
    fresh.pass(1);
    let free = fresh.accept_vip(&mine);
    assert_eq!((free.holder, free.moves), (None, 4));
}

#[test]
fn a_new_process_gives_an_address_to_another_pod_of_its_node_only_when_the_old_one_is_silent() {
    let mine = left_in_pod(&["a1"]);
    let mut fresh = Desk::with_kernel(false, std::slice::from_ref(&mine), &[]);
    fresh.read_own(Some(lease("1", 7, &[])));
    fresh.renew();
    let number = fresh.serving.as_ref().map(|it| it.number);
    fresh.tell(Event::Served(number.expect("it was told")));
    fresh.pass_renewing(2_999);
    assert_eq!(fresh.take_write(), None, "the pod may still answer");
    fresh.pass_renewing(1);
    let taken = fresh.accept_vip(&mine);
    assert!(taken.is_held_by("a", 8));
}
