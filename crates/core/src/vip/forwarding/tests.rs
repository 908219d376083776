use super::*;

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// Requests that have entered and left, and replies.
fn counted(requests: (u64, u64), replies: (u64, u64)) -> Counts {
    let passage = |(entered, left)| Passage { entered, left };
    Counts {
        requests: passage(requests),
        replies: passage(replies),
    }
}

/// What each of several looks finds for one address.
fn looks(all: &[Counts]) -> Vec<bool> {
    let mut detector = Detector::default();
    let look = |counts: &Counts| {
        let look = detector.look([(ip("10.9.0.1"), *counts)].into());
        !look.stuck.is_empty()
    };
    all.iter().map(look).collect()
}

#[test]
fn packets_that_enter_twice_and_never_leave_are_found() {
    let stuck = [
        counted((3, 0), (0, 0)),
        counted((4, 0), (0, 0)),
        // No packet at all says nothing new.
        counted((4, 0), (0, 0)),
        counted((5, 1), (1, 1)),
    ];
    assert_eq!(looks(&stuck), [false, true, true, false]);
}

#[test]
fn replies_that_do_not_leave_are_found_as_well() {
    let stuck = [
        counted((3, 3), (3, 0)),
        counted((6, 6), (6, 0)),
        counted((9, 9), (9, 3)),
    ];
    assert_eq!(looks(&stuck), [false, true, false]);
}

#[test]
fn a_packet_that_is_still_on_its_way_is_no_fault() {
    let healthy = [
        counted((1, 0), (0, 0)),
        counted((2, 2), (2, 1)),
        counted((3, 2), (2, 2)),
        counted((4, 4), (4, 4)),
    ];
    assert_eq!(looks(&healthy), [false; 4]);
}

#[test]
fn a_pod_that_does_not_answer_is_no_fault_of_the_node() {
    let silent = [counted((3, 3), (0, 0)), counted((6, 6), (0, 0))];
    assert_eq!(looks(&silent), [false; 2]);
}

#[test]
fn an_address_that_is_not_counted_any_more_is_forgotten() {
    let mut detector = Detector::default();
    let one = |entered| [(ip("10.9.0.1"), counted((entered, 0), (0, 0)))].into();
    detector.look(one(1));
    assert!(!detector.look(one(2)).stuck.is_empty());
    assert!(detector.look(BTreeMap::new()).stuck.is_empty());
    assert!(detector.look(one(1)).stuck.is_empty());
}

#[test]
fn counting_from_zero_keeps_what_was_found() {
    let mut detector = Detector::default();
    let one = |entered| [(ip("10.9.0.1"), counted((entered, 0), (0, 0)))].into();
    detector.look(one(7));
    detector.restart();
    assert!(!detector.look(one(1)).stuck.is_empty());
}

#[test]
fn what_passes_is_told_apart_from_silence() {
    let mut detector = Detector::default();
    let one = |requests| [(ip("10.9.0.1"), counted(requests, (0, 0)))].into();
    let passing = |look: Look| look.passing.len();
    assert_eq!(passing(detector.look(one((2, 2)))), 1);
    assert_eq!(passing(detector.look(one((2, 2)))), 0);
    assert_eq!(passing(detector.look(one((3, 2)))), 0);
}

#[test]
fn single_packets_hours_apart_do_not_add_up() {
    let mut all = vec![counted((1, 0), (0, 0)); 1 + IDLE as usize];
    all.push(counted((2, 0), (0, 0)));
    assert!(looks(&all).iter().all(|it| !it));
    all.push(counted((3, 0), (0, 0)));
    assert_eq!(looks(&all).last(), Some(&true));
}

#[test]
fn an_address_is_not_passed_on_from_one_bad_node_to_the_next() {
    let soon = VERDICT.mul_f64(0.99);
    assert!(may_hand_over(None));
    assert!(may_hand_over(Some(("FirstHolder", soon))));
    assert!(!may_hand_over(Some(("CannotServe", soon))));
    assert!(may_hand_over(Some(("CannotServe", VERDICT))));
}

#[test]
fn only_what_is_forwarded_is_counted() {
    let mut rules = NodeRules::default();
    rules.add_uplink("eth0").unwrap();
    assert_eq!(script(&rules), None);
    rules.hold(ip("10.9.0.3"), ip("10.9.0.250"), "lo").unwrap();
    rules.send_away(ip("10.9.0.2"), ip("10.244.2.7")).unwrap();
    assert_eq!(script(&rules), None, "neither is forwarded here");
    rules
        .hold(ip("10.9.0.1"), ip("10.244.1.5"), "cni0")
        .unwrap();
    rules
        .hold(ip("fd00:9::1"), ip("fd00:244::5"), "cni0")
        .unwrap();
    let script = script(&rules).unwrap();
    assert_eq!(script, include_str!("golden/counters.nft"));
}

#[test]
fn what_the_kernel_has_counted_is_read() {
    let counts = counts(include_str!("golden/listing.txt"));
    let expected = [
        (ip("10.9.0.1"), counted((12, 9), (8, 7))),
        (ip("10.9.0.2"), counted((0, 0), (0, 0))),
        (ip("fd00:9::1"), counted((3, 0), (0, 0))),
    ];
    assert_eq!(counts, expected.into());
    assert!(super::counts("").is_empty());
}

#[test]
fn chains_of_others_are_found_with_their_policy() {
    let chains = forward_chains(
        "table ip filter {\n\
         \tchain INPUT {\n\t\ttype filter hook input priority filter; policy accept;\n\t}\n\
         \tchain FORWARD {\n\t\ttype filter hook forward priority filter; policy drop;\n\t}\n\
         \tchain KUBE-FORWARD {\n\t}\n\
         }\n\
         table inet floe-vip {\n\
         \tchain forwarded {\n\t\ttype filter hook forward priority -10; policy accept;\n\t}\n\
         }\n\
         table inet firewalld {\n\
         \tchain filter_FORWARD {\n\t\ttype filter hook forward priority filter + 10; policy accept;\n\t}\n\
         }\n",
    );
    let found: Vec<_> = chains
        .iter()
        .map(|it| (it.name.as_str(), it.sees_v4, it.sees_v6, it.drops_by_policy))
        .collect();
    let expected = [
        ("ip filter FORWARD", true, false, true),
        ("inet firewalld filter_FORWARD", true, true, false),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_last_rule_that_stops_everything_is_found() {
    let chain = |rules: &str| {
        format!(
            "table inet fw {{\n\tchain forwarded {{\n\
             \t\ttype filter hook forward priority filter + 10; policy accept;\n{rules}\t}}\n}}\n"
        )
    };
    for (rules, stops) in [
        ("", false),
        ("\t\tct state established accept\n", false),
        ("\t\tct state established accept\n\t\tdrop\n", true),
        ("\t\tcounter packets 3 bytes 252 drop\n", true),
        ("\t\treject with icmpx admin-prohibited\n", true),
        ("\t\tip saddr 10.0.0.1 drop\n", false),
        ("\t\tcounter packets 3 bytes 252\n", false),
        ("\t\tcounter drop\n", true),
    ] {
        assert_eq!(ends_with_drop(&chain(rules)), stops, "{rules}");
    }
}

/// A look that has found one address stuck or passing.
fn found(stuck: bool, passing: bool) -> Look {
    let one = |is: bool| is.then(|| ip("10.9.0.1")).into_iter().collect();
    Look {
        stuck: one(stuck),
        passing: one(passing),
    }
}

fn at(seconds: u64) -> Moment {
    Moment(Duration::from_secs(seconds))
}

/// Whether there is a verdict after a look, where an obstacle is there or not.
fn judged(verdicts: &mut Verdicts, look: &Look, is_closed: bool, seconds: u64) -> bool {
    verdicts.expire(at(seconds));
    let suspects = verdicts.suspects(look);
    let obstacle = |ip| (ip, Obstacle::Policy("ip filter FORWARD".into()));
    let obstacles = suspects.into_iter().filter(|_| is_closed).map(obstacle);
    verdicts.found(look, obstacles.collect(), at(seconds));
    verdicts.obstacle(ip("10.9.0.1")).is_some()
}

#[test]
fn packets_that_are_dropped_without_an_obstacle_are_the_matter_of_a_policy() {
    let mut verdicts = Verdicts::default();
    assert!(!judged(&mut verdicts, &found(true, false), false, 1));
    assert!(!judged(&mut verdicts, &found(false, false), true, 2));
}

#[test]
fn a_verdict_outlasts_the_holding_until_the_firewall_is_opened_a_packet_passes_or_time_is_over() {
    let closed = || {
        let mut verdicts = Verdicts::default();
        assert!(judged(&mut verdicts, &found(true, false), true, 1));
        // The address has moved: nothing is counted any more.
        assert!(judged(&mut verdicts, &found(false, false), true, 300));
        verdicts
    };
    assert!(!judged(&mut closed(), &found(false, false), false, 301));
    assert!(!judged(&mut closed(), &found(false, true), true, 301));
    assert!(judged(&mut closed(), &found(false, false), true, 600));
    assert!(!judged(&mut closed(), &found(false, false), true, 601));
    // Also while no look succeeds.
    let mut verdicts = closed();
    verdicts.expire(at(601));
    assert_eq!(verdicts.obstacle(ip("10.9.0.1")), None);
    // New evidence counts anew.
    let mut verdicts = closed();
    assert!(judged(&mut verdicts, &found(true, false), true, 400));
    assert!(judged(&mut verdicts, &found(false, false), true, 999));
}
