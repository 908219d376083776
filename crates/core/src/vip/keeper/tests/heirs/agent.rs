//! The rules of an agent, as small as they can be told.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::model::dice::Dice,
    chain::{self, Deed, LeaseObject, Node, Proof, Tenant, Truth, Vip, VipObject},
    flaw::Flaw,
    server::{Answer, Request},
};

/// How long a renewal lets a node speak, in milliseconds.
pub const DURATION: u64 = 3_000;

/// How long one waits to be sure that this has passed on any clock.
pub const SILENCE: u64 = 3_300;

/// Between two renewals.
const RENEW: u64 = 1_000;

pub struct Agent {
    me: Node,
    flaw: Option<Flaw>,
    /// What watches have shown.
    vips: Vec<VipObject>,
    leases: Vec<LeaseObject>,
    /// Since when leases are seen as they are.
    since: Vec<u64>,
    /// The own lease, as it was written or read last.
    own: LeaseObject,
    /// Whether that is what the server has, for all that is known.
    own_known: bool,
    own_busy: bool,
    sent: u64,
    pause: u64,
    running: Option<u64>,
    deadline: u64,
    has_written: bool,
    /// Whether a list was seen since this process has renewed for the first time.
    ready: bool,
    /// What the next write of the own lease shall add.
    pending: BTreeMap<(Vip, u64), Deed>,
    /// For what this node falls silent, and for whom.
    yielding: BTreeMap<Vip, (u64, Option<Node>)>,
    /// Somebody asks for a move.
    pub wishes: BTreeMap<Vip, Option<Node>>,
    /// What was given up by writing an object: only with a flaw.
    given: BTreeSet<(Vip, u64)>,
    /// Holdings that are known to be true though somebody else wrote them.
    proven: BTreeSet<(Vip, u64)>,
    /// The leases as they were known when a list was asked for.
    listing: Option<Vec<LeaseObject>>,
    list_pause: u64,
    ending: BTreeMap<Node, u64>,
    writing: BTreeSet<Vip>,
    kernel: Order,
    acknowledged: u64,
    /// The last order that had an address.
    spoken: BTreeMap<Vip, u64>,
    /// How eagerly objects are made to follow, in percent at each look.
    pub eager: u64,
    /// How many addresses in a hundred whoever ends a term does not know of.
    pub misses: u64,
}

/// What the kernel shall do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order {
    pub number: u64,
    pub vips: BTreeSet<Vip>,
    pub deadline: u64,
}

/// What a call was for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    Renew,
    ReadOwn,
    End(Node),
    Write(Vip),
    List,
}

pub enum Act {
    Ask(Call, Request),
    Kernel(Order),
}

impl Agent {
    /// A new process, whose watches begin with this.
    pub fn new(
        me: Node,
        flaw: Option<Flaw>,
        vips: Vec<VipObject>,
        leases: Vec<LeaseObject>,
        now: u64,
    ) -> Self {
        Self {
            me,
            flaw,
            since: vec![now; leases.len()],
            own: leases[me].clone(),
            vips,
            leases,
            own_known: false,
            own_busy: false,
            sent: 0,
            pause: 0,
            running: None,
            deadline: 0,
            has_written: false,
            ready: flaw == Some(Flaw::BirthWithoutList),
            pending: BTreeMap::new(),
            yielding: BTreeMap::new(),
            wishes: BTreeMap::new(),
            given: BTreeSet::new(),
            proven: BTreeSet::new(),
            listing: None,
            list_pause: 0,
            ending: BTreeMap::new(),
            writing: BTreeSet::new(),
            kernel: Order::default(),
            acknowledged: 0,
            spoken: BTreeMap::new(),
            eager: 5,
            misses: 0,
        }
    }

    pub fn see_vip(&mut self, vip: Vip, object: &VipObject) {
        if object.version > self.vips[vip].version {
            self.vips[vip] = object.clone();
        }
    }

    pub fn see_lease(&mut self, node: Node, lease: &LeaseObject, now: u64) {
        if lease.version > self.leases[node].version {
            self.leases[node] = lease.clone();
            self.since[node] = now;
        }
    }

    /// For what it speaks, for all that the kernel was told.
    pub fn speaks_for(&self, vip: Vip) -> bool {
        self.kernel.vips.contains(&vip)
    }

    /// The kernel has what it was told.
    pub fn applied(&mut self, number: u64) {
        self.acknowledged = self.acknowledged.max(number);
    }

    /// Takes in the answer to a call; nothing: there was none in time.
    pub fn answered(&mut self, call: Call, answer: Option<Answer>, now: u64) {
        match (call, answer) {
            (Call::Renew, Some(Answer::Lease(lease))) => {
                self.own_busy = false;
                self.own = lease;
                self.own_known = true;
                let own = &self.own.deeds;
                self.pending.retain(|key, _| !own.contains_key(key));
                self.has_written = true;
                if now < self.sent + DURATION {
                    self.running = Some(self.own.term);
                    self.deadline = self.sent + DURATION;
                }
            }
            (Call::Renew, answer) => {
                self.own_busy = false;
                self.own_known = false;
                self.pause = now + if answer.is_some() { 100 } else { 500 };
                if answer.is_none() && self.flaw == Some(Flaw::TakeBackDeed) {
                    self.pending.clear();
                }
            }
            (Call::ReadOwn, Some(Answer::Lease(lease))) => {
                self.own_busy = false;
                if lease.ended || Some(lease.term) != self.running {
                    self.running = None;
                }
                self.pending.retain(|key, deed| {
                    !lease.ended && deed.term == lease.term && !lease.deeds.contains_key(key)
                });
                self.own = lease;
                self.own_known = true;
            }
            (Call::ReadOwn, _) => {
                self.own_busy = false;
                self.pause = now + 500;
            }
            (Call::End(node), answer) => {
                self.ending.insert(node, now + 250);
                if let Some(Answer::Lease(lease)) = answer {
                    self.see_lease(node, &lease, now);
                }
            }
            (Call::Write(vip), answer) => {
                self.writing.remove(&vip);
                if let Some(Answer::Vip(object)) = answer {
                    self.see_vip(vip, &object);
                }
            }
            (Call::List, Some(Answer::List(vips))) => self.listed(&vips),
            (Call::List, _) => {
                self.listing = None;
                self.list_pause = now + 300;
            }
        }
    }

    /// Says what to do.
    pub fn poll(&mut self, now: u64, dice: &mut Dice) -> Vec<Act> {
        if self.deadline <= now {
            self.running = None;
        }
        let mut acts = Vec::new();
        let truths = self.truths();
        self.hand_over(&truths, &mut acts);
        self.speak(&truths, &mut acts);
        self.renew(now, dice, &mut acts);
        self.list(&truths, now, &mut acts);
        if self.running.is_some() && self.ready {
            self.end(&truths, now, dice, &mut acts);
            self.write(&truths, now, dice, &mut acts);
        }
        acts
    }

    fn truths(&mut self) -> Vec<Truth> {
        let mut leases = self.leases.clone();
        leases[self.me] = self.own.clone();
        // What is not written yet may never be: it is no deed.
        if self.flaw == Some(Flaw::TrustUnwrittenDeeds) {
            leases[self.me].deeds.extend(self.pending.clone());
        }
        let truths: Vec<Truth> = (0..self.vips.len())
            .map(|vip| self.resolve(vip, &self.vips[vip], &leases))
            .collect();
        for (vip, truth) in truths.iter().enumerate() {
            if let Truth::Held {
                by,
                number,
                proof: Proof::Given,
            } = truth
                && by.node == self.me
            {
                self.proven.insert((vip, *number));
            }
        }
        truths
    }

    fn resolve(&self, vip: Vip, object: &VipObject, leases: &[LeaseObject]) -> Truth {
        let trusts = self.flaw == Some(Flaw::TrustOldDeeds);
        let is_given = |deed: &Deed, lease: &LeaseObject| {
            chain::is_given(deed, lease) || trusts && !lease.ended
        };
        chain::resolve(vip, object, |node| leases.get(node), is_given)
    }

    /// The number of the holding by which this node may speak.
    fn held(&self, vip: Vip, truth: Truth) -> Option<u64> {
        let Truth::Held { by, number, proof } = truth else {
            return None;
        };
        let mine = self.ready && by.node == self.me && Some(by.term) == self.running;
        let is_true = proof != Proof::Inherited
            || self.proven.contains(&(vip, number))
            || self.flaw == Some(Flaw::HeirWithoutList);
        let key = (vip, number);
        let is_gone = self.pending.contains_key(&key) || self.given.contains(&key);
        (mine && is_true && !is_gone).then_some(number)
    }

    /// Falls silent for what is to go, and then writes the deed.
    fn hand_over(&mut self, truths: &[Truth], acts: &mut Vec<Act>) {
        for (vip, truth) in truths.iter().enumerate() {
            let Some(number) = self.held(vip, *truth) else {
                self.yielding.remove(&vip);
                continue;
            };
            let wish = self.wishes.remove(&vip);
            if self.vips[vip].emptied {
                self.yielding.insert(vip, (number, None));
            } else if let Some(to) = wish {
                self.yielding.insert(vip, (number, to));
            }
        }
        for (vip, (number, to)) in self.yielding.clone() {
            let spoken = self.spoken.get(&vip).copied().unwrap_or_default();
            let speaks = spoken >= self.acknowledged || self.kernel.vips.contains(&vip);
            if speaks && self.flaw != Some(Flaw::GiveWhileSpeaking) {
                continue;
            }
            self.yielding.remove(&vip);
            let to = to.filter(|to| *to != self.me && !self.leases[*to].ended);
            let to = to.map(|node| Tenant {
                node,
                term: self.leases[node].term,
            });
            let by_object = match to {
                Some(_) => self.flaw == Some(Flaw::GiveByObject),
                None => self.flaw == Some(Flaw::ReleaseByObject),
            };
            let Some(term) = self.running else { continue };
            if by_object && self.writing.insert(vip) {
                self.given.insert((vip, number));
                let mut object = self.vips[vip].clone();
                object.holder = to;
                object.number = number + u64::from(to.is_some());
                let request = Request::PutVip { vip, object };
                acts.push(Act::Ask(Call::Write(vip), request));
            } else if !by_object {
                self.pending.insert((vip, number), Deed { term, to });
            }
        }
    }

    fn speak(&mut self, truths: &[Truth], acts: &mut Vec<Act>) {
        let mut vips = BTreeSet::new();
        for (vip, truth) in truths.iter().enumerate() {
            let goes = self.yielding.contains_key(&vip) || self.vips[vip].emptied;
            if self.held(vip, *truth).is_some() && !goes {
                vips.insert(vip);
            }
        }
        if self.kernel.number > 0 && vips == self.kernel.vips && self.deadline == self.kernel.deadline
        {
            return;
        }
        self.kernel = Order {
            number: self.kernel.number + 1,
            vips,
            deadline: self.deadline,
        };
        for vip in &self.kernel.vips {
            self.spoken.insert(*vip, self.kernel.number);
        }
        acts.push(Act::Kernel(self.kernel.clone()));
    }

    /// Reads and writes the own lease.
    fn renew(&mut self, now: u64, dice: &mut Dice, acts: &mut Vec<Act>) {
        if self.own_busy || now < self.pause {
            return;
        }
        let node = self.me;
        if !self.own_known {
            self.own_busy = true;
            acts.push(Act::Ask(Call::ReadOwn, Request::GetLease { node }));
            return;
        }
        let pace = if self.pending.is_empty() { RENEW } else { 50 };
        if now < self.sent + pace {
            return;
        }
        let mut lease = self.own.clone();
        if lease.ended {
            self.pending.clear();
            lease.ended = false;
            if self.flaw != Some(Flaw::GoOnAfterEnd) {
                lease.term += 1;
            }
            if self.flaw == Some(Flaw::BeginWithoutDeeds) {
                lease.deeds.clear();
            }
        }
        let is_early = self.flaw == Some(Flaw::DropDeedsEarly);
        let vips = &self.vips;
        lease
            .deeds
            .retain(|(vip, number), _| vips[*vip].number <= *number && !(is_early && dice.percent(50)));
        lease.deeds.extend(self.pending.clone());
        self.sent = now;
        self.own_busy = true;
        acts.push(Act::Ask(Call::Renew, Request::PutLease { node, lease }));
    }

    /// Asks for all objects before it speaks as an heir, and once in a new process.
    fn list(&mut self, truths: &[Truth], now: u64, acts: &mut Vec<Act>) {
        let is_heir = truths.iter().enumerate().any(|(vip, truth)| {
            let Truth::Held { by, number, proof } = truth else {
                return false;
            };
            by.node == self.me
                && Some(by.term) == self.running
                && *proof == Proof::Inherited
                && !self.proven.contains(&(vip, *number))
        });
        let is_new = !self.ready && self.has_written;
        if self.listing.is_some() || now < self.list_pause || !is_heir && !is_new {
            return;
        }
        let mut leases = self.leases.clone();
        leases[self.me] = self.own.clone();
        self.listing = Some(leases);
        acts.push(Act::Ask(Call::List, Request::List));
    }

    fn listed(&mut self, vips: &[VipObject]) {
        let Some(mut leases) = self.listing.take() else {
            return;
        };
        if self.flaw == Some(Flaw::ListBeforeDeed) {
            leases.clone_from(&self.leases);
            leases[self.me] = self.own.clone();
        }
        for (vip, object) in vips.iter().enumerate() {
            self.see_vip(vip, object);
            if let Truth::Held { by, number, .. } = self.resolve(vip, object, &leases)
                && by.node == self.me
            {
                self.proven.insert((vip, number));
            }
        }
        self.ready = true;
    }

    /// Ends the terms of silent nodes, and names the heirs of all that they hold.
    fn end(&mut self, truths: &[Truth], now: u64, dice: &mut Dice, acts: &mut Vec<Act>) {
        for node in 0..self.leases.len() {
            let paused = self.ending.get(&node).is_some_and(|at| now < *at);
            let adds = self.flaw == Some(Flaw::NameHeirsLater) && self.leases[node].ended;
            if node == self.me || paused || !adds && !self.is_silent(node, now) {
                continue;
            }
            let mut lease = self.leases[node].clone();
            let of = Tenant {
                node,
                term: lease.term,
            };
            let is_over = std::mem::replace(&mut lease.ended, true);
            let held = truths.iter().enumerate().filter_map(|(vip, truth)| {
                let object = &self.vips[vip];
                match truth {
                    Truth::Held { by, number, .. } if *by == of && !is_over => Some((vip, *number)),
                    Truth::Vacant(number) if object.holder == Some(of) && is_over => {
                        Some((vip, *number))
                    }
                    Truth::Held { .. } | Truth::Vacant(_) => None,
                }
            });
            let held: Vec<(Vip, u64)> = held.collect();
            if held.is_empty() || is_over && !adds {
                continue;
            }
            for (vip, number) in held {
                let to = self.heir(node, now, dice);
                // Some are not known to whoever ends the term, and some nobody is to have.
                if !dice.percent(self.misses) && !self.vips[vip].emptied {
                    let deed = Deed {
                        term: lease.term,
                        to,
                    };
                    lease.deeds.entry((vip, number)).or_insert(deed);
                }
            }
            self.ending.insert(node, u64::MAX);
            acts.push(Act::Ask(Call::End(node), Request::PutLease { node, lease }));
        }
    }

    fn heir(&self, of: Node, now: u64, dice: &mut Dice) -> Option<Tenant> {
        let node = dice.index(self.leases.len());
        let lease = &self.leases[node];
        let is_heard = now < self.since[node] + 2 * RENEW && !lease.ended;
        if node != of && node != self.me && is_heard {
            let term = lease.term;
            return Some(Tenant { node, term });
        }
        self.running.map(|term| Tenant {
            node: self.me,
            term,
        })
    }

    fn is_silent(&self, node: Node, now: u64) -> bool {
        let span = if self.flaw == Some(Flaw::NoMargin) {
            DURATION
        } else {
            SILENCE
        };
        self.since[node] + span <= now
    }

    /// Takes what is vacant, and lets objects follow what the leases say.
    fn write(&mut self, truths: &[Truth], now: u64, dice: &mut Dice, acts: &mut Vec<Act>) {
        let Some(term) = self.running else { return };
        let me = Tenant {
            node: self.me,
            term,
        };
        for (vip, truth) in truths.iter().enumerate() {
            let mut object = self.vips[vip].clone();
            let mut vacant = match truth {
                Truth::Vacant(number) => Some(*number),
                Truth::Held { .. } => None,
            };
            if let Truth::Held { by, number, .. } = truth
                && self.flaw == Some(Flaw::TakeWithoutEnd)
                && by.node != self.me
                && self.is_silent(by.node, now)
            {
                vacant = Some(*number);
            }
            let number = match (vacant, self.held(vip, *truth)) {
                (Some(number), _) if !object.emptied && dice.percent(20) => number + 1,
                (_, Some(number)) if object.number < number && dice.percent(self.eager) => number,
                _ => continue,
            };
            if self.writing.insert(vip) {
                object.holder = Some(me);
                object.number = number;
                let request = Request::PutVip { vip, object };
                acts.push(Act::Ask(Call::Write(vip), request));
            }
        }
    }
}
