use serde_json::{Value, json};

use super::*;
use crate::{crds::tests::refusals, floe::tests::unknown};

fn time() -> Time {
    Time("2026-07-01T08:00:00Z".parse().unwrap())
}

fn holding(pod: &str) -> Holding {
    Holding {
        pod: pod.into(),
        uid: format!("uid-of-{pod}"),
        node: "node-1".into(),
        node_address: [192, 168, 0, 1].into(),
        addresses: vec![[10, 1, 0, 7].into()],
        mode: "nat".into(),
        term: 4,
        since: Some(time()),
        ready: true,
        reason: "Requested".into(),
    }
}

fn example() -> VirtualIP {
    let addresses = vec![[10, 0, 0, 1].into(), "fd00::1".parse().unwrap()];
    let candidates = vec![CandidateStatus {
        pod: "web-1".into(),
        uid: "uid-of-web-1".into(),
        node: "node-2".into(),
        node_address: [192, 168, 0, 2].into(),
        addresses: vec![[10, 1, 0, 8].into()],
        mode: "direct".into(),
        ready_since: time(),
    }];
    let condition = |kind: &str| Condition {
        type_: kind.into(),
        status: "True".into(),
        reason: "Because".into(),
        message: "because".into(),
        last_transition_time: time(),
        observed_generation: Some(1),
    };
    VirtualIP {
        metadata: ObjectMeta {
            namespace: Some("shop".into()),
            name: Some("web".into()),
            ..ObjectMeta::default()
        },
        spec: VirtualIPSpec {
            addresses: vec!["10.0.0.1".into(), "fd00::1".into()],
            ranges: Vec::new(),
            selector: Some(LabelSelector {
                match_labels: Some([("app".to_owned(), "web".to_owned())].into()),
                match_expressions: Some(Vec::new()),
            }),
            nodes: Vec::new(),
            failover: Failover {
                preferred_pods: vec!["web-0".into()],
                ..Failover::default()
            },
            announcement: Announcement {
                interface: "eth0".into(),
                ..Announcement::default()
            },
        },
        status: Some(VirtualIPStatus {
            summary: Summary::of(&VirtualIPSpec::default(), &addresses, &candidates),
            addresses,
            holder: Some(holding("web-0")),
            successor: Some(holding("web-1")),
            candidates,
            moves: 3,
            last_move: Some(Move {
                at: time(),
                reason: "PodNotReady".into(),
                from: "web-1".into(),
                to: "web-0".into(),
            }),
            conditions: [ACCEPTED, SERVING, REACHABLE].map(condition).into(),
        }),
    }
}

/// What the API server says to this spec.
fn refused(spec: &Value) -> Vec<String> {
    let object = json!({ "metadata": { "namespace": "shop", "name": "web" }, "spec": spec });
    refusals(&definition(), &object)
}

#[test]
fn the_schema_takes_what_floe_writes_and_names_every_member() {
    let object = serde_json::to_value(example()).unwrap();
    assert_eq!(refusals(&definition(), &object), Vec::<String>::new());
    let schema = &definition().spec.versions[0].schema;
    let mut schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    // Labels have the names that people give them.
    let labels = &mut schema["properties"]["spec"]["properties"]["selector"]["properties"];
    labels["matchLabels"]["properties"] = json!({ "app": {} });
    assert_eq!(
        unknown(&schema, &object, ""),
        ["/apiVersion", "/kind", "/metadata"]
    );
}

#[test]
fn exactly_one_of_addresses_and_ranges_is_given() {
    let none = Vec::<String>::new();
    assert_eq!(refused(&json!({ "addresses": ["10.0.0.1"] })), none);
    assert_eq!(
        refused(&json!({ "ranges": ["10.0.0.1~10.0.0.9", "fd00::5"] })),
        none
    );
    let message = [".spec: exactly one of addresses and ranges must be given"];
    assert_eq!(refused(&json!({})), message);
    let both = json!({ "addresses": ["10.0.0.1"], "ranges": ["10.0.0.2"] });
    assert_eq!(refused(&both), message);
    assert_eq!(
        refused(&json!({ "addresses": [] })),
        [".spec.addresses: fewer than 1 items"]
    );
    let object = json!({ "metadata": { "name": "web" } });
    assert_eq!(refusals(&definition(), &object), [": \"spec\" is missing"]);
}

#[test]
fn pods_or_nodes_share_addresses_and_not_both() {
    let mut spec = json!({ "addresses": ["10.0.0.1"], "nodes": ["node-1", "node-2.example"] });
    assert_eq!(refused(&spec), Vec::<String>::new());
    let dropped = crate::crds::tests::dropped(&definition(), &json!({ "spec": spec }));
    assert_eq!(dropped, Vec::<String>::new());
    spec["selector"] = json!({ "matchLabels": { "app": "web" } });
    let message = [".spec: selector and nodes exclude each other"];
    assert_eq!(refused(&spec), message);
}

#[test]
fn the_schema_refuses_a_status_that_nobody_could_read() {
    let shown = |addresses: Value| {
        let spec = json!({ "addresses": ["10.0.0.1"] });
        refusals(
            &definition(),
            &json!({ "spec": spec, "status": { "addresses": addresses } }),
        )
    };
    assert_eq!(shown(json!(["10.0.0.1", "fd00::1"])), Vec::<String>::new());
    assert_eq!(
        shown(json!(["10.0.0.1", "nowhere"])),
        [".status.addresses[1]: none of anyOf holds"]
    );
}

#[test]
fn the_schema_refuses_what_can_never_be_meant() {
    let with = |member: &str, value: Value| {
        let mut spec = json!({ "addresses": ["10.0.0.1"] });
        spec[member] = value;
        refused(&spec)
    };
    let many: Vec<String> = (0..17).map(|last| format!("10.0.0.{last}")).collect();
    assert_eq!(
        refused(&json!({ "addresses": many })),
        [".spec.addresses: more than 16 items"]
    );
    for address in [
        "",
        "shop.example.org",
        "10.0.0.1/24",
        "10.0.0.1~10.0.0.2",
        " 10.0.0.1",
    ] {
        let found = refused(&json!({ "addresses": [address] }));
        assert!(
            found[0].starts_with(".spec.addresses[0]: does not match"),
            "{address}: {found:?}"
        );
    }
    // What only looks like an address is for the controller to refuse.
    assert_eq!(refused(&json!({ "addresses": ["10.0.0.300"] })), [""; 0]);
    assert_eq!(
        with("announcement", json!({ "mode": "bgp" })),
        [r#".spec.announcement.mode: not one of ["auto","nat","direct"]"#]
    );
    assert_eq!(
        with(
            "announcement",
            json!({ "interface": "a-name-that-is-too-long" })
        ),
        [".spec.announcement.interface: longer than 15"]
    );
    assert_eq!(
        with("announcement", json!({ "interface": "a/b" })),
        [r".spec.announcement.interface: does not match ^([^/\s]*)$"]
    );
    assert_eq!(
        with(
            "failover",
            json!({ "unreadyGraceSeconds": -1, "minSecondsBetweenMoves": 86_401 })
        ),
        [
            ".spec.failover.minSecondsBetweenMoves: above 86400.0",
            ".spec.failover.unreadyGraceSeconds: below 0.0",
        ]
    );
    let found = with("failover", json!({ "preferredPods": ["Web_0"] }));
    assert!(found[0].starts_with(".spec.failover.preferredPods[0]: does not match"));
    assert_eq!(
        with("selector", json!({ "matchLabels": { "app": 1 } })),
        [r#".spec.selector.matchLabels.app: not of type "string""#]
    );
    let operator = json!({ "matchExpressions": [{ "key": "app", "operator": "Like" }] });
    assert_eq!(
        with("selector", operator),
        [concat!(
            ".spec.selector.matchExpressions[0].operator: ",
            r#"not one of ["In","NotIn","Exists","DoesNotExist"]"#
        )]
    );
}

#[test]
fn the_defaults_of_the_schema_are_those_of_the_types() {
    let schema = &definition().spec.versions[0].schema;
    let schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    let members = &schema["properties"]["spec"]["properties"];
    let spec = serde_json::to_value(VirtualIPSpec::default()).unwrap();
    for part in ["failover", "announcement"] {
        assert_eq!(members[part]["default"], json!({}));
        for (name, member) in members[part]["properties"].as_object().unwrap() {
            if let Some(default) = member.get("default") {
                assert_eq!(*default, spec[part][name], "{part}.{name}");
            }
        }
    }
    let read: VirtualIPSpec = serde_json::from_value(json!({ "failover": {} })).unwrap();
    assert_eq!(read, VirtualIPSpec::default());
}

#[test]
fn an_object_reads_back_as_it_was_written() {
    let plain = VirtualIP {
        status: None,
        ..example()
    };
    for object in [example(), plain] {
        let text = serde_json::to_string(&object).unwrap();
        assert!(text.contains(r#""apiVersion":"floe.dev/v1alpha1","kind":"VirtualIP""#));
        assert_eq!(serde_json::from_str::<VirtualIP>(&text).unwrap(), object);
    }
}

#[test]
fn a_status_of_another_version_can_be_read() {
    let object = json!({ "metadata": { "name": "n" }, "status": { "colour": "red" } });
    let read: VirtualIP = serde_json::from_value(object).unwrap();
    assert_eq!(read.status, Some(VirtualIPStatus::default()));
}

#[test]
fn the_summary_counts_and_joins() {
    let summary = example().status.unwrap().summary;
    assert_eq!(summary.addresses, "10.0.0.1,fd00::1");
    assert_eq!(summary.candidates, 1);
    let mut spec = VirtualIPSpec {
        addresses: vec!["10.0.0.9".into(), "fd00::9".into()],
        ..VirtualIPSpec::default()
    };
    let refused = |spec: &VirtualIPSpec| Summary::of(spec, &[], &[]).addresses;
    assert_eq!(refused(&spec), "10.0.0.9,fd00::9");
    spec.addresses.clear();
    spec.ranges = vec!["10.0.0.2~10.0.0.9".into()];
    assert_eq!(refused(&spec), "10.0.0.2~10.0.0.9");
    assert_eq!(
        Summary::of(&VirtualIPSpec::default(), &[], &[]),
        Summary::default()
    );
}

#[test]
fn conditions_are_found_by_type() {
    assert_eq!(example().condition(SERVING).unwrap().status, "True");
    assert_eq!(example().condition("Tired"), None);
    assert_eq!(VirtualIP::default().condition(ACCEPTED), None);
}

#[test]
fn the_definition_has_its_names_columns_and_a_status_of_its_own() {
    let definition = definition();
    let name = definition.metadata.name.as_deref();
    assert_eq!(name, Some("virtualips.floe.dev"));
    assert_eq!(definition.spec.scope, "Namespaced");
    let short = definition.spec.names.short_names;
    assert_eq!(short, Some(vec!["vip".to_owned()]));
    let version = &definition.spec.versions[0];
    assert!(version.subresources.as_ref().unwrap().status.is_some());
    let columns = version.additional_printer_columns.iter().flatten();
    let (mut shown, mut wide) = (Vec::new(), Vec::new());
    for column in columns {
        let list = match column.priority {
            None => &mut shown,
            Some(_) => &mut wide,
        };
        list.push(column.name.as_str());
    }
    assert_eq!(
        shown,
        [
            "Address",
            "Holder",
            "Node",
            "Since",
            "Candidates",
            "Moves",
            "Reason",
            "Status",
            "Age"
        ]
    );
    assert_eq!(wide, ["Accepted", "Serving", "Reachable", "Mode"]);
}
