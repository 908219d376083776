use super::*;

fn rule() -> Rule {
    Rule {
        node_selector: Selector::parse("system=bajor").expect("a selector"),
        pod_selector: Some(Selector::parse("vessel=runabout,class=danube").expect("one")),
        pod_namespace: Some("star-fleet".into()),
        tolerations: vec![
            tolerates("node.kubernetes.io/unschedulable", "Exists", "", ""),
            tolerates("alert", "Equal", "yellow", "NoSchedule"),
        ],
    }
}

fn tolerates(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
    Toleration {
        key: key.into(),
        operator: operator.into(),
        value: value.into(),
        effect: effect.into(),
    }
}

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
    }
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    pairs.iter().map(owned).collect()
}

fn node() -> NodeFacts {
    NodeFacts {
        name: "rio-grande".into(),
        provider_id: "mock://1".into(),
        labels: map(&[("system", "bajor")]),
        ready: true,
        ..NodeFacts::default()
    }
}

fn pod() -> PodFacts {
    PodFacts {
        namespace: "star-fleet".into(),
        labels: map(&[("vessel", "runabout"), ("class", "danube")]),
        node: "rio-grande".into(),
        phase_running: true,
        ready: true,
        deleting: false,
    }
}

/// A node or a pod, changed a little.
fn but<T>(mut it: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut it);
    it
}

#[test]
fn a_node_fits_or_has_the_first_of_its_causes() {
    let cordon = "node.kubernetes.io/unschedulable";
    let unreachable = "node.kubernetes.io/unreachable";
    for (what, node, unfit) in [
        ("as it should be", node(), None),
        (
            "no provider id",
            but(node(), |it| it.provider_id.clear()),
            Some(Unfit::NodeNotReady),
        ),
        (
            "not ready",
            but(node(), |it| it.ready = false),
            Some(Unfit::NodeNotReady),
        ),
        (
            "dead",
            but(node(), |it| it.unreachable = true),
            Some(Unfit::NodeNotReady),
        ),
        (
            "going",
            but(node(), |it| it.deleting = true),
            Some(Unfit::Deleted),
        ),
        (
            "other labels",
            but(node(), |it| it.labels.clear()),
            Some(Unfit::Unlabelled),
        ),
        (
            "a tolerated taint",
            but(node(), |it| it.taints.push(taint(cordon, "", "NoSchedule"))),
            None,
        ),
        (
            "a tolerated taint with a value",
            but(node(), |it| {
                it.taints.push(taint("alert", "yellow", "NoSchedule"));
            }),
            None,
        ),
        (
            "another value",
            but(node(), |it| {
                it.taints.push(taint("alert", "red", "NoSchedule"));
            }),
            Some(Unfit::Tainted),
        ),
        (
            "another effect, and the mildest counts too",
            but(node(), |it| {
                it.taints.push(taint("alert", "yellow", "PreferNoSchedule"));
            }),
            Some(Unfit::Tainted),
        ),
        (
            "Kubernetes' own taint of a silent node",
            but(node(), |it| {
                it.taints.push(taint(unreachable, "", "NoExecute"));
            }),
            Some(Unfit::NodeNotReady),
        ),
        (
            "silent, and cordoned as well",
            but(node(), |it| {
                it.ready = false;
                it.taints.push(taint(unreachable, "", "NoExecute"));
                it.taints.push(taint("maintenance", "", "NoSchedule"));
            }),
            Some(Unfit::Tainted),
        ),
    ] {
        assert_eq!(rule().unfit(&node, [&pod()]), unfit, "{what}");
    }
}

#[test]
fn pods_make_a_node_fit() {
    for (what, pods, unfit) in [
        ("a good one", vec![pod()], None),
        ("none", vec![], Some(Unfit::NoPod)),
        (
            "another namespace",
            vec![but(pod(), |it| it.namespace = "cardassia".into())],
            Some(Unfit::NoPod),
        ),
        (
            "other labels",
            vec![but(pod(), |it| it.labels = map(&[("vessel", "runabout")]))],
            Some(Unfit::NoPod),
        ),
        (
            "on another node",
            vec![but(pod(), |it| it.node = "defiant".into())],
            Some(Unfit::NoPod),
        ),
        (
            "going",
            vec![but(pod(), |it| it.deleting = true)],
            Some(Unfit::NoPod),
        ),
        (
            "not ready",
            vec![but(pod(), |it| it.ready = false)],
            Some(Unfit::PodNotReady),
        ),
        (
            "not running",
            vec![but(pod(), |it| it.phase_running = false)],
            Some(Unfit::PodNotReady),
        ),
        (
            "one is not ready and the other is going",
            vec![
                but(pod(), |it| it.ready = false),
                but(pod(), |it| it.deleting = true),
            ],
            Some(Unfit::PodNotReady),
        ),
        (
            "one of two is good",
            vec![but(pod(), |it| it.ready = false), pod()],
            None,
        ),
    ] {
        assert_eq!(rule().unfit(&node(), &pods), unfit, "{what}");
    }
    let nowhere = but(pod(), |it| it.node.clear());
    assert!(rule().selects_pod(&nowhere) && !rule().qualifies(&nowhere));
}

#[test]
fn an_empty_rule_takes_every_ready_node_and_a_namespace_alone_any_pod_of_it() {
    let rule = Rule::default();
    assert_eq!(rule.unfit(&node(), []), None);
    assert!(!rule.asks_for_pods() && !rule.selects_pod(&pod()));
    let tainted = but(node(), |it| {
        it.taints.push(taint("alert", "", "NoSchedule"));
    });
    assert_eq!(rule.unfit(&tainted, []), Some(Unfit::Tainted));

    let rule = Rule {
        pod_namespace: Some("star-fleet".into()),
        ..Rule::default()
    };
    let plain = but(pod(), |it| it.labels.clear());
    assert_eq!(rule.unfit(&node(), [&plain]), None);
    assert_eq!(rule.unfit(&node(), []), Some(Unfit::NoPod));
}

#[test]
fn tolerations_mean_what_they_mean_to_the_scheduler() {
    let it = taint("alert", "red", "NoSchedule");
    for (toleration, is_tolerated) in [
        (tolerates("alert", "Equal", "red", "NoSchedule"), true),
        (tolerates("alert", "", "red", ""), true),
        (tolerates("alert", "Exists", "", ""), true),
        (tolerates("", "Exists", "", ""), true),
        (tolerates("", "", "red", ""), true),
        (tolerates("alert", "", "", ""), false),
        (tolerates("alert", "Exists", "", "NoExecute"), false),
        (tolerates("other", "Exists", "", ""), false),
        (tolerates("alert", "Like", "red", ""), false),
    ] {
        assert_eq!(toleration.tolerates(&it), is_tolerated, "{toleration:?}");
    }
}
