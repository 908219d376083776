//! When conditions are written: once the kernel serves something, and what it has to tell
//! is not told yet.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use floe_api::floe::virtualip::VirtualIP;
use floe_core::{
    lease::Moment,
    vip::{
        VipId,
        keeper::{Role, Serving},
    },
};
use jiff::Timestamp;
use serde_json::Value;

use super::{conditions, health, plane::Findings};

/// The pause after a write that failed. Mostly somebody else was faster, and the next look
/// is at what they wrote.
const PAUSE: Duration = Duration::from_secs(1);

/// How many conditions are written at once. Nobody waits for them, and what cannot wait has
/// to get through.
const AT_ONCE: usize = 4;

/// What is told, and what is about to be.
#[derive(Debug, Default)]
pub struct Teller {
    findings: Findings,
    flying: BTreeSet<VipId>,
    pauses: BTreeMap<VipId, Moment>,
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

    /// Takes in how a write went.
    pub fn told(&mut self, id: &VipId, done: bool, now: Moment) {
        self.flying.remove(id);
        self.is_due = true;
        if !done {
            self.pauses.insert(id.clone(), now.after(PAUSE));
        }
    }

    /// The conditions to write now, each with the object as it was seen. Objects on which
    /// the keeper writes wait.
    pub fn due(
        &mut self,
        serving: &Serving,
        objects: &BTreeMap<VipId, Arc<VirtualIP>>,
        pods: &health::Told,
        writing: &BTreeSet<VipId>,
        now: Moment,
    ) -> Vec<(VipId, Arc<VirtualIP>, Value)> {
        if !std::mem::take(&mut self.is_due) {
            return Vec::new();
        }
        self.pauses.retain(|_, until| now < *until);
        // Those that must wait are looked at again.
        self.is_due = !self.pauses.is_empty();
        let mut due = Vec::new();
        for (id, finding) in &self.findings {
            let role = serving.roles.get(id).map(|it| &it.role);
            let (Some(Role::Holder(pod)), Some(object)) = (role, objects.get(id)) else {
                continue;
            };
            let wanted = conditions::wanted(finding, pods.health(&pod.uid));
            let Some(value) = conditions::changed(object, &wanted, Timestamp::now()) else {
                continue;
            };
            let waits = writing.contains(id) || self.pauses.contains_key(id);
            if waits || self.flying.contains(id) || self.flying.len() >= AT_ONCE {
                self.is_due = true;
                continue;
            }
            self.flying.insert(id.clone());
            due.push((id.clone(), Arc::clone(object), value));
        }
        due
    }
}
