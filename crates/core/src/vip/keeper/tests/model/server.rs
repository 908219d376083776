//! The API server: versions, compare and swap, and what others do there.

use std::collections::BTreeMap;

use crate::vip::{
    VipId,
    keeper::{Act, Change, Event, LeaseAnswer, LeaseView, ReadAnswer, View, VipAnswer},
};

#[derive(Default)]
pub struct Server {
    version: u64,
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
            Act::WriteVip {
                id,
                expected,
                change,
            } => {
                let answer = match self.edit(id, expected, |view| apply(view, change)) {
                    Some(view) => VipAnswer::Written(Box::new(view)),
                    None => VipAnswer::Conflict,
                };
                let id = id.clone();
                Event::VipWritten { id, answer }
            }
            Act::ReadVip { id } => Event::VipRead {
                id: id.clone(),
                answer: ReadAnswer::Found(self.vips.get(id).cloned()),
            },
            Act::Ask { .. } | Act::Answer { .. } | Act::Serve(_) => {
                unreachable!("the server is not asked for {act:?}")
            }
        }
    }

    /// Changes an object if it has the version.
    pub fn edit(
        &mut self,
        id: &VipId,
        expected: &str,
        edit: impl FnOnce(&mut View),
    ) -> Option<View> {
        let version = self.version();
        let view = self.vips.get_mut(id).filter(|it| it.version == expected)?;
        let before = view.clone();
        edit(view);
        view.version = version;
        assert!(before.moves <= view.moves, "moves never fall");
        let view = view.clone();
        self.news.push(Event::Vip(view.clone()));
        Some(view)
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
