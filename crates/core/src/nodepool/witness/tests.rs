use super::*;

const NOBODY: [&str; 0] = [];

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000 + second).expect("a moment")
}

/// Nodes with their agents and kubelets last heard at these seconds.
fn nodes(heard: &[(&str, Option<i64>, Option<i64>)]) -> BTreeMap<String, Evidence> {
    let evidence = |(name, agent, kubelet): &(&str, Option<i64>, Option<i64>)| {
        let it = Evidence {
            agent: agent.map(at),
            kubelet: kubelet.map(at),
        };
        ((*name).to_owned(), it)
    };
    heard.iter().map(evidence).collect()
}

fn judge(nodes: &BTreeMap<String, Evidence>, now: i64) -> Vec<String> {
    dead(nodes, &Patience::default(), at(now))
        .into_iter()
        .collect()
}

#[test]
fn a_silent_agent_and_a_stale_lease_make_a_dead_node() {
    let nodes = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(30), Some(25)),
        ("c", Some(30), Some(25)),
    ]);
    assert_eq!(judge(&nodes, 21), NOBODY);
    assert_eq!(judge(&nodes, 22), ["a"]);
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
                it.agent = Some(at(second));
            }
            if second % 10 == 0 {
                it.kubelet = Some(at(second));
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
