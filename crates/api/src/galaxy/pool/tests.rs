use serde_json::{Value, json};

use super::*;
use crate::crds::tests::{dropped, refusals};

/// The sample of galaxy's documents.
const DOCUMENTED: &str = "
apiVersion: galaxy.k8s.io/v1alpha1
kind: Pool
metadata:
  name: example-pool
size: 4
";

fn documented() -> Value {
    serde_saphyr::from_str(DOCUMENTED).unwrap()
}

/// As galaxy's management API stores one.
fn stored() -> Value {
    json!({
        "apiVersion": "galaxy.k8s.io/v1alpha1",
        "kind": "Pool",
        "metadata": {"name": "blue-green", "namespace": "kube-system"},
        "size": 4,
        "preAllocateIP": true,
    })
}

fn decode(object: Value) -> Pool {
    serde_json::from_value(object).unwrap()
}

#[test]
fn decodes_the_documented_sample() {
    let pool = decode(documented());
    assert_eq!(pool.metadata.name.as_deref(), Some("example-pool"));
    assert_eq!((pool.limit(), pool.pre_allocate_ip), (4, false));
}

#[test]
fn writes_what_it_read() {
    let pool = decode(stored());
    assert!(pool.pre_allocate_ip);
    assert_eq!(serde_json::to_value(pool).unwrap(), stored());
}

#[test]
fn a_missing_or_null_member_is_zero() {
    assert_eq!(
        decode(json!({"size": null, "preAllocateIP": null})),
        Pool::default()
    );
    assert_eq!(decode(json!({})), Pool::default());
}

/// galaxy's management API checked nothing.
#[test]
fn a_negative_size_admits_nothing() {
    assert_eq!(decode(json!({"size": -3})).limit(), 0);
}

#[test]
fn the_server_accepts_and_keeps_what_galaxy_wrote_and_documents() {
    for object in [documented(), stored()] {
        assert_eq!(refusals(&definition(), &object), [] as [&str; 0]);
        assert_eq!(dropped(&definition(), &object), [] as [&str; 0]);
    }
}

#[test]
fn the_server_refuses_what_has_no_meaning() {
    let with = |member: &str, value: Value| {
        let mut object = stored();
        object[member] = value;
        refusals(&definition(), &object)
    };
    assert_eq!(with("size", json!(0)), [] as [&str; 0]);
    assert_eq!(with("size", json!(-1)), [".size: below 0.0"]);
    assert_eq!(
        with("size", json!("4")),
        [r#".size: not of type "integer""#]
    );
    assert_eq!(
        with("preAllocateIP", json!("yes")),
        [r#".preAllocateIP: not of type "boolean""#]
    );

    let mut sizeless = stored();
    sizeless.as_object_mut().unwrap().remove("size");
    assert_eq!(
        refusals(&definition(), &sizeless),
        [r#": "size" is missing"#]
    );

    let mut under_spec = documented();
    under_spec["spec"] = json!({"preAllocateIP": true});
    assert!(dropped(&definition(), &under_spec).contains(&"spec".to_owned()));
}

/// A default is stored, so that galaxy's schema, which requires the member,
/// accepts the object, too.
#[test]
fn the_documented_sample_is_completed_for_galaxy() {
    let definition = serde_json::to_value(definition()).unwrap();
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    assert_eq!(
        schema["properties"]["preAllocateIP"]["default"],
        json!(false)
    );
}
