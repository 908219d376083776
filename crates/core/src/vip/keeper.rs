//! What the agent of a node does about shared addresses: take, serve, hand over, fall silent.
//!
//! A [`Keeper`] is told what happens ([`Keeper::handle`]) and says what to do
//! ([`Keeper::poll`]). It reads no clock and does nothing itself. Several events may be
//! told before one poll.
//!
//! ```text
//!   lease of the node:   no term --write accepted--> term until deadline --renewed--+
//!                           ^                          |   ^      promised by peers |
//!                           +-----deadline passed------+   +------------------------+
//!
//!   address:   vacant --taken--> held by a term --successor prepared, silent, given--> held
//!                 ^                    |                                               by
//!                 +----term is over----+                                          another
//! ```
//!
//! - `tenure`: the own lease. It says until when the node may serve anything at all.
//! - `rivals`: leases of others. It says when a term of theirs is over.
//! - `pledges`: what was promised to others.
//! - `takeover` and `handover`: how an address gets a holder, and another one.
//! - `serving`: what the kernel has, and what it is known to have.
//!
//! # Guarantees
//! At most one node serves an address at any time, where a node serves what the last
//! [`Serving`] in its kernel has with the role [`Role::Holder`], until its deadline.
//!
//! # Assumptions
//! Clocks count during suspend, and differ in speed by no more than the margin in a lease
//! duration. `now` is read after an event has come in, and before an act is done. The API
//! server compares versions with each write, and direct reads see every write before them.
//! A lease is written by its node only; holders and their terms are written by agents
//! only. Each accepted write has a new version, also one that would change nothing. Neither a
//! `VirtualIP` nor what keeps its holder is removed while it has one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

pub use act::{Act, Change, Output, Role, Served, Serving};
pub use event::{Event, LeaseAnswer, ReadAnswer, VipAnswer};
pub use pledges::Refusal;
pub use view::{Holding, LeaseView, PodView, Successor, View};

use agenda::Agenda;
use entry::Entry;
use pledges::Pledges;
use rivals::Rivals;
use scene::Scene;
use serving::Kernel;
use takeover::Standing;
use tenure::Tenure;

use super::{
    Candidate, Timing, VipId,
    elect::{self, Load},
};
use crate::lease::Moment;

mod act;
mod agenda;
mod entry;
mod event;
mod handover;
mod pledges;
mod rivals;
mod scene;
mod serving;
mod takeover;
mod tenure;
mod view;

/// How long a node does not take what it could not serve.
const UNABLE: Duration = Duration::from_secs(30);

/// The same for one that was only about to be prepared: nobody has missed anything, and what
/// it lacked, such as an answer of the runtime, may be there a moment later.
const UNPREPARED: Duration = Duration::from_secs(2);

/// The part of an agent that decides about shared addresses.
#[derive(Debug)]
pub struct Keeper {
    me: String,
    timing: Timing,
    tenure: Tenure,
    rivals: Rivals,
    pledges: Pledges,
    kernel: Kernel,
    entries: BTreeMap<VipId, Entry>,
    pods: BTreeMap<String, PodView>,
    /// When other nodes were last seen to get an address.
    busy: BTreeMap<String, Moment>,
    /// Where the agents of other nodes are reached.
    addresses: BTreeMap<String, IpAddr>,
    answers: Vec<Act>,
    synced: bool,
    stopping: bool,
}

impl Keeper {
    /// The keeper of a node, in a new process that knows nothing.
    pub fn new(me: impl Into<String>, timing: Timing, now: Moment) -> Self {
        let me = me.into();
        Self {
            tenure: Tenure::new(me.clone(), timing),
            rivals: Rivals::new(me.clone(), timing, now),
            pledges: Pledges::new(&timing),
            kernel: Kernel::new(&timing, now),
            entries: BTreeMap::new(),
            pods: BTreeMap::new(),
            busy: BTreeMap::new(),
            addresses: BTreeMap::new(),
            answers: Vec::new(),
            synced: false,
            stopping: false,
            me,
            timing,
        }
    }

    /// Takes in what has happened. `now` was read after it came in.
    pub fn handle(&mut self, event: Event, now: Moment) {
        self.tenure.expire(now);
        match event {
            Event::Synced => self.synced = true,
            Event::Vip(view) => self.vip_seen(view, now),
            Event::VipGone(id) => self.vip_gone(&id),
            Event::Lease { node, lease } if node != self.me => {
                self.rivals.seen(&node, lease, now);
            }
            // The own lease is known from writing it.
            Event::Lease { .. } => {}
            Event::Pod {
                uid,
                pod: Some(pod),
            } => {
                self.pods.insert(uid, pod);
            }
            Event::Pod { uid, pod: None } => {
                self.pods.remove(&uid);
            }
            Event::LeaseWritten(answer) => self.tenure.written(answer, now),
            Event::LeaseRead { node, answer } if node == self.me => {
                self.tenure.read(answer, now);
            }
            Event::LeaseRead { node, answer } => {
                self.rivals.read(&node, answer, &self.pledges, now);
            }
            Event::VipWritten { id, answer } => {
                if let VipAnswer::Written(view) = &answer {
                    self.note_holder(view, now);
                }
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.written(&self.me, answer, now);
                }
            }
            Event::VipRead { id, answer } => {
                if let ReadAnswer::Found(Some(view)) = &answer {
                    self.note_holder(view, now);
                }
                let entry = self.entries.get_mut(&id);
                if entry.is_some_and(|entry| !entry.read(answer, now)) {
                    self.vip_gone(&id);
                }
            }
            Event::PromiseAsked { by, term, ticket } => self.asked(by, term, ticket, now),
            Event::Promised {
                by,
                term,
                ticket,
                granted,
            } => self.tenure.promised(&by, term, ticket, granted, now),
            Event::NodeDown(node) => self.rivals.is_down(&node, true, now),
            Event::NodeUp(node) => self.rivals.is_down(&node, false, now),
            Event::CannotServe(id) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    let holder = entry.view.holder.as_ref();
                    let by_another = holder.is_some_and(|it| it.candidate.node != self.me);
                    let pause = if by_another { UNPREPARED } else { UNABLE };
                    entry.unable = Some(now.after(pause));
                }
            }
            Event::CannotAnnounce(id) => {
                if let Some(entry) = self.entries.get_mut(&id) {
                    entry.unheard = Some(now.after(UNABLE));
                }
            }
            Event::Lingers(ids) => self.kernel.lingers(ids),
            Event::Served(number) => self.kernel.done(number),
            Event::Stop => self.stopping = true,
        }
    }

    /// Says what to do now, and when to ask again.
    pub fn poll(&mut self, now: Moment) -> Output {
        self.tenure.expire(now);
        let mut agenda = Agenda::new(now);
        let mut acts = std::mem::take(&mut self.answers);
        if self.synced {
            let (writes, wanted) = self.decide(&mut agenda);
            let lease = self
                .tenure
                .poll(wanted.as_ref(), &self.addresses, &mut agenda);
            // What is to end, ends first.
            if let Some(serving) = self.serve(&mut agenda) {
                acts.insert(0, Act::Serve(serving));
            }
            acts.extend(lease);
            acts.extend(writes);
        }
        if let Some(deadline) = self.tenure.deadline() {
            agenda.due(deadline);
        }
        Output {
            acts,
            next: agenda.next(),
        }
    }

    /// Whether an agent that was told to stop has nothing left to hand over.
    pub fn may_end(&self) -> bool {
        self.stopping
            && self.entries.values().all(|entry| {
                let view = &entry.view;
                let mine = self
                    .tenure
                    .term()
                    .is_some_and(|it| view.is_held_by(&self.me, it));
                let others = view.electable().any(|it| it.node != self.me);
                let is_left = mine && others && !entry.gone;
                !is_left && !entry.is_busy()
            })
    }

    /// Notes that another node has got an address, if it has.
    fn note_holder(&mut self, view: &View, now: Moment) {
        let before = self.entries.get(&view.id);
        let before = before.and_then(|it| it.view.holder.as_ref());
        let Some(holder) = view.holder.as_ref() else {
            return;
        };
        let is_new = before.is_none_or(|it| it.candidate.node != holder.candidate.node);
        if is_new && holder.candidate.node != self.me {
            self.busy.insert(holder.candidate.node.clone(), now);
        }
    }

    fn vip_seen(&mut self, view: View, now: Moment) {
        self.note_holder(&view, now);
        let holder = view.holder.iter().map(|it| (&it.candidate, it.term));
        let successor = view.successor.iter().map(|it| (&it.candidate, it.term));
        for (candidate, term) in holder.chain(successor) {
            if candidate.node == self.me {
                self.tenure.has_been(term);
            }
        }
        for it in &view.candidates {
            if it.node != self.me {
                self.addresses.insert(it.node.clone(), it.node_address);
            }
        }
        match self.entries.get_mut(&view.id) {
            Some(entry) => entry.seen(view, now),
            None => {
                self.entries.insert(view.id.clone(), Entry::new(view));
            }
        }
    }

    fn vip_gone(&mut self, id: &VipId) {
        let term = self.tenure.term();
        let entry = self.entries.get_mut(id);
        if entry.is_some_and(|entry| !entry.vanish(term)) {
            self.entries.remove(id);
        }
    }

    fn asked(&mut self, by: String, term: i64, ticket: u64, now: Moment) {
        let refusal = self.refusal(&by, term);
        if refusal.is_none() {
            self.pledges.give(&by, now);
        }
        self.answers.push(Act::Answer {
            to: by,
            term,
            ticket,
            refusal,
        });
    }

    fn refusal(&self, by: &str, term: i64) -> Option<Refusal> {
        if self.rivals.knows_newer(by, term) {
            return Some(Refusal::NewerTerm);
        }
        if self.rivals.has_judged(by, term) {
            return Some(Refusal::TermOver);
        }
        let scene = self.scene();
        let is_missed = self.entries.values().any(|entry| {
            let holder = entry.view.holder.as_ref();
            holder.is_some_and(|it| {
                let mut named = entry.view.electable();
                let listed = named.any(|one| one.uid == it.candidate.uid);
                it.candidate.node == by && !listed && scene.can_have(entry)
            })
        });
        is_missed.then_some(Refusal::HolderUnfit)
    }

    fn scene(&self) -> Scene<'_> {
        Scene {
            me: &self.me,
            timing: self.timing,
            term: self.tenure.term(),
            pods: &self.pods,
            load: Load::new(),
            stopping: self.stopping,
        }
    }

    /// Decides about each address. Also says whose promises a term would need, if one is
    /// needed.
    fn decide(&mut self, agenda: &mut Agenda) -> (Vec<Act>, Option<BTreeSet<String>>) {
        let term = self.tenure.term();
        self.entries
            .retain(|_, entry| !entry.gone || entry.lingers(term));
        for entry in self.entries.values_mut() {
            entry.unable = entry.unable.filter(|at| !agenda.due(*at));
            entry.unheard = entry.unheard.filter(|at| !agenda.due(*at));
        }
        let mut scene = Scene {
            me: &self.me,
            timing: self.timing,
            term,
            pods: &self.pods,
            load: Load::new(),
            stopping: self.stopping,
        };
        let mut standings = BTreeMap::new();
        for (id, entry) in &self.entries {
            let standing =
                takeover::standing(entry, &scene, &mut self.rivals, &self.pledges, agenda);
            standings.insert(id.clone(), standing);
        }
        let held = self.entries.iter().filter(|(id, _)| {
            let standing = standings.get(id);
            !matches!(standing, Some(Standing::Vacant | Standing::Suspect))
        });
        let holders = held.filter_map(|(_, it)| it.view.holder.as_ref());
        scene.load = elect::load(holders.map(|it| it.candidate.uid.as_str()));
        let plan = takeover::plan(&self.entries, &standings, &scene, &self.rivals);
        let plan: BTreeMap<VipId, Vec<Candidate>> = plan
            .into_iter()
            .map(|(id, ranked)| (id.clone(), ranked.into_iter().cloned().collect()))
            .collect();

        let first = |id| plan.get(id).and_then(|it| it.first());
        let is_occupied = self
            .entries
            .iter()
            .any(|(id, entry)| entry.is_busy() && first(id).is_some_and(|it| it.node == self.me));
        let mut acts = Vec::new();
        let mut wanted: Option<BTreeSet<String>> = None;
        for (id, entry) in &mut self.entries {
            let standing = standings.get(id).copied().unwrap_or(Standing::Gone);
            let ranked = plan.get(id).map(Vec::as_slice).unwrap_or_default();
            entry.planned = ranked.first().map(|it| it.uid.clone());
            let mut is_wanted = false;
            match standing {
                Standing::Gone => {}
                Standing::Mine => {
                    is_wanted = true;
                    if let Some(term) = term {
                        acts.extend(handover::tend(entry, term, &scene, &self.kernel, agenda));
                    }
                }
                Standing::WasMine => {
                    entry.yielding = None;
                    let taking = takeover::reclaim(entry, &scene, &self.kernel, agenda);
                    is_wanted = taking.wanted;
                    acts.extend(taking.act);
                }
                Standing::Vacant | Standing::Suspect => {
                    let is_vacant = standing == Standing::Vacant;
                    let others = takeover::Others {
                        rivals: &self.rivals,
                        busy: &self.busy,
                        is_occupied,
                    };
                    let taking = takeover::take(entry, ranked, is_vacant, &scene, others, agenda);
                    is_wanted = taking.wanted;
                    acts.extend(taking.act);
                }
                Standing::Held => entry.vacant = None,
            }
            if matches!(standing, Standing::Held | Standing::Suspect) {
                entry.yielding = None;
                if handover::is_called(entry, &scene) {
                    is_wanted = true;
                    acts.extend(handover::prepare(entry, &scene, &self.kernel, agenda));
                }
                let holder = entry.view.holder.as_ref();
                let holder = holder.filter(|_| scene.can_have(entry));
                let look = |it| self.rivals.look(it, &self.pledges, agenda);
                acts.extend(holder.and_then(look));
            }
            if is_wanted {
                let wanted = wanted.get_or_insert_default();
                for node in entry.view.candidates.iter().map(|it| &it.node) {
                    if *node != self.me && !wanted.contains(node) {
                        wanted.insert(node.clone());
                    }
                }
            }
        }
        (acts, wanted)
    }

    /// Tells the kernel what to serve. What an earlier process has left is not disturbed
    /// while this one is about to take it over.
    fn serve(&mut self, agenda: &mut Agenda) -> Option<Serving> {
        let term = self.tenure.term();
        let scene = self.scene();
        let to_come = self.entries.values().any(|entry| {
            let holder = entry.view.holder.as_ref();
            let holder = holder.filter(|it| it.candidate.node == self.me && !entry.gone);
            holder.is_some_and(|it| {
                let health = scene.health(&it.candidate);
                !entry.is_served_by(&self.me, term) && health != elect::Health::Gone
            })
        });
        if to_come && self.kernel.has_remains(agenda) {
            return None;
        }
        let roles = serving::roles(&self.entries, &self.scene(), agenda);
        self.kernel.tell(roles, self.tenure.deadline())
    }
}

#[cfg(test)]
mod tests;
