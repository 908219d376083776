//! Which nodes a pod accepts by its own words: `nodeSelector`, required node affinity
//! and tolerations.
//!
//! A scheduler knows much more: what is left of processors and memory, and where other
//! pods are. But what it would never accept must not decide about an address.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use crate::nodepool::matching::{Taint, Toleration};

/// What a pod asks of its node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    selector: BTreeMap<String, String>,
    /// One of them has to hold, if there are any.
    terms: Option<Vec<Term>>,
    tolerations: Vec<Toleration>,
}

/// A node as a pod sees it.
#[derive(Clone, Copy, Debug)]
pub struct Looks<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its labels.
    pub labels: &'a BTreeMap<String, String>,
    /// Its taints.
    pub taints: &'a [Taint],
}

/// Whether a pod accepts a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Accepts {
    /// It does.
    Yes,
    /// It would, if the node were in order: it has taints by which Kubernetes says how
    /// the node is, and which go by themselves.
    Later,
    /// It does not.
    No,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term {
    #[serde(deserialize_with = "or_default")]
    match_expressions: Vec<Requirement>,
    #[serde(deserialize_with = "or_default")]
    match_fields: Vec<Requirement>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Requirement {
    key: String,
    operator: String,
    #[serde(deserialize_with = "or_default")]
    values: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Tolerated {
    key: String,
    operator: String,
    value: String,
    effect: String,
}

/// The prefix of taints that say how a node is. One of them is put on by people, who
/// cordon a node.
const OF_KUBERNETES: &str = "node.kubernetes.io/";
const CORDONED: &str = "node.kubernetes.io/unschedulable";

/// Keeps off pods that are to be scheduled; `PreferNoSchedule` does not.
const EFFECTS: [&str; 2] = ["NoSchedule", "NoExecute"];

impl Needs {
    /// From members of the pod's specification, as they are written. What makes no sense
    /// in them accepts no node: the API server has let it through, so it is something
    /// that this version does not know.
    pub fn new(
        selector: BTreeMap<String, String>,
        affinity: Option<&Value>,
        tolerations: &[Value],
    ) -> Self {
        let terms = affinity.and_then(super::patch::terms).map(|terms| {
            let terms = terms.iter().cloned();
            terms
                .filter_map(|term| serde_json::from_value(term).ok())
                .collect()
        });
        let tolerations = tolerations.iter().cloned();
        let tolerations = tolerations
            .filter_map(|it| serde_json::from_value(it).ok())
            .map(|it: Tolerated| Toleration {
                key: it.key,
                operator: it.operator,
                value: it.value,
                effect: it.effect,
            });
        Self {
            selector,
            terms,
            tolerations: tolerations.collect(),
        }
    }

    /// Whether the pod accepts a node.
    pub fn accept(&self, node: Looks<'_>) -> Accepts {
        let mut selector = self.selector.iter();
        let is_selected = selector.all(|(key, value)| node.labels.get(key) == Some(value));
        let terms = self.terms.as_ref();
        if !is_selected || !terms.is_none_or(|terms| terms.iter().any(|it| it.holds(node))) {
            return Accepts::No;
        }
        let hinders = |taint: &&Taint| {
            EFFECTS.contains(&&*taint.effect)
                && !self.tolerations.iter().any(|it| it.tolerates(taint))
        };
        let taints = node.taints.iter().filter(hinders);
        let how = taints.map(|taint| {
            if taint.key.starts_with(OF_KUBERNETES) && taint.key != CORDONED {
                Accepts::Later
            } else {
                Accepts::No
            }
        });
        how.max().unwrap_or(Accepts::Yes)
    }
}

impl Term {
    /// A term without requirements selects nothing.
    fn holds(&self, node: Looks<'_>) -> bool {
        let is_empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        let label = |key: &str| node.labels.get(key).map(String::as_str);
        let field = |key: &str| (key == "metadata.name").then_some(node.name);
        let mut expressions = self.match_expressions.iter();
        let mut fields = self.match_fields.iter();
        !is_empty
            && expressions.all(|it| it.holds(label(&it.key)))
            && fields.all(|it| it.holds(field(&it.key)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&str>) -> bool {
        let is_listed = || value.is_some_and(|value| self.values.iter().any(|it| it == value));
        let number = |text: &str| text.parse::<i64>().ok();
        let compared = || Some((number(value?)?, number(self.values.first()?)?));
        match self.operator.as_str() {
            "In" => is_listed(),
            "NotIn" => !is_listed(),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            "Gt" => compared().is_some_and(|(is, limit)| is > limit),
            "Lt" => compared().is_some_and(|(is, limit)| is < limit),
            _ => false,
        }
    }
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}
