//! Gives addresses back that a pod does not get after all.
//!
//! A record is only touched in the state in which this bind saw or wrote it. What
//! cannot be given back stays the pod's own and goes when the pod goes.

use floe_core::{
    ipam::{
        attribute::Attribute,
        ledger::{Ledger, Record},
        slot::Fate,
    },
    schedule::{bind::GiveBack, claimant::Claimant},
};
use tracing::warn;

use super::{
    Binder,
    attempt::{Attempt, Written, claimed},
};
use crate::{
    cluster::Pod,
    records::{Holding, WriteError},
};

/// An address that a pod does not need any more.
#[derive(Clone, Debug)]
pub(super) struct Leftover {
    /// As it was when that was decided.
    record: Record,
    /// To whom it goes; to nobody if it is freed.
    to: Option<Holding>,
}

impl Leftover {
    /// What becomes of an address; `None` when nothing does.
    pub fn new(ledger: &Ledger, claimant: &Claimant, it: &GiveBack) -> Option<Self> {
        let record = ledger.record(it.ip)?.clone();
        let to = match it.fate {
            Fate::Free => None,
            Fate::Spare => Some(Holding {
                key: claimant.group_key.clone(),
                place: Attribute::default(),
                policy: record.policy,
                note: record.workload_note.clone(),
            }),
            Fate::Keep => return None,
        };
        Some(Self { record, to })
    }

    /// Back to where it was before this bind.
    fn of(written: &Written) -> Self {
        let before = written.before.as_ref();
        Self {
            record: written.after.clone(),
            to: before.map(|before| Holding {
                key: before.key.clone(),
                place: Attribute::default(),
                policy: before.policy,
                note: before.workload_note.clone(),
            }),
        }
    }
}

impl Binder {
    /// Gives back what a bound pod does not need.
    pub(super) async fn give_back(&self, left: &[Leftover]) {
        for leftover in left {
            let record = &leftover.record;
            // As long as the cloud may send to the node, nobody else gets it.
            if !record.node.is_empty()
                && let Err(error) = self.cloud.unassign(&record.node, record.ip).await
            {
                warn!(
                    reason = error.reason(), ip = %record.ip, node = record.node, error = %error,
                    "address is not given back before its node has let it go",
                );
                continue;
            }
            self.hand_on(leftover).await;
        }
    }

    async fn hand_on(&self, leftover: &Leftover) {
        let Leftover { record, to } = leftover;
        let done = match to {
            Some(holding) => self.records.change(record, holding).await,
            None => self.records.free(record).await,
        };
        match done {
            // Whoever was faster knows better.
            Ok(()) | Err(WriteError::Conflict { .. }) => {}
            Err(error) => warn!(
                reason = error.reason(), ip = %record.ip, key = %record.key, error = %error,
                "address that a pod does not need is not given back",
            ),
        }
    }
}

impl Attempt<'_> {
    /// The pod cannot have all that it asks for, so it has nothing of what this bind
    /// has taken: two such pods could wait for each other for ever. The cloud does
    /// not know of it yet.
    pub async fn give_up(&mut self) {
        for written in std::mem::take(&mut self.written) {
            self.binder.hand_on(&Leftover::of(&written)).await;
        }
    }

    /// Somebody else, most likely another floe, has bound the pod first, so its
    /// annotation says what it runs with.
    pub async fn lost_to(&self, pod: &Pod, node: &str) {
        let runs_with: Vec<_> = claimed(pod).iter().map(|info| info.ip.addr()).collect();
        if runs_with.is_empty() {
            return;
        }
        let is_used = |record: &Record| runs_with.contains(&record.ip);
        let written = self.written.iter().filter(|it| !is_used(&it.after));
        let unused: Vec<Leftover> = written.map(Leftover::of).collect();
        self.binder.give_back(&unused).await;

        let held: Vec<Record> = self.binder.store.read(|books| {
            let held = self.claim.claimant.held(books.ledger());
            held.into_iter().cloned().collect()
        });
        for record in held.iter().filter(|it| is_used(it) && it.node != node) {
            if !self.holding.is_of(record) {
                continue;
            }
            let mut holding = self.holding.clone();
            node.clone_into(&mut holding.place.node_name);
            // It was brought to the wrong node by this bind.
            let _ = self.binder.cloud.assign(node, record.ip).await;
            if let Err(error) = self.binder.records.change(record, &holding).await {
                warn!(
                    reason = error.reason(), ip = %record.ip, node, error = %error,
                    "record does not say where its pod runs",
                );
            }
        }
    }
}
