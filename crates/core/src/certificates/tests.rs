use super::*;

fn at(days: i64) -> Timestamp {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    start + SignedDuration::from_hours(24 * days)
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// What was made on these days.
fn held(authority: i64, certificate: i64) -> Held {
    let authority = Validity::starting(at(authority), AUTHORITY_LIFE);
    Held {
        certificate: signed_now(authority, at(certificate)),
        authority,
        names: names(&["a", "b"]),
    }
}

fn issue(held: Option<&Held>, wanted: &[&str], now: Timestamp) -> Issue {
    match decide(held, &names(wanted), now) {
        Decision::Issue(issue) => issue,
        Decision::Keep { until } => panic!("kept until {until}"),
    }
}

#[test]
fn the_first_certificate_needs_an_authority() {
    let issue = issue(None, &["a"], at(0));
    assert_eq!((issue.why, issue.signer), (Why::Missing, Signer::New));
    assert!(!issue.successor);
    assert_eq!(issue.names, names(&["a"]));
}

#[test]
fn a_young_certificate_stays_until_two_thirds_of_its_life_are_over() {
    let held = held(0, 0);
    let wanted = names(&["a", "b"]);
    let Decision::Keep { until } = decide(Some(&held), &wanted, at(1)) else {
        panic!("it is a day old");
    };
    assert_eq!(until.duration_since(at(243)).as_hours(), 7);
    let before = until - SignedDuration::from_secs(1);
    assert_eq!(
        decide(Some(&held), &wanted, before),
        Decision::Keep { until }
    );
    let issue = issue(Some(&held), &["a", "b"], until);
    assert_eq!((issue.why, issue.signer), (Why::Ageing, Signer::Present));
    assert!(!issue.successor);
}

#[test]
fn a_missing_name_is_added_and_those_of_other_replicas_stay() {
    let mut held = held(0, 0);
    let issue = issue(Some(&held), &["a", "c"], at(1));
    assert_eq!(issue.why, Why::NamesMissing);
    assert_eq!(issue.names, names(&["a", "b", "c"]));
    // So both are content with it, and neither writes again.
    held.names = issue.names;
    for wanted in [names(&["a", "c"]), names(&["a", "b"])] {
        assert!(matches!(
            decide(Some(&held), &wanted, at(1)),
            Decision::Keep { .. }
        ));
    }
}

#[test]
fn names_that_nobody_wants_go_with_the_next_certificate() {
    let issue = issue(Some(&held(0, 0)), &["a"], at(300));
    assert_eq!(issue.names, names(&["a"]));
}

#[test]
fn an_authority_that_has_ended_is_replaced_at_once() {
    let issue = issue(Some(&held(0, 3_600)), &["a"], at(3_650));
    assert_eq!(
        (issue.why, issue.signer),
        (Why::AuthorityEnded, Signer::New)
    );
}

#[test]
fn a_certificate_never_outlives_its_authority() {
    let authority = Validity::starting(at(0), AUTHORITY_LIFE);
    let certificate = signed_now(authority, at(3_649));
    assert_eq!(certificate.end, authority.end);
    assert!(certificate.is_over(authority.end));
}

/// Runs for forty years, looking every day: each client that reads the
/// authorities every eight months trusts every certificate at all times.
#[test]
fn clients_that_look_now_and_then_trust_every_certificate() {
    let wanted = names(&["a"]);
    // Authorities by the day on which they were made; the newest signs.
    let mut authorities = vec![0];
    let (mut signer, mut held) = (0, held(0, 0));
    held.names = wanted.clone();
    let (mut trusted, mut looked) = (authorities.clone(), 0);
    let mut changes = 0;
    for day in 0..40 * 365 {
        let now = at(day);
        if let Decision::Issue(issue) = decide(Some(&held), &wanted, now) {
            assert_eq!(issue.signer, Signer::Present, "day {day}");
            changes += 1;
            signer = *authorities.last().unwrap();
            held.certificate = signed_now(held.authority, now);
            // It has its full life.
            assert_eq!(held.certificate.end, now + LIFE, "day {day}");
            if issue.successor {
                authorities.push(day);
                held.authority = Validity::starting(now, AUTHORITY_LIFE);
            }
        }
        authorities.retain(|made| !Validity::starting(at(*made), AUTHORITY_LIFE).is_over(now));
        assert!(!held.certificate.is_over(now), "day {day}");
        assert!(authorities.contains(&signer), "day {day}");
        assert!(authorities.len() <= 2, "day {day}");
        if day - looked >= 240 {
            (trusted, looked) = (authorities.clone(), day);
        }
        assert!(trusted.contains(&signer), "day {day}");
    }
    assert!((55..65).contains(&changes), "{changes}");
}

#[test]
fn what_a_clock_that_was_ahead_has_made_is_made_anew() {
    // Within what certificates begin early, clocks may differ.
    let hour = SignedDuration::from_hours(1);
    let wanted = names(&["a"]);
    assert!(matches!(
        decide(Some(&held(0, 10)), &wanted, at(10) - hour),
        Decision::Keep { .. }
    ));
    let made = issue(Some(&held(0, 100)), &["a"], at(10));
    assert_eq!((made.why, made.signer), (Why::NotBegun, Signer::Present));
    assert_eq!(made.names, names(&["a", "b"]));
    // Nobody trusts what such an authority signs.
    let made = issue(Some(&held(100, 100)), &["a"], at(10));
    assert_eq!((made.why, made.signer), (Why::NotBegun, Signer::New));
    assert_eq!(made.why.reason(), "CertificateNotBegun");
}
