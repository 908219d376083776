//! How far a move is that somebody has asked for.

use floe_api::floe::virtualip::{Holding, MOVE_TO, VirtualIP};

/// How far a move to a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// The controller has not answered the wish yet.
    Asked,
    /// The wish waits for another move, to this pod.
    Behind(String),
    /// The node of the pod prepares.
    Preparing {
        /// That node.
        node: String,
    },
    /// The node of the pod is prepared, and the holder gives the addresses away.
    Prepared {
        /// That node.
        node: String,
    },
    /// The pod has the addresses.
    There {
        /// Its node.
        node: String,
    },
    /// Somebody wishes another pod to have them, this one.
    Replaced(String),
    /// Nobody wishes or plans the move any more, and this pod has the addresses, if any.
    Over(Option<String>),
}

impl Step {
    /// How far the move of an object to a pod is.
    pub fn of(vip: &VirtualIP, pod: &str) -> Self {
        let status = vip.status.as_ref();
        let holder = status.and_then(|it| it.holder.as_ref());
        let successor = status.and_then(|it| it.successor.as_ref());
        let is_it = |it: &&Holding| it.pod == pod;
        if let Some(holder) = holder.filter(is_it) {
            let node = holder.node.clone();
            return Self::There { node };
        }
        if let Some(next) = successor.filter(is_it) {
            let node = next.node.clone();
            return if next.ready {
                Self::Prepared { node }
            } else {
                Self::Preparing { node }
            };
        }
        let annotations = vip.metadata.annotations.as_ref();
        match (annotations.and_then(|all| all.get(MOVE_TO)), successor) {
            (Some(wish), _) if wish != pod => Self::Replaced(wish.clone()),
            (Some(_), Some(other)) => Self::Behind(other.pod.clone()),
            (Some(_), None) => Self::Asked,
            (None, _) => Self::Over(holder.map(|it| it.pod.clone())),
        }
    }

    /// What is going on, for people; none at the end.
    pub fn told(&self) -> Option<String> {
        Some(match self {
            Self::Asked => "waiting for the controller".to_owned(),
            Self::Behind(pod) => format!("waiting for the move to pod {pod} that is on its way"),
            Self::Preparing { node } => format!("node {node} prepares"),
            Self::Prepared { node } => {
                format!("node {node} is prepared; the holder gives the addresses away")
            }
            Self::There { .. } | Self::Replaced(_) | Self::Over(_) => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn step(wish: Option<&str>, holder: Option<&str>, successor: Option<(&str, bool)>) -> Step {
        let place = |pod: &str, ready: bool| {
            json!({
                "pod": pod, "uid": "u", "node": format!("node-of-{pod}"), "mode": "nat",
                "nodeAddress": "10.0.1.1", "addresses": [], "ready": ready,
            })
        };
        let vip = json!({
            "metadata": { "annotations": wish.map(|pod| json!({ MOVE_TO: pod })) },
            "status": {
                "holder": holder.map_or(Value::Null, |pod| place(pod, false)),
                "successor": successor.map_or(Value::Null, |(pod, ready)| place(pod, ready)),
            },
        });
        Step::of(&serde_json::from_value(vip).unwrap(), "b")
    }

    #[test]
    fn each_step_of_a_move_is_known() {
        let node = || "node-of-b".to_owned();
        assert_eq!(step(Some("b"), Some("a"), None), Step::Asked);
        assert_eq!(
            step(Some("b"), Some("a"), Some(("c", false))),
            Step::Behind("c".into())
        );
        for wish in [Some("b"), None, Some("c")] {
            assert_eq!(
                step(wish, Some("a"), Some(("b", false))),
                Step::Preparing { node: node() }
            );
            assert_eq!(
                step(wish, Some("a"), Some(("b", true))),
                Step::Prepared { node: node() }
            );
            let there = Step::There { node: node() };
            assert_eq!(step(wish, Some("b"), None), there);
            assert_eq!(step(wish, Some("b"), Some(("c", true))), there);
        }
        assert_eq!(step(Some("c"), Some("a"), None), Step::Replaced("c".into()));
        assert_eq!(step(None, Some("a"), None), Step::Over(Some("a".into())));
        assert_eq!(step(None, None, None), Step::Over(None));
        assert_eq!(
            step(None, Some("a"), Some(("c", false))),
            Step::Over(Some("a".into()))
        );
    }
}
