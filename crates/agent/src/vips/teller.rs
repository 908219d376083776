//! When the status of objects is written: conditions once the kernel serves something, and
//! who has the addresses after this node has changed that in a register.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use floe_api::floe::{register::Books, virtualip::VirtualIP};
use floe_core::{
    lease::Moment,
    vip::{
        Mode, VipId,
        elect::Health,
        keeper::{Role, Serving},
    },
};
use floe_shell::Unkept;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::warn;

use super::{conditions, health, plane::Findings};

/// The pause after a write that failed. Mostly somebody else was faster, and the next look
/// is at what they wrote.
const PAUSE: Duration = Duration::from_secs(1);

/// How many are written at once. Nobody waits for them, and what cannot wait has
/// to get through.
const AT_ONCE: usize = 4;

/// What is told, and what is about to be.
#[derive(Debug, Default)]
pub struct Teller {
    findings: Findings,
    /// The objects whose entry this node has changed, and whose status may not show it yet.
    /// What others hold they show themselves. Should this process end before, the controller
    /// writes it.
    owed: BTreeSet<VipId>,
    flying: BTreeSet<VipId>,
    pauses: BTreeMap<VipId, Moment>,
    /// What the API server did not keep of a status.
    unkept: BTreeMap<VipId, Unkept>,
    is_due: bool,
}

impl Teller {
    /// Takes in that something has changed.
    pub fn look_again(&mut self) {
        self.is_due = true;
    }

    /// Takes in what the kernel serves.
    pub fn found(&mut self, findings: Findings) {
        if self.findings != findings {
            self.findings = findings;
            self.is_due = true;
        }
    }

    /// Takes in that this node has changed the entries of objects.
    pub fn owe(&mut self, ids: &[VipId]) {
        self.owed.extend(ids.iter().cloned());
        self.is_due = true;
    }

    /// Takes in how a write went: the object as it is then, unless it failed.
    pub fn told(&mut self, id: &VipId, written: Option<&VirtualIP>, status: &Value, now: Moment) {
        self.flying.remove(id);
        self.is_due = true;
        let Some(object) = written else {
            self.pauses.insert(id.clone(), now.after(PAUSE));
            return;
        };
        let unkept = self.unkept.entry(id.clone()).or_default();
        if unkept.answered(status, &json!(object.status), Instant::now()) {
            let VipId { namespace, name } = id;
            warn!(
                reason = "SchemaOutdated",
                namespace,
                name,
                fields = ?unkept.fields(),
                remedy = "kubectl apply --server-side --force-conflicts -f deploy/crds/floe.yaml",
                "the API server does not keep fields of a status",
            );
        }
        if unkept.fields().is_empty() {
            self.unkept.remove(id);
        }
    }

    /// Whether a patch would change nothing but what the API server does not keep.
    fn is_held(&self, id: &VipId, object: &VirtualIP, status: &Value) -> bool {
        let held = |it: &Unkept| it.held(&json!(object.status), status, Instant::now());
        self.unkept.get(id).and_then(held).is_some()
    }

    /// What to write now, each with the object as it was seen.
    pub fn due(
        &mut self,
        serving: &Serving,
        books: &Books,
        pods: &health::Told,
        now: Moment,
    ) -> Vec<(VipId, Arc<VirtualIP>, Value)> {
        if !std::mem::take(&mut self.is_due) {
            return Vec::new();
        }
        self.pauses.retain(|_, until| now < *until);
        // Those that must wait are looked at again.
        self.is_due = !self.pauses.is_empty();
        let time = Timestamp::now();
        let concerned = self.findings.keys().chain(&self.owed);
        let concerned: BTreeSet<VipId> = concerned.cloned().collect();
        self.unkept.retain(|id, _| concerned.contains(id));
        let mut due = Vec::new();
        for id in concerned {
            let Some(object) = books.shown(&id) else {
                self.owed.remove(&id);
                continue;
            };
            let pod = match serving.roles.get(&id).map(|it| &it.role) {
                Some(Role::Holder(pod)) => Some(pod),
                _ => None,
            };
            let is_owed = self.owed.contains(&id);
            let entry = books.entry(&id);
            let entry = entry.filter(|it| pod.is_some() || is_owed && it.holder.is_none());
            let shown = entry.and_then(|it| it.shown_on(object, time));
            if shown.is_none() {
                self.owed.remove(&id);
            }
            let conditions = pod.zip(self.findings.get(&id)).and_then(|(pod, finding)| {
                let health = match pod.mode {
                    Mode::Node => Some(Health::Fit),
                    Mode::Nat | Mode::Direct | Mode::Standby => pods.health(&pod.uid),
                };
                let wanted = conditions::wanted(finding, health);
                conditions::changed(object, &wanted, time)
            });
            if shown.is_none() && conditions.is_none() {
                continue;
            }
            let mut status = shown.unwrap_or_else(|| json!({}));
            if let Some(conditions) = conditions {
                status["conditions"] = conditions;
            }
            if self.is_held(&id, object, &status) {
                continue;
            }
            let waits = self.pauses.contains_key(&id) || self.flying.contains(&id);
            if waits || self.flying.len() >= AT_ONCE {
                self.is_due = true;
                continue;
            }
            self.flying.insert(id.clone());
            due.push((id, Arc::clone(object), status));
        }
        due
    }
}
