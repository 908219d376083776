use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    needs::{Accepts, Looks, Needs},
    patch::{Gated, has_gate, spec},
    *,
};
use crate::nodepool::matching::Taint;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

fn subnets(values: &[&str]) -> BTreeSet<String> {
    values.iter().map(ToString::to_string).collect()
}

fn affinity(terms: &Value) -> Value {
    json!({ "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } })
}

#[test]
fn a_pod_without_affinity_gets_one_term_and_keeps_other_gates() {
    let pod = Gated {
        gates: vec![json!({ "name": "a.example/x" }), json!({ "name": GATE })],
        affinity: None,
    };
    let expression =
        json!({ "key": NODE_SUBNET, "operator": "In", "values": ["10.0.1.0_24", "10.0.2.0_24"] });
    assert_eq!(
        spec(&pod, Some(&subnets(&["10.0.2.0_24", "10.0.1.0_24"]))),
        json!({
            "schedulingGates": [{ "name": "a.example/x" }],
            "affinity": affinity(&json!([{ "matchExpressions": [expression] }])),
        })
    );
    // Only the gate goes.
    assert_eq!(
        spec(&pod, None),
        json!({ "schedulingGates": [{ "name": "a.example/x" }] })
    );
}

#[test]
fn an_empty_term_selects_nothing_and_is_left_alone() {
    let own = json!({ "key": "a", "operator": "Exists" });
    let field = json!({ "key": "metadata.name", "operator": "In", "values": ["n1"] });
    let terms = json!([
        {},
        { "matchExpressions": [], "matchFields": null },
        { "matchExpressions": [own] },
        { "matchFields": [field] },
    ]);
    let pod = Gated {
        gates: vec![json!({ "name": GATE })],
        affinity: Some(affinity(&terms)),
    };
    let patch = spec(&pod, Some(&subnets(&["s_1"])));
    assert_eq!(patch["schedulingGates"], Value::Null);
    let ours = json!({ "key": NODE_SUBNET, "operator": "In", "values": ["s_1"] });
    assert_eq!(
        patch["affinity"],
        affinity(&json!([
            {},
            { "matchExpressions": [], "matchFields": null },
            { "matchExpressions": [own, ours] },
            { "matchFields": [field], "matchExpressions": [ours] },
        ]))
    );
}

/// Terms as the API server lets them through, ours among them now and then.
fn any_terms() -> impl Strategy<Value = Option<Vec<Value>>> {
    let expression = prop_oneof![
        4 => ("[a-c]", prop_oneof![Just("In"), Just("NotIn")]).prop_map(
            |(key, operator)| json!({ "key": key, "operator": operator, "values": ["v"] })
        ),
        1 => Just(json!({ "key": NODE_SUBNET, "operator": "In", "values": ["s_9"] })),
    ];
    let term = prop_oneof![
        1 => Just(json!({})),
        6 => (
            proptest::collection::vec(expression, 0..4),
            proptest::option::of(Just(json!([
                { "key": "metadata.name", "operator": "In", "values": ["n1"] }
            ]))),
        )
            .prop_map(|(expressions, fields)| {
                let mut term = json!({ "matchExpressions": expressions });
                if let Some(fields) = fields {
                    term["matchFields"] = fields;
                }
                term
            }),
    ];
    proptest::option::of(proptest::collection::vec(term, 1..5))
}

fn any_gates() -> impl Strategy<Value = Vec<Value>> {
    let name = prop_oneof![
        Just("a.example/x"),
        Just("b.example/y"),
        Just("floe.dev/ip2")
    ];
    proptest::collection::btree_set(name, 0..4).prop_flat_map(|names| {
        let others: Vec<Value> = names.iter().map(|it| json!({ "name": it })).collect();
        (0..=others.len()).prop_map(move |place| {
            let mut gates = others.clone();
            gates.insert(place, json!({ "name": GATE }));
            gates
        })
    })
}

/// RFC 7396, as the API server does it.
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (name, value) in patch {
        if value.is_null() {
            if let Some(members) = target.as_object_mut() {
                members.remove(name);
            }
        } else {
            merge(&mut target[name], value);
        }
    }
}

fn expressions(term: &Value) -> Vec<Value> {
    term["matchExpressions"]
        .as_array()
        .cloned()
        .unwrap_or_default()
}

proptest! {
    /// Every term that can select anything gets exactly one more expression behind its
    /// own, other gates stay in their order, and a second time changes nothing.
    #[test]
    fn a_patch_narrows_each_term_once(gates in any_gates(), terms in any_terms(), of_pods: bool) {
        let ours = json!({ "key": NODE_SUBNET, "operator": "In", "values": ["s_1", "s_2"] });
        let mut before = json!({ "nodeName": null, "schedulingGates": gates });
        if let Some(terms) = &terms {
            before["affinity"] = affinity(&json!(terms));
        }
        if of_pods {
            before["affinity"]["podAffinity"] = json!({ "x": 1 });
            before["affinity"]["nodeAffinity"]["preferred"] = json!([{ "weight": 1 }]);
        }
        let gated = |spec: &Value| Gated {
            gates: spec["schedulingGates"].as_array().cloned().unwrap_or_default(),
            affinity: spec.get("affinity").cloned(),
        };
        let values = subnets(&["s_1", "s_2"]);
        let mut after = before.clone();
        merge(&mut after, &spec(&gated(&before), Some(&values)));

        let others: Vec<&Value> = gates.iter().filter(|it| it["name"] != GATE).collect();
        let left = gated(&after).gates;
        prop_assert_eq!(left.iter().collect::<Vec<_>>(), others);
        prop_assert!(!has_gate(&left));
        let found = patch::terms(&after["affinity"]).unwrap();
        match &terms {
            None => prop_assert_eq!(found, &[json!({ "matchExpressions": [ours] })]),
            Some(terms) => {
                prop_assert_eq!(found.len(), terms.len());
                for (old, new) in terms.iter().zip(found) {
                    let (was, is) = (expressions(old), expressions(new));
                    prop_assert_eq!(&is[..was.len()], &was[..]);
                    prop_assert_eq!(&new["matchFields"], &old["matchFields"]);
                    let empty = was.is_empty() && old["matchFields"].is_null();
                    let more = if empty { vec![] } else { vec![ours.clone()] };
                    prop_assert_eq!(&is[was.len()..], &more[..]);
                }
            }
        }
        if of_pods {
            prop_assert_eq!(&after["affinity"]["podAffinity"], &json!({ "x": 1 }));
            let preferred = &after["affinity"]["nodeAffinity"]["preferred"];
            prop_assert_eq!(preferred, &json!([{ "weight": 1 }]));
        }
        let mut again = after.clone();
        merge(&mut again, &spec(&gated(&after), Some(&values)));
        prop_assert_eq!(again, after);
    }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let pairs = pairs.iter();
    pairs
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect()
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint {
        key: key.into(),
        value: "v".into(),
        effect: effect.into(),
    }
}

fn accepts(needs: &Needs, pairs: &[(&str, &str)], taints: &[Taint]) -> Accepts {
    needs.accept(Looks {
        name: "n1",
        labels: &labels(pairs),
        taints,
    })
}

#[test]
fn selector_and_terms_decide_as_in_kubernetes() {
    let any = Needs::default();
    assert_eq!(accepts(&any, &[], &[]), Accepts::Yes);
    let selector = Needs::new(labels(&[("rack", "a")]), None, &[]);
    assert_eq!(accepts(&selector, &[("rack", "a")], &[]), Accepts::Yes);
    assert_eq!(accepts(&selector, &[("rack", "b")], &[]), Accepts::No);
    let table = [
        (r#"{"key":"k","operator":"In","values":["5","6"]}"#, true),
        (r#"{"key":"k","operator":"In","values":["6"]}"#, false),
        (r#"{"key":"k","operator":"NotIn","values":["6"]}"#, true),
        (r#"{"key":"x","operator":"NotIn","values":["6"]}"#, true),
        (r#"{"key":"k","operator":"NotIn","values":["5"]}"#, false),
        (r#"{"key":"k","operator":"Exists"}"#, true),
        (r#"{"key":"x","operator":"Exists"}"#, false),
        (r#"{"key":"x","operator":"DoesNotExist"}"#, true),
        (r#"{"key":"k","operator":"DoesNotExist"}"#, false),
        (r#"{"key":"k","operator":"Gt","values":["4"]}"#, true),
        (r#"{"key":"k","operator":"Gt","values":["5"]}"#, false),
        (r#"{"key":"k","operator":"Lt","values":["6"]}"#, true),
        (r#"{"key":"k","operator":"Lt","values":["x"]}"#, false),
        (r#"{"key":"k","operator":"Newer","values":["x"]}"#, false),
    ];
    for (expression, holds) in table {
        let expression: Value = serde_json::from_str(expression).unwrap();
        let alone = affinity(&json!([{ "matchExpressions": [expression] }]));
        let wanted = if holds { Accepts::Yes } else { Accepts::No };
        let needs = Needs::new(BTreeMap::new(), Some(&alone), &[]);
        assert_eq!(accepts(&needs, &[("k", "5")], &[]), wanted, "{expression}");
        // Terms are alternatives.
        let or = affinity(&json!([{}, { "matchExpressions": [expression] },
            { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }]));
        let needs = Needs::new(BTreeMap::new(), Some(&or), &[]);
        assert_eq!(accepts(&needs, &[("k", "5")], &[]), Accepts::Yes);
    }
    for none in [json!([{}]), json!([]), json!(["x"])] {
        let needs = Needs::new(BTreeMap::new(), Some(&affinity(&none)), &[]);
        assert_eq!(accepts(&needs, &[], &[]), Accepts::No, "{none}");
    }
}

#[test]
fn taints_keep_off_unless_they_are_tolerated_or_pass_by_themselves() {
    let needs = Needs::new(
        BTreeMap::new(),
        None,
        &[json!({ "key": "mine", "operator": "Exists" })],
    );
    let table = [
        ("mine", "NoSchedule", Accepts::Yes),
        ("other", "NoSchedule", Accepts::No),
        ("other", "NoExecute", Accepts::No),
        ("other", "PreferNoSchedule", Accepts::Yes),
        ("node.kubernetes.io/not-ready", "NoExecute", Accepts::Later),
        (
            "node.kubernetes.io/unschedulable",
            "NoSchedule",
            Accepts::No,
        ),
    ];
    for (key, effect, wanted) in table {
        assert_eq!(accepts(&needs, &[], &[taint(key, effect)]), wanted, "{key}");
    }
    let both = [
        taint("node.kubernetes.io/not-ready", "NoExecute"),
        taint("other", "NoSchedule"),
    ];
    assert_eq!(accepts(&needs, &[], &both), Accepts::No);
}

#[test]
fn a_value_of_the_label_has_only_what_labels_may_have() {
    let table = [
        ("10.0.1.0/24", "10.0.1.0_24"),
        ("fd00:1::/64", "fd00-0001-0000-0000-0000-0000-0000-0000_64"),
        ("::/0", "0000-0000-0000-0000-0000-0000-0000-0000_0"),
    ];
    for (subnet, value) in table {
        assert_eq!(subnet_value(subnet.parse().unwrap()), value);
        assert!(value.len() <= 63);
    }
}

#[test]
fn amounts_are_written_as_the_api_server_writes_them() {
    let table = [
        (0, "0"),
        (7, "7"),
        (999, "999"),
        (1000, "1k"),
        (1500, "1500"),
        (20_000, "20k"),
        (1_000_000, "1M"),
        (1_001_000, "1001k"),
    ];
    for (amount, text) in table {
        assert_eq!(quantity(amount), text);
    }
}
