//! Addresses that nodes have themselves: somebody names the node.

use std::slice::from_ref;

use super::{
    super::{Change, Event, Holding, Role, Successor, View},
    desk::{Desk, candidate, lease, lease_of, view},
};
use crate::vip::{Candidate, Mode, elect::MoveReason};

fn node(name: &str, mode: Mode) -> Candidate {
    Candidate {
        pod: format!("node/{name}"),
        uid: format!("node/{name}"),
        mode,
        ..candidate(&format!("{name}0"))
    }
}

/// An address for which this node is named, of all of these.
fn named(first: Option<&str>, all: &[&str]) -> View {
    let mode = |name: &str| match first {
        Some(first) if first == name => Mode::Node,
        _ => Mode::Standby,
    };
    let mut view = view(None, &[]);
    view.candidates = all.iter().map(|name| node(name, mode(name))).collect();
    view
}

/// A keeper of node `a`, which holds the address in term 8.
fn holding() -> (Desk, View) {
    let free = named(Some("a"), &["a", "b"]);
    let mut desk = Desk::holding(&free);
    let mut held = free;
    held.holder = Some(Holding {
        candidate: node("a", Mode::Node),
        term: 8,
    });
    let held = desk.show(&held);
    desk.pass_renewing(4_000);
    assert!(desk.holds());
    (desk, held)
}

#[test]
fn a_node_that_is_named_takes_the_address_and_asks_those_that_may_be_named_next() {
    let free = named(Some("a"), &["a", "b", "c"]);
    let mut desk = Desk::started(from_ref(&free), &[]);
    desk.read_own(Some(lease("1", 7, &[])));
    let (term, peers) = desk.take_renewal().unwrap();
    assert_eq!(
        (term, peers.into_iter().collect::<Vec<_>>()),
        (8, vec!["b".into(), "c".into()])
    );
}

#[test]
fn one_that_is_not_named_takes_nothing_be_it_vacant_or_silent() {
    let free = named(Some("b"), &["a", "b"]);
    let mut desk = Desk::started(from_ref(&free), &[]);
    desk.pass(90_000);
    assert!(desk.acts.is_empty(), "{:?}", desk.acts);
    let mut held = free;
    held.holder = Some(Holding {
        candidate: node("b", Mode::Node),
        term: 7,
    });
    let mut desk = Desk::started(from_ref(&held), &[("b", lease("5", 7, &["a"]))]);
    desk.pass(90_000);
    assert!(desk.acts.is_empty(), "{:?}", desk.acts);
}

#[test]
fn once_it_is_named_it_takes_what_a_silent_node_has_as_soon_as_others_would() {
    let mut held = named(Some("b"), &["a", "b"]);
    held.holder = Some(Holding {
        candidate: node("b", Mode::Node),
        term: 7,
    });
    let mut desk = Desk::started(from_ref(&held), &[("b", lease("5", 7, &["a"]))]);
    desk.pass(10_000);
    held.candidates = named(Some("a"), &["a", "b"]).candidates;
    desk.show(&held);
    // It was asked for promises all the time, so it need not wait for the autonomy of `b`.
    assert!(desk.asks_for_lease("b"), "{:?}", desk.acts);
    desk.tell(Event::LeaseRead {
        node: "b".into(),
        answer: super::super::ReadAnswer::Found(Some(lease("5", 7, &["a"]))),
    });
    desk.read_own(Some(lease("1", 3, &[])));
    desk.renew();
    desk.pass(200);
    let Some(Change::Hold { holder, reason, .. }) = desk.take_write() else {
        panic!("{:?}", desk.acts);
    };
    assert_eq!((holder.candidate.node.as_str(), holder.term), ("a", 4));
    assert_eq!(reason, Some(MoveReason::NodeSilent));
}

#[test]
fn a_holder_hands_over_at_once_to_the_one_that_is_named_instead() {
    let (mut desk, mut held) = holding();
    held.candidates = named(Some("b"), &["a", "b"]).candidates;
    let held = desk.show(&held);
    let mut going = desk.accept_vip(&held);
    let next = going.successor.clone().unwrap();
    assert_eq!(
        (next.candidate.node.as_str(), next.reason.as_str()),
        ("b", "Requested")
    );
    assert!(desk.holds(), "until the other is prepared");
    going.successor = Some(Successor {
        term: 5,
        ready: true,
        ..next
    });
    let going = desk.show(&going);
    assert!(matches!(desk.role(), Some(Role::HandedTo(_))));
    let given = desk.accept_vip(&going);
    assert_eq!(given.holder.unwrap().candidate.node, "b");
}

#[test]
fn a_holder_keeps_the_address_while_the_one_that_is_named_cannot_have_it() {
    let (mut desk, mut held) = holding();
    held.candidates = named(Some("b"), &["a", "b"]).candidates;
    let held = desk.show(&held);
    let going = desk.accept_vip(&held);
    assert!(going.successor.is_some());
    desk.pass_renewing(29_000);
    assert_eq!(desk.take_write(), None, "nobody is in a hurry");
    desk.pass_renewing(1_500);
    let alone = desk.accept_vip(&going);
    assert_eq!(
        (alone.successor.clone(), alone.holder.clone()),
        (None, held.holder)
    );
    desk.pass_renewing(4_000);
    assert_eq!(desk.take_write(), None);
    assert!(desk.holds());
    // And tries again some time later.
    desk.pass_renewing(1_500);
    assert!(matches!(desk.take_write(), Some(Change::Nominate(_))));
}

#[test]
fn a_holder_lets_go_when_nobody_is_named_at_all() {
    let (mut desk, mut held) = holding();
    held.candidates = Vec::new();
    let held = desk.show(&held);
    let free = desk.accept_vip(&held);
    assert_eq!(free.holder, None);
    assert!(!desk.holds());
    desk.tell(lease_of("b", lease("9", 2, &[])));
    desk.pass(60_000);
    assert_eq!(desk.take_write(), None, "it is not taken again");
}
