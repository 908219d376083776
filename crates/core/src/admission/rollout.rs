//! Whether a Deployment whose pods keep their addresses can be updated: it has as many
//! addresses as replicas, so a new pod waits for one that an old pod gives back.

use serde_json::Value;

use super::text;
use crate::{
    ipam::names,
    rollout::strategy::{Amount, Handling, InvalidRollout, ONE_REPLICA, Strategy, outage_ahead},
};

/// What an update comes to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Risk {
    /// No old pod goes before the new one runs, which waits for the address of an old one.
    #[error(
        "no old pod of {replicas} may go before a new one runs, which waits for its address: set \
         maxUnavailable: 1, or floe.dev/rollout: handover or surge"
    )]
    Waits {
        /// The wanted pods.
        replicas: u32,
    },
    /// Nobody serves between the old pod and the new one.
    #[error("{ONE_REPLICA}")]
    Interrupts,
}

impl Risk {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Waits { .. } => "RolloutWaits",
            Self::Interrupts => "RolloutInterrupts",
        }
    }
}

/// How updates of a Deployment are handled, unless it says something that floe does not know.
pub fn handling(deployment: &Value) -> Result<Handling, InvalidRollout> {
    let annotation = deployment["metadata"]["annotations"][names::ROLLOUT].as_str();
    Handling::of(annotation, strategy(&deployment["spec"]))
}

/// What updates of a Deployment come to whose pods keep their addresses.
pub fn risk(deployment: &Value) -> Option<Risk> {
    let spec = &deployment["spec"];
    let replicas = spec["replicas"].as_u64().unwrap_or(1);
    let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
    let strategy = strategy(spec);
    // What cannot be read is refused elsewhere.
    let handling = handling(deployment).ok()?;
    if replicas == 0 || !strategy.is_rolling() {
        return None;
    }
    let is_stuck = strategy.unavailable(replicas) == 0 && strategy.surge(replicas) > 0;
    if matches!(handling, Handling::Wait { .. }) && is_stuck {
        return Some(Risk::Waits { replicas });
    }
    let is_alone = replicas == 1 && strategy.unavailable(replicas) > 0;
    let interrupts = outage_ahead(replicas, handling, strategy, true).is_some();
    (interrupts || is_alone && handling != Handling::Surge).then_some(Risk::Interrupts)
}

/// What is absent, and what the API server would refuse, is its default.
fn strategy(spec: &Value) -> Strategy {
    if text(spec, "/strategy/type") == "Recreate" {
        return Strategy::Recreate;
    }
    let amount = |name| match spec.pointer(&format!("/strategy/rollingUpdate/{name}"))? {
        Value::Number(number) => Some(Amount::Pods(u32::try_from(number.as_u64()?).ok()?)),
        Value::String(text) => text.parse().ok(),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    };
    Strategy::rolling(amount("maxUnavailable"), amount("maxSurge"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(replicas: u32, unavailable: &Value, surge: &Value) -> Option<&'static str> {
        asked(&json!({}), replicas, unavailable, surge)
    }

    fn asked(
        annotations: &Value,
        replicas: u32,
        unavailable: &Value,
        surge: &Value,
    ) -> Option<&'static str> {
        let deployment = json!({
            "metadata": { "annotations": annotations },
            "spec": { "replicas": replicas, "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge },
            } },
        });
        risk(&deployment).map(|risk| risk.reason())
    }

    #[test]
    fn an_update_waits_when_no_old_pod_may_go_and_floe_takes_none_away() {
        let (waits, interrupts) = (Some("RolloutWaits"), Some("RolloutInterrupts"));
        let quarter = json!("25%");
        for (replicas, wanted) in [(0, None), (1, interrupts), (3, None), (4, None), (10, None)] {
            assert_eq!(reason(replicas, &quarter, &quarter), wanted, "{replicas}");
        }
        // Who has written a zero wants no pod to be missing.
        assert_eq!(reason(10, &json!(0), &quarter), waits);
        assert_eq!(reason(10, &json!("0%"), &json!(1)), waits);
        assert_eq!(reason(1, &json!(1), &json!(0)), interrupts);
        assert_eq!(reason(3, &json!(1), &json!(0)), None);
        let by = |word: &str, unavailable: &Value| {
            asked(&json!({ names::ROLLOUT: word }), 3, unavailable, &quarter)
        };
        assert_eq!(by("wait", &quarter), waits);
        assert_eq!(by("handover", &json!(0)), None);
        assert_eq!(by("surge", &json!(0)), None);
        assert_eq!(by("now", &quarter), None);
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let of = |spec: Value| risk(&json!({ "spec": spec })).map(|risk| risk.reason());
        assert_eq!(of(json!({})), Some("RolloutInterrupts"));
        assert_eq!(of(json!({ "replicas": 2 })), None);
        assert_eq!(of(json!({ "strategy": { "type": "Recreate" } })), None);
        let odd =
            json!({ "replicas": 2, "strategy": { "rollingUpdate": { "maxUnavailable": [] } } });
        assert_eq!(of(odd), None);
        let huge = json!({ "replicas": u64::MAX, "strategy": { "rollingUpdate": {
            "maxUnavailable": format!("{}%", u64::MAX),
        } } });
        assert_eq!(of(huge), None);
    }
}
