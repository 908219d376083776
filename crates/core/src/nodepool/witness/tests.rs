use super::*;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_000 + second).expect("a moment")
}

/// Nodes with their agents and kubelets last heard at these seconds.
fn nodes(heard: &[(&str, Option<i64>, Option<i64>)]) -> BTreeMap<String, Evidence> {
    let evidence = |(name, agent, kubelet): &(&str, Option<i64>, Option<i64>)| {
        let it = Evidence {
            agent: agent.map(at),
            kubelet: kubelet.map(at),
            unreached: BTreeMap::new(),
        };
        ((*name).to_owned(), it)
    };
    heard.iter().map(evidence).collect()
}

fn judge(nodes: &BTreeMap<String, Evidence>, now: i64) -> Vec<(String, Witness)> {
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
    assert_eq!(judge(&nodes, 21), []);
    assert_eq!(judge(&nodes, 22), [("a".to_owned(), Witness::Kubelet)]);
}

#[test]
fn another_agent_is_a_quicker_witness_if_it_is_heard_itself() {
    let mut nodes = nodes(&[
        ("a", Some(0), Some(0)),
        ("b", Some(6), Some(0)),
        ("c", Some(0), Some(5)),
        ("d", Some(6), Some(0)),
    ]);
    let mut report = |by: &str, since: i64| {
        let node = nodes.get_mut("a").expect("it is there");
        node.unreached = BTreeMap::from([(by.to_owned(), at(since))]);
        judge(&nodes, 6)
    };
    assert_eq!(
        report("b", 3),
        [("a".to_owned(), Witness::Agent("b".into()))]
    );
    assert_eq!(report("b", 4), [], "not for long enough");
    assert_eq!(report("c", 1), [], "the witness is silent itself");
    assert_eq!(report("x", 1), [], "nobody knows the witness");
}

#[test]
fn a_rolling_restart_of_agents_moves_nothing() {
    // Kubelets go on renewing, and the nodes can be reached.
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
        assert_eq!(judge(&all, second), [], "second {second}");
    }
}

#[test]
fn one_witness_is_none_and_without_agents_there_is_no_verdict() {
    let stale = nodes(&[("a", Some(100), Some(0)), ("b", Some(100), Some(100))]);
    assert_eq!(judge(&stale, 100), [], "its agent is heard");
    let silent = nodes(&[("a", Some(0), None), ("b", Some(100), Some(100))]);
    assert_eq!(judge(&silent, 100), [], "nobody else says so");
    let without = nodes(&[("a", None, Some(0)), ("b", Some(100), Some(100))]);
    assert_eq!(
        judge(&without, 100),
        [],
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
    assert_eq!(judge(&most, 100), []);
}

#[test]
fn the_next_look_is_when_a_silence_begins_to_mean_something() {
    let mut nodes = nodes(&[("a", Some(0), Some(0)), ("b", None, Some(1))]);
    let wake = |nodes: &BTreeMap<String, Evidence>, now| wake(nodes, &Patience::default(), at(now));
    assert_eq!(wake(&nodes, 0), Some(at(5)));
    assert_eq!(wake(&nodes, 5), Some(at(22)));
    assert_eq!(wake(&nodes, 22), None);
    let node = nodes.get_mut("a").expect("it is there");
    node.unreached.insert("b".into(), at(9));
    assert_eq!(wake(&nodes, 5), Some(at(12)));
}
