//! The direction of dependencies, checked against what cargo resolves.
//!
//! [`rules`] is the policy, [`graph`] reads `cargo metadata`, and this file
//! compares the two.
//!
//! External crates are judged on the graph of the whole workspace, in which
//! features are unified: an optional dependency that one member switches on
//! counts for every member. That is stricter than building a crate alone, on
//! purpose: what a rule forbids must not come in through a neighbour either.

mod graph;
mod rules;

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::Path;

use anyhow::Result;

use graph::{Graph, Kind, Package};
use rules::{Ban, FOR_TESTS, RULES, Reach, Rule};

/// Returns every violation in the workspace at `root`.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    Ok(violations(&Graph::load(root)?, RULES))
}

/// One broken rule, with the way the offender comes in.
#[derive(Debug, PartialEq, Eq)]
pub struct Violation {
    /// From the workspace crate to the offender.
    path: Vec<String>,
    why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.join(" -> "), self.why)
    }
}

fn violations(graph: &Graph, rules: &[Rule]) -> Vec<Violation> {
    let mut found = Vec::new();
    for package in graph.members() {
        match rules.iter().find(|rule| rule.name == package.name) {
            Some(rule) => {
                found.extend(forbidden_members(graph, package, rule));
                found.extend(rule.never.iter().flat_map(|ban| banned(graph, package, rule, ban)));
                found.extend(excess_features(package, rule));
            }
            None => found.push(Violation {
                path: vec![package.name.clone()],
                why: "no rule names this crate; say in xtask/src/dependencies/rules.rs what it may use".to_owned(),
            }),
        }
    }
    found
}

/// Edges inside the workspace, of every kind: a test that needs a crate from
/// above belongs above, too.
fn forbidden_members(graph: &Graph, package: &Package, rule: &Rule) -> Vec<Violation> {
    let why = |dependency: &Package| {
        if FOR_TESTS.contains(&dependency.name.as_str()) {
            return format!(
                "{} is for tests, nothing that is shipped may need it",
                dependency.name
            );
        }
        let allowed = match rule.may_use {
            [] => "no other crate of the workspace".to_owned(),
            names => format!("of the workspace only {}", names.join(", ")),
        };
        format!("{} may use {allowed}, because {}", rule.name, rule.why)
    };
    graph
        .dependencies(package)
        .filter(|(dependency, _)| {
            graph.is_member(dependency) && !rule.may_use.contains(&dependency.name.as_str())
        })
        .map(|(dependency, _)| Violation {
            path: vec![package.name.clone(), dependency.name.clone()],
            why: why(dependency),
        })
        .collect()
}

/// External crates, through normal dependencies: what ends up in the binary.
fn banned(graph: &Graph, package: &Package, rule: &Rule, ban: &Ban) -> Vec<Violation> {
    let paths = match ban.reach {
        Reach::Directly => graph
            .dependencies(package)
            .filter(|(_, kinds)| kinds.contains(&Kind::Normal))
            .map(|(dependency, _)| vec![package, dependency])
            .collect(),
        // A banned crate stands for what it brings itself, and what lies behind
        // a crate with checked features was switched on by another member.
        Reach::AtAll => graph.shortest_paths(package, |through| {
            !ban.covers(&through.name)
                && !rule.features.iter().any(|limit| limit.of == through.name)
        }),
    };
    paths
        .into_iter()
        .filter(|path| path.last().is_some_and(|end| ban.covers(&end.name)))
        .map(|path| Violation {
            path: path.iter().map(|package| package.name.clone()).collect(),
            why: format!("{} may not {} {}", rule.name, ban.reach.verb(), ban.what),
        })
        .collect()
}

fn excess_features(package: &Package, rule: &Rule) -> Vec<Violation> {
    let mut found = Vec::new();
    for limit in rule.features {
        for declared in package.declared(limit.of) {
            let default = declared.uses_default_features.then_some("default");
            let features = declared.features.iter().map(String::as_str).chain(default);
            for feature in features.filter(|feature| !limit.only.contains(feature)) {
                found.push(Violation {
                    path: vec![package.name.clone(), format!("{}/{feature}", limit.of)],
                    why: format!(
                        "{} may have {} only with the features {}, because {}",
                        rule.name,
                        limit.of,
                        limit.only.join(", "),
                        limit.why
                    ),
                });
            }
        }
    }
    found
}
