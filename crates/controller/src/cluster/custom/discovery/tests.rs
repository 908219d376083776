use serde_json::{Value, json};

use super::*;

fn resource(plural: &str, kind: &str, below: &[&str]) -> Value {
    let below: Vec<Value> = below
        .iter()
        .map(|name| json!({ "subresource": name, "verbs": ["get"] }))
        .collect();
    json!({
        "resource": plural, "responseKind": { "group": "", "version": "", "kind": kind },
        "scope": "Namespaced", "verbs": ["get", "list", "watch"], "subresources": below,
    })
}

fn list(groups: &Value) -> Vec<Served> {
    served(serde_json::from_value(json!({ "items": groups })).unwrap())
}

fn wanted(text: &str) -> GroupKind {
    text.parse().unwrap()
}

#[test]
fn the_preferred_version_that_has_the_kind_counts() {
    let mut silent = resource("reviews", "Review", &[]);
    silent["verbs"] = json!(["create"]);
    let mut wide = resource("wides", "Wide", &[]);
    wide["scope"] = json!("Cluster");
    let all = list(&json!([{
        "metadata": { "name": "apps.tkestack.io" },
        "versions": [
            { "version": "v2", "resources": [silent, wide] },
            { "version": "v1", "resources": [resource("tapps", "TApp", &["status", "scale"])] },
            { "version": "v1alpha1", "resources": [resource("tapps", "TApp", &[])] },
        ],
    }]));
    let expected = Served {
        group: "apps.tkestack.io".into(),
        version: "v1".into(),
        kind: "TApp".into(),
        plural: "tapps".into(),
        namespaced: true,
        has_scale: true,
    };
    assert_eq!(all.len(), 2);
    assert!(!all[0].namespaced);
    assert_eq!(all[1], expected);
    assert_eq!(all[1].to_string(), "tapps.apps.tkestack.io");
    assert_eq!(all[1].resource().api_version, "apps.tkestack.io/v1");
}

#[test]
fn a_kind_is_found_with_and_without_its_group() {
    let group = |name: &str, resources: &[Value]| {
        let versions = json!([{ "version": "v1", "resources": resources }]);
        json!({ "metadata": { "name": name }, "versions": versions })
    };
    let mut all = list(&json!([group(
        "",
        &[resource("nodes", "Node", &[]), resource("pods", "Pod", &[])],
    )]));
    all.extend(list(&json!([
        group(
            "a.org",
            &[resource("foos", "Foo", &[]), resource("nodes", "Node", &[])]
        ),
        group(
            "b.org",
            &[resource("foos", "Foo", &[]), resource("bars", "Bar", &[])]
        ),
    ])));
    let ambiguous = |names: [&str; 2]| NotFound::Ambiguous(names.map(str::to_owned).into());
    let cases = [
        ("Foo.a.org", Ok("foos.a.org")),
        ("foo.b.org", Ok("foos.b.org")),
        ("bar", Ok("bars.b.org")),
        ("Bar", Ok("bars.b.org")),
        ("Node", Ok("nodes")),
        ("pod", Ok("pods")),
        ("foo", Err(ambiguous(["foos.a.org", "foos.b.org"]))),
        ("node", Err(ambiguous(["nodes", "nodes.a.org"]))),
        ("Bar.a.org", Err(NotFound::NotServed)),
        ("other", Err(NotFound::NotServed)),
    ];
    for (text, expected) in cases {
        let found = find(&all, &wanted(text)).map(ToString::to_string);
        assert_eq!(found, expected.map(str::to_owned), "{text}");
    }
}
