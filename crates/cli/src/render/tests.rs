use serde_json::{Value, json};

use super::*;
use crate::fixture::record;

fn object(name: &str) -> DynamicObject {
    let mut object = record(name, "sts_db_pg_pg-0", "");
    object["metadata"]["managedFields"] = json!([{ "manager": "floe" }]);
    object["spec"]["subnet"] = json!("kept as it is");
    serde_json::from_value(object).unwrap()
}

#[test]
fn one_object_is_shown_as_itself_and_a_list_as_a_list() {
    let (a, b) = (object("10.0.70.2"), object("10.0.70.3"));
    let show = |found: &[&DynamicObject], is_list| -> Value {
        let text = objects(Format::Json, "r", found.iter().copied(), is_list).unwrap();
        serde_json::from_str(&text).unwrap()
    };
    let one = show(&[&a], false);
    assert_eq!(one["kind"], "FloatingIP");
    assert_eq!(one["spec"]["subnet"], "kept as it is");
    assert_eq!(one["metadata"].get("managedFields"), None);
    for (found, is_list, count) in [(&[][..], true, 0), (&[&a], true, 1), (&[&a, &b], false, 2)] {
        let list = show(found, is_list);
        assert_eq!(
            (&list["apiVersion"], &list["kind"]),
            (&json!("v1"), &json!("List"))
        );
        assert_eq!(list["items"].as_array().unwrap().len(), count);
    }
}

#[test]
fn names_are_those_that_kubectl_takes() {
    let found = [object("10.0.70.2"), object("10.0.70.3")];
    let text = objects(Format::Name, "floatingip.galaxy.k8s.io", &found, true).unwrap();
    assert_eq!(
        text,
        "floatingip.galaxy.k8s.io/10.0.70.2\nfloatingip.galaxy.k8s.io/10.0.70.3\n"
    );
}

#[test]
fn yaml_is_as_people_write_it() {
    let text = objects(Format::Yaml, "r", [&object("10.0.70.2")], true).unwrap();
    assert_eq!(
        text,
        "apiVersion: v1\n\
         items:\n\
         - apiVersion: galaxy.k8s.io/v1alpha1\n\
         \x20 kind: FloatingIP\n\
         \x20 metadata:\n\
         \x20   name: \"10.0.70.2\"\n\
         \x20 spec:\n\
         \x20   attribute: \"{\\\"NodeName\\\":\\\"\\\",\\\"Uid\\\":\\\"\\\"}\"\n\
         \x20   key: sts_db_pg_pg-0\n\
         \x20   policy: 2\n\
         \x20   subnet: kept as it is\n\
         \x20   updateTime: \"2026-01-01T00:00:00Z\"\n\
         kind: List\n\
         metadata:\n\
         \x20 resourceVersion: \"\"\n"
    );
}
