//! What the kernel is told to serve, and what it is known to serve.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    act::{Role, Served, Serving},
    agenda::{Agenda, longest_remains},
    entry::Entry,
    handover,
    scene::Scene,
};
use crate::{
    lease::Moment,
    vip::{Mode, Timing, VipId},
};

#[derive(Debug)]
pub(super) struct Kernel {
    /// Until then an earlier process of the agent may have left something.
    remains: Moment,
    /// The last that it was told.
    last: Option<Serving>,
    /// The number of the last that it has.
    done: u64,
    /// The number of the last that had this node as holder.
    held: BTreeMap<VipId, u64>,
    /// What it could not be made to end yet.
    lingering: BTreeSet<VipId>,
    /// The number of the first of those that have this node prepared.
    prepared: BTreeMap<VipId, u64>,
}

impl Kernel {
    pub fn new(timing: &Timing, now: Moment) -> Self {
        Self {
            remains: now.after(longest_remains(timing)),
            last: None,
            done: 0,
            held: BTreeMap::new(),
            lingering: BTreeSet::new(),
            prepared: BTreeMap::new(),
        }
    }

    /// Takes in that the kernel has what it was told.
    pub fn done(&mut self, number: u64) {
        self.done = self.done.max(number);
    }

    /// Takes in what it could not be made to end yet.
    pub fn lingers(&mut self, ids: BTreeSet<VipId>) {
        self.lingering = ids;
    }

    /// Whether the kernel is known not to answer for this address.
    pub fn is_silent(&self, entry: &Entry, agenda: &mut Agenda) -> bool {
        let id = &entry.view.id;
        if self.lingering.contains(id) {
            return false;
        }
        if let Some(held) = self.held.get(id) {
            return *held < self.done;
        }
        // What was told replaces the rules that an earlier process has left on the node, but not
        // what that process has lent to a pod: only time ends that.
        let holder = entry.view.holder.as_ref();
        let is_in_pod = holder.is_some_and(|it| it.candidate.mode == Mode::Direct);
        self.done > 0 && !is_in_pod || agenda.due(self.remains)
    }

    /// Whether the kernel is known to be prepared for this address.
    pub fn is_prepared(&self, id: &VipId) -> bool {
        self.prepared
            .get(id)
            .is_some_and(|number| *number <= self.done)
    }

    /// Whether something of an earlier process may still be there, to be taken over as it
    /// is.
    pub fn has_remains(&self, agenda: &mut Agenda) -> bool {
        self.last.is_none() && !agenda.due(self.remains)
    }

    /// Tells the kernel what to serve, if that has changed.
    pub fn tell(
        &mut self,
        roles: BTreeMap<VipId, Served>,
        deadline: Option<Moment>,
    ) -> Option<Serving> {
        // Who is prepared passes on what the last holder sends here, before it hears that it
        // is the next one.
        let is_timed = |it: &Served| matches!(it.role, Role::Holder(_) | Role::Prepared(_));
        let deadline = deadline.filter(|_| roles.values().any(is_timed));
        let last = self.last.as_ref();
        if last.is_some_and(|it| it.roles == roles && it.deadline == deadline) {
            return None;
        }
        let number = last.map_or(1, |it| it.number + 1);
        for (id, served) in &roles {
            match served.role {
                Role::Holder(_) => {
                    self.held.insert(id.clone(), number);
                }
                Role::Prepared(_) => {
                    self.prepared.entry(id.clone()).or_insert(number);
                }
                Role::HandedTo(_) | Role::Away(_) => {}
            }
        }
        self.prepared.retain(|id, _| {
            let role = roles.get(id).map(|it| &it.role);
            matches!(role, Some(Role::Prepared(_)))
        });
        let serving = Serving {
            number,
            deadline,
            roles,
        };
        self.last = Some(serving.clone());
        Some(serving)
    }
}

/// What this node does with each address.
pub(super) fn roles(
    entries: &BTreeMap<VipId, Entry>,
    scene: &Scene<'_>,
    agenda: &mut Agenda,
) -> BTreeMap<VipId, Served> {
    let mut roles = BTreeMap::new();
    for (id, entry) in entries {
        if let Some(role) = role(entry, scene, agenda) {
            let addresses = entry.view.addresses.clone();
            roles.insert(id.clone(), Served { addresses, role });
        }
    }
    roles
}

fn role(entry: &Entry, scene: &Scene<'_>, agenda: &mut Agenda) -> Option<Role> {
    let view = &entry.view;
    if entry.gone || view.addresses.is_empty() {
        return None;
    }
    let holder = view.holder.as_ref()?;
    if holder.candidate.node == scene.me {
        if entry.is_served_by(scene.me, scene.term) {
            return Some(Role::Holder(scene.fresh(&holder.candidate)));
        }
        let successor = view.successor.as_ref().map(|it| &it.candidate);
        return successor
            .filter(|it| entry.yielding.as_ref() == Some(&it.uid))
            .map(|it| Role::HandedTo(it.node_address));
    }
    if scene.term.is_some() && handover::is_called(entry, scene) {
        let successor = view.successor.as_ref()?;
        return Some(Role::Prepared(scene.fresh(&successor.candidate)));
    }
    if let Some((to, until)) = entry.forward
        && to == holder.candidate.node_address
        && !agenda.due(until)
    {
        return Some(Role::HandedTo(to));
    }
    Some(Role::Away(holder.candidate.addresses.clone()))
}
