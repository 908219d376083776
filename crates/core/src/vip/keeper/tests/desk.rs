//! One keeper, driven by hand.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use super::super::{
    Act, Change, Event, Holding, Keeper, LeaseAnswer, LeaseView, PodView, ReadAnswer, Role,
    Serving, Successor, View, VipAnswer,
};
use crate::{
    lease::Moment,
    vip::{
        Candidate, Mode, Timing, VipId,
        elect::{Failover, Health},
    },
};

/// A keeper of the node `a`, with what it has asked for and not yet heard.
pub struct Desk {
    pub keeper: Keeper,
    pub now: u64,
    /// What was to be done and has not been looked at.
    pub acts: Vec<Act>,
    pub next: Option<Moment>,
    /// What the kernel was told last.
    pub serving: Option<Serving>,
    /// Whether the kernel does at once what it is told.
    pub quick_kernel: bool,
    versions: u64,
}

/// Long after the start of any clock.
const START: u64 = 50_000;

impl Desk {
    /// A keeper that has just been told all there is.
    pub fn started(views: &[View], leases: &[(&str, LeaseView)]) -> Self {
        Self::with_kernel(true, views, leases)
    }

    /// The same, with other times.
    pub fn with_timing(timing: Timing, views: &[View]) -> Self {
        Self::build(timing, true, views, &[])
    }

    /// The same, with a kernel that is quick or says nothing by itself.
    pub fn with_kernel(quick_kernel: bool, views: &[View], leases: &[(&str, LeaseView)]) -> Self {
        Self::build(Timing::default(), quick_kernel, views, leases)
    }

    fn build(
        timing: Timing,
        quick_kernel: bool,
        views: &[View],
        leases: &[(&str, LeaseView)],
    ) -> Self {
        let mut desk = Self {
            keeper: Keeper::new("a", timing, at(START)),
            now: START,
            acts: Vec::new(),
            next: None,
            serving: None,
            quick_kernel,
            versions: 1_000,
        };
        for uid in ["a1", "a2"] {
            desk.keeper.handle(pod(uid, Health::Fit), at(START));
        }
        for (node, lease) in leases {
            desk.keeper.handle(lease_of(node, lease.clone()), at(START));
        }
        for view in views {
            desk.keeper.handle(Event::Vip(view.clone()), at(START));
        }
        desk.tell(Event::Synced);
        desk
    }

    /// A keeper that holds the address of this view in term 8.
    pub fn holding(view: &View) -> Self {
        Self::started(std::slice::from_ref(view), &[]).hold(view)
    }

    /// Lets the keeper take the address of this view in term 8.
    pub fn hold(mut self, view: &View) -> Self {
        let desk = &mut self;
        desk.read_own(Some(lease("1", 7, &[])));
        desk.renew();
        desk.accept_vip(view);
        assert!(desk.holds(), "{:?}", desk.acts);
        desk.acts.clear();
        self
    }

    pub fn tell(&mut self, event: Event) {
        self.keeper.handle(event, at(self.now));
        self.poll();
    }

    pub fn poll(&mut self) {
        let output = self.keeper.poll(at(self.now));
        self.next = output.next;
        let mut told = None;
        for act in output.acts {
            if let Act::Serve(serving) = act {
                told = Some(serving.number);
                self.serving = Some(serving);
            } else {
                self.acts.push(act);
            }
        }
        if let Some(number) = told.filter(|_| self.quick_kernel) {
            self.tell(Event::Served(number));
        }
    }

    /// Lets time pass, with a poll whenever one is due.
    pub fn pass(&mut self, span: u64) {
        let end = self.now + span;
        while let Some(next) = self.next {
            let next = u64::try_from(next.0.as_micros().div_ceil(1_000)).unwrap();
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.poll();
        }
        self.now = end;
        self.poll();
    }

    /// Takes the first act that is like this.
    pub fn take(&mut self, like: impl Fn(&Act) -> bool) -> Option<Act> {
        let index = self.acts.iter().position(like)?;
        Some(self.acts.remove(index))
    }

    pub fn take_write(&mut self) -> Option<Change> {
        let act = self.take(|act| matches!(act, Act::WriteVip { .. }))?;
        let Act::WriteVip { change, .. } = act else {
            unreachable!("just looked")
        };
        Some(change)
    }

    /// The renewal that is under way: its term and peers.
    pub fn take_renewal(&mut self) -> Option<(i64, BTreeSet<String>)> {
        let act = self.take(|act| matches!(act, Act::WriteLease { .. }))?;
        let Act::WriteLease { term, peers, .. } = act else {
            unreachable!("just looked")
        };
        Some((term, peers))
    }

    pub fn asks_for_lease(&mut self, of: &str) -> bool {
        self.take(|act| matches!(act, Act::ReadLease { node } if node == of))
            .is_some()
    }

    /// Answers the read of the own lease.
    pub fn read_own(&mut self, lease: Option<LeaseView>) {
        assert!(self.asks_for_lease("a"), "{:?}", self.acts);
        let answer = ReadAnswer::Found(lease);
        self.tell(Event::LeaseRead {
            node: "a".to_owned(),
            answer,
        });
    }

    /// Accepts the renewal that is under way.
    pub fn renew(&mut self) {
        assert!(self.take_renewal().is_some(), "{:?}", self.acts);
        let version = self.version();
        self.tell(Event::LeaseWritten(LeaseAnswer::Written { version }));
    }

    /// Lets time pass while all renewals are accepted.
    pub fn pass_renewing(&mut self, span: u64) {
        let end = self.now + span;
        while self.now < end {
            self.pass(50.min(end - self.now));
            if self
                .acts
                .iter()
                .any(|act| matches!(act, Act::WriteLease { .. }))
            {
                self.renew();
            }
        }
    }

    /// Accepts the change to this object that is under way.
    pub fn accept_vip(&mut self, view: &View) -> View {
        let change = self.take_write();
        let mut view = view.clone();
        super::model::apply(&mut view, &change.expect("a change is under way"));
        view.version = self.version();
        let (id, answer) = (view.id.clone(), VipAnswer::Written(Box::new(view.clone())));
        self.tell(Event::VipWritten { id, answer });
        view
    }

    /// Shows an object with a new version.
    pub fn show(&mut self, view: &View) -> View {
        let mut view = view.clone();
        view.version = self.version();
        self.tell(Event::Vip(view.clone()));
        view
    }

    pub fn role(&self) -> Option<Role> {
        let served = self.serving.as_ref()?.roles.get(&id("v"))?;
        Some(served.role.clone())
    }

    /// Whether the kernel was told to answer for the address and its time is not up.
    pub fn holds(&self) -> bool {
        let deadline = self.serving.as_ref().and_then(|it| it.deadline);
        matches!(self.role(), Some(Role::Holder(_))) && deadline > Some(at(self.now))
    }

    /// How long the kernel goes on by itself.
    pub fn left(&self) -> u64 {
        let deadline = self.serving.as_ref().and_then(|it| it.deadline);
        let left = deadline.map(|it| it.remaining(at(self.now)).as_millis());
        u64::try_from(left.unwrap_or_default()).unwrap()
    }

    pub fn version(&mut self) -> String {
        self.versions += 1;
        self.versions.to_string()
    }
}

pub fn at(ms: u64) -> Moment {
    Moment(Duration::from_millis(ms))
}

pub fn id(name: &str) -> VipId {
    VipId {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
    }
}

/// The pod with this uid; its node is the first letter.
pub fn candidate(uid: &str) -> Candidate {
    let node = uid.as_bytes()[0];
    Candidate {
        pod: format!("pod-{uid}"),
        uid: uid.to_owned(),
        node: char::from(node).to_string(),
        node_address: IpAddr::from([192, 168, 0, node]),
        addresses: vec![IpAddr::from([10, 244, node, uid.as_bytes()[1]])],
        mode: Mode::Nat,
        ready_since: 0,
    }
}

/// An address that these pods share, and that one of them has in term 7.
pub fn view(holder: Option<&str>, candidates: &[&str]) -> View {
    let holder = holder.map(|uid| Holding {
        candidate: candidate(uid),
        term: 7,
    });
    View {
        id: id("v"),
        version: "1".to_owned(),
        born: 0,
        addresses: vec![IpAddr::from([10, 0, 0, 1])],
        holder,
        successor: None,
        candidates: candidates.iter().map(|uid| candidate(uid)).collect(),
        failover: Failover::default(),
        moves: 3,
        deleting: false,
    }
}

pub fn successor(uid: &str, term: i64, ready: bool, reason: &str) -> Successor {
    Successor {
        candidate: candidate(uid),
        term,
        ready,
        reason: reason.to_owned(),
    }
}

pub fn lease(version: &str, term: i64, peers: &[&str]) -> LeaseView {
    LeaseView {
        version: version.to_owned(),
        term,
        peers: peers.iter().map(|&it| it.to_owned()).collect(),
    }
}

pub fn lease_of(node: &str, lease: LeaseView) -> Event {
    Event::Lease {
        node: node.to_owned(),
        lease: Some(lease),
    }
}

pub fn pod(uid: &str, health: Health) -> Event {
    let pod = (health != Health::Gone).then(|| PodView {
        health,
        addresses: Vec::new(),
    });
    Event::Pod {
        uid: uid.to_owned(),
        pod,
    }
}
