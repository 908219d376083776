//! Planned moves.

use super::{
    super::{Act, Change, Event, Holding, ReadAnswer, Role, View, VipAnswer},
    desk::{Desk, at, candidate, id, lease, pod, successor, view},
};
use crate::vip::elect::{Health, MoveReason};

/// A keeper that holds an address for `a1` in term 8, and the object.
fn holding(candidates: &[&str]) -> (Desk, View) {
    let free = view(None, candidates);
    let mut desk = Desk::holding(&free);
    let mut held = free;
    held.holder = Some(Holding {
        candidate: candidate("a1"),
        term: 8,
    });
    let held = desk.show(&held);
    desk.pass_renewing(4_000);
    assert!(desk.holds());
    (desk, held)
}

fn unready(desk: &mut Desk) {
    let since = at(desk.now);
    desk.tell(pod("a1", Health::Unready { since }));
}

#[test]
fn a_holder_gives_an_address_away_only_when_its_kernel_is_silent() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    unready(&mut desk);
    let mut named = desk.accept_vip(&held);
    assert_eq!(
        named.successor,
        Some(successor("b1", 0, false, "PodNotReady"))
    );
    assert!(desk.holds(), "it serves until the other is prepared");

    desk.quick_kernel = false;
    named.successor = Some(successor("b1", 5, true, "PodNotReady"));
    let named = desk.show(&named);
    assert_eq!(
        desk.role(),
        Some(Role::HandedTo(candidate("b1").node_address))
    );
    assert_eq!(desk.take_write(), None, "the kernel may still answer");
    let number = desk.serving.as_ref().map(|it| it.number).unwrap();
    desk.tell(Event::Served(number));
    let given = desk.accept_vip(&named);
    let holder = Holding {
        candidate: candidate("b1"),
        term: 5,
    };
    assert_eq!((given.holder, given.moves), (Some(holder), 4));
    desk.pass(9_000);
    assert_eq!(
        desk.role(),
        Some(Role::HandedTo(candidate("b1").node_address))
    );
    desk.pass(1_000);
    assert_eq!(desk.role(), Some(Role::Away(candidate("b1").addresses)));
}

#[test]
fn what_the_kernel_could_not_end_is_not_given_away_and_keeps_nobody_else_waiting() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    desk.quick_kernel = false;
    unready(&mut desk);
    let mut named = desk.accept_vip(&held);
    named.successor = Some(successor("b1", 5, true, "PodNotReady"));
    let named = desk.show(&named);
    let number = desk.serving.as_ref().map(|it| it.number).unwrap();
    desk.tell(Event::Lingers([id("v")].into()));
    desk.tell(Event::Served(number));
    assert_eq!(desk.take_write(), None, "the pod may still answer");
    desk.tell(Event::Lingers([id("w")].into()));
    desk.tell(Event::Served(number));
    let given = desk.accept_vip(&named);
    assert_eq!(given.moves, 4);
}

#[test]
fn a_successor_prepares_and_says_so_but_serves_only_what_it_was_given() {
    let mut named = view(Some("b1"), &["a1", "b1"]);
    named.successor = Some(successor("a1", 0, false, "Requested"));
    let mut desk = Desk::started(
        std::slice::from_ref(&named),
        &[("b", lease("5", 7, &["a"]))],
    );
    desk.quick_kernel = false;
    desk.read_own(Some(lease("1", 3, &[])));
    desk.renew();
    assert_eq!(desk.role(), Some(Role::Prepared(candidate("a1"))));
    assert_eq!(desk.take_write(), None, "the kernel is not prepared yet");
    let number = desk.serving.as_ref().map(|it| it.number).unwrap();
    desk.tell(Event::Served(number));
    let mut ready = desk.accept_vip(&named);
    assert_eq!(ready.successor, Some(successor("a1", 4, true, "Requested")));
    assert!(!desk.holds());
    ready.holder = Some(Holding {
        candidate: candidate("a1"),
        term: 4,
    });
    ready.successor = None;
    ready.moves += 1;
    desk.show(&ready);
    assert!(desk.holds());
}

#[test]
fn a_successor_that_could_not_prepare_tries_again_while_it_is_waited_for() {
    let mut named = view(Some("b1"), &["a1", "b1"]);
    named.successor = Some(successor("a1", 0, false, "Requested"));
    let mut desk = Desk::started(
        std::slice::from_ref(&named),
        &[("b", lease("5", 7, &["a"]))],
    );
    desk.quick_kernel = false;
    desk.read_own(Some(lease("1", 3, &[])));
    desk.renew();
    desk.tell(Event::CannotServe(named.id.clone()));
    assert_eq!(desk.role(), Some(Role::Away(candidate("b1").addresses)));
    desk.pass(1_900);
    assert_eq!(desk.role(), Some(Role::Away(candidate("b1").addresses)));
    desk.pass(100);
    assert_eq!(desk.role(), Some(Role::Prepared(candidate("a1"))));
}

#[test]
fn who_is_not_prepared_in_a_second_is_passed_over() {
    let (mut desk, held) = holding(&["a1", "b1", "c1"]);
    unready(&mut desk);
    let named = desk.accept_vip(&held);
    desk.pass_renewing(950);
    assert_eq!(desk.take_write(), None);
    desk.pass_renewing(50);
    let named = desk.accept_vip(&named);
    assert_eq!(
        named.successor,
        Some(successor("c1", 0, false, "PodNotReady"))
    );
    desk.pass_renewing(1_000);
    assert_eq!(desk.take_write(), Some(Change::Dismiss), "nobody is left");
    assert!(desk.holds(), "an unready holder is better than none");
}

#[test]
fn a_move_that_is_merely_wished_has_time_until_the_holder_is_unfit() {
    let (mut desk, held) = holding(&["a1", "b1", "c1"]);
    let mut named = held;
    named.successor = Some(successor("b1", 0, false, "Requested"));
    let named = desk.show(&named);
    desk.pass_renewing(29_900);
    assert_eq!(desk.take_write(), None);
    unready(&mut desk);
    let hurried = desk.accept_vip(&named);
    assert_eq!(
        hurried.successor,
        Some(successor("c1", 0, false, "PodNotReady"))
    );

    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut named = held;
    named.successor = Some(successor("b1", 0, false, "Requested"));
    desk.show(&named);
    desk.pass_renewing(30_000);
    assert_eq!(desk.take_write(), Some(Change::Dismiss));
    assert!(desk.holds());
}

#[test]
fn a_wished_successor_may_be_told_before_it_is_told_as_a_candidate() {
    let (mut desk, held) = holding(&["a1"]);
    let mut named = held;
    named.successor = Some(successor("b1", 8, true, "Requested"));
    let mut named = desk.show(&named);
    desk.pass_renewing(2_000);
    assert_eq!(desk.take_write(), None);
    assert!(desk.holds());
    named.candidates.push(candidate("b1"));
    let named = desk.show(&named);
    assert_eq!(
        desk.role(),
        Some(Role::HandedTo(candidate("b1").node_address))
    );
    let moved = desk.accept_vip(&named);
    assert!(moved.is_held_by("b", 8));
}

#[test]
fn a_pod_of_the_same_node_gets_the_address_by_one_write() {
    let (mut desk, held) = holding(&["a1", "a2"]);
    unready(&mut desk);
    assert!(desk.holds());
    let moved = desk.accept_vip(&held);
    assert!(moved.is_held_by("a", 8));
    assert_eq!(desk.role(), Some(Role::Holder(candidate("a2"))));
}

#[test]
fn an_unready_holder_stays_when_nobody_else_is_there_and_a_gone_one_lets_go() {
    let (mut desk, held) = holding(&["a1"]);
    unready(&mut desk);
    desk.pass_renewing(5_000);
    assert_eq!(desk.take_write(), None);
    assert!(desk.holds());
    desk.tell(pod("a1", Health::Gone));
    assert_eq!(desk.role(), None, "silent first");
    let free = desk.accept_vip(&held);
    assert_eq!((free.holder, free.moves), (None, 4));
}

#[test]
fn a_holder_that_is_well_again_keeps_the_address() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    unready(&mut desk);
    let named = desk.accept_vip(&held);
    desk.tell(pod("a1", Health::Fit));
    let kept = desk.accept_vip(&named);
    assert_eq!(kept.successor, None);
    assert!(desk.holds());
}

#[test]
fn what_may_have_been_given_away_is_not_served_until_a_write_tells() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut named = held;
    named.successor = Some(successor("b1", 5, true, "Requested"));
    let named = desk.show(&named);
    assert!(matches!(desk.take_write(), Some(Change::Hold { .. })));
    let answer = VipAnswer::Unknown;
    desk.tell(Event::VipWritten {
        id: id("v"),
        answer,
    });
    // Seen as it was before: the write has not come to effect, or not yet.
    let mut before = named.clone();
    before.successor = None;
    let before = desk.show(&before);
    assert!(!desk.holds());
    desk.pass_renewing(500);
    assert!(
        desk.take(|act| matches!(act, Act::ReadVip { .. }))
            .is_some()
    );
    let answer = ReadAnswer::Found(Some(before.clone()));
    desk.tell(Event::VipRead {
        id: id("v"),
        answer,
    });
    assert!(!desk.holds(), "it may still come to effect");
    let again = desk.accept_vip(&before);
    assert_eq!(again.moves, before.moves);
    assert!(desk.holds(), "now it cannot");
}

#[test]
fn an_old_sight_of_an_address_that_was_given_away_is_not_believed() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut named = held.clone();
    named.successor = Some(successor("b1", 5, true, "Requested"));
    let named = desk.show(&named);
    desk.accept_vip(&named);
    desk.tell(Event::Vip(held));
    assert!(!desk.holds());
}

#[test]
fn an_address_that_comes_back_in_the_same_term_is_served_again() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut named = held;
    named.successor = Some(successor("b1", 5, true, "Requested"));
    let named = desk.show(&named);
    let mut back = desk.accept_vip(&named);
    back.holder = Some(Holding {
        candidate: candidate("a1"),
        term: 8,
    });
    back.moves += 1;
    desk.tell(pod("a1", Health::Fit));
    desk.show(&back);
    assert!(!desk.keeper.may_end());
    assert!(desk.holds());
}

#[test]
fn an_agent_that_stops_hands_over_what_others_can_have() {
    let (mut desk, held) = holding(&["a1", "a2", "b1"]);
    desk.tell(Event::Stop);
    assert!(!desk.keeper.may_end());
    let mut named = desk.accept_vip(&held);
    assert_eq!(
        named.successor,
        Some(successor("b1", 0, false, "AgentStopping"))
    );
    named.successor = Some(successor("b1", 5, true, "AgentStopping"));
    let named = desk.show(&named);
    desk.accept_vip(&named);
    assert!(desk.keeper.may_end());
}

#[test]
fn an_agent_that_stops_leaves_what_nobody_else_can_have() {
    let (mut desk, _) = holding(&["a1"]);
    desk.tell(Event::Stop);
    assert!(desk.keeper.may_end());
    assert!(desk.holds());
    assert_eq!(desk.take_write(), None);
}

#[test]
fn what_cannot_be_served_is_given_to_another_node_and_not_taken_back_at_once() {
    let (mut desk, held) = holding(&["a1", "a2"]);
    desk.tell(Event::CannotServe(id("v")));
    let free = desk.accept_vip(&held);
    assert_eq!(free.holder, None);
    desk.pass(29_000);
    assert_eq!(desk.take_write(), None);
    desk.pass(1_000);
    desk.renew();
    let change = desk.take_write();
    assert!(matches!(change, Some(Change::Hold { .. })), "{change:?}");
}

#[test]
fn what_nobody_hears_of_any_more_is_given_to_another_node_and_stays_while_there_is_none() {
    let (mut desk, held) = holding(&["a1", "a2"]);
    desk.tell(Event::CannotAnnounce(id("v")));
    assert!(desk.holds(), "from inside it still works");
    assert_eq!(desk.take_write(), None);
    let mut wider = held;
    wider.candidates.push(candidate("b1"));
    let wider = desk.show(&wider);
    let named = desk.accept_vip(&wider);
    assert_eq!(
        named.successor,
        Some(successor("b1", 0, false, "CannotServe"))
    );
    // Nor is it given up when that one is not prepared in time.
    desk.pass_renewing(1_000);
    assert_eq!(desk.take_write(), Some(Change::Dismiss));
    assert!(desk.holds());
}

#[test]
fn an_object_that_is_being_deleted_or_has_no_address_is_let_go() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut deleting = held;
    deleting.deleting = true;
    let deleting = desk.show(&deleting);
    assert_eq!(desk.role(), None);
    let free = desk.accept_vip(&deleting);
    assert_eq!(free.holder, None);
    desk.pass(5_000);
    assert_eq!(desk.take_write(), None, "and not taken again");
}

#[test]
fn an_object_that_is_gone_is_not_served_and_an_old_sight_of_it_neither() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    desk.tell(Event::VipGone(id("v")));
    assert_eq!(desk.role(), None);
    desk.tell(Event::Vip(held));
    assert!(!desk.holds());
}

#[test]
fn a_fit_holder_that_is_no_candidate_any_more_gives_way_to_one_that_is() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    let mut unlisted = held;
    unlisted.candidates.remove(0);
    let unlisted = desk.show(&unlisted);
    desk.pass_renewing(2_900);
    assert_eq!(desk.take_write(), None, "the list may be late");
    desk.pass_renewing(100);
    let named = desk.accept_vip(&unlisted);
    let reason = MoveReason::PodUnclaimed.reason();
    assert_eq!(named.successor, Some(successor("b1", 0, false, reason)));
}

#[test]
fn what_still_comes_is_sent_on_also_when_a_watch_is_faster_than_the_answer() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    unready(&mut desk);
    let mut named = desk.accept_vip(&held);
    named.successor = Some(successor("b1", 5, true, "PodNotReady"));
    let mut given = desk.show(&named);
    let change = desk.take_write().expect("it is given away");
    super::model::apply(&mut given, &change);
    let given = desk.show(&given);
    let handed = Some(Role::HandedTo(candidate("b1").node_address));
    assert_eq!(desk.role(), handed);
    let number = desk.serving.as_ref().map(|it| it.number);
    let (id, answer) = (given.id.clone(), VipAnswer::Written(Box::new(given)));
    desk.tell(Event::VipWritten { id, answer });
    assert_eq!(desk.role(), handed);
    let now = desk.serving.as_ref().map(|it| it.number);
    assert_eq!(now, number, "the kernel is not told twice");
}

#[test]
fn what_was_refused_for_something_that_is_known_by_now_is_written_again_at_once() {
    let (mut desk, held) = holding(&["a1", "b1"]);
    unready(&mut desk);
    assert!(matches!(desk.take_write(), Some(Change::Nominate(_))));
    let mut fewer = held;
    fewer.candidates.retain(|it| it.uid == "b1");
    let fewer = desk.show(&fewer);
    let (id, answer) = (fewer.id.clone(), VipAnswer::Conflict);
    desk.tell(Event::VipWritten { id, answer });
    let read = desk.take(|act| matches!(act, Act::ReadVip { .. }));
    assert_eq!(read, None);
    let named = desk.accept_vip(&fewer);
    assert_eq!(
        named.successor,
        Some(successor("b1", 0, false, "PodNotReady"))
    );
}
