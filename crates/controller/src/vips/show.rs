//! Writing the status of a `VirtualIP`, also where its CRD lacks fields of this floe.

use floe_api::floe::virtualip::VirtualIP;
use floe_core::vip::VipId;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Steward,
    server::Failure,
    status::{self, Behind, Wanted},
};
use crate::{definitions, installation::SCHEMA_OUTDATED};

/// The CRD, and the file that has its current version.
const CRD: (&str, &str) = ("virtualips.floe.dev", "deploy/crds/floe.yaml");

impl Steward {
    /// Patches the status where it differs from what is wanted. The agent that has changed the
    /// holder in a register writes the holder to the status itself, so that part is left to the
    /// agent for a while. Returns the object, and whether something is left to the agent.
    pub(super) async fn show(
        &self,
        id: &VipId,
        current: VirtualIP,
        wanted: &Wanted,
        is_due: bool,
    ) -> Result<(VirtualIP, bool), Failure> {
        let Some(shown) = self.vips.shown(id) else {
            return Ok((current, false));
        };
        let now = Timestamp::now();
        let entry = self.vips.entry(id);
        let is_behind = entry
            .as_ref()
            .is_some_and(|it| it.shown_on(&shown, now).is_some());
        let behind = Behind {
            entry: entry.as_ref(),
            is_due: is_due || self.is_late(id, is_behind),
        };
        match status::patch(&shown, wanted, &behind, now) {
            Some(patch) if self.is_held(id, &shown, &patch) => Ok((current, false)),
            Some(patch) => {
                let answer = self.server.patch_status(id, &shown, &patch).await?;
                self.note_unkept(id, &patch, &answer);
                Ok((self.server.with_entry(&answer), false))
            }
            None => Ok((current, is_behind)),
        }
    }

    /// Whether a patch would change nothing but fields that the API server does not keep.
    fn is_held(&self, id: &VipId, shown: &VirtualIP, patch: &Value) -> bool {
        let memory = self.memory();
        let unkept = memory.unkept.get(id);
        unkept.is_some_and(|it| {
            it.held(&json!(shown.status), patch, Instant::now())
                .is_some()
        })
    }

    /// Compares a patch with the answer to it, and reports fields that the API server did not
    /// keep. The cache would not do: it may already have the next write of an agent.
    fn note_unkept(&self, id: &VipId, patch: &Value, answer: &VirtualIP) {
        let mut memory = self.memory();
        let unkept = memory.unkept.entry(id.clone()).or_default();
        let is_new = unkept.answered(patch, &json!(answer.status), Instant::now());
        let (crd, file) = CRD;
        let reporter = reporter(id);
        let installation = self.metrics.installation();
        if unkept.fields().is_empty() {
            installation.resolve_by(&reporter, SCHEMA_OUTDATED, crd);
        }
        if !is_new {
            return;
        }
        let fields = unkept.fields().iter();
        let fields: Vec<String> = fields.map(|it| format!("status.{it}")).collect();
        drop(memory);
        let message = definitions::lacks(crd, &fields, file);
        // One Event is enough for a CRD, however many objects it has.
        if installation.report_by(&reporter, SCHEMA_OUTDATED, crd, &message) {
            self.teller.about(answer, SCHEMA_OUTDATED, "Write", message);
        }
    }

    /// An object is gone, and has nothing to report any more.
    pub(super) fn forget_report(&self, id: &VipId) {
        let installation = self.metrics.installation();
        installation.resolve_by(&reporter(id), SCHEMA_OUTDATED, CRD.0);
    }

    /// Withdraws what objects have reported that this process does not look after any more.
    pub(super) fn forget_reports(&self) {
        let installation = self.metrics.installation();
        installation.forget_objects(SCHEMA_OUTDATED, CRD.0);
    }

    /// Forgets what the API server did not keep: the CRD has changed, and the next write may be
    /// kept. Objects whose write is not kept report it again.
    pub(super) fn forget_unkept(&self) {
        self.memory().unkept.clear();
        self.forget_reports();
    }

    /// Whether the status is behind its register for so long that the agent may never update it.
    fn is_late(&self, id: &VipId, is_behind: bool) -> bool {
        let mut memory = self.memory();
        if !is_behind {
            memory.behind.remove(id);
            return false;
        }
        let since = memory.behind.entry(id.clone());
        since.or_insert_with(Instant::now).elapsed() >= super::BEHIND
    }
}

fn reporter(id: &VipId) -> String {
    format!("{}/{}", id.namespace, id.name)
}
