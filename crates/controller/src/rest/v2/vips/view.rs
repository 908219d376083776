//! `VirtualIPs` as the API shows them.

use floe_api::{
    floe::virtualip::{CLAIMED_BY, CandidateStatus, Holding, Move, VirtualIP},
    rest::v2::{Vip, VipCondition, VipMove, VipPod, VipState},
};
use floe_core::explain::shared::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

/// One as it is shown.
pub fn vip(vip: &VirtualIP) -> Vip {
    let labels = vip.metadata.labels.as_ref();
    let status = vip.status.clone().unwrap_or_default();
    Vip {
        namespace: vip.metadata.namespace.clone().unwrap_or_default(),
        name: vip.metadata.name.clone().unwrap_or_default(),
        state: state(vip.facts().state()),
        addresses: status.addresses.iter().map(ToString::to_string).collect(),
        claimed_by: labels.and_then(|all| all.get(CLAIMED_BY)).cloned(),
        holder: status.holder.map(holding),
        successor: status.successor.map(holding),
        candidates: status.candidates.into_iter().map(candidate).collect(),
        moves: status.moves,
        last_move: status.last_move.map(last_move),
        conditions: status.conditions.into_iter().map(condition).collect(),
    }
}

fn state(state: State) -> VipState {
    match state {
        State::Held => VipState::Held,
        State::Vacant => VipState::Vacant,
        State::Refused => VipState::Refused,
        State::Deleting => VipState::Deleting,
    }
}

fn holding(holding: Holding) -> VipPod {
    VipPod {
        pod: holding.pod,
        uid: holding.uid,
        node: holding.node,
        mode: holding.mode,
        since: holding.since.map(|time| time.0.to_string()),
        reason: given(holding.reason),
    }
}

fn candidate(candidate: CandidateStatus) -> VipPod {
    VipPod {
        pod: candidate.pod,
        uid: candidate.uid,
        node: candidate.node,
        mode: candidate.mode,
        since: Some(candidate.ready_since.0.to_string()),
        reason: None,
    }
}

fn last_move(last: Move) -> VipMove {
    VipMove {
        at: last.at.0.to_string(),
        reason: last.reason,
        from: given(last.from),
        to: given(last.to),
    }
}

fn condition(condition: Condition) -> VipCondition {
    VipCondition {
        kind: condition.type_,
        status: condition.status,
        reason: condition.reason,
        message: condition.message,
        since: condition.last_transition_time.0.to_string(),
    }
}

fn given(text: String) -> Option<String> {
    Some(text).filter(|text| !text.is_empty())
}
