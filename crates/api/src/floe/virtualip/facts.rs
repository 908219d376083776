//! From an object to what its explanation needs.

use std::time::Duration;

use floe_core::{
    explain::shared::{Facts, Move, Place, Told},
    vip::{VipId, elect},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{ACCEPTED, Holding, MOVE_TO, REACHABLE, SERVING, VirtualIP};

impl VirtualIP {
    /// What an explanation of its addresses needs.
    pub fn facts(&self) -> Facts<'_> {
        let status = self.status.as_ref();
        let holder = status.and_then(|it| it.holder.as_ref());
        let successor = status.and_then(|it| it.successor.as_ref());
        let candidates = status.iter().flat_map(|it| &it.candidates);
        let last_move = status.and_then(|it| it.last_move.as_ref());
        let annotations = self.metadata.annotations.as_ref();
        let failover = &self.spec.failover;
        let told = |kind| self.condition(kind).map(told);
        Facts {
            id: VipId {
                namespace: self.metadata.namespace.clone().unwrap_or_default(),
                name: self.metadata.name.clone().unwrap_or_default(),
            },
            is_going: self.metadata.deletion_timestamp.is_some(),
            addresses: status.map_or(&[], |it| &it.addresses),
            accepted: told(ACCEPTED),
            serving: told(SERVING),
            reachable: told(REACHABLE),
            holder: holder.map(place),
            since: holder.and_then(|it| it.since.as_ref()).map(|it| it.0),
            successor: successor.map(|it| (place(it), it.reason.as_str())),
            candidates: candidates
                .filter(|it| !it.is_standby())
                .map(|it| Place {
                    pod: &it.pod,
                    uid: &it.uid,
                    node: &it.node,
                })
                .collect(),
            moves: status.map_or(0, |it| it.moves),
            last_move: last_move.map(|it| Move {
                at: it.at.0,
                reason: &it.reason,
                from: &it.from,
                to: &it.to,
            }),
            failover: elect::Failover {
                unready_grace: Duration::from_secs(failover.unready_grace_seconds.into()),
                between_moves: Duration::from_secs(failover.min_seconds_between_moves.into()),
                failback: failover.failback,
                preferred: failover.preferred_pods.clone(),
            },
            wish: annotations
                .and_then(|all| all.get(MOVE_TO))
                .map(String::as_str),
        }
    }
}

fn place(holding: &Holding) -> Place<'_> {
    Place {
        pod: &holding.pod,
        uid: &holding.uid,
        node: &holding.node,
    }
}

fn told(condition: &Condition) -> Told<'_> {
    Told {
        status: &condition.status,
        reason: &condition.reason,
        message: &condition.message,
    }
}

#[cfg(test)]
mod tests {
    use floe_core::explain::shared::{Account, Why};
    use serde_json::json;

    use super::*;

    #[test]
    fn all_that_an_object_says_is_in_its_facts() {
        let pod = |name: &str, node: &str| {
            json!({
                "pod": name, "uid": format!("uid-{name}"), "node": node, "nodeAddress": "10.0.1.1",
                "addresses": ["10.244.0.2"], "mode": "nat", "since": "2026-01-01T00:00:00Z",
                "readySince": "2026-01-01T00:00:00Z", "reason": "Requested",
            })
        };
        let vip: VirtualIP = serde_json::from_value(json!({
            "metadata": {
                "name": "web", "namespace": "shop", "annotations": { MOVE_TO: "c" },
                "deletionTimestamp": "2026-01-02T00:00:00Z",
            },
            "spec": { "failover": {
                "unreadyGraceSeconds": 7, "minSecondsBetweenMoves": 9, "failback": true,
                "preferredPods": ["b"],
            } },
            "status": {
                "addresses": ["10.0.70.20"], "holder": pod("a", "n1"), "successor": pod("b", "n2"),
                "candidates": [pod("a", "n1"), pod("b", "n2")], "moves": 2,
                "lastMove": { "at": "2026-01-01T00:00:00Z", "reason": "Failback", "from": "b", "to": "a" },
                "conditions": [{
                    "type": "Reachable", "status": "False", "reason": "NoInterface", "message": "m",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            },
        }))
        .unwrap();
        let facts = vip.facts();
        assert_eq!(
            (facts.id.namespace.as_str(), facts.id.name.as_str()),
            ("shop", "web")
        );
        assert!(facts.is_going);
        assert_eq!(
            facts.addresses,
            ["10.0.70.20".parse::<std::net::IpAddr>().unwrap()]
        );
        assert_eq!((facts.accepted, facts.serving), (None, None));
        assert_eq!(facts.reachable.unwrap().reason, "NoInterface");
        let holder = facts.holder.unwrap();
        assert_eq!((holder.pod, holder.uid, holder.node), ("a", "uid-a", "n1"));
        assert_eq!(facts.since.unwrap().to_string(), "2026-01-01T00:00:00Z");
        let (next, reason) = facts.successor.unwrap();
        assert_eq!((next.pod, reason), ("b", "Requested"));
        assert_eq!(facts.candidates.len(), 2);
        let last = facts.last_move.unwrap();
        assert_eq!(
            (last.reason, last.from, last.to, facts.moves),
            ("Failback", "b", "a", 2)
        );
        assert_eq!(facts.failover.unready_grace.as_secs(), 7);
        assert_eq!(facts.failover.between_moves.as_secs(), 9);
        assert!(facts.failover.failback);
        assert_eq!((facts.failover.preferred.len(), facts.wish), (1, Some("c")));
    }

    #[test]
    fn an_object_that_nobody_has_looked_at_says_so() {
        let vip = VirtualIP::default();
        assert_eq!(Account::of(&vip.facts()).why, Why::NotLookedAt);
    }
}
