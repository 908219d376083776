use std::{collections::BTreeSet, net::IpAddr};

use floe_core::nodepool::{
    cloud::Mark,
    pool::{self as machine, AddressView, State, Trouble},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use super::*;
use crate::{crds::tests::refusals, floe::tests::unknown};

const NONE: [&str; 0] = [];

fn capabilities() -> Capabilities {
    Capabilities {
        per_server: Some(1),
        steals: true,
        displaces: false,
        configured_by_node: false,
        v4: true,
        v6: true,
        buys: true,
        marks: true,
    }
}

#[allow(clippy::needless_pass_by_value, reason = "a literal at each call")]
fn pool(spec: Value) -> FloatingIPPool {
    let object = json!({
        "metadata": { "namespace": "ns", "name": "ingress-pool", "uid": "u-1" }, "spec": spec,
    });
    serde_json::from_value(object).unwrap()
}

fn core(spec: Value) -> Spec {
    pool(spec).to_core(Circumstances {
        cluster: "c-1",
        capabilities: capabilities(),
    })
}

fn refused(spec: &Value) -> Vec<String> {
    let object = json!({ "metadata": { "name": "p" }, "spec": spec });
    refusals(&definition(), &object)
}

/// What the README of FLIPOP shows, and what its shipped examples use.
fn readme() -> Value {
    json!({
        "provider": "digitalocean", "region": "nyc3", "desiredIPs": 2,
        "ips": ["1.2.3.4", "5.6.7.8"],
        "assignmentCoolOffSeconds": 0.5,
        "dnsRecordSet": {
            "provider": "digitalocean", "recordName": "hello", "zone": "example.com", "ttl": 30,
        },
        "match": {
            "podNamespace": "ingress", "podLabel": "app=nginx-ingress,component=controller",
            "nodeLabel": "doks.digitalocean.com/node-pool=ingress",
            "tolerations": [{ "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule" }],
        },
    })
}

fn example() -> FloatingIPPool {
    let mut pool = pool(readme());
    pool.spec.grace_period_seconds = Some(10.0);
    pool.spec.grace_periods = Some(GracePeriods {
        pod_not_ready_seconds: Some(0.5),
        node_not_ready_seconds: Some(1.0),
        node_gone_seconds: Some(2.0),
    });
    pool.spec.reclaim_policy = Some(ReclaimPolicy::Delete);
    let mut status = FloatingIPPoolStatus::default();
    status.show(&view());
    status.observed_generation = Some(3);
    status.conditions = vec![Condition {
        type_: super::super::READY.into(),
        status: "True".into(),
        reason: "Served".into(),
        message: "served".into(),
        last_transition_time: time(),
        observed_generation: Some(3),
    }];
    status.memory = Memory::from(&memory());
    pool.status = Some(status);
    pool
}

fn time() -> Time {
    Time("2026-07-01T08:00:00Z".parse().unwrap())
}

fn ip(last: u8) -> IpAddr {
    [10, 0, 0, last].into()
}

fn memory() -> machine::Memory {
    machine::Memory {
        purchase: Some(machine::Purchase {
            mark: Mark {
                cluster: "c-1".into(),
                pool: "u-1".into(),
                purchase: "7".into(),
            },
            since: time().0,
            before: BTreeSet::from([ip(1), "fd00::1".parse().unwrap()]),
        }),
        pending: BTreeMap::from([
            (
                ip(1),
                machine::Pending {
                    server: Some("digitalocean://1".into()),
                    handle: "36804636".into(),
                },
            ),
            (
                ip(2),
                machine::Pending {
                    server: None,
                    handle: "36804637".into(),
                },
            ),
        ]),
        moves: BTreeMap::from([(
            ip(1),
            machine::Move {
                at: time().0,
                from: String::new(),
                to: "n1".into(),
                reason: "NodeNotReady".into(),
            },
        )]),
        unfit_since: BTreeMap::from([("digitalocean://2".into(), time().0)]),
    }
}

fn view() -> View {
    let address = |state, node: Option<&str>, error: Option<&str>| AddressView {
        state,
        server: node.map(|node| format!("digitalocean://{node}")),
        node: node.map(str::to_owned),
        error: error.map(|message| Trouble {
            reason: "ProviderUnavailable",
            message: message.to_owned(),
        }),
        assignments: 1,
        assignment_errors: 0,
    };
    View {
        ips: BTreeMap::from([
            (ip(1), address(State::Active, Some("n1"), None)),
            (
                ip(2),
                address(State::Error, None, Some("assigning IP to node: no")),
            ),
            (ip(3), address(State::Disabled, None, None)),
        ]),
        assignable_nodes: vec!["n3".into(), "n2".into()],
        node_errors: vec!["n2".into()],
        ..View::default()
    }
}

#[test]
fn manifests_of_flipop_are_taken_as_they_are() {
    assert_eq!(refused(&readme()), NONE);
    assert_eq!(refused(&json!({ "provider": "" })), NONE);
    // None of its four members is needed, and a lifetime may be anything.
    let bare = json!({ "provider": "do", "dnsRecordSet": { "ttl": -1 }, "match": {} });
    assert_eq!(refused(&bare), NONE);
    assert_eq!(
        refused(&json!({ "ips": [] })),
        [".spec: \"provider\" is missing"]
    );
    // FLIPOP's definition does not ask for a specification either.
    assert_eq!(
        refusals(&definition(), &json!({ "metadata": { "name": "p" } })),
        NONE
    );
}

#[test]
fn what_flipop_refuses_is_refused() {
    let with = |member: &str, value: Value| {
        let mut spec = json!({ "provider": "digitalocean" });
        spec[member] = value;
        refused(&spec)
    };
    assert_eq!(
        with("ips", json!(["1.2.3.4", "1.2.3.400"])),
        [".spec.ips[1]: 0 of oneOf hold"]
    );
    assert_eq!(
        with("desiredIPs", json!(-1)),
        [".spec.desiredIPs: below 0.0"]
    );
    assert_eq!(
        with("assignmentCoolOffSeconds", json!(-0.5)),
        [".spec.assignmentCoolOffSeconds: below 0.0"]
    );
    assert_eq!(
        with("reclaimPolicy", json!("Recycle")),
        [r#".spec.reclaimPolicy: not one of ["Retain","Delete"]"#]
    );
}

#[test]
fn the_schema_takes_what_floe_writes_and_names_every_member() {
    let object = serde_json::to_value(example()).unwrap();
    assert_eq!(refusals(&definition(), &object), NONE);
    let schema = &definition().spec.versions[0].schema;
    let schema = serde_json::to_value(schema).unwrap()["openAPIV3Schema"].take();
    assert_eq!(
        unknown(&schema, &object, ""),
        ["/apiVersion", "/kind", "/metadata"]
    );
}

#[test]
fn nothing_has_a_default_in_the_schema() {
    let schema = serde_json::to_string(&definition().spec.versions[0].schema).unwrap();
    assert!(!schema.contains("\"default\""));
}

#[test]
fn an_object_reads_back_as_it_was_written() {
    let object = example();
    let text = serde_json::to_string(&object).unwrap();
    assert!(text.contains(r#""apiVersion":"flipop.digitalocean.com/v1alpha1""#));
    assert_eq!(
        serde_json::from_str::<FloatingIPPool>(&text).unwrap(),
        object
    );
    assert_eq!(object.memory(), memory());
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["spec"]["desiredIPs"], 2);
    assert_eq!(
        written["status"]["pending"]["10.0.0.1"],
        json!({ "providerID": "digitalocean://1", "handle": "36804636" })
    );
}

#[test]
fn the_machine_is_told_what_the_specification_says() {
    let spec = core(readme());
    assert_eq!(spec.provider, "digitalocean");
    assert_eq!(spec.region, "nyc3");
    assert_eq!((spec.cluster.as_str(), spec.pool.as_str()), ("c-1", "u-1"));
    let ips: [IpAddr; 2] = [[1, 2, 3, 4].into(), [5, 6, 7, 8].into()];
    assert_eq!(spec.ips, ips);
    assert_eq!(spec.desired, 2);
    assert_eq!(spec.cool_off, Duration::from_millis(500));
    assert_eq!(spec.grace, Grace::default());
    assert!(!spec.reclaims);
    let twice = core(json!({ "provider": "p", "ips": ["1.2.3.4", "001.2.3.4", "x"] }));
    assert_eq!(twice.ips, ips[..1]);
}

#[test]
fn a_grace_of_a_cause_comes_before_the_general_one() {
    let spec = json!({ "gracePeriodSeconds": 30, "gracePeriods": { "nodeGoneSeconds": 0 } });
    let grace = core(spec).grace;
    assert_eq!(grace.pod_not_ready, Duration::from_secs(30));
    assert_eq!(grace.node_not_ready, Duration::from_secs(30));
    assert_eq!(grace.node_gone, Duration::ZERO);
}

#[test]
fn addresses_are_given_back_only_by_a_pool_that_goes_and_was_told_so() {
    let circumstances = Circumstances {
        cluster: "c-1",
        capabilities: capabilities(),
    };
    let mut pool = pool(json!({ "provider": "p", "reclaimPolicy": "Delete" }));
    pool.metadata.finalizers = Some(vec![FINALIZER.into()]);
    assert!(!pool.to_core(circumstances).reclaims);
    pool.metadata.deletion_timestamp = Some(time());
    assert!(pool.to_core(circumstances).reclaims);
    let mut free = pool.clone();
    free.metadata.finalizers = None;
    assert!(!free.to_core(circumstances).reclaims);
    pool.spec.reclaim_policy = Some(ReclaimPolicy::Retain);
    assert!(!pool.to_core(circumstances).reclaims);
}

#[test]
fn a_view_is_shown_in_the_words_of_flipop() {
    let status = serde_json::to_value(example().status.unwrap()).unwrap();
    assert_eq!(
        status["ips"],
        json!({
            "10.0.0.1": {
                "state": "active", "providerID": "digitalocean://n1", "nodeName": "n1",
            },
            "10.0.0.2": {
                "state": "error", "error": "assigning IP to node: no",
                "reason": "ProviderUnavailable",
            },
            "10.0.0.3": { "state": "disabled" },
        })
    );
    assert_eq!(status["assignableNodes"], json!(["n3", "n2"]));
    assert_eq!(status["nodeErrors"], json!(["n2"]));
    let summary = json!({ "addresses": 2, "active": 1, "waiting": 2 });
    assert_eq!(status["summary"], summary);
}

#[test]
fn a_memory_that_somebody_has_spoiled_is_read_as_far_as_it_goes() {
    let object = json!({
        "metadata": { "name": "p" },
        "status": {
            "pending": { "nonsense": { "handle": "1" }, "10.0.0.1": { "handle": "2" } },
            "colour": "red",
        },
    });
    let pool: FloatingIPPool = serde_json::from_value(object).unwrap();
    let pending: Vec<_> = pool.memory().pending.into_keys().collect();
    assert_eq!(pending, [ip(1)]);
}
