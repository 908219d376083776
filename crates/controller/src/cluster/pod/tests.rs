use serde_json::{Value, json};

use super::*;

fn read(value: Value) -> Pod {
    serde_json::from_value::<PodObject>(value).unwrap().into()
}

#[test]
fn a_pod_is_read() {
    let pod = read(json!({
        "metadata": {
            "name": "web-1", "namespace": "ns1", "uid": "u1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T04:04:05Z",
            "ownerReferences": [
                { "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r", "controller": true },
                { "apiVersion": "v1", "kind": "Other", "name": "o", "uid": "s" },
            ],
            "annotations": {
                names::RELEASE_POLICY: "never", names::POOL: "p", names::ARGS: "{}", names::FAMILIES: "v4",
                "else": "x",
            },
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{ "name": "a" }, { "resources": { "requests": { names::RESOURCE: 1, "cpu": "1" } } }],
        },
        "status": { "phase": "Running", "podIP": "10.0.0.5", "podIPs": [{ "ip": "10.0.0.5" }, { "ip": "fd00::5" }, { "ip": "?" }] },
    }));
    let owner = |api_version: &str, kind: &str, name: &str, controller| OwnerRef {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        controller,
    };
    let expected = Pod {
        namespace: "ns1".into(),
        name: "web-1".into(),
        uid: "u1".into(),
        version: "7".into(),
        created: "2026-01-02T03:04:05Z".parse().unwrap(),
        terminating: true,
        owners: vec![
            owner("apps/v1", "ReplicaSet", "web", true),
            owner("v1", "Other", "o", false),
        ],
        wants_address: true,
        release_policy: Some("never".into()),
        pool: Some("p".into()),
        args: Some("{}".into()),
        families: Some("v4".into()),
        node: Some("n1".into()),
        phase: Phase::Running,
        phase_text: "Running",
        addresses: vec!["10.0.0.5".parse().unwrap(), "fd00::5".parse().unwrap()],
        ready_since: None,
        gate: None,
        needs: None,
        unschedulable: false,
        assigned: None,
    };
    assert_eq!(pod, expected);
}

#[test]
fn what_keeps_a_pod_from_its_node_is_read() {
    let mut object = json!({
        "metadata": { "name": "p" },
        "spec": { "schedulingGates": [{ "name": "else" }], "affinity": { "podAffinity": {} } },
        "status": { "conditions": [
            { "type": "PodScheduled", "status": "False", "reason": "SchedulingGated" },
            { "type": "floe.dev/AddressAssigned", "status": "False", "reason": "R", "message": "m" },
        ] },
    });
    let pod = read(object.clone());
    assert_eq!((pod.gate, pod.unschedulable), (None, false));
    let assigned = Assigned {
        holds: false,
        reason: "R".into(),
        message: "m".into(),
    };
    assert_eq!(pod.assigned, Some(assigned));
    object["spec"]["schedulingGates"] = json!([{ "name": "else" }, { "name": "floe.dev/ip" }]);
    object["status"]["conditions"][0]["reason"] = json!("Unschedulable");
    let pod = read(object);
    let gate = pod.gate.unwrap();
    assert_eq!(gate.gated.gates.len(), 2);
    assert_eq!(gate.gated.affinity, Some(json!({ "podAffinity": {} })));
    assert!(pod.unschedulable);
}

#[test]
fn a_pod_is_available_when_it_was_ready_for_long_enough() {
    let ready = |status: &str, since: Value| {
        read(json!({
            "metadata": { "name": "p" },
            "status": { "conditions": [
                { "type": "ContainersReady", "status": "True" },
                { "type": "Ready", "status": status, "lastTransitionTime": since },
            ] },
        }))
    };
    let now = "2026-01-01T00:01:00Z".parse().unwrap();
    let pod = ready("True", json!("2026-01-01T00:00:30Z"));
    assert!(pod.is_available(0, now));
    assert!(pod.is_available(30, now));
    assert!(!pod.is_available(31, now));
    assert!(!pod.is_available(u32::MAX, now));
    assert!(ready("True", Value::Null).is_available(600, now));
    assert!(!ready("False", json!("2026-01-01T00:00:30Z")).is_available(0, now));
    let leaving = Pod {
        terminating: true,
        ..pod
    };
    assert!(!leaving.is_available(0, now));
    assert!(!read(json!({ "metadata": { "name": "p" } })).is_available(0, now));
}

#[test]
fn init_containers_and_limits_ask_for_nothing() {
    let pod = read(json!({
        "metadata": { "name": "p" },
        "spec": {
            "initContainers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }],
            "containers": [{ "resources": { "limits": { names::RESOURCE: "1" } } }],
        },
    }));
    assert!(!pod.wants_address);
}

#[test]
fn the_phases() {
    for (text, phase) in [
        ("Pending", Phase::Pending),
        ("Unknown", Phase::Pending),
        ("Running", Phase::Running),
        ("Succeeded", Phase::Finished),
        ("Failed", Phase::Finished),
    ] {
        let pod = read(json!({ "metadata": { "name": "p" }, "status": { "phase": text } }));
        assert_eq!(pod.phase, phase, "{text}");
    }
}

#[test]
fn another_version_alone_is_no_difference() {
    let pod = read(json!({ "metadata": { "name": "p", "resourceVersion": "1" } }));
    let newer = read(json!({ "metadata": { "name": "p", "resourceVersion": "2" } }));
    assert!(!newer.differs_from(&pod));
    let bound = read(
        json!({ "metadata": { "name": "p", "resourceVersion": "2" }, "spec": { "nodeName": "n" } }),
    );
    assert!(bound.differs_from(&pod));
}
