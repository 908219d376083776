use super::*;

const fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Packets every 10 ms with answers 1 ms later, except for those of `lost`.
fn history(count: u64, lost: impl Fn(u64) -> bool) -> History {
    let mut history = History::default();
    for number in 0..count {
        let index = history.send(ms(number * 10));
        if !lost(number) {
            history.answer(index, ms(number * 10 + 1));
        }
    }
    history
}

#[test]
fn a_move_without_loss_has_only_the_gap_between_two_packets() {
    let outage = history(100, |_| false).outage(ms(305)).unwrap();
    assert_eq!(
        outage,
        Outage {
            lost: 0,
            gap: ms(10),
            over: None
        }
    );
    assert_eq!(outage.after(ms(305)), Duration::ZERO);
}

#[test]
fn a_hole_is_counted_from_its_last_answer_before_to_the_first_after() {
    let outage = history(100, |it| (40..45).contains(&it))
        .outage(ms(395))
        .unwrap();
    assert_eq!(
        outage,
        Outage {
            lost: 5,
            gap: ms(60),
            over: Some(ms(451))
        }
    );
    assert_eq!(outage.after(ms(401)), ms(50));
    // Somebody who knew only afterwards saw nothing lost.
    assert_eq!(outage.after(ms(500)), Duration::ZERO);
}

#[test]
fn of_two_holes_the_longer_is_the_gap_and_the_later_is_the_end() {
    let outage = history(200, |it| (40..60).contains(&it) || it == 80)
        .outage(ms(390))
        .unwrap();
    assert_eq!(
        outage,
        Outage {
            lost: 21,
            gap: ms(210),
            over: Some(ms(811))
        }
    );
}

#[test]
fn holes_are_runs_of_lost_packets_after_a_moment() {
    let history = history(200, |it| [5, 40, 41, 42, 80, 199].contains(&it));
    let holes = [(ms(400), 3), (ms(800), 1), (ms(1_990), 1)];
    assert_eq!(history.holes(ms(395)), holes);
    assert_eq!(history.holes(ms(410))[0], (ms(410), 2));
    assert_eq!(history.holes(ms(2_000)), []);
}

#[test]
fn what_was_lost_before_is_no_part_of_it() {
    let outage = history(100, |it| (10..30).contains(&it))
        .outage(ms(505))
        .unwrap();
    assert_eq!((outage.lost, outage.gap), (0, ms(10)));
}

#[test]
fn a_late_answer_is_none_but_ends_the_silence() {
    let mut history = history(300, |it| (40..145).contains(&it));
    // Queued somewhere, and sent on when the way was known again.
    for number in 40..145 {
        history.answer(number, ms(1_450));
    }
    let outage = history.outage(ms(400)).unwrap();
    // 400, 410, 420, 430, 440 waited longer than a second.
    assert_eq!((outage.lost, outage.gap), (5, ms(1_059)));
    assert_eq!(outage.over, Some(ms(1_450)));
}

#[test]
fn nothing_is_said_of_what_is_still_silent_or_always_was() {
    assert_eq!(history(100, |it| it >= 50).outage(ms(495)), None);
    assert_eq!(history(100, |_| true).outage(ms(495)), None);
    assert_eq!(history(100, |it| it < 60).outage(ms(495)), None);
    assert_eq!(history(10, |_| false).outage(ms(495)), None);
    assert_eq!(History::default().outage(Duration::ZERO), None);
}

#[test]
fn the_first_answer_counts_and_foreign_ones_do_not() {
    let mut history = history(2, |it| it == 1);
    history.answer(0, ms(9));
    history.answer(7, ms(9));
    history.answer(1, ms(15));
    assert_eq!(history.0.len(), 2);
    assert_eq!(history.0[0].answered, Some(ms(1)));
    assert_eq!(history.0[1].answered, Some(ms(15)));
}

#[test]
fn the_first_answer_is_the_earliest_whichever_packet_it_is_for() {
    let mut history = history(10, |it| it < 5);
    assert_eq!(history.first_answer(), Some(ms(51)));
    history.answer(0, ms(45));
    assert_eq!(history.first_answer(), Some(ms(45)));
    assert_eq!(History::default().first_answer(), None);
}

#[test]
fn steady_means_that_every_packet_of_the_span_was_answered() {
    let steady = |lost: fn(u64) -> bool| history(200, lost).is_steady(ms(2_000), ms(1_000));
    assert!(steady(|_| false));
    // Sent at 1,900 ms: too young to be missed.
    assert!(steady(|it| it == 190));
    assert!(steady(|it| it < 80));
    assert!(!steady(|it| it == 179));
    assert!(!steady(|it| it == 81));
    // Nobody has asked for so long.
    assert!(!history(50, |_| false).is_steady(ms(500), ms(1_000)));
    assert!(!history(50, |_| false).is_steady(ms(9_000), ms(1_000)));
    assert!(!History::default().is_steady(ms(9_000), ms(1_000)));
}

#[test]
fn the_spread_of_rounds_is_their_middle_and_their_worst() {
    assert_eq!(Spread::<u32>::of([]), None);
    assert_eq!(Spread::of([7]), Some(Spread { p50: 7, max: 7 }));
    assert_eq!(Spread::of([4, 1, 9, 2]), Some(Spread { p50: 2, max: 9 }));
    assert_eq!(Spread::of([4, 1, 9]), Some(Spread { p50: 4, max: 9 }));
}
