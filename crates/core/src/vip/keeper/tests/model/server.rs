//! The API server: versions, compare and swap, and what others do there.

use std::collections::{BTreeMap, BTreeSet};

use crate::vip::{
    Candidate, VipId,
    keeper::{Act, Change, Event, LeaseAnswer, LeaseView, ReadAnswer, View, VipAnswer},
};

#[derive(Default)]
pub struct Server {
    version: u64,
    /// In which register the holder of an address is kept; those of one register have one
    /// version. One without a register is kept by itself.
    pub registers: BTreeMap<VipId, usize>,
    /// Whether versions are not compared, as they must be.
    pub careless: bool,
    /// How often holders were written, and how often that was refused.
    pub writes: u64,
    pub refusals: u64,
    /// How often they were read after that, those of one register at once.
    pub reads: u64,
    pub vips: BTreeMap<VipId, View>,
    pub leases: BTreeMap<String, LeaseView>,
    /// What every watch has to show, in order.
    pub news: Vec<Event>,
}

impl Server {
    /// What a request of a node does, and the answer to it.
    pub fn ask(&mut self, node: &str, act: &Act) -> Event {
        match act {
            Act::WriteLease {
                expected,
                term,
                peers,
            } => {
                let now = self.leases.get(node).map(|it| it.version.clone());
                if now != *expected {
                    return Event::LeaseWritten(LeaseAnswer::Refused);
                }
                let version = self.version();
                let lease = LeaseView {
                    version: version.clone(),
                    term: *term,
                    peers: peers.clone(),
                };
                if let Some(last) = self.leases.insert(node.to_owned(), lease.clone()) {
                    assert!(last.term <= *term, "a term of {node} came back");
                }
                let (node, lease) = (node.to_owned(), Some(lease));
                self.news.push(Event::Lease { node, lease });
                Event::LeaseWritten(LeaseAnswer::Written { version })
            }
            Act::ReadLease { node } => Event::LeaseRead {
                node: node.clone(),
                answer: ReadAnswer::Found(self.leases.get(node).cloned()),
            },
            Act::ReadVip { id } => Event::VipRead {
                id: id.clone(),
                answer: ReadAnswer::Found(self.vips.get(id).cloned()),
            },
            Act::WriteVip { .. } | Act::Ask { .. } | Act::Answer { .. } | Act::Serve(_) => {
                unreachable!("the server is not asked for {act:?}")
            }
        }
    }

    /// Writes several holders of one register at once, or none of them.
    pub fn write(&mut self, acts: &[Act]) -> Vec<Event> {
        let edits = acts.iter().filter_map(|act| match act {
            Act::WriteVip {
                id,
                expected,
                change,
            } => Some((id, expected, change)),
            Act::WriteLease { .. }
            | Act::ReadLease { .. }
            | Act::ReadVip { .. }
            | Act::Ask { .. }
            | Act::Answer { .. }
            | Act::Serve(_) => None,
        });
        let edits: Vec<_> = edits.collect();
        let fits = edits.iter().all(|(id, expected, _)| self.has(id, expected));
        if fits {
            self.writes += 1;
            for (id, _, change) in &edits {
                if let Some(view) = self.vips.get_mut(*id) {
                    let before = view.moves;
                    apply(view, change);
                    let falls = view.moves < before;
                    assert!(!falls || self.careless, "moves never fall");
                }
            }
            self.renew(edits.iter().map(|(id, ..)| *id));
        } else {
            self.refusals += 1;
        }
        let answers = edits.iter().map(|(id, ..)| {
            let view = self.vips.get(*id).filter(|_| fits).cloned();
            let answer = view.map_or(VipAnswer::Conflict, |it| VipAnswer::Written(Box::new(it)));
            let id = (*id).clone();
            Event::VipWritten { id, answer }
        });
        answers.collect()
    }

    /// Changes an object if it has the version.
    pub fn edit(&mut self, id: &VipId, expected: &str, edit: impl FnOnce(&mut View)) {
        if self.has(id, expected) {
            self.vips.entry(id.clone()).and_modify(edit);
            self.renew([id].into_iter());
        }
    }

    /// Writes who could hold. That is not kept in a register.
    pub fn describe(&mut self, id: &VipId, expected: &str, candidates: Vec<Candidate>) {
        if !self.registers.contains_key(id) {
            return self.edit(id, expected, |view| view.candidates = candidates);
        }
        if let Some(view) = self.vips.get_mut(id) {
            view.candidates = candidates;
            self.news.push(Event::Vip(view.clone()));
        }
    }

    fn has(&self, id: &VipId, expected: &str) -> bool {
        let view = self.vips.get(id);
        view.is_some_and(|it| it.version == expected || self.careless)
    }

    /// Gives a new version to these and to all that are in a register with them.
    fn renew<'a>(&mut self, ids: impl Iterator<Item = &'a VipId>) {
        let version = self.version();
        let ids: BTreeSet<&VipId> = ids.collect();
        let touched: BTreeSet<usize> = ids
            .iter()
            .filter_map(|id| self.registers.get(*id).copied())
            .collect();
        for (id, view) in &mut self.vips {
            let register = self.registers.get(id);
            if ids.contains(id) || register.is_some_and(|it| touched.contains(it)) {
                view.version.clone_from(&version);
                self.news.push(Event::Vip(view.clone()));
            }
        }
    }

    pub fn create(&mut self, mut view: View) {
        view.version = self.version();
        self.news.push(Event::Vip(view.clone()));
        self.vips.insert(view.id.clone(), view);
    }

    /// All that there is, as a list shows it.
    pub fn list(&self) -> Vec<Event> {
        let vips = self.vips.values().cloned().map(Event::Vip);
        let leases = self.leases.iter().map(|(node, lease)| Event::Lease {
            node: node.clone(),
            lease: Some(lease.clone()),
        });
        leases.chain(vips).collect()
    }

    fn version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }
}

/// What the shell of an agent makes of a change.
pub fn apply(view: &mut View, change: &Change) {
    match change {
        Change::Hold { holder, moves, .. } => {
            view.holder = Some(holder.clone());
            view.successor = None;
            view.moves = *moves;
        }
        Change::Release { moves, .. } => {
            view.holder = None;
            view.successor = None;
            view.moves = *moves;
        }
        Change::Nominate(successor) => view.successor = Some(successor.clone()),
        Change::Dismiss => view.successor = None,
    }
}
