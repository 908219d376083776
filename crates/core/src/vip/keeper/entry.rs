//! One `VirtualIP` as its keeper knows it, and what is under way for it.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};

use super::{
    act::{Act, Change},
    agenda::Agenda,
    event::{ReadAnswer, VipAnswer},
    view::View,
};
use crate::lease::Moment;

/// How long a node that has given an address away passes on what still comes.
const FORWARDING: Duration = Duration::from_secs(10);

/// How long to wait after a call that failed.
const PAUSE: Duration = Duration::from_millis(500);

#[derive(Debug)]
pub(super) struct Entry {
    pub view: View,
    busy: Option<Busy>,
    doubt: Option<Doubt>,
    pause: Option<Moment>,
    /// When it was seen to move.
    pub moved: Option<Moment>,
    /// Since when nobody serves it, and whose holding was the last.
    pub vacant: Option<(Option<(String, i64)>, Moment)>,
    /// The uid of the pod that is to take it while nobody serves it.
    pub planned: Option<String>,
    /// The term and the number of moves of the holding that this node has given up, or has
    /// tried to. It serves no more by that holding, since the write may come to effect at
    /// any time, until a write of its own was accepted on what it saw.
    given: Option<(i64, i64)>,
    /// For whom this node has fallen silent; an empty uid: for nobody.
    pub yielding: Option<String>,
    /// Whom this node waits for to be prepared, and since when.
    pub nominee: Option<(String, Moment)>,
    /// Who was not prepared in time, and when.
    pub passed: BTreeMap<String, Moment>,
    /// Where to send what still comes, and until when.
    pub forward: Option<(IpAddr, Moment)>,
    /// This node cannot serve it until then.
    pub unable: Option<Moment>,
    /// This node cannot announce it until then, and has it only while nobody else can.
    pub unheard: Option<Moment>,
    /// Since when the holder is fit and yet not among the candidates.
    pub unlisted: Option<Moment>,
    /// Whether the object is gone. The entry stays while a call is under way, and while a
    /// late sight of the old object could be mistaken for a holding.
    pub gone: bool,
}

/// Why the object has to be read before the next write.
#[derive(Debug)]
enum Doubt {
    /// The last one was refused, and no other version was seen yet than that on which it was
    /// made.
    Refused(String),
    /// The last one has failed, and may come to effect at any time.
    Unknown,
}

#[derive(Debug)]
enum Busy {
    Reading,
    Writing {
        /// The version on which it was judged.
        expected: String,
        /// Where the new holder's node is reached, if the addresses are given to it.
        forward: Option<IpAddr>,
    },
}

impl Entry {
    pub fn new(view: View) -> Self {
        Self {
            view,
            busy: None,
            doubt: None,
            pause: None,
            moved: None,
            vacant: None,
            planned: None,
            given: None,
            yielding: None,
            nominee: None,
            passed: BTreeMap::new(),
            forward: None,
            unable: None,
            unheard: None,
            unlisted: None,
            gone: false,
        }
    }

    /// Takes in what was seen.
    pub fn seen(&mut self, view: View, now: Moment) {
        if view.moves != self.view.moves {
            self.moved = Some(now);
        }
        // A watch may tell what this node has written before the answer comes. What still
        // comes must not be lost in between.
        if let Some(Busy::Writing {
            forward: Some(to), ..
        }) = &self.busy
            && view
                .holder
                .as_ref()
                .is_some_and(|it| it.candidate.node_address == *to)
        {
            self.forward = Some((*to, now.after(FORWARDING)));
        }
        if matches!(&self.doubt, Some(Doubt::Refused(version)) if *version != view.version) {
            self.doubt = None;
        }
        self.view = view;
        self.gone = false;
    }

    /// Takes in that the object is gone; whether to keep the entry for now.
    pub fn vanish(&mut self, term: Option<i64>) -> bool {
        self.gone = true;
        self.given = term.map(|term| (term, i64::MAX));
        self.lingers(term)
    }

    /// Whether the entry of an object that is gone is still of use.
    pub fn lingers(&self, term: Option<i64>) -> bool {
        let could_mistake = self.given.is_some_and(|(given, _)| Some(given) == term);
        self.busy.is_some() || could_mistake
    }

    /// Takes in the answer to a write.
    pub fn written(&mut self, me: &str, answer: VipAnswer, now: Moment) {
        let Some(Busy::Writing { expected, forward }) = self.busy.take() else {
            return;
        };
        match answer {
            VipAnswer::Written(view) => {
                let mine = view.holder.as_ref().filter(|it| it.candidate.node == me);
                if mine.is_some() {
                    // Made on what was there: no earlier write can come to effect.
                    self.given = None;
                }
                self.forward = forward.map(|to| (to, now.after(FORWARDING)));
                self.seen(*view, now);
            }
            // What was refused was not done. What is there instead may have been seen already.
            VipAnswer::Conflict if self.view.version == expected => {
                self.doubt = Some(Doubt::Refused(expected));
            }
            VipAnswer::Conflict | VipAnswer::Unsent => {}
            VipAnswer::Unknown => {
                self.doubt = Some(Doubt::Unknown);
                self.pause = Some(now.after(PAUSE));
            }
        }
    }

    /// Takes in the answer to a read; whether there is still such an object.
    pub fn read(&mut self, answer: ReadAnswer<View>, now: Moment) -> bool {
        if !matches!(self.busy, Some(Busy::Reading)) {
            return true;
        }
        self.busy = None;
        match answer {
            ReadAnswer::Found(Some(view)) => {
                self.doubt = None;
                self.seen(view, now);
            }
            ReadAnswer::Found(None) => return false,
            ReadAnswer::Failed => self.pause = Some(now.after(PAUSE)),
        }
        true
    }

    /// Whether a holding of this term is one that this node has given up.
    pub fn is_given(&self, term: i64) -> bool {
        self.given
            .is_some_and(|(given, moves)| given == term && self.view.moves <= moves)
    }

    /// Whether this node serves by its holding in the running term.
    pub fn is_served_by(&self, me: &str, term: Option<i64>) -> bool {
        term.is_some_and(|term| {
            !self.gone
                && self.view.is_held_by(me, term)
                && self.yielding.is_none()
                && !self.is_given(term)
        })
    }

    /// Whether a call is under way.
    pub fn is_busy(&self) -> bool {
        self.busy.is_some()
    }

    /// Begins a write, unless a call is under way. What a failed write has left in doubt is
    /// read first.
    pub fn commit(
        &mut self,
        agenda: &mut Agenda,
        write: impl FnOnce(&mut Self) -> Act,
    ) -> Option<Act> {
        if self.busy.is_some() || self.pause.is_some_and(|at| !agenda.due(at)) {
            return None;
        }
        if self.doubt.is_none() {
            return Some(write(self));
        }
        self.busy = Some(Busy::Reading);
        Some(Act::ReadVip {
            id: self.view.id.clone(),
        })
    }

    /// Writes a change that gives this node's holding to another node or to nobody. The
    /// node must be silent by now.
    pub fn give_up(&mut self, term: i64, change: Change) -> Act {
        self.given = Some((term, self.view.moves));
        self.write(change)
    }

    /// Writes a change.
    pub fn write(&mut self, change: Change) -> Act {
        let given = self.given.is_some();
        let forward = match &change {
            Change::Hold { holder, .. } if given => Some(holder.candidate.node_address),
            Change::Hold { .. }
            | Change::Release { .. }
            | Change::Nominate(_)
            | Change::Dismiss => None,
        };
        let expected = self.view.version.clone();
        self.busy = Some(Busy::Writing {
            expected: expected.clone(),
            forward,
        });
        Act::WriteVip {
            id: self.view.id.clone(),
            expected,
            change,
        }
    }
}
