//! Writes of registers: which are sent now, and which wait.
//!
//! When a node dies, others have something to write in every register. Whoever writes into a
//! register after somebody else has to judge anew by what is there then. So each node begins at
//! another place, has few under way, and judges the rest when it is their turn.

use std::{collections::BTreeMap, sync::Arc};

use floe_api::floe::register;
use floe_core::vip::{
    VipId,
    keeper::{Change, Event, VipAnswer},
};

use super::Driver;
use crate::vips::answer::{self, Edit};

/// How many registers are written at once. The renewal of the lease, which cannot wait, goes
/// to the same server.
const AT_ONCE: usize = 5;

/// What the keeper wants to be written.
#[derive(Debug)]
pub(super) struct Wish {
    pub id: VipId,
    /// The version on which it was judged.
    pub expected: String,
    pub change: Change,
}

/// The objects of a register that is written, whose changes are not part of it.
#[derive(Debug, Default)]
pub(super) struct Rest {
    /// Those that were judged on another version than is known.
    pub outdated: Vec<VipId>,
    /// Those that came too late, or whose register had to wait for others.
    pub unsent: Vec<VipId>,
}

/// Which registers are written, and whose changes were not sent.
#[derive(Debug, Default)]
pub(super) struct Writes {
    under_way: BTreeMap<String, Rest>,
    /// The objects whose register had to wait for others.
    waiting: Vec<VipId>,
}

impl Writes {
    /// Whether there are any.
    pub fn are_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Takes in that a register was written, or not. Returns the objects whose changes were
    /// never sent, and can be by now.
    pub fn done(&mut self, register: &str) -> Rest {
        let mut rest = self.under_way.remove(register).unwrap_or_default();
        rest.unsent.append(&mut self.waiting);
        rest
    }
}

impl Driver {
    /// Writes what is wanted of registers, as far as it is their turn.
    pub(super) fn write_all(&mut self, wishes: BTreeMap<String, Vec<Wish>>) {
        let others = self.leases.keys().filter(|it| **it != self.me).count();
        let before = self.leases.keys().filter(|it| **it < self.me).count();
        let first = register::name_of(register::COUNT * before / (others + 1));
        let mut wishes: Vec<(String, Vec<Wish>)> = wishes.into_iter().collect();
        wishes.sort_by_key(|(register, _)| *register < first);
        for (register, wishes) in wishes {
            self.write(register, wishes);
        }
    }

    /// Writes changes of a register, unless that is being written, since its version will be
    /// another one then, or too many others are.
    fn write(&mut self, register: String, wishes: Vec<Wish>) {
        let ids = |wishes: Vec<Wish>| wishes.into_iter().map(|it| it.id);
        let writes = &mut self.writes;
        let is_full = writes.under_way.len() >= AT_ONCE;
        if let Some(rest) = writes.under_way.get_mut(&register) {
            rest.unsent.extend(ids(wishes));
            return;
        }
        if is_full {
            writes.waiting.extend(ids(wishes));
            return;
        }
        let known = self.books.register(&register);
        let version = known.and_then(|it| it.metadata.resource_version.clone());
        let mut edits = Vec::new();
        let mut rest = Rest::default();
        for Wish {
            id,
            expected,
            change,
        } in wishes
        {
            match self.books.vip(&id) {
                Some(vip) if Some(&expected) == version.as_ref() => edits.push(Edit {
                    vip: Arc::clone(vip),
                    change,
                }),
                // Of another version than the keeper knows nothing can be written.
                _ => rest.outdated.push(id),
            }
        }
        self.writes.under_way.insert(register.clone(), rest);
        let calls = self.calls.clone();
        let version = version.unwrap_or_default();
        self.fly(answer::write(calls, register, version, edits));
    }

    /// Tells the keeper what has come of changes that were not written.
    pub(super) fn not_written(&mut self, ids: Vec<VipId>, answer: &VipAnswer) {
        let now = self.clock.now();
        for id in ids {
            let answer = answer.clone();
            let event = Event::VipWritten { id, answer };
            self.keeper.handle(event, now);
        }
    }
}
