//! A holder that does not reach the API server.

use std::time::Duration;

use super::{
    super::{Act, Event, LeaseAnswer},
    desk::{Desk, view},
};
use crate::vip::Timing;

/// A keeper whose address is shared with `b` and `c`, and whose renewals fail from now on.
fn cut_off(candidates: &[&str]) -> Desk {
    let mut desk = Desk::holding(&view(None, candidates));
    desk.pass(1_000);
    assert!(desk.take_renewal().is_some());
    desk
}

/// The questions that are under way.
fn questions(desk: &mut Desk) -> Vec<(String, i64, u64)> {
    let mut questions = Vec::new();
    while let Some(act) = desk.take(|act| matches!(act, Act::Ask { .. })) {
        let Act::Ask {
            node, term, ticket, ..
        } = act
        else {
            unreachable!("just looked")
        };
        questions.push((node, term, ticket));
    }
    questions
}

fn promise(desk: &mut Desk, question: &(String, i64, u64), granted: bool) {
    let (by, term, ticket) = question.clone();
    desk.tell(Event::Promised {
        by,
        term,
        ticket,
        granted,
    });
}

#[test]
fn a_holder_asks_all_peers_when_a_renewal_is_late() {
    let mut desk = cut_off(&["a1", "b1", "c1"]);
    desk.pass(499);
    assert_eq!(questions(&mut desk), []);
    desk.pass(1);
    let nodes: Vec<String> = questions(&mut desk).into_iter().map(|it| it.0).collect();
    assert_eq!(nodes, ["b", "c"]);
    desk.pass(500);
    assert_eq!(
        questions(&mut desk).len(),
        2,
        "again, since messages get lost"
    );
}

#[test]
fn promises_of_all_let_a_holder_go_on_from_when_they_were_asked_for() {
    let mut desk = cut_off(&["a1", "b1", "c1"]);
    desk.pass(500);
    let asked = questions(&mut desk);
    desk.pass(300);
    promise(&mut desk, &asked[0], true);
    assert_eq!(desk.left(), 1_200, "one is missing");
    promise(&mut desk, &asked[1], true);
    assert_eq!(desk.left(), 2_700, "asked 300 ms ago");
}

#[test]
fn without_one_promise_a_holder_falls_silent() {
    let mut desk = cut_off(&["a1", "b1", "c1"]);
    for _ in 0..29 {
        desk.pass(50);
        for question in questions(&mut desk) {
            let granted = question.0 == "b";
            promise(&mut desk, &question, granted);
        }
    }
    desk.pass(549);
    assert!(desk.holds());
    desk.pass(1);
    assert!(!desk.holds());
}

#[test]
fn a_promise_that_comes_after_the_end_does_not_help() {
    let mut desk = cut_off(&["a1", "b1"]);
    desk.pass(500);
    let asked = questions(&mut desk);
    desk.pass(1_500);
    assert!(!desk.holds());
    promise(&mut desk, &asked[0], true);
    assert!(!desk.holds());
}

#[test]
fn a_promise_for_another_term_or_by_another_node_counts_for_nothing() {
    let mut desk = cut_off(&["a1", "b1"]);
    desk.pass(500);
    let (by, term, ticket) = questions(&mut desk).remove(0);
    promise(&mut desk, &(by.clone(), term - 1, ticket), true);
    promise(&mut desk, &("c".to_owned(), term, ticket), true);
    promise(&mut desk, &(by, term, ticket + 100), true);
    assert_eq!(desk.left(), 1_500);
}

#[test]
fn peers_that_may_have_been_written_are_asked_too() {
    let both = view(None, &["a1", "b1"]);
    let mut desk = Desk::holding(&both);
    let mut more = both.clone();
    more.holder = Some(super::super::Holding {
        candidate: super::desk::candidate("a1"),
        term: 8,
    });
    more.candidates.push(super::desk::candidate("c1"));
    desk.pass(100);
    desk.show(&more);
    let (_, peers) = desk
        .take_renewal()
        .expect("the new peer is written at once");
    assert!(peers.contains("c"));
    desk.tell(Event::LeaseWritten(LeaseAnswer::Unknown));
    desk.pass(1_400);
    let asked = questions(&mut desk);
    assert_eq!(asked.len(), 2);
    promise(&mut desk, &asked[0], true);
    assert_eq!(desk.left(), 1_500, "the lease may name both by now");
    promise(&mut desk, &asked[1], true);
    assert_eq!(desk.left(), 3_000);
}

#[test]
fn a_holder_that_nobody_could_replace_goes_on_but_not_for_ever() {
    let mut desk = cut_off(&["a1", "a2"]);
    let mut span = 1_000;
    while desk.holds() {
        desk.pass(100);
        span += 100;
        assert!(desk.left() <= 3_000, "a kernel alone ends soon");
    }
    assert_eq!(span, 300_000);
}

#[test]
fn promises_do_not_last_longer_than_autonomy() {
    let mut desk = cut_off(&["a1", "b1"]);
    let mut span = 1_000;
    while desk.holds() {
        desk.pass(100);
        span += 100;
        for question in questions(&mut desk) {
            promise(&mut desk, &question, true);
        }
    }
    assert_eq!(span, 300_000);
}

/// Else a peer that is named from now on, and has promised nothing, would take over while
/// the promises of the others still count.
#[test]
fn a_promise_counts_for_no_longer_than_a_lease() {
    let shared = view(None, &["a1", "b1"]);
    let timing = Timing {
        promise: Duration::from_secs(6),
        ..Timing::default()
    };
    let mut desk = Desk::with_timing(timing, std::slice::from_ref(&shared)).hold(&shared);
    desk.pass(1_500);
    let asked = questions(&mut desk);
    promise(&mut desk, &asked[0], true);
    assert_eq!(desk.left(), 3_000);
}
