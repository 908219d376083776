//! The one owner of the keeper: whatever happens becomes an event, and whatever the keeper
//! wants becomes a call, a message or an order for the kernel.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use floe_api::floe::{register::Books, virtualip::VirtualIP};
use floe_core::{
    lease::Moment,
    vip::{
        Timing, VipId, forwarding,
        keeper::{Act, Event, Keeper, LeaseView, Refusal, Serving},
    },
};
use floe_shell::stop::Stop;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::sleep,
};
use tracing::{debug, info};

use super::{
    answer::{self, Answer},
    calls::Calls,
    clock::Clock,
    doubts::Doubts,
    health,
    inbox::Inbox,
    order::order,
    plan::Unreachable,
    plane::{News, Orders},
    promise::{Back, Heard, Said},
    teller::Teller,
};
use crate::{metrics::Metrics, pods::Pods};

mod sights;
mod writes;

use writes::{Wish, Writes};

/// How long an agent that is to end may take to hand over.
const PARTING: Duration = Duration::from_secs(5);

/// How often it is looked for nodes that are silent.
const LOOK: Duration = Duration::from_millis(500);

/// With many addresses a round takes its time. Then it rests for some times as long, up to
/// this: what happens meanwhile is taken in at once, and others have work to do, too.
const REST: Duration = Duration::from_millis(25);

/// How many times as long.
const CALM: u32 = 3;

/// What is not worth a rest.
const SHORT: Duration = Duration::from_millis(4);

/// The longest sleep: the sleep of a machine does not count in it.
const NAP: Duration = Duration::from_secs(1);

/// Whom the driver talks to.
pub struct Ends {
    /// What watches have seen.
    pub inbox: Inbox,
    /// The pods of this node.
    pub pods: Pods,
    /// Where orders go.
    pub orders: Orders,
    /// What has come of them.
    pub news: mpsc::Receiver<News>,
    /// What other agents have said.
    pub heard: mpsc::Receiver<Heard>,
    /// What is said to them.
    pub said: mpsc::Sender<Said>,
    /// Who is told that the API server answers again.
    pub regained: Box<dyn Fn() + Send + Sync>,
    /// Where it is noted what is served.
    pub metrics: Metrics,
}

/// The owner of the keeper.
pub struct Driver {
    me: String,
    timing: Timing,
    clock: Clock,
    keeper: Keeper,
    calls: Calls,
    ends: Ends,
    pods_changed: watch::Receiver<u64>,
    /// Calls that are under way.
    flying: JoinSet<Answer>,
    writes: Writes,
    /// The objects as the keeper knows them.
    books: Books,
    /// The addresses of all nodes that had a candidate.
    nodes: BTreeSet<IpAddr>,
    leases: BTreeMap<String, LeaseView>,
    told: health::Told,
    doubts: Doubts,
    teller: Teller,
    /// Where answers to questions of this round go.
    backs: BTreeMap<(String, u64), Back>,
    serving: Option<Serving>,
    /// Whether the order for the kernel may be another one by now.
    is_stirred: bool,
    /// When it was last looked for silent nodes.
    looked: Option<Moment>,
    is_synced: bool,
    /// Whether the lease cannot be written.
    failing: bool,
}

impl Driver {
    /// The driver of a node, in a new process.
    pub fn new(me: String, timing: Timing, clock: Clock, calls: Calls, ends: Ends) -> Self {
        Self {
            keeper: Keeper::new(me.clone(), timing, clock.now()),
            pods_changed: ends.pods.changes(),
            me,
            timing,
            clock,
            calls,
            ends,
            flying: JoinSet::new(),
            writes: Writes::default(),
            books: Books::default(),
            nodes: BTreeSet::new(),
            leases: BTreeMap::new(),
            told: health::Told::default(),
            doubts: Doubts::default(),
            teller: Teller::default(),
            backs: BTreeMap::new(),
            serving: None,
            is_stirred: false,
            looked: None,
            is_synced: false,
            failing: false,
        }
    }

    /// Drives until `stop`, and then until everything is handed over that others can have.
    pub async fn run(mut self, mut stop: Stop) {
        let mut parting: Option<Moment> = None;
        loop {
            let begun = self.clock.now();
            self.take_in();
            let now = self.clock.now();
            let output = self.keeper.poll(now);
            self.act(output.acts);
            self.backs.clear();
            self.put_order();
            self.tell();
            self.look_for_nodes();
            if parting.is_some_and(|end| end <= now || self.keeper.may_end()) {
                break;
            }
            let now = self.clock.now();
            let took = now.0.saturating_sub(begun.0);
            if took > SHORT {
                sleep((took * CALM).min(REST)).await;
            }
            let now = self.clock.now();
            let next = output.next.into_iter().chain(parting).min();
            let nap = next.map_or(NAP, |next| next.remaining(now).min(NAP));
            // Whatever it is: the rest of what has happened is taken in with it.
            tokio::select! {
                () = stop.requested(), if parting.is_none() => {
                    let now = self.clock.now();
                    parting = Some(now.after(PARTING));
                    self.keeper.handle(Event::Stop, now);
                }
                Some(done) = self.flying.join_next() => self.answered(done),
                Some(heard) = self.ends.heard.recv() => self.hear(heard),
                Some(news) = self.ends.news.recv() => self.learn(news),
                Ok(()) = self.pods_changed.changed() => {}
                () = self.ends.inbox.filled() => {}
                () = sleep(nap) => {}
            }
        }
        let held = self.serving.iter().flat_map(|it| it.roles.values());
        info!(left = held.count(), "shared addresses are left as they are");
        self.flying.shutdown().await;
    }

    /// Takes in all that has happened.
    fn take_in(&mut self) {
        while let Some(done) = self.flying.try_join_next() {
            self.answered(done);
        }
        while let Ok(heard) = self.ends.heard.try_recv() {
            self.hear(heard);
        }
        while let Ok(news) = self.ends.news.try_recv() {
            self.learn(news);
        }
        let listed = self.ends.inbox.is_listed();
        let mail = self.ends.inbox.take();
        for (node, sight) in mail.leases {
            self.lease_seen(node, sight);
        }
        for (id, sight) in mail.vips {
            self.vip_seen(id, sight);
        }
        for (name, sight) in mail.registers {
            self.register_seen(&name, sight);
        }
        let now = self.clock.now();
        let pods = self.ends.pods.all();
        if let Some(pods) = &pods {
            let changes = self.told.changes(pods, now);
            if !changes.is_empty() {
                self.teller.look_again();
            }
            for event in changes {
                debug!(?event, "a pod has changed");
                self.keeper.handle(event, now);
            }
        }
        if !self.is_synced && listed && pods.is_some() {
            self.is_synced = true;
            self.keeper.handle(Event::Synced, now);
        }
    }

    /// Does what the keeper wants. What it wants of one register is one call.
    fn act(&mut self, acts: Vec<Act>) {
        let mut writes: BTreeMap<String, Vec<Wish>> = BTreeMap::new();
        let mut reads: BTreeMap<String, Vec<VipId>> = BTreeMap::new();
        let register = |books: &Books, id: &VipId| books.place(id).map(|it| it.register);
        for act in acts {
            match act {
                Act::WriteVip {
                    id,
                    expected,
                    change,
                } => {
                    let name = register(&self.books, &id).unwrap_or_default();
                    let wish = Wish {
                        id,
                        expected,
                        change,
                    };
                    writes.entry(name).or_default().push(wish);
                }
                Act::ReadVip { id } => {
                    let name = register(&self.books, &id).unwrap_or_default();
                    reads.entry(name).or_default().push(id);
                }
                Act::WriteLease {
                    expected,
                    term,
                    peers,
                } => {
                    let calls = self.calls.clone();
                    self.fly(answer::write_lease(calls, expected, term, peers));
                }
                Act::ReadLease { node } => {
                    self.fly(answer::read_lease(self.calls.clone(), node));
                }
                Act::Serve(serving) => {
                    self.ends.metrics.serving(&serving);
                    self.serving = Some(serving);
                    self.is_stirred = true;
                }
                Act::Ask {
                    node,
                    address,
                    term,
                    ticket,
                } => self.say(Said::Ask {
                    to: node,
                    address,
                    term,
                    ticket,
                }),
                Act::Answer {
                    to,
                    term,
                    ticket,
                    refusal,
                } => {
                    if let Some(back) = self.backs.remove(&(to.clone(), ticket)) {
                        self.say(Said::Answer {
                            to,
                            term,
                            ticket,
                            refusal: refusal.map(Refusal::reason),
                            back,
                        });
                    }
                }
            }
        }
        self.write_all(writes);
        for (register, ids) in reads {
            self.fly(answer::read(self.calls.clone(), register, ids));
        }
    }

    fn fly(&mut self, call: impl Future<Output = Answer> + Send + 'static) {
        self.flying.spawn(call);
    }

    /// What is lost here is as good as lost on its way.
    fn say(&self, said: Said) {
        let _ = self.ends.said.try_send(said);
    }

    fn hear(&mut self, heard: Heard) {
        let now = self.clock.now();
        let event = match heard {
            Heard::Ask {
                by,
                term,
                ticket,
                back,
            } => {
                self.backs.insert((by.clone(), ticket), back);
                Event::PromiseAsked { by, term, ticket }
            }
            Heard::Answer {
                by,
                term,
                ticket,
                granted,
            } => Event::Promised {
                by,
                term,
                ticket,
                granted,
            },
        };
        self.keeper.handle(event, now);
    }

    fn learn(&mut self, news: News) {
        let now = self.clock.now();
        match news {
            News::Served { number, findings } => {
                let lingering = findings.iter().filter(|(_, it)| it.lingers);
                let lingering = lingering.map(|(id, _)| id.clone()).collect();
                self.keeper.handle(Event::Lingers(lingering), now);
                self.teller.found(findings);
                self.keeper.handle(Event::Served(number), now);
            }
            News::Unable { id, .. } => self.keeper.handle(Event::CannotServe(id), now),
            News::Unreachable { id, why, is_new } => {
                if is_new {
                    self.tell_unreachable(&id, &why);
                }
                if self.may_hand_over(&id, &why) {
                    self.keeper.handle(Event::CannotAnnounce(id), now);
                }
            }
        }
    }

    /// Tells on an object of this node that it is not reached from outside. When it has moved,
    /// its conditions do not tell that any more.
    fn tell_unreachable(&self, id: &VipId, why: &Unreachable) {
        let Some(object) = self.held_here(id) else {
            return;
        };
        let place = self.books.place(id);
        let register = place.and_then(|it| self.books.register(&it.register));
        let version = register.and_then(|it| it.metadata.resource_version.as_deref());
        let note = format!("node {}: {why}", self.me);
        let version = version.unwrap_or_default();
        self.calls.tell(object, version, why.reason(), note);
    }

    /// An object whose holder is this node.
    fn held_here(&self, id: &VipId) -> Option<&VirtualIP> {
        let object = self.books.vip(id)?;
        let holder = object.status.as_ref()?.holder.as_ref()?;
        (holder.node == self.me).then_some(object)
    }

    /// Whether an object may leave this node because it is not reachable here.
    fn may_hand_over(&self, id: &VipId, why: &Unreachable) -> bool {
        if !matches!(why, Unreachable::NotForwarding(_)) {
            return true;
        }
        // A node that is not the holder only refuses to be the next one.
        let status = self.held_here(id).and_then(|it| it.status.as_ref());
        let last = status.and_then(|it| it.last_move.as_ref());
        let last = last.map(|it| {
            let age = Timestamp::now().duration_since(it.at.0);
            // A clock that differs from that of another node.
            let age = Duration::try_from(age).unwrap_or_default();
            (it.reason.as_str(), age)
        });
        forwarding::may_hand_over(last)
    }

    /// Gives the kernel's part an order, if it is another one than before.
    fn put_order(&mut self) {
        let Some(serving) = self.serving.as_ref().filter(|_| self.is_stirred) else {
            return;
        };
        self.is_stirred = false;
        let order = order(serving, self.books.vips(), &self.nodes);
        self.ends.orders.send_if_modified(|last| {
            let is_new = last.as_deref() != Some(&order);
            if is_new {
                let number = order.serving.number;
                debug!(number, "the kernel is to serve something else");
                *last = Some(Arc::new(order));
            }
            is_new
        });
    }

    /// Writes what the status of objects has to show, once no address waits for its holder to
    /// be written: a node that dies may leave a thousand.
    fn tell(&mut self) {
        let Some(serving) = &self.serving else { return };
        if self.writes.are_under_way() {
            return;
        }
        let now = self.clock.now();
        let due = self.teller.due(serving, &self.books, &self.told, now);
        for (id, object, status) in due {
            let calls = self.calls.clone();
            self.fly(answer::tell(calls, id, object, status));
        }
    }

    /// Looks at nodes that are silent and have something that this node could have.
    fn look_for_nodes(&mut self) {
        let now = self.clock.now();
        if self.looked.is_some_and(|at| now < at.after(LOOK)) {
            return;
        }
        self.looked = Some(now);
        let mut silent = BTreeSet::new();
        for object in self.books.vips().values() {
            let Some(status) = &object.status else {
                continue;
            };
            let Some(holder) = status.holder.as_ref().filter(|it| it.node != self.me) else {
                continue;
            };
            let lease = self.leases.get(&holder.node);
            // Whoever asks for promises is judged in time anyway.
            let asks = lease.is_some_and(|it| it.peers.contains(&self.me));
            let could = status.candidates.iter().any(|it| it.node == self.me);
            if could && !asks {
                silent.insert(holder.node.clone());
            }
        }
        for node in self.doubts.due(&silent, &self.timing, now) {
            let calls = self.calls.clone();
            self.fly(async move {
                let down = calls.is_down(&node).await.ok();
                Answer::Down(node, down)
            });
        }
    }
}
