//! What is written into a pod to let it go.
//!
//! The API server lets a gated pod be changed in two ways: gates may be taken off, and
//! required node affinity may become narrower. So each term that is there gets one more
//! expression, and where there is none yet, one term with that expression is set. Nothing
//! else of the affinity is touched.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{GATE, NODE_SUBNET};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// What of a pod's specification has to be known for it, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gated {
    /// `schedulingGates`.
    pub gates: Vec<Value>,
    /// `affinity`.
    pub affinity: Option<Value>,
}

/// Whether the gate is among these.
pub fn has_gate(gates: &[Value]) -> bool {
    gates.iter().any(is_ours)
}

/// The `spec` of a JSON merge patch that takes the gate off and leaves all others. With
/// subnets, by the values of their label, the pod can then run on their nodes only.
///
/// A list is replaced as a whole by such a patch: it has to be bound to the version of the
/// pod that it was made from.
pub fn spec(pod: &Gated, subnets: Option<&BTreeSet<String>>) -> Value {
    let others = pod.gates.iter().filter(|gate| !is_ours(gate));
    let others: Vec<&Value> = others.collect();
    let gates = if others.is_empty() {
        Value::Null
    } else {
        json!(others)
    };
    let mut spec = json!({ "schedulingGates": gates });
    if let Some(subnets) = subnets {
        let terms = narrowed(pod.affinity.as_ref(), subnets);
        spec["affinity"] = json!({ "nodeAffinity": { REQUIRED: { "nodeSelectorTerms": terms } } });
    }
    spec
}

/// The terms of the required node affinity; `None` if there is no such affinity.
pub(super) fn terms(affinity: &Value) -> Option<&[Value]> {
    let required = affinity.get("nodeAffinity")?.get(REQUIRED)?;
    Some(required.get("nodeSelectorTerms")?.as_array()?.as_slice())
}

fn narrowed(affinity: Option<&Value>, subnets: &BTreeSet<String>) -> Vec<Value> {
    let expression = json!({ "key": NODE_SUBNET, "operator": "In", "values": subnets });
    match affinity.and_then(terms) {
        None => vec![json!({ "matchExpressions": [expression] })],
        Some(terms) => {
            let terms = terms.iter();
            terms.map(|term| with(term, &expression)).collect()
        }
    }
}

/// A term with the expression behind its own, once. An empty term selects no node, and
/// would select some with it.
fn with(term: &Value, expression: &Value) -> Value {
    let mut term = term.clone();
    let Some(members) = term.as_object_mut().filter(|it| !is_empty(it)) else {
        return term;
    };
    let expressions = members.entry("matchExpressions").or_insert(Value::Null);
    if expressions.is_null() {
        *expressions = json!([]);
    }
    if let Some(expressions) = expressions.as_array_mut()
        && !expressions.contains(expression)
    {
        expressions.push(expression.clone());
    }
    term
}

fn is_empty(term: &Map<String, Value>) -> bool {
    let is_empty = |name: &str| {
        let list = term.get(name).and_then(Value::as_array);
        list.is_none_or(Vec::is_empty)
    };
    is_empty("matchExpressions") && is_empty("matchFields")
}

fn is_ours(gate: &Value) -> bool {
    gate.get("name").and_then(Value::as_str) == Some(GATE)
}
