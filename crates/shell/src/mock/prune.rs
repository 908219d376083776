//! Fields that a schema does not know are dropped, as the API server does for custom resources.

use serde_json::Value;

/// Drops from an object what the `openAPIV3Schema` of its CRD does not know.
pub(super) fn prune(object: &mut Value, schema: &Value) {
    let Some(members) = object.as_object_mut() else {
        return;
    };
    let of_every_object = ["apiVersion", "kind", "metadata"];
    for (name, value) in members.iter_mut() {
        let known = &schema["properties"][name];
        if !of_every_object.contains(&name.as_str()) && !known.is_null() {
            prune_value(value, known);
        }
    }
    members.retain(|name, _| {
        of_every_object.contains(&name.as_str()) || !schema["properties"][name].is_null()
    });
}

fn prune_value(value: &mut Value, schema: &Value) {
    if schema["x-kubernetes-preserve-unknown-fields"] == true {
        return;
    }
    match value {
        Value::Object(members) => {
            let more = &schema["additionalProperties"];
            let known = |name: &str| {
                let own = &schema["properties"][name];
                if own.is_null() { more } else { own }
            };
            members.retain(|name, _| !known(name).is_null());
            for (name, value) in members.iter_mut() {
                prune_value(value, known(name));
            }
        }
        Value::Array(items) => {
            for item in items {
                prune_value(item, &schema["items"]);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_the_schema_knows_is_kept() {
        let text = json!({ "type": "string" });
        let schema = json!({ "properties": {
            "spec": { "properties": {
                "list": { "items": { "properties": { "a": text } } },
                "map": { "additionalProperties": { "properties": { "a": text } } },
                "free": { "x-kubernetes-preserve-unknown-fields": true },
            } },
        } });
        let mut object = json!({
            "kind": "K", "metadata": { "name": "n" }, "other": 1, "status": {},
            "spec": {
                "list": [{ "a": "1", "b": "2" }], "map": { "k": { "a": "1", "b": "2" } },
                "free": { "x": { "y": 1 } }, "unknown": 1,
            },
        });
        prune(&mut object, &schema);
        let kept = json!({
            "kind": "K", "metadata": { "name": "n" },
            "spec": {
                "list": [{ "a": "1" }], "map": { "k": { "a": "1" } }, "free": { "x": { "y": 1 } },
            },
        });
        assert_eq!(object, kept);
    }
}
