use super::*;

const NOBODY: [&str; 0] = [];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000 + second).expect("a moment")
}

fn renewed(second: i64) -> Renewal {
    every(10, second)
}

fn every(seconds: u64, second: i64) -> Renewal {
    Renewal {
        at: at(second),
        interval: Duration::from_secs(seconds),
    }
}

/// Nodes with their agents and kubelets last heard at these seconds.
fn nodes(heard: &[(&str, Option<i64>, Option<i64>)]) -> BTreeMap<String, Evidence> {
    let evidence = |(name, agent, kubelet): &(&str, Option<i64>, Option<i64>)| {
        let it = Evidence {
            agent: agent.map(|it| every(1, it)),
            kubelet: kubelet.map(renewed),
        };
        ((*name).to_owned(), it)
    };
    heard.iter().map(evidence).collect()
}

fn judge(nodes: &BTreeMap<String, Evidence>, now: i64) -> Vec<String> {
    judge_beside(nodes, 0, now)
}

fn judge_beside(nodes: &BTreeMap<String, Evidence>, others: usize, now: i64) -> Vec<String> {
    let dead = dead(nodes, others, &Patience::default(), at(now));
    dead.into_iter().collect()
}

#[test]
fn a_silent_agent_and_a_stale_lease_make_a_dead_node() {
    let nodes = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(30), Some(25)),
        ("c", Some(30), Some(25)),
    ]);
    assert_eq!(judge(&nodes, 14), NOBODY);
    assert_eq!(judge(&nodes, 15), ["a"]);
}

#[test]
fn who_renews_more_often_is_missed_sooner_and_who_renews_less_often_later() {
    let patience = |lasts: u64| {
        let lasts = Some(Duration::from_secs(lasts));
        let renewed = None;
        let interval = Written { renewed, lasts }.interval();
        Patience::default().of(interval).as_secs()
    };
    assert_eq!([4, 0, 40, 400].map(patience), [5, 15, 15, 114]);
    assert_eq!(Written::default().interval().as_secs(), 10);
}

#[test]
fn what_agent_and_kubelet_wrote_by_their_clock_tells_how_old_a_lease_is() {
    // That clock is an hour ahead.
    let written = |second: Option<i64>| Written {
        renewed: second.map(|it| at(3600 + it)),
        lasts: None,
    };
    let seen = |kubelet, agent: Option<(i64, Option<i64>)>, now| {
        let agent = agent.map(|(heard, wrote)| (at(heard), written(wrote)));
        renewal(&written(kubelet), agent, at(now)).at
    };
    // The kubelet has renewed 4 s before the agent that was heard at 9.
    assert_eq!(seen(Some(4), Some((9, Some(8))), 11), at(5));
    // And after it.
    assert_eq!(seen(Some(9), Some((9, Some(8))), 11), at(10));
    // More than a usual interval ago, or in the future, is not believed.
    assert_eq!(seen(Some(-50), Some((9, Some(8))), 11), at(1));
    assert_eq!(seen(Some(90), Some((9, Some(8))), 11), at(11));
    // Who does not write it is looked at from now on.
    for (kubelet, agent) in [
        (None, Some((9, Some(8)))),
        (Some(4), Some((9, None))),
        (Some(4), None),
    ] {
        assert_eq!(seen(kubelet, agent, 11), at(11));
    }
}

#[test]
fn a_rolling_restart_of_agents_moves_nothing() {
    // Kubelets go on renewing.
    let mut all = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(0), Some(0)),
        ("c", Some(0), Some(0)),
    ]);
    let names = ["a", "b", "c"];
    for second in 0..90 {
        let restarting = names[usize::try_from(second / 30).expect("small")];
        for (name, it) in &mut all {
            if name != restarting {
                it.agent = Some(every(1, second));
            }
            if second % 10 == 0 {
                it.kubelet = Some(renewed(second));
            }
        }
        assert_eq!(judge(&all, second), NOBODY, "second {second}");
    }
}

#[test]
fn one_witness_is_none_and_without_agents_there_is_no_verdict() {
    let stale = nodes(&[("a", Some(100), Some(0)), ("b", Some(100), Some(100))]);
    assert_eq!(judge(&stale, 100), NOBODY, "its agent is heard");
    let silent = nodes(&[("a", Some(0), None), ("b", Some(100), Some(100))]);
    assert_eq!(judge(&silent, 100), NOBODY, "nobody else says so");
    let without = nodes(&[("a", None, Some(0)), ("b", Some(100), Some(100))]);
    assert_eq!(
        judge(&without, 100),
        NOBODY,
        "there is no agent, or it has said goodbye"
    );
}

#[test]
fn when_most_are_silent_it_is_the_observer_who_hears_nothing() {
    let half = nodes(&[("a", Some(0), Some(0)), ("b", Some(100), Some(100))]);
    assert_eq!(judge(&half, 100).len(), 1);
    let most = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(0), Some(0)),
        ("c", Some(100), Some(100)),
    ]);
    assert_eq!(judge(&most, 100), NOBODY);
}

#[test]
fn an_agent_that_speaks_seldom_is_missed_as_late_as_a_kubelet() {
    let mut nodes = nodes(&[("a", None, Some(0)), ("b", Some(30), Some(25))]);
    nodes.get_mut("a").expect("it is there").agent = Some(renewed(3));
    assert_eq!(judge(&nodes, 17), NOBODY, "its agent may be about to renew");
    assert_eq!(judge(&nodes, 18), ["a"]);
}

#[test]
fn a_node_that_alone_has_an_agent_is_dead_only_beside_others_that_live() {
    let alone = nodes(&[("a", Some(0), Some(0))]);
    assert_eq!(judge_beside(&alone, 0, 100), NOBODY);
    assert_eq!(judge_beside(&alone, 1, 100), ["a"]);
    let three = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(0), Some(0)),
        ("c", Some(0), Some(0)),
    ]);
    assert_eq!(judge_beside(&three, 2, 100), NOBODY);
    assert_eq!(judge_beside(&three, 3, 100).len(), 3);
}
