use serde_json::json;

use super::*;
use crate::{crds::tests::refusals, floe::tests::unknown};

fn example() -> NodeNetwork {
    let time = || Time("2026-07-01T08:00:00Z".parse().unwrap());
    let condition = |kind: &str, status: &str| Condition {
        type_: kind.into(),
        status: status.into(),
        reason: "Because".into(),
        message: "because".into(),
        last_transition_time: time(),
        observed_generation: None,
    };
    NodeNetwork {
        status: Some(NodeNetworkStatus {
            agent_version: "0.1.0".into(),
            last_seen: Some(time()),
            summary: Summary {
                networks: "1/1".into(),
                conflicts: 1,
            },
            networks: vec![NetworkStatus {
                name: "galaxy-k8s-vlan".into(),
                r#type: "galaxy-k8s-vlan".into(),
                ready: true,
                reason: "ParentLinkUp".into(),
                message: "eth1 is up".into(),
            }],
            links: vec![LinkStatus {
                name: "eth1".into(),
                up: true,
                carrier: true,
            }],
            conflicts: vec![ConflictStatus {
                ip: "10.0.0.5".into(),
                mac: "02:42:0a:00:00:05".into(),
                pod: "default/web-0".into(),
                since: time(),
            }],
            missing: vec![MissingStatus {
                ip: "10.0.0.6".into(),
                pod: "default/web-1".into(),
                since: time(),
            }],
            conditions: vec![
                condition(READY, "True"),
                condition(ADDRESS_CONFLICT, "True"),
            ],
        }),
        ..NodeNetwork::of("node-1")
    }
}

#[test]
fn the_schema_takes_what_an_agent_writes_and_names_every_member() {
    let object = serde_json::to_value(example()).unwrap();
    assert_eq!(refusals(&definition(), &object), Vec::<String>::new());
    let schema = &definition().spec.versions[0].schema;
    let schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    assert_eq!(
        unknown(&schema, &object, ""),
        ["/apiVersion", "/kind", "/metadata"]
    );
}

#[test]
fn the_schema_refuses_what_is_not_a_status() {
    let refused = |status: serde_json::Value| {
        let object = json!({ "metadata": { "name": "node-1" }, "status": status });
        refusals(&definition(), &object)
    };
    assert_eq!(refused(json!({})), Vec::<String>::new());
    assert_eq!(refused(json!({ "networks": [] })), Vec::<String>::new());
    assert_eq!(
        refused(json!({ "networks": [{ "name": "a" }] })),
        [".status.networks[0]: \"ready\" is missing"]
    );
    assert_eq!(
        refused(json!({ "lastSeen": "today" })),
        [".status.lastSeen: not a time"]
    );
    assert_eq!(
        refused(json!({ "links": {} })),
        [".status.links: not of type \"array\""]
    );
}

#[test]
fn an_object_reads_back_as_it_was_written() {
    for object in [example(), NodeNetwork::of("node-1")] {
        let text = serde_json::to_string(&object).unwrap();
        assert!(text.contains(r#""apiVersion":"floe.dev/v1alpha1","kind":"NodeNetwork""#));
        assert_eq!(serde_json::from_str::<NodeNetwork>(&text).unwrap(), object);
    }
}

#[test]
fn a_status_of_another_version_can_be_read() {
    let object = json!({ "metadata": { "name": "n" }, "status": { "colour": "red" } });
    let read: NodeNetwork = serde_json::from_value(object).unwrap();
    assert_eq!(read.status, Some(NodeNetworkStatus::default()));
}

#[test]
fn conditions_are_found_by_type() {
    assert_eq!(example().condition(READY).unwrap().status, "True");
    assert_eq!(example().condition("Tired"), None);
    assert_eq!(NodeNetwork::of("n").condition(READY), None);
}

#[test]
fn the_definition_has_its_names_columns_and_a_status_of_its_own() {
    let definition = definition();
    assert_eq!(
        definition.metadata.name.as_deref(),
        Some("nodenetworks.floe.dev")
    );
    assert_eq!(definition.metadata.annotations, None);
    assert_eq!(definition.spec.scope, "Cluster");
    assert_eq!(
        definition.spec.names.short_names,
        Some(vec!["nn".to_owned()])
    );
    let version = &definition.spec.versions[0];
    assert!(version.subresources.as_ref().unwrap().status.is_some());
    let columns = version.additional_printer_columns.iter().flatten();
    let shown: Vec<_> = columns
        .filter(|column| column.priority.is_none())
        .map(|column| column.name.as_str())
        .collect();
    assert_eq!(shown, ["Ready", "Networks", "Conflicts", "Age"]);
}
