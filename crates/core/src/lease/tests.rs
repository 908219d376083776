//! Tables for single decisions; the interplay of several candidates is
//! simulated in `simulation`.

use super::*;

mod simulation;

const WALL: Timestamp = Timestamp::UNIX_EPOCH;

fn at(seconds: f64) -> Moment {
    Moment(Duration::from_secs_f64(seconds))
}

fn wall(second: i64) -> Timestamp {
    Timestamp::from_second(second).expect("a small number of seconds is a timestamp")
}

fn candidate(me: &str) -> Candidate {
    Candidate::new(me, Timing::default())
}

fn held_by(holder: &str) -> Record {
    Record {
        holder: holder.into(),
        duration_seconds: 15,
        acquired: Some(wall(100)),
        renewed: Some(wall(200)),
        transitions: 7,
    }
}

/// A candidate `a` that leads since second 0 with the record it wrote.
fn leader() -> (Candidate, Record) {
    let mut leader = candidate("a");
    let Decision::Acquire { record, .. } = leader.decide(None, at(0.0), wall(1)) else {
        panic!("an absent lease is free")
    };
    leader.written(record.clone(), at(0.0), at(0.1));
    (leader, record)
}

#[test]
fn periods_must_fit_together() {
    let ms = Duration::from_millis;
    let cases = [
        (15_000, 10_000, 2_000, None),
        (2_000, 1_201, 1_000, None),
        (15_000, 15_000, 2_000, Some("LeaseTooShort")),
        (15_000, 20_000, 2_000, Some("LeaseTooShort")),
        (15_000, 2_400, 2_000, Some("DeadlineTooShort")),
        (15_000, 0, 2_000, Some("DeadlineTooShort")),
        (15_000, 10_000, 0, Some("NoRetryPeriod")),
        (0, 0, 1, Some("NotWholeSeconds")),
        (15_500, 10_000, 2_000, Some("NotWholeSeconds")),
        (i64::from(i32::MAX) * 1_000, 10_000, 2_000, None),
        (
            (i64::from(i32::MAX) + 1) * 1_000,
            10_000,
            2_000,
            Some("NotWholeSeconds"),
        ),
    ];
    for (lease, renew, retry, want) in cases {
        let lease = ms(lease.try_into().expect("positive"));
        let got = Timing::new(lease, ms(renew), ms(retry))
            .err()
            .map(|error| match error {
                TimingError::NoRetryPeriod => "NoRetryPeriod",
                TimingError::NotWholeSeconds(_) => "NotWholeSeconds",
                TimingError::LeaseTooShort { .. } => "LeaseTooShort",
                TimingError::DeadlineTooShort { .. } => "DeadlineTooShort",
            });
        assert_eq!(got, want, "{lease:?} {renew} {retry}");
    }
}

#[test]
fn the_default_periods_are_valid() {
    let timing = Timing::default();
    let same = Timing::new(
        timing.lease_duration(),
        timing.renew_deadline(),
        timing.retry_period(),
    );
    assert_eq!(same, Ok(timing));
}

#[test]
fn a_follower_pauses_for_one_retry_period_and_up_to_the_jitter_more() {
    let timing = Timing::default();
    assert_eq!(timing.follower_pause(0.0), Duration::from_secs(2));
    assert_eq!(timing.follower_pause(0.5), Duration::from_millis(3_200));
    assert_eq!(timing.follower_pause(1.0), Duration::from_millis(4_400));
    assert_eq!(timing.follower_pause(-3.0), timing.follower_pause(0.0));
    assert_eq!(timing.follower_pause(3.0), timing.follower_pause(1.0));
}

#[test]
fn a_woken_follower_pauses_for_a_moment_but_never_longer_than_usual() {
    let ms = Duration::from_millis;
    let timing = Timing::default();
    assert_eq!(timing.wake_pause(0.0), Duration::ZERO);
    assert_eq!(timing.wake_pause(0.5), ms(50));
    assert_eq!(timing.wake_pause(1.0), LONGEST_WAKE_PAUSE);
    assert_eq!(timing.wake_pause(-3.0), timing.wake_pause(0.0));
    assert_eq!(timing.wake_pause(3.0), timing.wake_pause(1.0));
    let hasty = Timing::new(ms(1_000), ms(100), ms(20)).expect("the periods fit");
    assert_eq!(hasty.wake_pause(1.0), ms(20));
}

#[test]
fn a_release_and_another_holder_are_worth_an_early_look() {
    let mut follower = candidate("a");
    follower.decide(Some(held_by("b")), at(0.0), WALL);
    let cases = [
        (Some(held_by("")), true, "released"),
        (Some(held_by("b")), false, "as it was read"),
        (Some(held_by("c")), true, "passed on"),
        (Some(held_by("a")), false, "a late look at our own lease"),
        (None, false, "deleted, and its holder does not know yet"),
    ];
    for (shown, wanted, case) in cases {
        let worth = follower.is_worth_a_look(shown.as_ref(), at(1.0));
        assert_eq!(worth, wanted, "{case}");
    }
}

#[test]
fn a_release_is_worth_a_look_when_no_lease_was_read_yet() {
    assert!(candidate("a").is_worth_a_look(Some(&held_by("")), at(0.0)));
}

#[test]
fn a_release_that_was_read_is_not_worth_another_look() {
    let mut follower = candidate("a");
    follower.decide(Some(held_by("")), at(0.0), WALL);
    assert!(!follower.is_worth_a_look(Some(&held_by("")), at(0.1)));
    let mut later = held_by("");
    later.transitions += 1;
    assert!(follower.is_worth_a_look(Some(&later), at(0.1)));
}

#[test]
fn a_leader_looks_at_its_own_pace() {
    let (leader, _) = leader();
    assert!(!leader.is_worth_a_look(Some(&held_by("")), at(9.9)));
    assert!(
        leader.is_worth_a_look(Some(&held_by("")), at(10.0)),
        "its term is over"
    );
}

#[test]
fn an_absent_lease_is_created_with_no_transitions() {
    let decision = candidate("a").decide(None, at(5.0), wall(50));
    let record = Record {
        holder: "a".into(),
        duration_seconds: 15,
        acquired: Some(wall(50)),
        renewed: Some(wall(50)),
        transitions: 0,
    };
    let vacancy = Vacancy::Absent;
    assert_eq!(decision, Decision::Acquire { record, vacancy });
}

#[test]
fn a_released_lease_is_taken_at_once_and_counts_as_a_transition() {
    let decision = candidate("a").decide(Some(held_by("")), at(5.0), wall(300));
    let record = Record {
        holder: "a".into(),
        duration_seconds: 15,
        acquired: Some(wall(300)),
        renewed: Some(wall(300)),
        transitions: 8,
    };
    let vacancy = Vacancy::Released;
    assert_eq!(decision, Decision::Acquire { record, vacancy });
}

#[test]
fn a_held_lease_expires_by_local_observation_only() {
    let mut follower = candidate("a");
    let waiting = Decision::Wait {
        holder: "b".into(),
        until: at(18.0),
    };
    // The wall clock says that the lease is ancient. It was first seen now.
    assert_eq!(
        follower.decide(Some(held_by("b")), at(3.0), wall(1_000_000)),
        waiting
    );
    assert_eq!(
        follower.decide(Some(held_by("b")), at(17.999), WALL),
        waiting
    );
    let Decision::Acquire { record, vacancy } =
        follower.decide(Some(held_by("b")), at(18.0), wall(9))
    else {
        panic!("the lease has expired")
    };
    assert_eq!(vacancy, Vacancy::Expired { holder: "b".into() });
    assert_eq!((record.holder.as_str(), record.transitions), ("a", 8));
    assert_eq!(
        (record.acquired, record.renewed),
        (Some(wall(9)), Some(wall(9)))
    );
}

#[test]
fn every_seen_renewal_starts_the_wait_again() {
    let mut follower = candidate("a");
    for second in 0..100_u32 {
        // The holder's clock runs backwards; only the change counts.
        let mut record = held_by("b");
        record.renewed = Some(wall(1_000 - i64::from(second)));
        let now = at(f64::from(second) * 14.0);
        let until = now.after(Duration::from_secs(15));
        let holder = "b".into();
        assert_eq!(
            follower.decide(Some(record), now, WALL),
            Decision::Wait { holder, until }
        );
    }
}

#[test]
fn the_wait_is_as_long_as_the_record_says() {
    let mut follower = candidate("a");
    let mut record = held_by("b");
    record.duration_seconds = 60;
    follower.decide(Some(record.clone()), at(0.0), WALL);
    let decision = follower.decide(Some(record), at(59.0), WALL);
    let until = at(60.0);
    assert_eq!(
        decision,
        Decision::Wait {
            holder: "b".into(),
            until
        }
    );
}

#[test]
fn a_renewal_keeps_the_acquire_time_and_the_transitions() {
    let decision = candidate("a").decide(Some(held_by("a")), at(1.0), wall(300));
    let record = Record {
        renewed: Some(wall(300)),
        ..held_by("a")
    };
    assert_eq!(decision, Decision::Renew { record });
}

#[test]
fn transitions_never_overflow() {
    let mut record = held_by("");
    record.transitions = u32::MAX;
    let Decision::Acquire { record, .. } = candidate("a").decide(Some(record), at(0.0), WALL)
    else {
        panic!("a released lease is free")
    };
    assert_eq!(record.transitions, u32::MAX);
}

#[test]
fn a_term_counts_from_the_moment_the_write_was_sent() {
    let mut leader = candidate("a");
    assert!(!leader.is_leader(at(0.0)));
    leader.written(held_by("a"), at(1.0), at(4.0));
    assert!(leader.is_leader(at(10.999)));
    assert!(!leader.is_leader(at(11.0)));
    assert_eq!(leader.term(), Some(at(11.0)));
}

#[test]
fn an_answer_after_the_deadline_starts_no_term() {
    let mut late = candidate("a");
    late.written(held_by("a"), at(1.0), at(11.0));
    assert!(!late.is_leader(at(11.0)));
    assert_eq!(late.expire(at(12.0)), None, "there was no term to lose");
}

#[test]
fn a_leader_that_cannot_renew_steps_down_at_the_deadline_once() {
    let (mut leader, _) = leader();
    assert_eq!(leader.expire(at(9.999)), None);
    assert_eq!(leader.expire(at(10.0)), Some(Loss::RenewDeadlinePassed));
    assert_eq!(leader.expire(at(10.0)), None);
}

#[test]
fn a_leader_steps_down_when_the_record_is_not_its_own() {
    let taken = Loss::LeaseTaken { holder: "b".into() };
    let cases = [
        (Some(held_by("b")), taken),
        (Some(held_by("")), Loss::LeaseVacated),
        (None, Loss::LeaseVacated),
    ];
    for (seen, loss) in cases {
        let (mut leader, _) = leader();
        let decision = leader.decide(seen.clone(), at(2.0), WALL);
        assert_eq!(decision, Decision::StepDown(loss), "{seen:?}");
        assert!(!leader.is_leader(at(2.0)), "{seen:?}");
    }
}

#[test]
fn a_late_leader_steps_down_first_and_may_then_renew_its_own_lease() {
    let (mut leader, record) = leader();
    let decision = leader.decide(Some(record.clone()), at(10.0), WALL);
    assert_eq!(decision, Decision::StepDown(Loss::RenewDeadlinePassed));
    let Decision::Renew { record } = leader.decide(Some(record), at(12.0), WALL) else {
        panic!("the lease still names the candidate")
    };
    assert!(
        !leader.is_leader(at(12.0)),
        "not before the write is accepted"
    );
    leader.written(record, at(12.0), at(12.1));
    assert!(leader.is_leader(at(12.1)));
}

#[test]
fn a_clean_stop_ends_the_term_and_frees_the_lease() {
    let (mut leader, record) = leader();
    let freed = Record {
        holder: String::new(),
        duration_seconds: 1,
        acquired: Some(wall(400)),
        renewed: Some(wall(400)),
        transitions: record.transitions,
    };
    assert_eq!(leader.release(Some(&record), wall(400)), Some(freed));
    assert!(!leader.is_leader(at(0.2)));
}

#[test]
fn a_clean_stop_touches_no_lease_of_others() {
    for seen in [None, Some(held_by("b")), Some(held_by(""))] {
        let (mut leader, _) = leader();
        assert_eq!(leader.release(seen.as_ref(), WALL), None, "{seen:?}");
        assert!(!leader.is_leader(at(0.2)), "{seen:?}");
    }
}
