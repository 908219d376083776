//! What is told about updates: Events on the Deployment, one stable reason each.

use floe_core::rollout::{
    Eviction, Why,
    strategy::{InvalidRollout, ONE_REPLICA},
};
use k8s_openapi::api::core::v1::ObjectReference;
use tokio::time::Instant;
use tracing::info;

use super::{
    Rollouts,
    gather::Scene,
    memory::{Memory, Name},
};
use crate::{events::News, evict::Refused, waiting::HeldUp};

/// The reason when a pod was handed addresses and did not take them.
const NOT_TAKEN: &str = "RolloutHandoverNotTaken";

impl Rollouts {
    /// A new pod is left waiting.
    pub(super) fn waits(&self, name: &Name, scene: &Scene, pod: &str, why: &Why, memory: &Memory) {
        let reason = why.reason();
        self.hold_up(scene, pod, reason, why.to_string());
        if memory.waits(name, reason, why.is_passing(), Instant::now()) {
            let note = format!("pod {pod} of the new version waits for an address: {why}");
            let warning = matches!(why, Why::Useless | Why::NothingToHandOver);
            self.tell(name, scene, warning, reason, note, memory);
        }
    }

    /// The annotation makes no sense.
    pub(super) fn misunderstood(
        &self,
        name: &Name,
        scene: &Scene,
        invalid: &InvalidRollout,
        memory: &Memory,
    ) {
        let reason = InvalidRollout::REASON;
        if memory.waits(name, reason, false, Instant::now()) {
            self.tell(name, scene, true, reason, invalid.to_string(), memory);
        }
    }

    /// An old pod goes for a new one.
    pub(super) fn handed_over(
        &self,
        name: &Name,
        scene: &Scene,
        eviction: &Eviction,
        memory: &Memory,
    ) {
        let reason = "RolloutHandover";
        self.waiting.hold_up(&eviction.heir.uid, None);
        memory.waits(name, reason, false, Instant::now());
        let addresses = scene.addresses.get(&eviction.uid).into_iter().flatten();
        let addresses: Vec<String> = addresses.map(ToString::to_string).collect();
        let state = if eviction.available {
            ""
        } else {
            ", which is not available,"
        };
        let note = format!(
            "pod {}{state} is evicted: its address {} goes to pod {} of the new version",
            eviction.name,
            addresses.join(", "),
            eviction.heir.name,
        );
        self.tell(name, scene, false, reason, note, memory);
        if eviction.outage {
            let note = ONE_REPLICA.to_owned();
            self.tell(name, scene, true, "OneReplicaOutage", note, memory);
        }
    }

    /// An old pod should go, and cannot now.
    pub(super) fn refused(
        &self,
        name: &Name,
        scene: &Scene,
        eviction: &Eviction,
        why: &Refused,
        memory: &Memory,
    ) {
        let message = format!(
            "the address of pod {} cannot be handed over: {why}",
            eviction.name
        );
        self.hold_up(scene, &eviction.heir.name, why.reason(), message);
        if memory.waits(name, why.reason(), false, Instant::now()) {
            let note = format!(
                "pod {} of the new version waits for the address of pod {}: {why}",
                eviction.heir.name, eviction.name
            );
            self.tell(name, scene, true, why.reason(), note, memory);
        }
    }

    /// A pod did not take what was handed over to it.
    pub(super) fn not_taken(
        &self,
        name: &Name,
        scene: &Scene,
        pod: &str,
        times: u32,
        memory: &Memory,
    ) {
        if memory.waits(name, NOT_TAKEN, true, Instant::now()) {
            let note = format!(
                "pod {pod} of the new version still waits, although an address was handed over for \
                 it {times} times; see its own Events. Pauses get longer"
            );
            self.tell(name, scene, true, NOT_TAKEN, note, memory);
        }
    }

    /// Notes for `explain` why nothing is handed over to a pod.
    fn hold_up(&self, scene: &Scene, pod: &str, reason: &'static str, message: String) {
        let mut pods = scene.picture.pods.iter();
        if let Some(member) = pods.find(|it| it.name == pod) {
            let why = HeldUp { reason, message };
            self.waiting.hold_up(&member.uid, Some(why));
        }
    }

    fn tell(
        &self,
        name: &Name,
        scene: &Scene,
        warning: bool,
        reason: &'static str,
        note: String,
        memory: &Memory,
    ) {
        info!(
            reason,
            namespace = name.0,
            deployment = name.1,
            note,
            "a rolling update needs addresses",
        );
        let updates = &scene.deployment.updates;
        let news = News {
            about: ObjectReference {
                api_version: Some("apps/v1".into()),
                kind: Some("Deployment".into()),
                namespace: Some(name.0.clone()),
                name: Some(name.1.clone()),
                uid: Some(updates.uid.clone()),
                resource_version: Some(updates.version.clone()),
                ..ObjectReference::default()
            },
            warning,
            reason,
            action: "Rollout",
            note,
        };
        self.events.tell_in_turn(news, memory.turn(name));
    }
}
