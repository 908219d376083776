use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::{config::fixture, vip::claim};

fn pod(annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop", "annotations": annotations },
        "spec": { "containers": [
            { "name": "side" },
            { "name": "web", "resources": { "requests": { names::RESOURCE: "1" } } },
        ] },
    })
}

fn template(annotations: &Value) -> Value {
    let pod = pod(annotations);
    json!({ "metadata": { "annotations": annotations }, "spec": pod["spec"] })
}

fn workload(replicas: u32, annotations: &Value) -> Value {
    json!({
        "metadata": { "name": "web", "namespace": "shop" },
        "spec": { "replicas": replicas, "template": template(annotations) },
    })
}

fn created(kind: Kind, object: &Value) -> Verdict {
    let config = fixture::t();
    judge(kind, Write::Create(object), Author::Other, Some(&config))
}

fn refusals(verdict: &Verdict) -> Vec<&'static str> {
    verdict.refusals.iter().map(|it| it.reason).collect()
}

fn warnings(verdict: &Verdict) -> Vec<&'static str> {
    verdict.warnings.iter().map(|it| it.reason).collect()
}

/// An annotation that claims an address as given.
fn given(ip: &str) -> Value {
    let info = json!({ "ip": format!("{ip}/24"), "vlan": 0, "gateway": "10.0.70.1" });
    json!({ names::ARGS: json!({ "common": { "ipinfos": [info] } }).to_string() })
}

#[test]
fn a_plain_pod_is_nobodys_business() {
    let plain = json!({ "metadata": { "name": "web" }, "spec": { "containers": [{}] } });
    for kind in [Kind::Pod, Kind::Deployment, Kind::CronJob] {
        assert_eq!(created(kind, &plain), Verdict::default());
    }
    assert_eq!(created(Kind::Pod, &json!({})), Verdict::default());
    assert_eq!(created(Kind::Pod, &json!(null)), Verdict::default());
    assert_eq!(created(Kind::Pod, &pod(&json!({}))), Verdict::default());
}

#[test]
fn syntax_errors_are_refused_with_the_reason_that_a_pod_would_hang_with() {
    let table = [
        (names::ARGS, "{nonsense", "InvalidArgs"),
        (
            names::ARGS,
            r#"{"request_ip_range":"10.0.70.2"}"#,
            "InvalidArgs",
        ),
        (
            names::ARGS,
            r#"{"request_ip_range":[["10.0.70.9~10.0.70.2"]]}"#,
            "InvalidRange",
        ),
        (
            names::ARGS,
            r#"{"request_ip_range":[["10.0.70.2"],[]]}"#,
            "EmptyRangeList",
        ),
        (names::FAMILIES, "v4,v5", "InvalidFamilies"),
        (names::POOL, "a_b", "InvalidPoolName"),
        (claim::ANNOTATION, "10.0.0.1", "InvalidAnnotation"),
        (claim::ALIAS, r#"["10.0.0.0/24"]"#, "InvalidAddress"),
        (claim::ALIAS, r#"["127.0.0.1"]"#, "InvalidAddress"),
    ];
    let kinds = [
        (Kind::Deployment, "spec.template.metadata.annotations"),
        (Kind::StatefulSet, "spec.template.metadata.annotations"),
        (Kind::DaemonSet, "spec.template.metadata.annotations"),
        (Kind::ReplicaSet, "spec.template.metadata.annotations"),
        (Kind::Job, "spec.template.metadata.annotations"),
    ];
    for (name, value, reason) in table {
        let annotations = json!({ name: value });
        let verdict = created(Kind::Pod, &pod(&annotations));
        assert_eq!(refusals(&verdict), [reason], "{value}");
        let place = format!("{reason}: metadata.annotations[{name}]: ");
        assert!(
            verdict.message().starts_with(&place),
            "{}",
            verdict.message()
        );
        for (kind, path) in kinds {
            let verdict = created(kind, &workload(4, &annotations));
            assert_eq!(refusals(&verdict), [reason], "{kind:?} {value}");
            assert_eq!(verdict.refusals[0].place, format!("{path}[{name}]"));
        }
        let cron = json!({ "metadata": { "name": "web" }, "spec": { "jobTemplate": {
            "spec": { "template": template(&annotations) },
        } } });
        let verdict = created(Kind::CronJob, &cron);
        let path = "spec.jobTemplate.spec.template.metadata.annotations";
        assert_eq!(verdict.refusals[0].place, format!("{path}[{name}]"));
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    let annotations = json!({ names::ARGS: "{", names::FAMILIES: "v5", names::POOL: "a_b" });
    let verdict = created(Kind::Deployment, &workload(4, &annotations));
    let all = ["InvalidArgs", "InvalidFamilies", "InvalidPoolName"];
    assert_eq!(refusals(&verdict), all);
}

#[test]
fn the_annotations_of_a_workload_itself_count_for_shared_addresses() {
    let mut object = workload(1, &json!({}));
    object["metadata"]["annotations"] = json!({ claim::ANNOTATION: "10.0.0.1" });
    let verdict = created(Kind::Deployment, &object);
    assert_eq!(refusals(&verdict), ["InvalidAnnotation"]);
    let place = format!("metadata.annotations[{}]", claim::ANNOTATION);
    assert_eq!(verdict.refusals[0].place, place);
}

#[test]
fn a_pod_that_a_workload_has_made_is_not_stopped_by_what_it_shares() {
    let mut object = pod(&json!({ claim::ANNOTATION: "10.0.0.1" }));
    object["metadata"]["ownerReferences"] = json!([{ "kind": "ReplicaSet", "controller": true }]);
    let verdict = created(Kind::Pod, &object);
    assert!(verdict.is_allowed());
    assert_eq!(warnings(&verdict), ["InvalidAnnotation"]);
    let twice = pod(&json!({ claim::ALIAS: r#"["10.0.0.1","10.0.0.1"]"# }));
    assert_eq!(warnings(&created(Kind::Pod, &twice)), ["InvalidAnnotation"]);
}

#[test]
fn users_may_not_write_what_a_pod_was_given_and_floe_may() {
    let config = fixture::t();
    let (plain, first, second) = (
        pod(&json!({})),
        pod(&given("10.0.70.2")),
        pod(&given("10.0.70.3")),
    );
    let verdict = created(Kind::Pod, &first);
    assert_eq!(refusals(&verdict), ["IpInfosForbidden"]);
    let templated = created(Kind::Deployment, &workload(4, &given("10.0.70.2")));
    assert_eq!(refusals(&templated), ["IpInfosForbidden"]);

    let update = |old, new, author| {
        let write = Write::Update { new, old };
        judge(Kind::Pod, write, author, Some(&config)).is_allowed()
    };
    for (old, new) in [(&plain, &first), (&first, &second), (&first, &plain)] {
        assert!(!update(old, new, Author::Other));
        assert!(update(old, new, Author::Floe));
    }
    // Whoever writes something else leaves it alone.
    assert!(update(&first, &first, Author::Other));
    let write = Write::Create(&first);
    assert!(judge(Kind::Pod, write, Author::Floe, None).is_allowed());
    // The same words in another case are the same for galaxy's readers.
    let hidden = json!({ names::ARGS: r#"{"COMMON":{"IpInfos":[]}}"# });
    assert_eq!(
        refusals(&created(Kind::Pod, &pod(&hidden))),
        ["IpInfosForbidden"]
    );
}

#[test]
fn what_was_wrong_before_hinders_no_update() {
    let bad = workload(1, &json!({ names::POOL: "a_b" }));
    let scaled = workload(3, &json!({ names::POOL: "a_b" }));
    let write = Write::Update {
        new: &scaled,
        old: &bad,
    };
    let verdict = judge(Kind::StatefulSet, write, Author::Other, None);
    assert!(verdict.is_allowed(), "{}", verdict.message());
    assert_eq!(warnings(&verdict)[0], "InvalidPoolName");
    let worse = workload(3, &json!({ names::POOL: "b_c" }));
    let write = Write::Update {
        new: &worse,
        old: &bad,
    };
    let verdict = judge(Kind::StatefulSet, write, Author::Other, None);
    assert_eq!(refusals(&verdict), ["InvalidPoolName"]);
    // And what goes may go.
    let mut going = worse.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let write = Write::Update {
        new: &going,
        old: &bad,
    };
    let verdict = judge(Kind::StatefulSet, write, Author::Other, None);
    assert_eq!(verdict, Verdict::default());
    let verdict = judge(Kind::Pod, Write::Delete(&bad), Author::Other, None);
    assert_eq!(verdict, Verdict::default());
}

#[test]
fn policies_that_a_workload_cannot_have_are_told() {
    let of = |kind, policy: &str| {
        let annotations = json!({ names::RELEASE_POLICY: policy });
        let object = if kind == Kind::Pod {
            pod(&annotations)
        } else {
            workload(4, &annotations)
        };
        warnings(&created(kind, &object))
    };
    for kind in [Kind::DaemonSet, Kind::Job, Kind::Pod] {
        for policy in ["immutable", "never"] {
            assert_eq!(of(kind, policy), ["PodNameWithoutIndex"], "{kind:?}");
        }
    }
    for kind in [Kind::Deployment, Kind::ReplicaSet, Kind::StatefulSet] {
        for policy in ["immutable", "never", ""] {
            assert!(of(kind, policy).is_empty(), "{kind:?} {policy}");
        }
    }
    // A pod with a number comes back under its name; nothing tells until when.
    let mut numbered = pod(&json!({ names::RELEASE_POLICY: "immutable" }));
    numbered["metadata"]["name"] = json!("web-0");
    let verdict = created(Kind::Pod, &numbered);
    assert_eq!(warnings(&verdict), ["WorkloadHasNoReplicas"]);
    numbered["metadata"]["ownerReferences"] = json!([{ "controller": true }]);
    assert!(created(Kind::Pod, &numbered).warnings.is_empty());
}

#[test]
fn odd_policies_are_told() {
    for odd in ["Immutable", " never", "always", "on-delete"] {
        let annotations = json!({ names::RELEASE_POLICY: odd });
        let verdict = created(Kind::Deployment, &workload(4, &annotations));
        assert!(verdict.is_allowed());
        assert_eq!(warnings(&verdict), ["UnknownReleasePolicy"], "{odd}");
    }
    let annotations = json!({ names::RELEASE_POLICY: "immutable", names::POOL: "blue" });
    let verdict = created(Kind::Deployment, &workload(4, &annotations));
    assert_eq!(warnings(&verdict), ["PolicyOverruledByPool"]);
}

#[test]
fn wishes_about_an_address_that_nobody_asks_for_are_told() {
    for (name, value) in [
        (names::RELEASE_POLICY, "never"),
        (names::POOL, "blue"),
        (names::FAMILIES, "v4"),
        (names::ARGS, r#"{"request_ip_range":[["10.0.70.2"]]}"#),
    ] {
        let mut object = workload(4, &json!({ name: value }));
        let containers = object["spec"]["template"]["spec"]["containers"].take();
        object["spec"]["template"]["spec"]["containers"] = json!([{ "name": "web" }]);
        object["spec"]["template"]["spec"]["initContainers"] = containers;
        let verdict = created(Kind::Deployment, &object);
        assert_eq!(warnings(&verdict), ["AddressNotWanted"], "{name}");
    }
    // Limits make requests.
    let mut object = pod(&json!({ names::POOL: "blue" }));
    object["metadata"]["name"] = json!("web-0");
    object["spec"]["containers"] = json!([{ "resources": { "limits": { names::RESOURCE: "1" } } }]);
    assert!(created(Kind::Pod, &object).warnings.is_empty());
}

#[test]
fn ranges_are_compared_with_replicas_and_configuration() {
    let of = |kind, replicas, ranges: &str, policy: Option<&str>| {
        let args = format!(r#"{{"request_ip_range":{ranges}}}"#);
        let mut annotations = json!({ names::ARGS: args });
        if let Some(policy) = policy {
            annotations[names::RELEASE_POLICY] = json!(policy);
        }
        warnings(&created(kind, &workload(replicas, &annotations)))
    };
    let set = Kind::StatefulSet;
    assert!(of(set, 3, r#"[["10.0.70.2~10.0.70.4"]]"#, None).is_empty());
    assert_eq!(
        of(set, 4, r#"[["10.0.70.2~10.0.70.4"]]"#, None),
        ["RangeTooSmall"]
    );
    // Twice the same address is one.
    assert_eq!(
        of(set, 2, r#"[["10.0.70.2","10.0.70.2"]]"#, None),
        ["RangeTooSmall"]
    );
    assert_eq!(
        of(set, 1, r#"[["10.0.70.2"],["192.0.2.1"]]"#, None),
        ["RangeNotConfigured"]
    );
    assert!(of(Kind::DaemonSet, 4, r#"[["10.0.70.2"]]"#, None).is_empty());
    let kept = of(
        Kind::Deployment,
        4,
        r#"[["10.0.70.2~10.0.70.9"]]"#,
        Some("never"),
    );
    assert_eq!(kept, ["RangesWithPolicy"]);
    // Nobody knows what is configured.
    let annotations = json!({ names::ARGS: r#"{"request_ip_range":[["192.0.2.1"]]}"# });
    let object = workload(1, &annotations);
    let verdict = judge(set, Write::Create(&object), Author::Other, None);
    assert!(verdict.warnings.is_empty());
}

#[test]
fn other_combinations_that_do_not_work_are_told() {
    let args = r#"{"request_ip_range":[["10.0.70.2"]]}"#;
    let both = json!({ names::ARGS: args, names::FAMILIES: "v4" });
    let verdict = created(Kind::Pod, &pod(&both));
    assert_eq!(warnings(&verdict), ["FamiliesIgnored"]);

    let mut object = workload(4, &json!({}));
    object["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
    object["spec"]["template"]["spec"]["nodeName"] = json!("node-1");
    let verdict = created(Kind::Deployment, &object);
    assert_eq!(warnings(&verdict), ["HostNetwork", "NodeNamed"]);
    let places: Vec<&str> = verdict.warnings.iter().map(|it| &*it.place).collect();
    let expected = [
        "spec.template.spec.hostNetwork",
        "spec.template.spec.nodeName",
    ];
    assert_eq!(places, expected);

    let mut bound = pod(&json!({}));
    bound["spec"]["nodeName"] = json!("node-1");
    let verdict = created(Kind::Pod, &bound);
    assert_eq!(warnings(&verdict), ["NodeNamed"]);
    assert_eq!(verdict.warnings[0].place, "spec.nodeName");
    // Everybody is on a node in the end.
    let write = Write::Update {
        new: &bound,
        old: &bound,
    };
    let verdict = judge(Kind::Pod, write, Author::Other, None);
    assert_eq!(verdict, Verdict::default());
}

#[test]
fn updates_of_deployments_that_keep_addresses_are_looked_at() {
    let kept = json!({ names::RELEASE_POLICY: "immutable" });
    let mut fixed = workload(2, &kept);
    assert!(created(Kind::Deployment, &fixed).warnings.is_empty());
    fixed["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 0 } });
    let verdict = created(Kind::Deployment, &fixed);
    assert_eq!(warnings(&verdict), ["RolloutWaits"]);
    let mut one = workload(1, &kept);
    one["spec"]["strategy"] = json!({ "rollingUpdate": { "maxUnavailable": 1, "maxSurge": 0 } });
    let verdict = created(Kind::Deployment, &one);
    assert_eq!(warnings(&verdict), ["RolloutInterrupts"]);
    let free = workload(1, &json!({}));
    assert!(created(Kind::Deployment, &free).warnings.is_empty());
    let set = workload(1, &kept);
    assert!(created(Kind::StatefulSet, &set).warnings.is_empty());
}

#[test]
fn an_unknown_way_to_update_is_refused_and_forgiven_to_who_has_it_already() {
    for annotations in [json!({}), json!({ names::RELEASE_POLICY: "never" })] {
        let mut web = workload(2, &annotations);
        for word in ["handover", "surge", "wait"] {
            web["metadata"]["annotations"] = json!({ names::ROLLOUT: word });
            assert!(created(Kind::Deployment, &web).is_allowed(), "{word}");
        }
        web["metadata"]["annotations"] = json!({ names::ROLLOUT: "Handover" });
        let verdict = created(Kind::Deployment, &web);
        assert_eq!(refusals(&verdict), ["InvalidRollout"]);
        let message = verdict.message();
        for part in ["metadata.annotations[floe.dev/rollout]", "\"Handover\""] {
            assert!(message.contains(part), "{message}");
        }
        // Nobody reads it there.
        assert!(created(Kind::StatefulSet, &web).is_allowed());

        let mut scaled = web.clone();
        scaled["spec"]["replicas"] = json!(3);
        let write = Write::Update {
            new: &scaled,
            old: &web,
        };
        let verdict = judge(Kind::Deployment, write, Author::Other, None);
        assert!(verdict.is_allowed());
        assert_eq!(warnings(&verdict), ["InvalidRollout"]);
        scaled["metadata"]["annotations"] = json!({ names::ROLLOUT: "soon" });
        let write = Write::Update {
            new: &scaled,
            old: &web,
        };
        let verdict = judge(Kind::Deployment, write, Author::Other, None);
        assert_eq!(refusals(&verdict), ["InvalidRollout"]);
    }
}

#[test]
fn every_kind_is_known_by_its_resource() {
    for (group, resource, kind) in [
        ("", "pods", Kind::Pod),
        ("apps", "deployments", Kind::Deployment),
        ("apps", "replicasets", Kind::ReplicaSet),
        ("apps", "statefulsets", Kind::StatefulSet),
        ("apps", "daemonsets", Kind::DaemonSet),
        ("batch", "jobs", Kind::Job),
        ("batch", "cronjobs", Kind::CronJob),
    ] {
        assert_eq!(Kind::of(group, resource), Some(kind));
    }
    assert_eq!(Kind::of("apps", "pods"), None);
}

proptest! {
    #[test]
    fn no_annotation_is_too_strange(args in ".*", pool in ".*", shared in ".*", policy in ".*") {
        let annotations = json!({
            names::ARGS: args, names::POOL: pool, claim::ANNOTATION: shared,
            names::RELEASE_POLICY: policy,
        });
        for (kind, object) in [
            (Kind::Pod, pod(&annotations)),
            (Kind::Deployment, workload(1, &annotations)),
        ] {
            let verdict = created(kind, &object);
            // Unchanged, it is never refused.
            let write = Write::Update { new: &object, old: &object };
            let again = judge(kind, write, Author::Other, None);
            prop_assert!(again.is_allowed());
            prop_assert_eq!(verdict.is_allowed(), verdict.message().is_empty());
        }
    }
}
