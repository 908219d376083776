use serde_json::json;

use super::*;

#[test]
fn the_names_are_those_of_the_core() {
    let all = [
        names::RELEASE_POLICY,
        names::POOL,
        names::ARGS,
        names::FAMILIES,
        REVISION,
        CALICO_SHARED,
        FLOE_SHARED,
        names::ROLLOUT,
    ];
    let annotations: BTreeMap<&str, &str> = all.into_iter().map(|name| (name, "x")).collect();
    let pod: PodObject = serde_json::from_value(json!({
        "metadata": { "annotations": annotations, "name": "p" },
        "spec": { "containers": [{ "resources": { "requests": { names::RESOURCE: "1" } } }] },
    }))
    .unwrap();
    let read = pod.metadata.annotations.unwrap();
    assert!(all.into_iter().all(|name| read.contains_key(name)));
    assert!(pod.spec.containers[0].resources.requests.want_address());
}

#[test]
fn what_nobody_looks_at_is_dropped() {
    let pod: PodObject = serde_json::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "p", "annotations": { "c": "d" }, "generateName": "p-",
            "managedFields": [{ "manager": "m", "fieldsV1": { "f:x": {} } }],
        },
        "spec": { "containers": null, "volumes": [1, 2] },
        "status": null,
    }))
    .unwrap();
    let meta = pod.metadata;
    assert_eq!(meta.generate_name, None);
    assert_eq!(meta.managed_fields, None);
    assert_eq!(meta.annotations, Some(BTreeMap::new()));
    assert!(pod.spec.containers.is_empty());
    assert!(pod.status.pod_ips.is_empty());
}
