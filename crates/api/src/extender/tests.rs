//! The bodies have the shape of those that a kube-scheduler 1.34 was seen to
//! send, with fewer members in pods and nodes.

use std::{borrow::Cow, net::IpAddr};

use floe_core::schedule::refusal::NodeRefusal;
use serde_json::{Value, json};

use super::*;

const NAMES: &str = include_str!("tests/filter.node-names.json");
const OBJECTS: &str = include_str!("tests/filter.full-nodes.json");

/// The body as an old scheduler would send it.
fn old_casing(body: &str) -> String {
    let body = body.replace(r#""Pod":"#, r#""pod":"#);
    let body = body.replace(r#""Nodes":"#, r#""nodes":"#);
    body.replace(r#""NodeNames":"#, r#""nodenames":"#)
}

fn offer(body: &str) -> Offer<'_> {
    parse(body.as_bytes()).unwrap()
}

fn names<'a>(offer: &'a Offer<'_>) -> Vec<&'a str> {
    offer.nodes.names().collect()
}

fn error<'a, T: Deserialize<'a> + std::fmt::Debug>(body: &'a str) -> String {
    parse::<T>(body.as_bytes()).unwrap_err().to_string()
}

#[test]
fn names_of_nodes_come_in_both_casings() {
    for body in [
        NAMES.to_owned(),
        old_casing(NAMES),
        NAMES.replace("NodeNames", "nODEnAMES"),
    ] {
        let offer = offer(&body);
        assert_eq!(offer.pod.namespace, "t");
        assert_eq!(offer.pod.name, "load-qrnfx");
        assert_eq!(offer.pod.uid, "f19c0005-6ff7-47c7-af5d-5e7e98e1104a");
        assert!(matches!(offer.nodes, Nodes::Names(_)));
        assert_eq!(names(&offer), ["fake2", "fake3", "fake4", "fake5", "fake1"]);
        assert_eq!(offer.nodes.len(), 5);
    }
}

#[test]
fn objects_of_nodes_come_in_both_casings() {
    for body in [OBJECTS.to_owned(), old_casing(OBJECTS)] {
        let offer = offer(&body);
        assert_eq!(offer.pod.name, "e-nocache");
        assert_eq!(names(&offer), ["node1", "node2", "node3", "node4"]);
        let Nodes::Objects(nodes) = &offer.nodes else {
            panic!("{:?}", offer.nodes);
        };
        let ips: Vec<Vec<String>> = nodes
            .iter()
            .map(|node| node.internal_ips.iter().map(ToString::to_string).collect())
            .collect();
        assert_eq!(
            ips,
            [
                vec!["10.200.0.11", "fd00::11"],
                vec!["10.200.0.12"],
                vec![],
                vec![]
            ]
        );
    }
}

#[test]
fn a_scheduler_of_old_leaves_out_what_it_does_not_use() {
    let only_names = r#"{"pod":{"metadata":{"name":"p"}},"nodenames":["a"]}"#;
    assert_eq!(names(&offer(only_names)), ["a"]);
    let only_nodes =
        r#"{"pod":{"metadata":{"name":"p"}},"nodes":{"items":[{"metadata":{"name":"a"}}]}}"#;
    assert_eq!(names(&offer(only_nodes)), ["a"]);
    for empty in [
        r#"{"pod":{"metadata":{"name":"p"}}}"#,
        r#"{"pod":{"metadata":{"name":"p"}},"nodes":{"metadata":{},"items":null}}"#,
        r#"{"pod":{"metadata":{"name":"p"}},"nodes":{}}"#,
    ] {
        assert!(offer(empty).nodes.is_empty(), "{empty}");
    }
}

#[test]
fn objects_win_over_names() {
    let both = r#"{"Pod":{"metadata":{"name":"p"}},"NodeNames":["b"],"Nodes":{"items":[{"metadata":{"name":"a"}}]}}"#;
    assert_eq!(names(&offer(both)), ["a"]);
}

/// Five thousand names must not become five thousand allocations.
#[test]
fn names_are_borrowed_from_the_body() {
    let body = r#"{"Pod":{"metadata":{"name":"p"}},"NodeNames":["plain","esc\u0061ped"]}"#;
    let Nodes::Names(names) = offer(body).nodes else {
        panic!("names were sent");
    };
    assert!(matches!(&names[0], Cow::Borrowed("plain")));
    assert!(matches!(&names[1], Cow::Owned(name) if name == "escaped"));
}

#[test]
fn a_body_that_is_no_offer_is_refused() {
    let table = [
        ("", "the text is empty"),
        (
            "[]",
            "expected an object with a pod and nodes, found an array",
        ),
        ("{}", r#"the member "Pod" is missing"#),
        (r#"{"Pod":null}"#, r#"the member "Pod" is missing"#),
        (
            r#"{"Pod":{"metadata":{}}}"#,
            r#"Pod.metadata: the member "name" is missing"#,
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}},"NodeNames":[7]}"#,
            "NodeNames[0]: expected a string, found the number 7",
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":{}}]}}"#,
            r#"Nodes.items[0]: metadata: the member "name" is missing"#,
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}}} x"#,
            "there is more text after the JSON value, at line 1 column 35",
        ),
    ];
    for (body, why) in table {
        assert_eq!(error::<Offer>(body), format!("malformed body: {why}"));
    }
    // Deep nesting in what is skipped must not overflow the stack.
    let deep = format!(r#"{{"x":{}"#, "[".repeat(1_000_000));
    assert!(error::<Offer>(&deep).contains("ends too early"));
}

fn judged(body: &str) -> Value {
    let offer = offer(body);
    let answer = offer.nodes.judge(|name| match name {
        "fake3" | "node2" => Verdict::Fails("FloatingIPPlugin:NoFIPLeft".into()),
        "fake1" | "node3" => Verdict::Unresolvable("FloatingIPPlugin:NoFIPConfigNode".into()),
        _ => Verdict::Fits,
    });
    serde_json::to_value(answer).unwrap()
}

#[test]
fn names_are_answered_with_names() {
    assert_eq!(
        judged(NAMES),
        json!({
            "nodes": null,
            "nodenames": ["fake2", "fake4", "fake5"],
            "failedNodes": {"fake3": "FloatingIPPlugin:NoFIPLeft"},
            "failedAndUnresolvableNodes": {"fake1": "FloatingIPPlugin:NoFIPConfigNode"},
        })
    );
}

#[test]
fn objects_are_answered_with_the_same_objects() {
    let sent: Value = serde_json::from_str(OBJECTS).unwrap();
    let items = &sent["Nodes"]["items"];
    assert_eq!(
        judged(OBJECTS),
        json!({
            "nodes": {"metadata": {}, "items": [items[0], items[3]]},
            "failedNodes": {"node2": "FloatingIPPlugin:NoFIPLeft"},
            "failedAndUnresolvableNodes": {"node3": "FloatingIPPlugin:NoFIPConfigNode"},
        })
    );
    // To the letter, which comparing values would not show.
    let answer = serde_json::to_string(&offer(OBJECTS).nodes.pass()).unwrap();
    assert!(answer.contains(r#"{"kept": [1, 2.50, null]}"#), "{answer}");
}

#[test]
fn every_node_passes_and_what_is_empty_is_left_out() {
    let answer = serde_json::to_string(&offer(NAMES).nodes.pass()).unwrap();
    assert_eq!(
        answer,
        r#"{"nodes":null,"nodenames":["fake2","fake3","fake4","fake5","fake1"]}"#
    );
}

/// A scheduler with `nodeCacheCapable` looks at the names only if there is a
/// list of them, so even an empty one has to be sent.
#[test]
fn a_refused_pod_gets_no_node_and_the_error() {
    let text = "reached pool blue size limit of 4";
    let answer = serde_json::to_string(&offer(NAMES).nodes.refuse(text)).unwrap();
    assert_eq!(
        answer,
        format!(r#"{{"nodes":null,"nodenames":[],"error":"{text}"}}"#)
    );
    let answer = serde_json::to_string(&offer(OBJECTS).nodes.refuse(text)).unwrap();
    assert_eq!(
        answer,
        format!(r#"{{"nodes":{{"metadata":{{}},"items":[]}},"error":"{text}"}}"#)
    );
}

#[test]
fn scores_are_a_list_of_hosts() {
    let scores = [
        HostScore {
            host: "fake2",
            score: MAX_SCORE,
        },
        HostScore {
            host: "fake3",
            score: 0,
        },
    ];
    let answer = serde_json::to_string(&scores).unwrap();
    assert_eq!(
        answer,
        r#"[{"host":"fake2","score":10},{"host":"fake3","score":0}]"#
    );
}

#[test]
fn bind_comes_in_both_casings() {
    let new = r#"{"PodName":"load-qrnfx","PodNamespace":"t","PodUID":"f19c0005-6ff7-47c7-af5d-5e7e98e1104a","Node":"fake2"}"#;
    let old = r#"{"podName":"load-qrnfx","podNamespace":"t","podUID":"f19c0005-6ff7-47c7-af5d-5e7e98e1104a","node":"fake2","more":{}}"#;
    let request: BindRequest = parse(new.as_bytes()).unwrap();
    assert_eq!(request.pod.name, "load-qrnfx");
    assert_eq!(request.pod.namespace, "t");
    assert_eq!(request.pod.uid, "f19c0005-6ff7-47c7-af5d-5e7e98e1104a");
    assert_eq!(request.node, "fake2");
    assert_eq!(parse::<BindRequest>(old.as_bytes()).unwrap(), request);

    for member in ["PodName", "PodNamespace", "PodUID", "Node"] {
        let without = new.replace(&format!(r#""{member}""#), r#""Other""#);
        let missing = format!("the member {member:?} is missing");
        assert!(
            error::<BindRequest>(&without).contains(&missing),
            "{member}"
        );
    }
}

#[test]
fn bind_is_answered_with_an_error_that_may_be_empty() {
    let told = |answer| serde_json::to_string(&answer).unwrap();
    assert_eq!(told(BindAnswer::bound()), r#"{"Error":""}"#);
    assert_eq!(
        told(BindAnswer::refused("no enough available ips left")),
        r#"{"Error":"no enough available ips left"}"#
    );
}

const FULL_VICTIMS: &str = r#"{
    "Pod": {"metadata": {"name": "p", "namespace": "t", "uid": "u0"}, "spec": {"priority": 10}},
    "NodeNameToVictims": {
        "node1": {"Pods": [{"metadata": {"name": "a", "uid": "u1"}, "spec": {}}, {"metadata": {"uid": "u2"}}], "NumPDBViolations": 1},
        "node2": {"Pods": null, "NumPDBViolations": 0},
        "node3": null
    },
    "NodeNameToMetaVictims": null
}"#;

const META_VICTIMS: &str = r#"{
    "pod": {"metadata": {"name": "p", "namespace": "t", "uid": "u0"}},
    "nodeNameToMetaVictims": {
        "node1": {"pods": [{"uid": "u1"}, {"UID": "u2"}], "numPDBViolations": 1},
        "node2": {"pods": []},
        "node3": {}
    }
}"#;

#[test]
fn victims_are_uids_in_both_modes_and_casings() {
    for body in [FULL_VICTIMS, META_VICTIMS] {
        let request: PreemptRequest = parse(body.as_bytes()).unwrap();
        assert_eq!(request.pod.uid, "u0");
        let answer = serde_json::to_value(request.keep(|node| node != "node3")).unwrap();
        assert_eq!(
            answer,
            json!({"NodeNameToMetaVictims": {
                "node1": {"Pods": [{"UID": "u1"}, {"UID": "u2"}], "NumPDBViolations": 1},
                "node2": {"Pods": [], "NumPDBViolations": 0},
            }})
        );
        let none = serde_json::to_value(request.keep(|_| false)).unwrap();
        assert_eq!(none, json!({"NodeNameToMetaVictims": {}}));
    }
}

#[test]
fn uids_win_over_objects() {
    let both = r#"{"Pod":{"metadata":{"name":"p"}},"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"x"}}]}},"NodeNameToMetaVictims":{"b":{"Pods":[{"UID":"y"}]}}}"#;
    let request: PreemptRequest = parse(both.as_bytes()).unwrap();
    assert_eq!(request.victims.keys().collect::<Vec<_>>(), ["b"]);
    let empty = both.replace(r#"{"b":{"Pods":[{"UID":"y"}]}}"#, "{}");
    let request: PreemptRequest = parse(empty.as_bytes()).unwrap();
    assert_eq!(request.victims["a"].pods, ["x"]);
}

#[test]
fn a_body_that_is_no_preemption_is_refused() {
    assert!(error::<PreemptRequest>("{}").contains(r#"the member "Pod" is missing"#));
    let uidless = FULL_VICTIMS.replace(r#""uid": "u2""#, r#""name": "b""#);
    assert!(error::<PreemptRequest>(&uidless).contains(r#"the member "uid" is missing"#));
}

#[test]
fn an_array_is_never_taken_for_an_object() {
    let array = "expected an object, found an array";
    let offers = [
        (r#"{"Pod":[["ns","p","u"]]}"#, format!("Pod: {array}")),
        (
            r#"{"Pod":{"metadata":["ns","p","u"]}}"#,
            format!("Pod.metadata: {array}"),
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":[[]]}"#,
            format!("Nodes: {array}"),
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[[["n"]]]}}"#,
            format!("Nodes.items[0]: {array}"),
        ),
        (
            r#"{"Pod":{"metadata":{"name":"p"}},"Nodes":{"items":[{"metadata":["n"]}]}}"#,
            format!("Nodes.items[0]: metadata: {array}"),
        ),
    ];
    for (body, why) in offers {
        assert_eq!(error::<Offer>(body), format!("malformed body: {why}"));
    }
    let bind = error::<BindRequest>(r#"["p","ns","u","n"]"#);
    assert!(bind.ends_with("a pod and a node, found an array"), "{bind}");
    for victims in [
        r#"["x"]"#,
        r#"{"Pods":[["x"]]}"#,
        r#"{"Pods":[{"metadata":["x"]}]}"#,
    ] {
        for member in ["NodeNameToVictims", "NodeNameToMetaVictims"] {
            let body =
                format!(r#"{{"Pod":{{"metadata":{{"name":"p"}}}},"{member}":{{"n":{victims}}}}}"#);
            // A victim by uid has no metadata.
            if member.contains("Meta") && victims.contains("metadata") {
                continue;
            }
            let told = error::<PreemptRequest>(&body);
            assert!(told.contains(&format!("{member}.n")), "{told}");
            assert!(told.ends_with("found an array"), "{told}");
        }
    }
}

#[test]
fn kubernetes_objects_are_read_in_any_case_too() {
    let body = r#"{"pod":{"Metadata":{"NAME":"p","namespace":"a","Namespace":"ns"}},
        "nodes":{"ITEMS":[{"METADATA":{"Name":"n"},"Status":{"Addresses":[
            {"Type":"InternalIP","ADDRESS":"10.0.0.1"}]}}]}}"#;
    let offer = offer(body);
    assert_eq!((&*offer.pod.name, &*offer.pod.namespace), ("p", "ns"));
    let Nodes::Objects(nodes) = offer.nodes else {
        panic!("objects were sent");
    };
    assert_eq!(&*nodes[0].name, "n");
    assert_eq!(nodes[0].internal_ips, [IpAddr::from([10, 0, 0, 1])]);
}

#[test]
fn the_same_refusal_has_the_same_words() {
    let ip = IpAddr::from([10, 0, 0, 1]);
    let other = IpAddr::from([10, 0, 0, 2]);
    let refusals = [
        NodeRefusal::NoAddressLeft,
        NodeRefusal::KeptElsewhere { ip },
        NodeRefusal::KeptElsewhere { ip },
        NodeRefusal::UnknownNode,
        NodeRefusal::KeptElsewhere { ip: other },
        NodeRefusal::SpareElsewhere { ip: other },
        NodeRefusal::NotConfigured { address: ip },
    ];
    let mut texts = filter::Texts::default();
    for refusal in refusals {
        let json = serde_json::to_string(&refusal.to_string()).unwrap();
        assert_eq!(format!("{:?}", texts.of(refusal)), json);
    }
}
