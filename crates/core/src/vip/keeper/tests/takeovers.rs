//! Who takes what, and when.

use super::{
    super::{Act, Change, Event, Holding, LeaseView, ReadAnswer, Refusal, Role},
    desk::{Desk, candidate, id, lease, lease_of, pod, view},
};
use crate::vip::elect::{Health, MoveReason};

/// A keeper that watches the holder `b1`, whose lease names these peers.
fn watching(peers: &[&str]) -> Desk {
    let held = view(Some("b1"), &["a1", "b1"]);
    Desk::started(&[held], &[("b", lease("5", 7, peers))])
}

fn answer(desk: &mut Desk, version: &str, peers: &[&str]) {
    let answer = ReadAnswer::Found(Some(lease(version, 7, peers)));
    let node = "b".to_owned();
    desk.tell(Event::LeaseRead { node, answer });
}

fn ask(desk: &mut Desk, term: i64) -> Option<Refusal> {
    let (by, ticket) = ("b".to_owned(), 4);
    desk.tell(Event::PromiseAsked { by, term, ticket });
    let act = desk.take(|act| matches!(act, Act::Answer { .. }));
    let Some(Act::Answer { refusal, .. }) = act else {
        panic!("no answer")
    };
    refusal
}

/// Gets a term, as one does that is about to take something.
fn get_term(desk: &mut Desk) {
    desk.read_own(Some(lease("1", 3, &[])));
    desk.renew();
}

#[test]
fn a_silent_holder_is_replaced_after_a_direct_look_and_in_a_term() {
    let mut desk = watching(&["a"]);
    desk.pass(3_000);
    get_term(&mut desk);
    desk.pass(299);
    assert!(!desk.asks_for_lease("b"));
    desk.pass(1);
    assert!(desk.asks_for_lease("b"));
    assert_eq!(desk.take_write(), None, "not before the answer");
    answer(&mut desk, "5", &["a"]);
    let change = Change::Hold {
        holder: Holding {
            candidate: candidate("a1"),
            term: 4,
        },
        moves: 4,
        reason: Some(MoveReason::NodeSilent),
    };
    assert_eq!(desk.take_write(), Some(change));
    assert!(!desk.holds(), "not before the answer");
}

#[test]
fn a_holder_that_has_renewed_unseen_is_left_alone() {
    let mut desk = watching(&["a"]);
    desk.pass(3_300);
    assert!(desk.asks_for_lease("b"));
    answer(&mut desk, "6", &["a"]);
    desk.pass(2_900);
    assert_eq!(desk.take_write(), None);
    assert!(!desk.asks_for_lease("b"), "it counts anew");
    desk.pass(400);
    assert!(desk.asks_for_lease("b"));
}

#[test]
fn each_renewal_that_is_seen_counts_anew() {
    let mut desk = watching(&["a"]);
    for version in 6..30 {
        desk.pass(3_000);
        assert!(!desk.asks_for_lease("b"));
        desk.tell(lease_of("b", lease(&version.to_string(), 7, &["a"])));
    }
}

#[test]
fn whom_the_holder_does_not_ask_waits_for_the_end_of_autonomy() {
    let mut desk = watching(&["c"]);
    desk.pass(329_000);
    assert!(!desk.asks_for_lease("b"));
    desk.pass(1_000);
    assert!(desk.asks_for_lease("b"));
}

#[test]
fn a_node_that_is_out_of_service_is_not_waited_for_so_long() {
    let mut desk = watching(&["c"]);
    desk.tell(Event::NodeDown("b".to_owned()));
    desk.pass(3_300);
    assert!(desk.asks_for_lease("b"));
    let mut desk = watching(&["c"]);
    desk.tell(Event::NodeDown("b".to_owned()));
    desk.tell(Event::NodeUp("b".to_owned()));
    desk.pass(3_300);
    assert!(!desk.asks_for_lease("b"));
}

#[test]
fn a_promise_is_kept_and_longer_than_the_other_side_counts_on_it() {
    let mut desk = watching(&["a"]);
    desk.pass(2_000);
    assert_eq!(ask(&mut desk, 7), None);
    desk.pass(3_299);
    assert!(!desk.asks_for_lease("b"));
    desk.pass(1);
    assert!(desk.asks_for_lease("b"));
}

#[test]
fn a_promise_that_is_given_during_a_look_makes_it_void() {
    let mut desk = watching(&["a"]);
    desk.pass(3_300);
    assert!(desk.asks_for_lease("b"));
    get_term(&mut desk);
    assert_eq!(ask(&mut desk, 7), None);
    desk.now += 10_000;
    answer(&mut desk, "5", &["a"]);
    assert_eq!(desk.take_write(), None, "it was asked before the promise");
    desk.pass(300);
    assert!(desk.asks_for_lease("b"), "so it is asked again");
}

#[test]
fn nothing_is_promised_to_a_term_that_was_judged_or_followed() {
    let mut desk = watching(&["a"]);
    desk.pass(3_300);
    assert!(desk.asks_for_lease("b"));
    answer(&mut desk, "5", &["a"]);
    assert_eq!(ask(&mut desk, 7), Some(Refusal::TermOver));
    assert_eq!(ask(&mut desk, 8), None, "a new term is another matter");
    desk.tell(lease_of("b", lease("6", 9, &["a"])));
    assert_eq!(ask(&mut desk, 8), Some(Refusal::NewerTerm));
}

#[test]
fn nothing_is_promised_to_a_holder_that_cannot_serve_if_a_pod_here_can() {
    let unfit = view(Some("b1"), &["a1", "c1"]);
    let mut desk = Desk::started(&[unfit], &[("b", lease("5", 7, &["a"]))]);
    assert_eq!(ask(&mut desk, 7), Some(Refusal::HolderUnfit));
    desk.tell(pod("a1", Health::Terminating));
    assert_eq!(ask(&mut desk, 7), None, "nobody here would be better");
}

#[test]
fn a_new_process_takes_nothing_for_silence_while_an_old_promise_may_last() {
    let held = view(Some("b1"), &["a1", "b1"]);
    let mut desk = Desk::started(&[held], &[("b", lease("5", 7, &["a"]))]);
    desk.tell(Event::NodeDown("b".to_owned()));
    desk.pass(3_299);
    assert!(!desk.asks_for_lease("b"));
}

#[test]
fn a_newer_term_frees_an_address_once_the_kernel_of_the_old_one_is_silent() {
    let mut desk = watching(&["a"]);
    desk.pass(1_000);
    desk.tell(lease_of("b", lease("6", 8, &["a"])));
    desk.pass(3_299);
    assert_eq!(desk.take_write(), None);
    desk.pass(1);
    get_term(&mut desk);
    assert!(matches!(desk.take_write(), Some(Change::Hold { .. })));
}

#[test]
fn the_next_best_waits_for_the_best() {
    // All hold nothing and are ready since the same time, so the name decides.
    let free = view(None, &["a2", "b1", "A1"]);
    let mut desk = Desk::started(std::slice::from_ref(&free), &[]);
    get_term(&mut desk);
    desk.pass(149);
    assert_eq!(desk.take_write(), None);
    desk.pass(1);
    let Some(Change::Hold { holder, reason, .. }) = desk.take_write() else {
        panic!()
    };
    assert_eq!(holder.candidate.uid, "a2");
    assert_eq!(reason, Some(MoveReason::FirstHolder));
}

#[test]
fn a_better_one_that_lives_has_more_time_and_so_has_everybody_at_the_first_election() {
    let waits = |moves, leases: &[(&str, LeaseView)], span: u64| {
        let mut vacant = view(None, &["a1", "b1"]);
        vacant.moves = moves;
        vacant.failover.preferred = vec!["pod-b1".to_owned()];
        let mut desk = Desk::started(&[vacant], leases);
        // A term is wanted shortly before only.
        let early = span.saturating_sub(300);
        desk.pass(early);
        get_term(&mut desk);
        desk.pass(span - early - 1);
        assert_eq!(desk.take_write(), None);
        desk.pass(1);
        assert!(desk.take_write().is_some());
    };
    waits(3, &[], 150);
    waits(3, &[("b", lease("5", 7, &["a"]))], 1_000);
    waits(0, &[], 3_000);
}

#[test]
fn a_better_one_that_is_seen_to_take_others_is_waited_for_but_not_for_ever() {
    let mut vacant = view(None, &["a1", "b1"]);
    vacant.failover.preferred = vec!["pod-b1".to_owned()];
    let mut desk = Desk::started(&[vacant], &[("b", lease("1", 7, &["a"]))]);
    let mut waited = 0;
    for index in 0..40 {
        let version = format!("{}", index + 2);
        desk.tell(lease_of("b", lease(&version, 7, &["a"])));
        let mut other = view(Some("b1"), &["b1"]);
        other.id = id(&format!("v{index}"));
        desk.show(&other);
        desk.pass(500);
        waited += 500;
        if desk.asks_for_lease("a") {
            break;
        }
        assert_eq!(desk.take_write(), None);
    }
    assert!((10_000..=11_500).contains(&waited), "{waited}");
    let answer = ReadAnswer::Found(Some(lease("1", 3, &[])));
    let node = "a".to_owned();
    desk.tell(Event::LeaseRead { node, answer });
    desk.renew();
    desk.pass(1_000);
    assert!(desk.take_write().is_some());
}

#[test]
fn what_a_dead_node_held_is_spread_over_the_others() {
    let mut views = Vec::new();
    for index in 0..10 {
        let mut one = view(Some("b1"), &["a1", "b1", "c1"]);
        one.id = id(&format!("v{index}"));
        views.push(one);
    }
    let mut desk = Desk::started(&views, &[("b", lease("5", 7, &["a", "c"]))]);
    desk.pass(3_300);
    assert!(desk.asks_for_lease("b"));
    assert!(!desk.asks_for_lease("b"), "one look is enough for all");
    get_term(&mut desk);
    answer(&mut desk, "5", &["a", "c"]);
    let writes = |act: &Act| matches!(act, Act::WriteVip { .. });
    let at_once = desk.acts.iter().filter(|act| writes(act)).count();
    assert_eq!(at_once, 5);
    desk.pass(150);
    let later = desk.acts.iter().filter(|act| writes(act)).count();
    assert_eq!(later, 10, "the other node did not take its part");
}

#[test]
fn an_address_is_not_taken_for_a_pod_that_is_not_fit_here() {
    for health in [
        Health::Terminating,
        Health::Finished,
        Health::Gone,
        Health::Unready {
            since: super::desk::at(1),
        },
    ] {
        let mut desk = Desk::started(&[], &[]);
        desk.tell(pod("a1", health));
        desk.show(&view(None, &["a1"]));
        desk.pass(1_000);
        assert_eq!(desk.acts, [], "{health:?}");
    }
}

#[test]
fn what_another_node_serves_is_mapped_to_its_pod() {
    let desk = watching(&["a"]);
    let away = Role::Away(candidate("b1").addresses);
    assert_eq!(desk.role(), Some(away));
    assert_eq!(desk.serving.and_then(|it| it.deadline), None);
}
