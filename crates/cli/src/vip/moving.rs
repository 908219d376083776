//! `kubectl floe vip move`.
//!
//! A move is a wish on the object: the controller takes it off and names the pod as the
//! next one, and the agents of both nodes do the rest. What became of it the object says;
//! why it cannot be an Event says.

use std::{collections::BTreeSet, time::Duration};

use floe_api::floe::virtualip::{MOVE_TO, VirtualIP};
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api, ResourceExt as _,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use tokio::time::{sleep, timeout};

use super::{KIND, Vip, progress::Step};
use crate::{
    args::VipMove,
    cluster::{Access, Cluster},
    console::Console,
    failure::Failure,
};

/// The time between two looks.
const PAUSE: Duration = Duration::from_millis(200);

/// How many looks an Event may be later than what it is about.
const LATE_LOOKS: usize = 15;

/// Runs the command.
pub async fn run(cluster: &Cluster, console: &mut Console, args: &VipMove) -> Result<(), Failure> {
    let pod = args.to.strip_prefix("pod/").unwrap_or(&args.to);
    let vip = super::one(cluster, console, &args.name).await?;
    let name = vip.raw.name_any();
    if is_there(&vip.object, pod) {
        return console.done(&format!("{KIND}/{name} is at pod {pod} already"));
    }
    possible(&vip.object, pod)?;
    console.confirm(&question(&vip, pod), args.consent.yes)?;
    let journey = Journey {
        cluster,
        uid: vip.raw.uid().unwrap_or_default(),
        namespace: cluster.namespace(),
        name,
        pod,
    };
    let old = journey.events().await.unwrap_or_default();
    let told = old.into_iter().map(|event| event.name_any()).collect();
    journey.ask().await?;
    if args.no_wait {
        return console.done(&format!(
            "{KIND}/{} asked to move to pod {pod}",
            journey.name
        ));
    }
    let followed = journey.follow(console, &told);
    let node = if args.timeout.is_zero() {
        followed.await?
    } else {
        match timeout(args.timeout, followed).await {
            Ok(followed) => followed?,
            Err(_) => return Err(journey.late(args.timeout).await),
        }
    };
    let name = &journey.name;
    console.done(&format!("{KIND}/{name} moved to pod {pod} on node {node}"))
}

/// Whether a pod has the addresses, and nobody is to have them next.
fn is_there(vip: &VirtualIP, pod: &str) -> bool {
    let facts = vip.facts();
    let moves_on = facts.successor.is_some() || facts.wish.is_some_and(|wish| wish != pod);
    facts.holder.is_some_and(|it| it.pod == pod) && !moves_on
}

/// Whether the controller could grant the wish, by what the object says.
fn possible(vip: &VirtualIP, pod: &str) -> Result<(), Failure> {
    let facts = vip.facts();
    if facts.is_going {
        return Err(not_moved("Deleting", "it is being deleted".into(), None));
    }
    if !facts.candidates.iter().any(|it| it.pod == pod) {
        let pods: Vec<&str> = facts.candidates.iter().map(|it| it.pod).collect();
        let hint = if pods.is_empty() {
            "no pod is one now: kubectl floe vip show tells why".to_owned()
        } else {
            format!("these are: {}", pods.join(", "))
        };
        let message = format!("pod {pod} is no candidate");
        return Err(not_moved("MoveToNoCandidate", message, Some(hint)));
    }
    if facts.holder.is_none() {
        let message = format!("no pod has the addresses, so none can hand them over to {pod}");
        return Err(not_moved("MoveWithoutHolder", message, None));
    }
    Ok(())
}

fn question(vip: &Vip, pod: &str) -> String {
    let facts = vip.object.facts();
    let addresses = vip.addresses();
    let from = facts.holder.map_or("", |it| it.pod);
    let mut question = vec![format!(
        "{addresses} moves from pod {from} to pod {pod}; connections to {from} end."
    )];
    if let Some(wish) = facts.wish.filter(|wish| *wish != pod) {
        question.push(format!(
            "Somebody wishes it at pod {wish}; that is forgotten."
        ));
    }
    question.push("Go on?".into());
    question.join("\n")
}

fn not_moved(reason: &str, message: String, hint: Option<String>) -> Failure {
    Failure::NotMoved {
        reason: reason.to_owned(),
        message,
        hint,
    }
}

/// A move that somebody asks for.
struct Journey<'a> {
    cluster: &'a Cluster,
    namespace: &'a str,
    name: String,
    uid: String,
    pod: &'a str,
}

impl Journey<'_> {
    /// Writes the wish on the object, if it is still the one that was looked at.
    async fn ask(&self) -> Result<(), Failure> {
        let wish = json!({
            "metadata": { "uid": self.uid, "annotations": { MOVE_TO: self.pod } },
        });
        let api = self.cluster.vips(Some(self.namespace));
        let patched = api
            .patch(&self.name, &PatchParams::default(), &Patch::Merge(wish))
            .await;
        match patched {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
                Err(Failure::Conflict(format!("VirtualIP {:?}", self.name)))
            }
            Err(error) => {
                let access = Access::vips("patch", Some(self.namespace));
                Err(self.cluster.failure(&error, access))
            }
        }
    }

    /// Tells how far the move is until the pod has the addresses, on this node, or until
    /// it is over.
    async fn follow(
        &self,
        console: &mut Console,
        told: &BTreeSet<String>,
    ) -> Result<String, Failure> {
        let mut last = None;
        let mut was_planned = false;
        loop {
            let step = match super::named(self.cluster, self.namespace, &self.name).await {
                Ok(Some(vip)) if vip.raw.uid().as_deref() == Some(&self.uid) => {
                    Step::of(&vip.object, self.pod)
                }
                Ok(_) => return Err(not_moved("Deleting", "it was deleted".into(), None)),
                // The move may go on without anybody who looks.
                Err(failure @ Failure::Unreachable { .. }) => {
                    console.warn(&format!("{failure}; trying again"));
                    sleep(PAUSE).await;
                    continue;
                }
                Err(failure) => return Err(failure),
            };
            match &step {
                Step::There { node } => return Ok(node.clone()),
                Step::Replaced(other) => {
                    let message = format!("somebody else has asked for a move to pod {other}");
                    return Err(not_moved("MoveReplaced", message, None));
                }
                Step::Over(holder) => {
                    let holder = holder.as_deref();
                    return Err(self.given_up(holder, was_planned, told).await);
                }
                Step::Preparing { .. } | Step::Prepared { .. } => was_planned = true,
                Step::Asked | Step::Behind(_) => {}
            }
            if last.as_ref() != Some(&step) {
                console.remark(&step.told().unwrap_or_default());
                last = Some(step);
            }
            sleep(PAUSE).await;
        }
    }

    /// Why the move is over without having been made: as an Event says, or by what was
    /// seen.
    async fn given_up(
        &self,
        holder: Option<&str>,
        was_planned: bool,
        told: &BTreeSet<String>,
    ) -> Failure {
        // A plan that was given up has no Event.
        let looks = if was_planned { 1 } else { LATE_LOOKS };
        for look in 0..looks {
            if look > 0 {
                sleep(PAUSE).await;
            }
            // Who may not list Events is told what was seen.
            let Ok(events) = self.events().await else {
                break;
            };
            let new = |event: &&Event| !told.contains(&event.name_any());
            if let Some(event) = events.iter().find(new) {
                let reason = event.reason.as_deref().unwrap_or("MoveRefused");
                let message = event.message.clone().unwrap_or_default();
                return not_moved(reason, message, None);
            }
        }
        let holder = holder.map_or("no pod has it".to_owned(), |pod| {
            format!("pod {pod} has it")
        });
        let why = if was_planned {
            "the node of the pod was not prepared in time, or the pod is no candidate any more"
        } else {
            "the wish was taken off"
        };
        let hint = "kubectl floe vip show tells how it is now".to_owned();
        not_moved("MoveGivenUp", format!("{why}; {holder}"), Some(hint))
    }

    /// That it was waited for too long.
    async fn late(&self, limit: Duration) -> Failure {
        let found = super::named(self.cluster, self.namespace, &self.name).await;
        let vip = found.ok().flatten();
        let wish = vip.as_ref().and_then(|vip| vip.object.facts().wish);
        let is_waiting = wish == Some(self.pod);
        let hint = is_waiting.then(|| {
            let (name, namespace) = (&self.name, self.namespace);
            format!(
                "the wish stays until the controller answers it; \
                 kubectl -n {namespace} annotate vip {name} {MOVE_TO}- takes it back"
            )
        });
        let message = format!("it is not at pod {} after {} s", self.pod, limit.as_secs());
        not_moved("MoveLate", message, hint)
    }

    /// Warnings about moves of the object.
    async fn events(&self) -> Result<Vec<Event>, kube::Error> {
        let api: Api<Event> = Api::namespaced(self.cluster.client.clone(), self.namespace);
        let about = format!("involvedObject.uid={}", self.uid);
        let mut found = api.list(&ListParams::default().fields(&about)).await?.items;
        found.retain(|event| {
            event.involved_object.uid.as_deref() == Some(&self.uid)
                && event.type_.as_deref() == Some("Warning")
                && event.action.as_deref() == Some("Move")
        });
        Ok(found)
    }
}

#[cfg(test)]
mod tests;
