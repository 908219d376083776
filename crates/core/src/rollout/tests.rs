use jiff::Timestamp;

use super::{
    strategy::{Amount, InvalidRollout, Strategy, outage_ahead, owned},
    *,
};

mod model;
mod trials;

const HOLDS: Address = Address::Holds { useful: true };
const USELESS: Address = Address::Holds { useful: false };

/// Pods by one word each: `a1` is an available one of revision 1 with an address, `u`
/// one that is not available, `l` one that leaves, `w` one that waits for an address,
/// `x` one that is available with an address that helps nobody, `n` one that has none.
/// The earlier it stands there, the longer it has been there.
fn picture(replicas: u32, newest: u64, pods: &str) -> Picture {
    let member = |(age, word): (usize, &str)| {
        let (health, address) = match word.as_bytes()[0] {
            b'a' => (Health::Available, HOLDS),
            b'x' => (Health::Available, USELESS),
            b'u' => (Health::Unavailable, HOLDS),
            b'y' => (Health::Unavailable, USELESS),
            b'l' => (Health::Leaving, HOLDS),
            b'w' => (Health::Unavailable, Address::Lacks),
            b'n' => (Health::Available, Address::None),
            _ => panic!("{word}"),
        };
        Member {
            name: format!("{word}.{age}"),
            uid: format!("uid-{age}"),
            revision: word[1..].parse().unwrap(),
            created: Timestamp::from_second(i64::try_from(age).unwrap()).unwrap(),
            health,
            address,
        }
    };
    Picture {
        handling: Handling::Handover,
        rolling: true,
        paused: false,
        replicas,
        allowance: 0,
        newest,
        pods: pods.split_whitespace().enumerate().map(member).collect(),
    }
}

/// Who goes, or the reason why nobody does.
fn told(picture: &Picture) -> String {
    match decide(picture) {
        Step::Nothing => "nothing".into(),
        Step::Evict(it) => {
            let outage = if it.outage { " outage" } else { "" };
            format!("{} for {}{outage}", it.name, it.heir.name)
        }
        Step::Wait { why, .. } => why.reason().into(),
    }
}

#[test]
fn one_old_pod_goes_for_one_new_pod() {
    for (replicas, pods, expected) in [
        // Nobody waits, or not for an address.
        (3, "a1 a1 a1", "nothing"),
        (3, "a1 a1 a1 u2", "nothing"),
        (0, "", "nothing"),
        // The deadlock of small Deployments.
        (1, "a1 w2", "a1.0 for w2.1 outage"),
        (2, "a1 a1 w2", "a1.1 for w2.2"),
        (3, "a1 a1 a1 w2", "a1.2 for w2.3"),
        // The replacement of the old one waits too, and is not asked.
        (3, "a1 a1 a2 w1 w2", "a1.1 for w2.4"),
        // The one that waits for longest is told of.
        (2, "a1 a1 w2 w2", "a1.1 for w2.2"),
        // It is no update when only the newest revision has pods.
        (3, "a2 a2 w2", "nothing"),
        (3, "a1 a1 w1", "nothing"),
    ] {
        let newest = if pods.contains('2') { 2 } else { 1 };
        let picture = picture(replicas, newest, pods);
        assert_eq!(told(&picture), expected, "{replicas}: {pods}");
    }
}

#[test]
fn unavailable_pods_go_first_and_whatever_the_others_are_like() {
    for (pods, expected) in [
        ("a1 u1 a1 w2", "u1.1 for w2.3"),
        ("u1 u1 u1 w2", "u1.2 for w2.3"),
        // A broken version between two others; the oldest revision goes first.
        ("a1 a1 u2 w3", "u2.2 for w3.3"),
        ("u1 u2 u2 w3", "u1.0 for w3.3"),
        // Back to the first version: its revision is the newest then.
        ("a3 a3 u2 w3", "u2.2 for w3.3"),
        ("u2 w3", "u2.0 for w3.1"),
    ] {
        let newest = if pods.contains('3') { 3 } else { 2 };
        assert_eq!(told(&picture(3, newest, pods)), expected, "{pods}");
    }
}

#[test]
fn an_available_pod_goes_only_if_all_replicas_are_available_and_it_helps() {
    for (replicas, pods, expected) in [
        (3, "a1 a1 w2", "RolloutTooFewAvailable"),
        (4, "a1 a1 a1 w2", "RolloutTooFewAvailable"),
        // Available ones of the new version count, and those without an address.
        (3, "a1 a2 a2 w2", "a1.0 for w2.3"),
        (3, "a1 n1 n1 w2", "a1.0 for w2.3"),
        (2, "x1 x1 w2", "RolloutAddressNotUsable"),
        (2, "a1 x1 w2", "a1.0 for w2.2"),
        (2, "x1 y1 w2", "RolloutAddressNotUsable"),
        (2, "n1 n1 w2", "RolloutNothingToHandOver"),
        // One at a time.
        (3, "a1 a1 l1 w2", "RolloutPodLeaving"),
        (3, "u1 u1 l1 w2", "RolloutPodLeaving"),
        (2, "a1 a1 l2 w2", "RolloutPodLeaving"),
        // The new version has to show that it works.
        (2, "a1 a1 u2 w2", "RolloutNewPodNotAvailable"),
        (2, "u1 u1 u2 w2", "RolloutNewPodNotAvailable"),
    ] {
        assert_eq!(
            told(&picture(replicas, 2, pods)),
            expected,
            "{replicas}: {pods}"
        );
    }
}

#[test]
fn who_does_not_want_to_be_helped_is_told_why_it_waits() {
    let deadlock = picture(1, 2, "a1 w2");
    let with = |handling, paused, rolling| {
        let picture = Picture {
            handling,
            rolling,
            paused,
            ..deadlock.clone()
        };
        told(&picture)
    };
    let (asked, implied) = (
        Handling::Wait { written: true },
        Handling::Wait { written: false },
    );
    assert_eq!(with(Handling::Handover, true, true), "RolloutPaused");
    assert_eq!(with(asked, false, true), "RolloutWaits");
    assert_eq!(with(implied, false, true), "RolloutMaxUnavailableZero");
    assert_eq!(with(Handling::Surge, false, true), "RolloutSurgeExhausted");
    assert_eq!(with(Handling::Handover, false, false), "nothing");
}

#[test]
fn who_lets_pods_be_missing_takes_available_ones_away_itself() {
    let with = |pods| {
        let picture = Picture {
            allowance: 1,
            ..picture(3, 2, pods)
        };
        told(&picture)
    };
    assert_eq!(with("a1 a1 a1 w2"), "RolloutOwnPace");
    assert_eq!(with("a1 a1 u1 w2"), "u1.2 for w2.3");
}

#[test]
fn only_what_ends_by_itself_is_passing() {
    // The last one: an old pod has left its address behind, and is still listed.
    let passing = ["a1 a1 w2", "a1 a1 l1 w2", "a1 a1 u2 w2", "n1 n1 w2"];
    let lasting = ["x1 x1 w2"];
    let is_passing = |pods| {
        let Step::Wait { why, .. } = decide(&picture(3, 2, pods)) else {
            panic!("{pods}: somebody goes");
        };
        why.is_passing()
    };
    assert!(passing.into_iter().all(is_passing));
    assert!(!lasting.into_iter().any(is_passing));
}

#[test]
fn a_version_that_has_not_shown_that_it_works_goes_behind_the_others() {
    assert!(precedence(2, None) > precedence(1, None));
    assert!(precedence(2, Some(2)) < precedence(1, Some(2)));
    assert!(precedence(3, Some(2)) > precedence(1, Some(2)));
}

#[test]
fn the_annotation_counts_and_a_written_zero_without_it() {
    let zero = |amount| Strategy::rolling(Some(amount), None);
    let plain = Strategy::default();
    for (annotation, strategy, expected) in [
        (None, plain, Ok(Handling::Handover)),
        (None, Strategy::Recreate, Ok(Handling::Handover)),
        (
            None,
            zero(Amount::Pods(0)),
            Ok(Handling::Wait { written: false }),
        ),
        (
            None,
            zero(Amount::Percent(0)),
            Ok(Handling::Wait { written: false }),
        ),
        // Few replicas make nothing of it, but it is not written.
        (None, zero(Amount::Percent(1)), Ok(Handling::Handover)),
        (
            Some("handover"),
            zero(Amount::Pods(0)),
            Ok(Handling::Handover),
        ),
        (Some("surge"), plain, Ok(Handling::Surge)),
        (Some("wait"), plain, Ok(Handling::Wait { written: true })),
        (Some(""), plain, Err("")),
        (Some("Handover"), plain, Err("Handover")),
    ] {
        let expected = expected.map_err(|text: &str| InvalidRollout { text: text.into() });
        assert_eq!(Handling::of(annotation, strategy), expected);
    }
    let long = "é".repeat(5000);
    let error = Handling::of(Some(&long), plain).unwrap_err();
    assert_eq!(error.text.chars().count(), 60);
}

#[test]
fn amounts_are_rounded_as_the_deployment_controller_does() {
    let percent = |text: &str| text.parse::<Amount>().unwrap();
    let strategy = Strategy::rolling(Some(percent("25%")), Some(percent("25%")));
    for (replicas, unavailable, surge) in [(1, 0, 1), (2, 0, 1), (3, 0, 1), (4, 1, 1), (10, 2, 3)] {
        assert_eq!(strategy.unavailable(replicas), unavailable, "{replicas}");
        assert_eq!(strategy.surge(replicas), surge, "{replicas}");
    }
    let none = Strategy::rolling(Some(Amount::Pods(0)), Some(Amount::Pods(0)));
    assert_eq!((none.unavailable(3), none.surge(3)), (1, 0));
    let tiny = Strategy::rolling(Some(percent("1%")), Some(Amount::Pods(0)));
    assert_eq!((tiny.unavailable(3), tiny.surge(3)), (1, 0));
    let all = Strategy::rolling(Some(percent("400%")), Some(percent("100%")));
    assert_eq!((all.unavailable(3), all.surge(3)), (3, 3));
    assert_eq!(Strategy::Recreate.surge(3), 0);
    assert_eq!(strategy.surge(0), 0);
    for text in ["", "%", "3", "+3%", "-1%", "3 %", "a%", "99999999999%"] {
        assert!(text.parse::<Amount>().is_err(), "{text}");
    }
}

#[test]
fn surge_owns_addresses_for_the_pods_beside_the_replicas() {
    let strategy = Strategy::default();
    assert_eq!(owned(3, Handling::Surge, strategy), 4);
    assert_eq!(owned(10, Handling::Surge, strategy), 13);
    assert_eq!(owned(0, Handling::Surge, strategy), 0);
    assert_eq!(owned(3, Handling::Surge, Strategy::Recreate), 3);
    assert_eq!(owned(3, Handling::Handover, strategy), 3);
    let most = Strategy::rolling(None, Some(Amount::Pods(9)));
    assert_eq!(owned(u32::MAX, Handling::Surge, most), u32::MAX);
}

#[test]
fn an_outage_is_foretold_to_single_replicas_that_keep_their_address() {
    let rolling = Strategy::default();
    let told = |replicas, handling, strategy, keeps| {
        outage_ahead(replicas, handling, strategy, keeps).is_some()
    };
    assert!(told(1, Handling::Handover, rolling, true));
    assert!(!told(1, Handling::Handover, rolling, false));
    assert!(!told(2, Handling::Handover, rolling, true));
    assert!(!told(1, Handling::Surge, rolling, true));
    assert!(!told(1, Handling::Handover, Strategy::Recreate, true));
    let one = Strategy::rolling(Some(Amount::Pods(1)), None);
    assert!(
        !told(1, Handling::Handover, one, true),
        "who wrote that it may be missing knows"
    );
}
