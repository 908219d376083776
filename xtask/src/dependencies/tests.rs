use serde_json::{Value, json};

use super::*;

const RULES_OF_TWO: &[Rule] = &[
    Rule {
        name: "heart",
        may_use: &[],
        why: "it is pure",
        never: &[Ban {
            crates: &["tokio", "kube-*"],
            reach: Reach::AtAll,
            what: "a runtime: it only decides",
        }],
        features: &[],
    },
    Rule {
        name: "shell",
        may_use: &["heart"],
        why: "it is thin",
        never: &[Ban {
            crates: &["cloud"],
            reach: Reach::Directly,
            what: "clouds: others do",
        }],
        features: &[rules::Features {
            of: "kube",
            only: &["derive"],
            why: "the rest is a client",
        }],
    },
];

/// A workspace written as a list of edges; all crates that are not members come
/// from outside.
struct Tree<'a> {
    members: &'a [&'a str],
    edges: &'a [Edge<'a>],
}

/// From, to, kind as cargo names it (none for a normal one), declared features.
type Edge<'a> = (&'a str, &'a str, Option<&'a str>, &'a [&'a str]);

impl Tree<'_> {
    fn metadata(&self) -> Value {
        let mut names: Vec<&str> = self.members.to_vec();
        names.extend(self.edges.iter().flat_map(|edge| [edge.0, edge.1]));
        names.sort_unstable();
        names.dedup();
        let edges_of = |name| self.edges.iter().filter(move |edge| edge.0 == name);
        let packages: Vec<Value> = names
            .iter()
            .map(|name| {
                let dependencies: Vec<Value> = edges_of(*name)
                    .map(|(_, to, kind, features)| {
                        let (default, others): (Vec<&str>, Vec<&str>) =
                            features.iter().partition(|feature| **feature == "default");
                        json!({"name": to, "kind": kind, "features": others, "uses_default_features": !default.is_empty()})
                    })
                    .collect();
                json!({"id": format!("id {name}"), "name": name, "dependencies": dependencies})
            })
            .collect();
        let nodes: Vec<Value> = names
            .iter()
            .map(|name| {
                let deps: Vec<Value> = edges_of(*name)
                    .map(|(_, to, kind, _)| json!({"pkg": format!("id {to}"), "dep_kinds": [{"kind": kind, "target": null}]}))
                    .collect();
                json!({"id": format!("id {name}"), "deps": deps})
            })
            .collect();
        let members: Vec<String> = self
            .members
            .iter()
            .map(|name| format!("id {name}"))
            .collect();
        json!({"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}})
    }

    fn violations(&self) -> Vec<String> {
        let json = self.metadata().to_string();
        let graph = Graph::parse(json.as_bytes()).expect("metadata in the form of cargo's");
        violations(&graph, RULES_OF_TWO)
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}

fn check(members: &[&str], edges: &[Edge<'_>]) -> Vec<String> {
    Tree { members, edges }.violations()
}

#[test]
fn a_tree_that_keeps_the_rules_is_fine() {
    let found = check(
        &["heart", "shell"],
        &[
            ("heart", "jiff", None, &["default"]),
            ("shell", "heart", None, &[]),
            ("shell", "tokio", None, &["default"]),
            ("shell", "kube", None, &["derive"]),
        ],
    );
    assert_eq!(found, [""; 0]);
}

#[test]
fn a_hidden_runtime_is_found_by_its_shortest_path() {
    let found = check(
        &["heart"],
        &[
            ("heart", "long", None, &[]),
            ("long", "way", None, &[]),
            ("way", "tokio", None, &[]),
            ("heart", "jiff", None, &[]),
            ("jiff", "tokio", None, &[]),
            ("tokio", "kube-core", None, &[]),
        ],
    );
    assert_eq!(
        found,
        ["heart -> jiff -> tokio: heart may not reach a runtime: it only decides"]
    );
}

#[test]
fn a_star_stands_for_any_rest() {
    let found = check(
        &["heart"],
        &[
            ("heart", "kube-core", None, &[]),
            ("heart", "kube", None, &[]),
        ],
    );
    assert_eq!(
        found,
        ["heart -> kube-core: heart may not reach a runtime: it only decides"]
    );
}

#[test]
fn external_crates_count_only_where_they_are_linked() {
    let found = check(
        &["heart"],
        &[
            ("heart", "tokio", Some("dev"), &[]),
            ("heart", "jiff", None, &[]),
            ("jiff", "tokio", Some("build"), &[]),
        ],
    );
    assert_eq!(found, [""; 0]);
}

#[test]
fn an_edge_in_the_workspace_counts_in_tests_too() {
    let found = check(&["heart", "shell"], &[("heart", "shell", Some("dev"), &[])]);
    assert_eq!(
        found,
        ["heart -> shell: heart may use no other crate of the workspace, because it is pure"]
    );
}

#[test]
fn nothing_depends_on_the_testbed() {
    let found = check(
        &["shell", "floe-testbed"],
        &[("shell", "floe-testbed", None, &[])],
    );
    assert!(
        found.contains(&"shell -> floe-testbed: floe-testbed is for tests, nothing that is shipped may need it".to_owned()),
        "{found:?}"
    );
}

#[test]
fn a_direct_ban_lets_a_neighbour_bring_the_crate() {
    let allowed = check(
        &["heart", "shell"],
        &[("shell", "heart", None, &[]), ("heart", "cloud", None, &[])],
    );
    assert_eq!(allowed, [""; 0]);
    let found = check(&["shell"], &[("shell", "cloud", None, &[])]);
    assert_eq!(
        found,
        ["shell -> cloud: shell may not use clouds: others do"]
    );
}

#[test]
fn features_are_held_to_the_list() {
    let found = check(
        &["shell"],
        &[("shell", "kube", None, &["derive", "client", "default"])],
    );
    assert_eq!(
        found,
        [
            "shell -> kube/client: shell may have kube only with the features derive, because the rest is a client",
            "shell -> kube/default: shell may have kube only with the features derive, because the rest is a client",
        ]
    );
}

#[test]
fn what_lies_behind_checked_features_was_switched_on_by_others() {
    const API: &[Rule] = &[Rule {
        name: "api",
        may_use: &[],
        why: "it is types",
        never: &[Ban {
            crates: &["kube-client"],
            reach: Reach::AtAll,
            what: "a client",
        }],
        features: &[rules::Features {
            of: "kube",
            only: &["derive"],
            why: "the rest is a client",
        }],
    }];
    let through_kube = Tree {
        members: &["api"],
        edges: &[
            ("api", "kube", None, &["derive"]),
            ("kube", "kube-client", None, &[]),
        ],
    };
    let around_it = Tree {
        members: &["api"],
        edges: &[
            ("api", "other", None, &[]),
            ("other", "kube-client", None, &[]),
        ],
    };
    let found = |tree: &Tree<'_>| {
        let graph = Graph::parse(tree.metadata().to_string().as_bytes())
            .expect("metadata in the form of cargo's");
        violations(&graph, API)
    };
    assert_eq!(found(&through_kube), []);
    assert_eq!(found(&around_it).len(), 1);
}

#[test]
fn a_crate_without_a_rule_is_an_error() {
    let found = check(&["heart", "stranger"], &[]);
    assert_eq!(found.len(), 1);
    assert!(
        found[0].starts_with("stranger: no rule names this crate"),
        "{found:?}"
    );
}

#[test]
fn the_rules_name_only_crates_that_have_a_rule_themselves() {
    let named: Vec<&str> = RULES.iter().map(|rule| rule.name).collect();
    for rule in RULES {
        for name in rule.may_use {
            assert!(
                named.contains(name),
                "{} may use {name}, which has no rule",
                rule.name
            );
        }
    }
}

#[test]
fn the_rules_allow_no_cycle() {
    // Every crate uses only crates that stand above it in the table.
    for (position, rule) in RULES.iter().enumerate() {
        for name in rule.may_use {
            let above = RULES[..position].iter().any(|other| other.name == *name);
            assert!(above, "{} may use {name}, which stands below it", rule.name);
        }
    }
}

#[test]
fn this_workspace_keeps_the_rules() {
    let found = super::check(crate::workspace()).expect("cargo metadata of this workspace");
    assert_eq!(found, []);
}
