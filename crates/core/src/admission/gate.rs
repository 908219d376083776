//! The scheduling gate of pods that wait for an address, where floe works without the
//! scheduler's help: no node is chosen for such a pod before floe takes the gate off.

use serde_json::{Value, json};

use super::{text, workload};

/// The gate.
pub use crate::schedule::gate::GATE;

/// The JSON patch that puts the gate on a new pod; none if the pod needs none.
///
/// A pod that wants no address, that names its node, and one that has the gate already,
/// stay as they are. So asking twice does what asking once does.
pub fn patch(pod: &Value, gates: bool) -> Option<Value> {
    if !gates || !workload::wants_address(&pod["spec"]) || !text(pod, "/spec/nodeName").is_empty() {
        return None;
    }
    let present = pod.pointer("/spec/schedulingGates");
    let Some(present) = present.and_then(Value::as_array) else {
        return Some(json!([
            { "op": "add", "path": "/spec/schedulingGates", "value": [{ "name": GATE }] },
        ]));
    };
    if present.iter().any(|gate| gate["name"] == GATE) {
        return None;
    }
    Some(json!([
        { "op": "add", "path": "/spec/schedulingGates/-", "value": { "name": GATE } },
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ipam::names::RESOURCE;

    fn pod() -> Value {
        json!({ "spec": { "containers": [
            { "name": "plain" },
            { "name": "web", "resources": { "requests": { RESOURCE: "1" } } },
        ] } })
    }

    #[test]
    fn a_pod_that_wants_an_address_gets_the_gate_once() {
        let mut pod = pod();
        let all = patch(&pod, true).unwrap();
        assert_eq!(all[0]["path"], "/spec/schedulingGates");
        assert_eq!(all[0]["value"], json!([{ "name": GATE }]));
        pod["spec"]["schedulingGates"] = all[0]["value"].clone();
        assert_eq!(patch(&pod, true), None);
    }

    #[test]
    fn gates_of_others_stay() {
        let mut pod = pod();
        pod["spec"]["schedulingGates"] = json!([{ "name": "others.dev/gate" }]);
        let one = patch(&pod, true).unwrap();
        assert_eq!(one[0]["path"], "/spec/schedulingGates/-");
        assert_eq!(one[0]["value"], json!({ "name": GATE }));
        pod["spec"]["schedulingGates"] = json!([]);
        assert_eq!(
            patch(&pod, true).unwrap()[0]["path"],
            "/spec/schedulingGates/-"
        );
        pod["spec"]["schedulingGates"] = json!(null);
        assert_eq!(
            patch(&pod, true).unwrap()[0]["path"],
            "/spec/schedulingGates"
        );
    }

    #[test]
    fn others_stay_as_they_are() {
        assert_eq!(patch(&pod(), false), None, "the scheduler asks floe");
        let mut bound = pod();
        bound["spec"]["nodeName"] = json!("node-1");
        let mut init = json!({ "spec": { "containers": [{ "name": "plain" }] } });
        init["spec"]["initContainers"] = pod()["spec"]["containers"].clone();
        for pod in [bound, init, json!({}), json!({ "spec": null })] {
            assert_eq!(patch(&pod, true), None, "{pod}");
        }
    }
}
