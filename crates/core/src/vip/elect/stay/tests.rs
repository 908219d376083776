use proptest::prelude::*;

use super::{
    super::tests::{candidate, candidates, names},
    *,
};

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

fn holder(pod: &str, health: Health) -> Holder<'_> {
    Holder {
        pod,
        uid: pod,
        health,
        moved: Some(at(100)),
    }
}

fn settings(grace: u64, between: u64) -> Failover {
    Failover {
        unready_grace: Duration::from_secs(grace),
        between_moves: Duration::from_secs(between),
        ..Failover::default()
    }
}

fn preferring(pods: &[&str], failback: bool) -> Failover {
    Failover {
        failback,
        preferred: pods.iter().map(|&it| it.to_owned()).collect(),
        ..Failover::default()
    }
}

/// What becomes of an address of which `a`, `b` and `c` are candidates.
fn judged(holder: Holder<'_>, failover: &Failover, now: Moment) -> String {
    let all = [candidate("a", 1), candidate("b", 2), candidate("c", 3)];
    told(&judge(holder, &all, failover, &Load::new(), now))
}

fn alone(holder: Holder<'_>) -> String {
    let own = [candidate(holder.pod, 1)];
    let now = at(1000);
    told(&judge(
        holder,
        &own,
        &Failover::default(),
        &Load::new(),
        now,
    ))
}

fn told(verdict: &Verdict<'_>) -> String {
    match verdict {
        Verdict::Move { to, reason } => format!("{} {:?}", reason.reason(), names(to)),
        Verdict::Vacate { reason } => format!("vacate {}", reason.reason()),
        Verdict::Stay(Stay::Fit) => "fit".into(),
        Verdict::Stay(Stay::InGrace { until }) => format!("grace until {}", until.0.as_secs()),
        Verdict::Stay(Stay::MovedLately { reason, until }) => {
            format!("{} after {}", reason.reason(), until.0.as_secs())
        }
        Verdict::Stay(Stay::NobodyElse { reason }) => format!("alone {}", reason.reason()),
    }
}

#[test]
fn a_fit_holder_stays_even_if_others_rank_before_it() {
    let now = at(1000);
    assert_eq!(
        judged(holder("c", Health::Fit), &settings(0, 0), now),
        "fit"
    );
    let failover = preferring(&["a", "b"], false);
    assert_eq!(judged(holder("c", Health::Fit), &failover, now), "fit");
}

#[test]
fn an_unready_holder_loses_the_address_at_once_by_default() {
    let unready = holder("a", Health::Unready { since: at(200) });
    let expected = r#"PodNotReady ["b", "c"]"#;
    assert_eq!(judged(unready, &Failover::default(), at(200)), expected);
}

#[test]
fn an_unready_holder_keeps_the_address_through_its_grace() {
    let unready = holder("a", Health::Unready { since: at(200) });
    let failover = settings(10, 3);
    assert_eq!(judged(unready, &failover, at(200)), "grace until 210");
    assert_eq!(judged(unready, &failover, at(209)), "grace until 210");
    let expected = r#"PodNotReady ["b", "c"]"#;
    assert_eq!(judged(unready, &failover, at(210)), expected);
}

#[test]
fn unreadiness_does_not_move_an_address_that_has_moved_lately() {
    let unready = holder("a", Health::Unready { since: at(101) });
    let failover = settings(0, 30);
    let expected = "PodNotReady after 130";
    assert_eq!(judged(unready, &failover, at(101)), expected);
    assert_eq!(judged(unready, &failover, at(129)), expected);
    let expected = r#"PodNotReady ["b", "c"]"#;
    assert_eq!(judged(unready, &failover, at(130)), expected);
    let unknown = Holder {
        moved: None,
        ..unready
    };
    assert_eq!(judged(unknown, &failover, at(101)), expected);
}

#[test]
fn nothing_holds_back_the_move_from_a_holder_that_ends() {
    let failover = settings(60, 60);
    for (health, reason) in [
        (Health::Terminating, "PodDeleted"),
        (Health::Gone, "PodDeleted"),
        (Health::Finished, "PodFinished"),
        (Health::Unclaimed, "PodUnclaimed"),
        (Health::CannotServe, "CannotServe"),
    ] {
        let expected = format!(r#"{reason} ["a", "c"]"#);
        assert_eq!(judged(holder("b", health), &failover, at(100)), expected);
    }
}

#[test]
fn with_nobody_else_the_address_stays_with_a_pod_that_may_answer_and_leaves_others() {
    let since = at(200);
    for (health, expected) in [
        (Health::Fit, "fit"),
        (Health::Unready { since }, "alone PodNotReady"),
        (Health::Terminating, "alone PodDeleted"),
        (Health::Gone, "vacate PodDeleted"),
        (Health::Finished, "vacate PodFinished"),
        (Health::Unclaimed, "vacate PodUnclaimed"),
        (Health::CannotServe, "vacate CannotServe"),
    ] {
        assert_eq!(alone(holder("a", health)), expected);
    }
}

#[test]
fn with_failback_the_address_moves_to_pods_that_are_preferred_to_the_holder() {
    let now = at(1000);
    let fit = |pod| holder(pod, Health::Fit);
    let failover = preferring(&["b", "a"], true);
    assert_eq!(judged(fit("c"), &failover, now), r#"Failback ["b", "a"]"#);
    assert_eq!(judged(fit("a"), &failover, now), r#"Failback ["b"]"#);
    assert_eq!(judged(fit("b"), &failover, now), "fit");
    let absent = preferring(&["x"], true);
    assert_eq!(judged(fit("c"), &absent, now), "fit");
    assert_eq!(judged(fit("c"), &preferring(&[], true), now), "fit");
}

#[test]
fn failback_waits_until_the_last_move_is_long_ago() {
    let failover = preferring(&["b"], true);
    let fit = holder("c", Health::Fit);
    assert_eq!(judged(fit, &failover, at(102)), "Failback after 103");
    assert_eq!(judged(fit, &failover, at(103)), r#"Failback ["b"]"#);
}

#[test]
fn failback_does_not_wait_for_the_grace_of_an_unready_holder() {
    let failover = Failover {
        unready_grace: Duration::from_mins(1),
        ..preferring(&["b"], true)
    };
    let unready = holder("c", Health::Unready { since: at(200) });
    assert_eq!(judged(unready, &failover, at(201)), r#"Failback ["b"]"#);
    // Beyond the grace everybody is better than an unready pod.
    let expected = r#"PodNotReady ["b", "a"]"#;
    assert_eq!(judged(unready, &failover, at(260)), expected);
}

#[test]
fn a_new_pod_with_the_name_of_the_holder_can_take_over_from_it() {
    let mut again = candidate("a", 5);
    again.uid = "another".into();
    let all = [again];
    let gone = holder("a", Health::Gone);
    let verdict = judge(gone, &all, &Failover::default(), &Load::new(), at(100));
    assert_eq!(told(&verdict), r#"PodDeleted ["a"]"#);
}

#[test]
fn reasons_are_read_as_they_are_written() {
    for reason in MoveReason::ALL {
        assert_eq!(MoveReason::parse(reason.reason()), Some(reason));
    }
    assert_eq!(MoveReason::parse("Whim"), None);
}

fn any_health() -> impl Strategy<Value = Health> {
    prop_oneof![
        3 => Just(Health::Fit),
        3 => (0_u64..60).prop_map(|since| Health::Unready { since: at(since) }),
        1 => Just(Health::Terminating),
        1 => Just(Health::Finished),
        1 => Just(Health::Gone),
        1 => Just(Health::Unclaimed),
        1 => Just(Health::CannotServe),
    ]
}

fn any_failover() -> impl Strategy<Value = Failover> {
    let preferred = Just(vec!["p0", "p1", "p2", "p3", "x"]).prop_shuffle();
    (0_u64..20, 0_u64..20, any::<bool>(), preferred, 0_usize..5).prop_map(
        |(grace, between, failback, preferred, count)| Failover {
            failback,
            preferred: preferred[..count].iter().map(|&it| it.into()).collect(),
            ..settings(grace, between)
        },
    )
}

proptest! {
    #[test]
    fn a_holder_stays_while_it_is_fit_and_a_preferred_pod_wins_only_with_failback(
        all in candidates(5),
        own in 0_usize..5,
        health in any_health(),
        moved in prop::option::of((0_u64..60).prop_map(at)),
        failover in any_failover(),
        now in (60_u64..100).prop_map(at),
    ) {
        let pod = format!("p{own}");
        let holder = Holder { moved, ..holder(&pod, health) };
        let verdict = judge(holder, &all, &failover, &Load::new(), now);
        let rank_of = |pod: &str| {
            let place = failover.preferred.iter().position(|it| it == pod);
            place.map_or(usize::MAX, |place| place)
        };
        let others = || all.iter().filter(|it| it.uid != pod);
        let is_ahead = |it: &Candidate| rank_of(&it.pod) < rank_of(&pod);
        let wants_back = failover.failback && others().any(is_ahead);
        let is_calm = moved.is_none_or(|at| at.after(failover.between_moves) <= now);
        let in_grace = if let Health::Unready { since } = health {
            now < since.after(failover.unready_grace)
        } else {
            false
        };
        let keeps = health == Health::Fit || in_grace;
        match &verdict {
            Verdict::Move { to, reason } => {
                prop_assert!(!to.is_empty());
                prop_assert!(to.iter().all(|it| all.contains(it) && it.uid != pod));
                prop_assert_eq!(*reason == MoveReason::Failback, keeps);
                if keeps {
                    prop_assert!(failover.failback && to.iter().all(|it| is_ahead(it)));
                } else {
                    prop_assert_eq!(to.len(), others().count());
                }
                let is_urgent = !keeps && !matches!(health, Health::Unready { .. });
                prop_assert!(is_urgent || is_calm);
            }
            Verdict::Vacate { .. } => {
                prop_assert_eq!(others().count(), 0);
                prop_assert!(!keeps);
                let may_answer = matches!(health, Health::Unready { .. } | Health::Terminating);
                prop_assert!(!may_answer);
            }
            Verdict::Stay(stay) => {
                // Never for want of trying.
                let nobody = others().count() == 0;
                prop_assert!(!wants_back || !is_calm || nobody || !keeps);
                prop_assert!(keeps || nobody || !is_calm);
                prop_assert_eq!(*stay == Stay::Fit, health == Health::Fit && !wants_back);
            }
        }
    }

    #[test]
    fn who_judges_again_when_told_needs_no_other_clock(
        all in candidates(4),
        health in any_health(),
        moved in prop::option::of((0_u64..60).prop_map(at)),
        failover in any_failover(),
        now in 0_u64..60,
    ) {
        let holder = Holder { moved, ..holder("p0", health) };
        let judged = |now| judge(holder, &all, &failover, &Load::new(), now);
        let stays = |verdict: &Verdict<'_>| matches!(verdict, Verdict::Stay(_));
        let first = judged(at(now));
        let end = first.until().unwrap_or(at(200));
        prop_assert!(end > at(now));
        // Until then it stays as it is, and what is told comes to an end.
        for later in (now..end.0.as_secs()).map(at) {
            prop_assert_eq!(stays(&judged(later)), stays(&first));
        }
        let mut last = end;
        for _ in 0..2 {
            last = judged(last).until().unwrap_or(last);
        }
        prop_assert_eq!(judged(last).until(), None);
    }
}
