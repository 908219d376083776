//! What a `VirtualIP` has no more: addresses, and in the end itself.

use floe_api::floe::{register::Entry, virtualip::VirtualIP};
use floe_core::{
    ipam::{key::HolderKey, ledger::Record},
    vip::{VipId, grant::Grant},
};
use serde_json::json;
use tracing::info;

use super::{
    Steward,
    release::{LIMIT, Release},
    remains::may_be_served,
    status::Wanted,
    tend::{Left, TendError},
};
use crate::records::WriteError;

/// The finalizer by which an object stays until its addresses are free.
pub const FINALIZER: &str = "floe.dev/vip";

impl Steward {
    /// Frees addresses that it has no more, once the holder has let go of them.
    pub(super) async fn let_go(
        &self,
        id: &VipId,
        vip: &VirtualIP,
        grant: &Grant,
    ) -> Result<Left, TendError> {
        let mut left = Left::Nothing;
        self.releases.only(id, &grant.surplus);
        if !grant.surplus.is_empty() && self.has_ghost(id) {
            return Ok(Left::Later);
        }
        for &ip in &grant.surplus {
            let release = self.releases.of_one(id, ip, vip, &self.server).await?;
            if release == Release::NotYet {
                left = Left::Later;
                continue;
            }
            if release == Release::Overdue {
                self.tell_overdue(vip, &format!("{ip} is freed all the same"));
            }
            self.free(id, |record| record.ip == ip).await?;
        }
        Ok(left)
    }

    /// The object is to go: nobody can take its addresses any more, the holder lets go, the
    /// records are freed, and then it may go.
    pub(super) async fn end(&self, id: &VipId, vip: &VirtualIP) -> Result<Left, TendError> {
        if !is_guarded(vip) {
            return Ok(Left::Nothing);
        }
        let mut current = vip.clone();
        if let Some(entry) = Entry::of(vip).withdrawn() {
            current = self.server.enter(id, vip, false, entry).await?;
        }
        let nothing = Wanted::default();
        (current, _) = self.show(id, current, &nothing, true).await?;
        let is_held = |vip: &VirtualIP| vip.status.as_ref().is_some_and(|it| it.holder.is_some());
        let release = self.releases.of_all(id, &current, &self.server).await?;
        match release {
            Release::NotYet => return Ok(Left::Later),
            // A node that renews its lease may speak for them, however long it takes.
            Release::Overdue => {
                self.tell_overdue(&current, "it keeps them: restart its agent");
                return Ok(Left::Later);
            }
            // Its holder was taken out just now: the watch brings the new version.
            Release::Done if is_held(&current) => return Ok(Left::Later),
            Release::Done => {}
        }
        if self.has_ghost(id) {
            return Ok(Left::Later);
        }
        // Whoever has an old view of the register is refused here, before anything is freed.
        self.server.remove(id, &current).await?;
        self.free(id, |_| true).await?;
        let finalizers = current.metadata.finalizers.iter().flatten();
        let others: Vec<&String> = finalizers.filter(|it| *it != FINALIZER).collect();
        let metadata = json!({ "finalizers": others });
        self.server.patch(id, &current, metadata).await?;
        let VipId { namespace, name } = id;
        info!(
            namespace,
            name, "a VirtualIP is gone and its addresses are free"
        );
        Ok(Left::Nothing)
    }

    /// Whether an object of this name went without letting go of its addresses, and a node may
    /// still speak for them. Their records have the name of this one, which must not free
    /// them: nothing else keeps others from these addresses.
    fn has_ghost(&self, id: &VipId) -> bool {
        let name = format!("{}/{}", id.namespace, id.name);
        let is_ghost = |it: &Entry| it.vip == name && may_be_served(it);
        let ghosts = self.vips.lost_where(is_ghost);
        !ghosts.is_empty()
    }

    async fn free(&self, id: &VipId, which: impl Fn(&Record) -> bool) -> Result<(), WriteError> {
        let Ok(key) = HolderKey::of_vip(id) else {
            return Ok(());
        };
        let records: Vec<Record> = self.store.read(|books| {
            let held = books.ledger().held_by(&key);
            held.filter(|it| which(it)).cloned().collect()
        });
        for record in records {
            self.records.free(&record).await?;
            let VipId { namespace, name } = id;
            info!(ip = %record.ip, namespace, name, "address of a VirtualIP is free");
        }
        Ok(())
    }

    fn tell_overdue(&self, vip: &VirtualIP, outcome: &str) {
        let holder = vip.status.as_ref().and_then(|it| it.holder.as_ref());
        let node = holder.map(|it| it.node.as_str()).unwrap_or_default();
        let words = format!(
            "node {node} has not let go for {} min; {outcome}",
            LIMIT.as_secs() / 60,
        );
        self.teller.about(vip, "ReleaseOverdue", "Release", words);
    }
}

/// Whether it stays until its addresses are free.
pub fn is_guarded(vip: &VirtualIP) -> bool {
    let mut finalizers = vip.metadata.finalizers.iter().flatten();
    finalizers.any(|it| it == FINALIZER)
}
