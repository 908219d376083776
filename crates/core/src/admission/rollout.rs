//! Whether a Deployment whose pods keep their addresses can be updated: it has as many
//! addresses as replicas, so a new pod waits for one that an old pod gives back.

use serde_json::Value;

use super::text;

/// What an update comes to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Risk {
    /// No old pod goes before the new one runs, which waits for the address of an old one.
    #[error(
        "maxUnavailable {written} of {replicas} replicas is 0, so no old pod gives its address \
         to a new one: set maxUnavailable: 1 and maxSurge: 0, or type: Recreate"
    )]
    Waits {
        /// As it is written.
        written: String,
        /// The wanted pods.
        replicas: u32,
    },
    /// Nobody serves between the old pod and the new one.
    #[error(
        "with one replica an update has no pod for a while: the new one starts when the old one \
         has given its address back"
    )]
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

/// What updates of a Deployment come to whose pods keep their addresses.
pub fn risk(spec: &Value) -> Option<Risk> {
    let replicas = spec["replicas"].as_u64().unwrap_or(1);
    let replicas = u32::try_from(replicas).unwrap_or(u32::MAX);
    if replicas == 0 || text(spec, "/strategy/type") == "Recreate" {
        return None;
    }
    let member = |name| spec.pointer(&format!("/strategy/rollingUpdate/{name}"));
    let unavailable = Amount::of(member("maxUnavailable"));
    let surge = Amount::of(member("maxSurge"));
    let (down, up) = (unavailable.floor(replicas), surge.ceil(replicas));
    // Kubernetes takes one pod away where neither is allowed.
    if down == 0 && up > 0 {
        return Some(Risk::Waits {
            written: unavailable.to_string(),
            replicas,
        });
    }
    (replicas == 1).then_some(Risk::Interrupts)
}

/// A number of pods, or a share of them.
enum Amount {
    Pods(u64),
    Percent(u64),
}

impl Amount {
    /// What is absent, and what the API server would refuse, is its default.
    fn of(member: Option<&Value>) -> Self {
        let percent = |text: &str| text.strip_suffix('%')?.parse().ok();
        match member {
            Some(Value::Number(number)) => number.as_u64().map(Self::Pods),
            Some(Value::String(text)) => percent(text).map(Self::Percent),
            _ => None,
        }
        .unwrap_or(Self::Percent(25))
    }

    fn floor(&self, replicas: u32) -> u64 {
        match self {
            Self::Pods(pods) => *pods,
            Self::Percent(percent) => percent.saturating_mul(replicas.into()) / 100,
        }
    }

    fn ceil(&self, replicas: u32) -> u64 {
        match self {
            Self::Pods(pods) => *pods,
            Self::Percent(percent) => percent.saturating_mul(replicas.into()).div_ceil(100),
        }
    }
}

impl std::fmt::Display for Amount {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Pods(pods) => write!(out, "{pods}"),
            Self::Percent(percent) => write!(out, "{percent}%"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reason(replicas: u32, unavailable: &Value, surge: &Value) -> Option<&'static str> {
        let spec = json!({ "replicas": replicas, "strategy": {
            "type": "RollingUpdate",
            "rollingUpdate": { "maxUnavailable": unavailable, "maxSurge": surge },
        } });
        risk(&spec).map(|risk| risk.reason())
    }

    #[test]
    fn an_update_waits_when_no_old_pod_may_go() {
        let (waits, interrupts) = (Some("RolloutWaits"), Some("RolloutInterrupts"));
        let quarter = json!("25%");
        for (replicas, wanted) in [(0, None), (1, waits), (3, waits), (4, None), (10, None)] {
            assert_eq!(reason(replicas, &quarter, &quarter), wanted, "{replicas}");
        }
        assert_eq!(reason(10, &json!(0), &quarter), waits);
        assert_eq!(reason(10, &json!("0%"), &json!(1)), waits);
        assert_eq!(reason(1, &json!(1), &json!(0)), interrupts);
        assert_eq!(reason(3, &json!(1), &json!(0)), None);
        // The API server makes one of it.
        assert_eq!(reason(2, &json!("10%"), &json!(0)), None);
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let of = |spec: Value| risk(&spec).map(|risk| risk.to_string());
        let told = of(json!({})).unwrap();
        assert!(
            told.starts_with("maxUnavailable 25% of 1 replicas is 0"),
            "{told}"
        );
        assert_eq!(of(json!({ "replicas": 4 })), None);
        assert_eq!(of(json!({ "strategy": { "type": "Recreate" } })), None);
        let odd = json!({ "strategy": { "rollingUpdate": { "maxUnavailable": [] } } });
        assert!(of(odd).is_some());
        let huge = json!({ "replicas": u64::MAX, "strategy": { "rollingUpdate": {
            "maxUnavailable": format!("{}%", u64::MAX),
        } } });
        assert_eq!(of(huge), None);
    }
}
