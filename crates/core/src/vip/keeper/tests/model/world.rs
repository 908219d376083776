//! Nodes, their clocks, kernels and agents, and the network between them.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::IpAddr,
    time::Duration,
};

use super::{dice::Dice, server::Server};
use crate::{
    lease::Moment,
    vip::{
        Candidate, Mode, Timing, VipId,
        elect::{Failover, Health, MoveReason},
        keeper::{
            Act, Event, Keeper, LeaseAnswer, LeaseView, PodView, ReadAnswer, Role, Serving,
            Successor, View, VipAnswer,
        },
        node_as_pod,
    },
};

pub struct World {
    pub now: u64,
    pub dice: Dice,
    pub server: Server,
    pub nodes: Vec<Node>,
    /// Whether messages are late and lost.
    pub rough: bool,
    /// Until when nobody reaches the API server.
    pub server_away: u64,
    /// Until when two nodes do not reach each other.
    pub cuts: BTreeMap<(usize, usize), u64>,
    pub trace: Vec<String>,
    pub tracing: bool,
    /// How often a node began to serve something.
    pub takes: u64,
    /// What must never be, and was.
    pub violation: Option<String>,
    /// The node that is named for each address, if addresses are on nodes.
    named: Vec<Option<usize>>,
    fault: Option<Broken>,
    timing: Timing,
    /// How long the shell of an agent waits for an answer: less than a lease lasts.
    patience: u64,
    future: BTreeMap<(u64, u64), Happening>,
    count: u64,
    told: usize,
}

pub struct Node {
    name: String,
    offset: u64,
    /// How fast its clock runs, in thousandths.
    rate: u64,
    pub pods: BTreeMap<String, Health>,
    /// What the kernel has, whether or not there is an agent.
    kernel: (BTreeSet<VipId>, Moment),
    pub agent: Option<Agent>,
    /// Grows with each agent, so that nothing for an old one reaches a new one.
    births: u64,
    /// Until when it does not reach the API server.
    pub cut: u64,
}

pub struct Agent {
    keeper: Keeper,
    paused: u64,
    /// What has come in during a pause.
    inbox: Vec<Event>,
    /// What was decided right before a pause.
    undone: Vec<Act>,
    pending: BTreeMap<u64, Event>,
    watch: VecDeque<(u64, Event)>,
    /// The leases that the watch has shown.
    shown: BTreeMap<String, Option<LeaseView>>,
    /// When the kernel will have what it was told last.
    applied: u64,
    poll: u64,
}

/// Something that the rules rest on, and that does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The API server takes writes whatever version they were made on.
    Versions,
    /// Clocks differ by more than the margin.
    Clocks,
    /// It is said that the kernel has what it will have only later.
    Kernel,
    /// Promises come from somebody else than the node that was asked.
    Promises,
    /// Direct reads show no more of other nodes' leases than watches have shown.
    Reads,
}

/// What a world has.
#[derive(Clone, Copy, Debug, Default)]
pub struct Size {
    /// Nodes and addresses; nothing: a few.
    pub exactly: Option<(usize, usize)>,
    /// In how many registers holders are kept; none: each address by itself.
    pub registers: usize,
    /// Whether addresses are on nodes that somebody names, and not in pods.
    pub on_nodes: bool,
}

#[derive(Clone, Debug)]
enum Happening {
    /// Writes of holders that are one request reach the server.
    Writes {
        node: usize,
        birth: u64,
        calls: Vec<u64>,
        acts: Vec<Act>,
    },
    /// A request reaches the server, whether or not anybody waits for the answer.
    Request {
        node: usize,
        birth: u64,
        call: u64,
        act: Act,
    },
    Answer {
        node: usize,
        birth: u64,
        call: u64,
        event: Event,
    },
    GiveUp {
        node: usize,
        birth: u64,
        call: u64,
    },
    Watch {
        node: usize,
        birth: u64,
    },
    Message {
        from: usize,
        to: usize,
        event: Event,
    },
    Poll {
        node: usize,
        birth: u64,
        poll: u64,
    },
    Apply {
        node: usize,
        birth: u64,
        serving: Serving,
    },
    Tell {
        node: usize,
        birth: u64,
        event: Event,
    },
    Resume {
        node: usize,
        birth: u64,
    },
    Birth {
        node: usize,
    },
    /// The controller writes who could hold, as it saw the pods when it read the object.
    Candidates {
        id: VipId,
        version: String,
        candidates: Vec<Candidate>,
    },
    Nominate {
        id: VipId,
        version: String,
        successor: Successor,
    },
}

pub fn id(index: usize) -> VipId {
    VipId {
        namespace: "shop".to_owned(),
        name: format!("v{index}"),
    }
}

impl World {
    pub fn new(seed: u64, timing: Timing, size: Size, fault: Option<Broken>) -> Self {
        let mut dice = Dice::new(seed);
        let count = 2 + dice.index(3);
        let count = size.exactly.map_or(count, |(nodes, _)| nodes);
        let rates = match fault {
            Some(Broken::Clocks) => [800, 1_000, 1_200],
            // The fastest counts 3.3 s while the slowest counts 3 s, as the margin allows.
            _ => [953, 1_000, 1_048],
        };
        let mut nodes = Vec::new();
        for index in 0..count {
            let mut pods = BTreeMap::new();
            for pod in 0..=dice.index(2) {
                pods.insert(format!("pod-{index}-{pod}"), Health::Fit);
            }
            nodes.push(Node {
                name: format!("node-{index}"),
                offset: dice.from(1, 100_000),
                rate: rates[dice.index(3)],
                pods,
                kernel: (BTreeSet::new(), Moment(Duration::ZERO)),
                agent: None,
                births: 0,
                cut: 0,
            });
        }
        let patience = [1_000, 2_800][dice.index(2)];
        let mut world = Self {
            now: 0,
            dice,
            server: Server::default(),
            nodes,
            rough: true,
            server_away: 0,
            cuts: BTreeMap::new(),
            trace: Vec::new(),
            tracing: false,
            takes: 0,
            violation: None,
            named: Vec::new(),
            fault,
            timing,
            patience,
            future: BTreeMap::new(),
            count: 0,
            told: 0,
        };
        world.server.careless = fault == Some(Broken::Versions);
        let mut vips = 1 + world.dice.index(3);
        if size.registers > 0 {
            vips += 3;
        }
        for index in 0..size.exactly.map_or(vips, |(_, vips)| vips) {
            let id = id(index);
            let [high, low] = u16::try_from(index + 1).unwrap().to_be_bytes();
            let address = IpAddr::from([10, 0, high, low]);
            if size.registers > 0 {
                let register = index % size.registers;
                world.server.registers.insert(id.clone(), register);
            }
            let failover = Failover {
                unready_grace: Duration::from_millis(world.dice.from(0, 2) * 500),
                between_moves: Duration::from_millis(world.dice.from(0, 2) * 3_000),
                ..Failover::default()
            };
            if size.on_nodes {
                world.named.push(Some(index % count));
            }
            let candidates = world.candidates(index);
            world.server.create(View {
                id,
                version: String::new(),
                born: 0,
                addresses: vec![address],
                holder: None,
                successor: None,
                candidates,
                failover,
                moves: 0,
                deleting: false,
            });
        }
        for node in 0..count {
            world.at(0, Happening::Birth { node });
        }
        world
    }

    /// Lets everything happen that happens until then.
    pub fn run_until(&mut self, end: u64) {
        while let Some((&(at, number), _)) = self.future.first_key_value() {
            if at > end || self.violation.is_some() {
                break;
            }
            let happening = self.future.remove(&(at, number)).unwrap();
            self.now = self.now.max(at);
            self.happen(happening);
            self.spread_news();
        }
        self.now = end;
    }

    /// Who serves an address right now.
    pub fn servers(&self, id: &VipId) -> Vec<usize> {
        let serves = |&index: &usize| {
            let (held, deadline) = &self.nodes[index].kernel;
            held.contains(id) && self.clock(index) < *deadline
        };
        (0..self.nodes.len()).filter(serves).collect()
    }

    /// Who could hold by the pods as they are now, or by the node that is named.
    pub fn candidates(&self, vip: usize) -> Vec<Candidate> {
        if let Some(named) = self.named.get(vip) {
            let Some(named) = named else {
                return Vec::new();
            };
            let nodes = 0..self.nodes.len();
            return nodes
                .map(|index| named_candidate(index, *named == index))
                .collect();
        }
        let mut candidates = Vec::new();
        for (index, node) in self.nodes.iter().enumerate() {
            for (number, (uid, health)) in node.pods.iter().enumerate() {
                if *health == Health::Fit {
                    candidates.push(candidate(index, number, uid));
                }
            }
        }
        candidates
    }

    /// The controller looks at an object, and writes what follows from it later.
    pub fn control(&mut self, index: usize) {
        let candidates = self.candidates(index);
        let Some(view) = self.server.vips.get(&id(index)) else {
            return;
        };
        let (id, version) = (view.id.clone(), view.version.clone());
        let late = self.lag();
        self.at(
            late,
            Happening::Candidates {
                id,
                version,
                candidates,
            },
        );
    }

    /// Somebody asks for a move.
    pub fn ask_for_move(&mut self, index: usize) {
        if index < self.named.len() {
            // Seldom that nobody has it.
            let node = self.dice.index(self.nodes.len());
            self.named[index] = Some(node).filter(|_| self.dice.percent(85));
            let named = self.named[index];
            self.note(|| format!("node {named:?} is named for {index}"));
            return self.control(index);
        }
        let Some(view) = self.server.vips.get(&id(index)).cloned() else {
            return;
        };
        if view.candidates.is_empty() || view.holder.is_none() {
            return;
        }
        let candidate = view.candidates[self.dice.index(view.candidates.len())].clone();
        let successor = Successor {
            candidate,
            term: 0,
            ready: false,
            reason: MoveReason::Requested.reason().to_owned(),
        };
        let late = self.lag();
        let (id, version) = (view.id, view.version);
        self.at(
            late,
            Happening::Nominate {
                id,
                version,
                successor,
            },
        );
    }

    pub fn set_pod(&mut self, node: usize, uid: &str, health: Health) {
        self.note(|| format!("{uid} is {health:?}"));
        self.nodes[node].pods.insert(uid.to_owned(), health);
        let event = self.pod(node, uid);
        self.show(node, event);
    }

    /// The agent of a node stops dead, and another one is started later.
    pub fn crash(&mut self, node: usize, pause: u64) {
        self.note(|| format!("node-{node} crashes"));
        let Some(agent) = self.nodes[node].agent.take() else {
            return;
        };
        drop(agent);
        // What the kernel is about to get, it gets at once or never.
        let gets = self.dice.percent(50);
        let keys: Vec<_> = self.future.keys().copied().collect();
        for key in keys {
            if let Some(Happening::Apply {
                node: of, serving, ..
            }) = self.future.get(&key)
                && *of == node
            {
                let serving = serving.clone();
                self.future.remove(&key);
                if gets {
                    self.apply(node, &serving);
                }
            }
        }
        self.at(pause, Happening::Birth { node });
    }

    /// The node loses its power and is started later.
    pub fn power_off(&mut self, node: usize, pause: u64) {
        self.crash(node, pause);
        self.nodes[node].kernel.0.clear();
    }

    /// The agent does nothing for a while.
    pub fn pause(&mut self, node: usize, span: u64) {
        self.note(|| format!("node-{node} pauses for {span}"));
        // Often in the midst of something: decided, but not yet done.
        if self.dice.percent(60) {
            let now = self.clock(node);
            if let Some(agent) = self.awake(node) {
                let output = agent.keeper.poll(now);
                agent.undone.extend(output.acts);
            }
        }
        let until = self.now + span;
        let birth = self.nodes[node].births;
        if let Some(agent) = &mut self.nodes[node].agent {
            agent.paused = agent.paused.max(until);
            self.at(span, Happening::Resume { node, birth });
        }
    }

    /// The agent is told to stop.
    pub fn stop(&mut self, node: usize) {
        self.note(|| format!("node-{node} stops"));
        self.tell(node, Event::Stop);
    }

    /// The agent is told that it cannot serve something, or that nobody hears of it.
    pub fn fail_check(&mut self, node: usize, index: usize) {
        self.note(|| format!("node-{node} cannot serve v{index}"));
        let event = if self.dice.percent(50) {
            Event::CannotServe
        } else {
            Event::CannotAnnounce
        };
        self.tell(node, event(id(index)));
    }

    /// All faults are over.
    pub fn heal(&mut self) {
        for named in &mut self.named {
            named.get_or_insert(0);
        }
        self.rough = false;
        self.server_away = 0;
        self.cuts.clear();
        for node in 0..self.nodes.len() {
            self.nodes[node].cut = 0;
            let pods: Vec<String> = self.nodes[node].pods.keys().cloned().collect();
            for uid in pods {
                self.set_pod(node, &uid, Health::Fit);
            }
        }
    }

    /// When the last agent that pauses goes on.
    pub fn all_awake(&self) -> u64 {
        let agents = self.nodes.iter().filter_map(|it| it.agent.as_ref());
        agents.map(|it| it.paused).fold(self.now, u64::max)
    }

    pub fn note(&mut self, text: impl FnOnce() -> String) {
        if self.tracing {
            let line = format!("{:>7} {}", self.now, text());
            self.trace.push(line);
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Writes {
                node,
                birth,
                calls,
                acts,
            } => self.take_writes(node, birth, calls, &acts),
            Happening::Request {
                node,
                birth,
                call,
                act,
            } => self.take_request(node, birth, call, &act),
            Happening::Answer {
                node,
                birth,
                call,
                event,
            } => {
                if self.reaches_server(node)
                    && let Some(agent) = self.agent(node, birth)
                    && agent.pending.remove(&call).is_some()
                {
                    self.tell(node, event);
                }
            }
            Happening::GiveUp { node, birth, call } => {
                if let Some(agent) = self.agent(node, birth)
                    && let Some(event) = agent.pending.remove(&call)
                {
                    self.tell(node, event);
                }
            }
            Happening::Watch { node, birth } => self.watch(node, birth),
            Happening::Message { from, to, event } => {
                let pair = (from.min(to), from.max(to));
                let cut = self.cuts.get(&pair).is_some_and(|until| self.now < *until);
                if !cut {
                    self.note(|| format!("node-{from} -> node-{to}: {event:?}"));
                    self.tell(to, event);
                }
            }
            Happening::Poll { node, birth, poll } => {
                if self.agent(node, birth).is_some_and(|it| it.poll == poll) {
                    self.poll(node);
                }
            }
            Happening::Apply {
                node,
                birth,
                serving,
            } => {
                if self.agent(node, birth).is_some() {
                    self.apply(node, &serving);
                    let event = Event::Served(serving.number);
                    let late = self.dice.from(0, 20);
                    self.at(late, Happening::Tell { node, birth, event });
                }
            }
            Happening::Tell { node, birth, event } => {
                if self.agent(node, birth).is_some() {
                    self.tell(node, event);
                }
            }
            Happening::Resume { node, birth } => self.resume(node, birth),
            Happening::Birth { node } => self.birth(node),
            Happening::Candidates {
                id,
                version,
                candidates,
            } => {
                self.server.describe(&id, &version, candidates);
            }
            Happening::Nominate {
                id,
                version,
                successor,
            } => {
                self.note(|| format!("move asked for: {successor:?}"));
                self.server
                    .edit(&id, &version, |view| view.successor = Some(successor));
            }
        }
    }

    /// Writes of a node reach the server as one request.
    fn take_writes(&mut self, node: usize, birth: u64, calls: Vec<u64>, acts: &[Act]) {
        if !self.reaches_server(node) {
            return;
        }
        let events = self.server.write(acts);
        self.note(|| format!("node-{node} -> {acts:?}\n          = {events:?}"));
        if self.rough && self.dice.percent(5) {
            return;
        }
        let late = self.lag();
        for (call, event) in calls.into_iter().zip(events) {
            let answer = Happening::Answer {
                node,
                birth,
                call,
                event,
            };
            self.at(late, answer);
        }
    }

    /// A request of a node reaches the server.
    fn take_request(&mut self, node: usize, birth: u64, call: u64, act: &Act) {
        if !self.reaches_server(node) {
            return;
        }
        let name = self.nodes[node].name.clone();
        let mut event = self.server.ask(&name, act);
        if self.fault == Some(Broken::Reads)
            && let Event::LeaseRead { node: of, answer } = &mut event
            && *of != name
            && let Some(agent) = self.agent(node, birth)
        {
            let shown = agent.shown.get(of).cloned().flatten();
            *answer = ReadAnswer::Found(shown);
        }
        self.note(|| format!("{name} -> {act:?}\n          = {event:?}"));
        if self.rough && self.dice.percent(5) {
            return;
        }
        let late = self.lag();
        let answer = Happening::Answer {
            node,
            birth,
            call,
            event,
        };
        self.at(late, answer);
    }

    fn birth(&mut self, node: usize) {
        if self.nodes[node].agent.is_some() {
            return;
        }
        self.note(|| format!("node-{node} is born"));
        let now = self.clock(node);
        let one = &mut self.nodes[node];
        one.births += 1;
        let birth = one.births;
        one.agent = Some(Agent {
            keeper: Keeper::new(one.name.clone(), self.timing, now),
            paused: 0,
            inbox: Vec::new(),
            undone: Vec::new(),
            pending: BTreeMap::new(),
            watch: VecDeque::new(),
            shown: BTreeMap::new(),
            applied: 0,
            poll: 0,
        });
        let uids: Vec<String> = self.nodes[node].pods.keys().cloned().collect();
        let mut events: Vec<Event> = uids.iter().map(|uid| self.pod(node, uid)).collect();
        events.extend(self.server.list());
        events.push(Event::Synced);
        for event in events {
            self.show(node, event);
        }
        self.at(0, Happening::Watch { node, birth });
    }

    /// Passes on what the watch of a node has shown by now.
    fn watch(&mut self, node: usize, birth: u64) {
        let (now, reaches) = (self.now, self.reaches_server(node));
        let mut shown = Vec::new();
        let Some(agent) = self.agent(node, birth) else {
            return;
        };
        while reaches && agent.watch.front().is_some_and(|(at, _)| *at <= now) {
            shown.extend(agent.watch.pop_front().map(|(_, event)| event));
            if let Some(Event::Lease { node, lease }) = shown.last() {
                agent.shown.insert(node.clone(), lease.clone());
            }
        }
        if !agent.watch.is_empty() {
            let at = agent.watch[0].0.max(now + 50) - now;
            self.at(at, Happening::Watch { node, birth });
        }
        for event in shown {
            self.tell(node, event);
        }
    }

    /// Lets a watch show something, after all that came before.
    fn show(&mut self, node: usize, event: Event) {
        let at = self.now + self.lag();
        let (now, birth) = (self.now, self.nodes[node].births);
        let Some(agent) = &mut self.nodes[node].agent else {
            return;
        };
        let at = agent.watch.back().map_or(at, |(last, _)| at.max(*last));
        agent.watch.push_back((at, event));
        self.at(at - now, Happening::Watch { node, birth });
    }

    fn spread_news(&mut self) {
        let news: Vec<Event> = self.server.news.drain(..).collect();
        for event in news {
            for node in 0..self.nodes.len() {
                self.show(node, event.clone());
            }
        }
    }

    fn pod(&self, node: usize, uid: &str) -> Event {
        let mut health = self.nodes[node].pods[uid];
        if matches!(health, Health::Unready { .. }) {
            health = Health::Unready {
                since: self.clock(node),
            };
        }
        let pod = (health != Health::Gone).then(|| PodView {
            health,
            addresses: Vec::new(),
        });
        Event::Pod {
            uid: uid.to_owned(),
            pod,
        }
    }

    fn tell(&mut self, node: usize, event: Event) {
        let now = self.clock(node);
        let is_paused = self.is_paused(node);
        let Some(agent) = &mut self.nodes[node].agent else {
            return;
        };
        if is_paused {
            agent.inbox.push(event);
            return;
        }
        agent.keeper.handle(event, now);
        self.poll(node);
    }

    fn poll(&mut self, node: usize) {
        let now = self.clock(node);
        let jitter = self.dice.from(1, 5);
        let Some(agent) = self.awake(node) else {
            return;
        };
        let output = agent.keeper.poll(now);
        agent.poll += 1;
        let (poll, birth) = (agent.poll, self.nodes[node].births);
        if let Some(next) = output.next {
            let wait = u64::try_from(next.remaining(now).as_millis()).unwrap();
            let wait = wait * 1_000 / self.nodes[node].rate + jitter;
            self.at(wait, Happening::Poll { node, birth, poll });
        }
        self.perform_all(node, output.acts);
    }

    fn resume(&mut self, node: usize, birth: u64) {
        if self.is_paused(node) {
            return;
        }
        let Some(agent) = self.agent(node, birth) else {
            return;
        };
        let undone = std::mem::take(&mut agent.undone);
        let inbox = std::mem::take(&mut agent.inbox);
        self.perform_all(node, undone);
        for event in inbox {
            self.tell(node, event);
        }
        self.poll(node);
    }

    /// Does what was decided at once. Writes that go to one register are one request.
    fn perform_all(&mut self, node: usize, acts: Vec<Act>) {
        let mut writes: BTreeMap<(Option<usize>, String), Vec<Act>> = BTreeMap::new();
        let mut read = BTreeSet::new();
        for act in acts {
            if let Act::ReadVip { id } = &act {
                let register = self.server.registers.get(id).copied();
                let is_new = register.is_none_or(|it| read.insert(it));
                self.server.reads += u64::from(is_new);
            }
            if let Act::WriteVip { id, expected, .. } = &act {
                let register = self.server.registers.get(id).copied();
                let alone = format!("{id:?}");
                let key = register.map_or(alone, |_| expected.clone());
                writes.entry((register, key)).or_default().push(act);
            } else {
                self.perform(node, act);
            }
        }
        for acts in writes.into_values() {
            self.write(node, acts);
        }
    }

    fn write(&mut self, node: usize, acts: Vec<Act>) {
        let birth = self.nodes[node].births;
        // An agent that has enough under way sends nothing, and says so later.
        if self.rough && self.dice.percent(5) {
            let late = self.lag();
            for act in acts {
                if let Act::WriteVip { id, .. } = act {
                    let answer = VipAnswer::Unsent;
                    let event = Event::VipWritten { id, answer };
                    self.at(late, Happening::Tell { node, birth, event });
                }
            }
            return;
        }
        let mut calls = Vec::new();
        for act in &acts {
            if let Act::WriteVip { id, .. } = act {
                let failure = Event::VipWritten {
                    id: id.clone(),
                    answer: VipAnswer::Unknown,
                };
                calls.extend(self.expect(node, failure));
            }
        }
        if !(self.rough && self.dice.percent(5)) {
            let late = self.lag();
            self.at(
                late,
                Happening::Writes {
                    node,
                    birth,
                    calls,
                    acts,
                },
            );
        }
    }

    fn perform(&mut self, node: usize, act: Act) {
        let birth = self.nodes[node].births;
        let failure = match &act {
            Act::WriteLease { .. } => Event::LeaseWritten(LeaseAnswer::Unknown),
            Act::ReadLease { node } => Event::LeaseRead {
                node: node.clone(),
                answer: ReadAnswer::Failed,
            },
            Act::WriteVip { .. } => return self.write(node, vec![act]),
            Act::ReadVip { id } => Event::VipRead {
                id: id.clone(),
                answer: ReadAnswer::Failed,
            },
            Act::Ask {
                node: to,
                term,
                ticket,
                ..
            } => {
                let by = self.nodes[node].name.clone();
                let (term, ticket) = (*term, *ticket);
                if self.fault == Some(Broken::Promises) {
                    let event = Event::Promised {
                        by: to.clone(),
                        term,
                        ticket,
                        granted: true,
                    };
                    return self.at(1, Happening::Tell { node, birth, event });
                }
                return self.send(node, &to.clone(), Event::PromiseAsked { by, term, ticket });
            }
            Act::Answer {
                to,
                term,
                ticket,
                refusal,
            } => {
                let by = self.nodes[node].name.clone();
                let (term, ticket, granted) = (*term, *ticket, refusal.is_none());
                let event = Event::Promised {
                    by,
                    term,
                    ticket,
                    granted,
                };
                return self.send(node, &to.clone(), event);
            }
            Act::Serve(serving) => {
                let late = if self.dice.percent(90) { 5 } else { 400 };
                let at = self.now + self.dice.from(0, late);
                let Some(agent) = &mut self.nodes[node].agent else {
                    return;
                };
                agent.applied = agent.applied.max(at);
                let wait = agent.applied - self.now;
                let serving = serving.clone();
                if self.fault == Some(Broken::Kernel) {
                    let event = Event::Served(serving.number);
                    self.at(1, Happening::Tell { node, birth, event });
                }
                return self.at(
                    wait,
                    Happening::Apply {
                        node,
                        birth,
                        serving,
                    },
                );
            }
        };
        let Some(call) = self.expect(node, failure) else {
            return;
        };
        if !(self.rough && self.dice.percent(5)) {
            let late = self.lag();
            self.at(
                late,
                Happening::Request {
                    node,
                    birth,
                    call,
                    act,
                },
            );
        }
    }

    /// Begins a call of an agent, which hears of the failure if it does not hear in time.
    fn expect(&mut self, node: usize, failure: Event) -> Option<u64> {
        let birth = self.nodes[node].births;
        self.count += 1;
        let call = self.count;
        let agent = self.nodes[node].agent.as_mut()?;
        let key = |event: &Event| {
            if let Event::VipWritten { id, .. } | Event::VipRead { id, .. } = event {
                return format!("{id:?}");
            }
            if let Event::LeaseRead { node, .. } = event {
                return node.clone();
            }
            format!("node-{node}")
        };
        let twice = agent.pending.values().any(|it| key(it) == key(&failure));
        assert!(!twice, "two calls at a time for {}", key(&failure));
        agent.pending.insert(call, failure);
        self.at(self.patience, Happening::GiveUp { node, birth, call });
        Some(call)
    }

    fn send(&mut self, from: usize, to: &str, event: Event) {
        let to = self.nodes.iter().position(|it| it.name == to).unwrap();
        if self.rough && self.dice.percent(10) {
            return;
        }
        let late = self.lag();
        self.at(late, Happening::Message { from, to, event });
    }

    fn apply(&mut self, node: usize, serving: &Serving) {
        let holds = |role: &Role| matches!(role, Role::Holder(_));
        let held = serving.roles.iter().filter(|(_, it)| holds(&it.role));
        let held: BTreeSet<VipId> = held.map(|(id, _)| id.clone()).collect();
        let deadline = serving.deadline.unwrap_or(Moment(Duration::ZERO));
        assert!(
            held.is_empty() || serving.deadline.is_some(),
            "served without an end"
        );
        self.note(|| format!("node-{node} serves {held:?} until {deadline:?}"));
        self.takes += u64::from(!held.is_subset(&self.nodes[node].kernel.0));
        self.nodes[node].kernel = (held, deadline);
        // Time only ends what is served: nothing else can make it two.
        let ids: Vec<VipId> = self.server.vips.keys().cloned().collect();
        for id in ids {
            let servers = self.servers(&id);
            if servers.len() > 1 {
                let now = self.now;
                let what = format!("{id:?} is served by {servers:?} at {now}");
                self.violation.get_or_insert(what);
            }
        }
    }

    fn lag(&mut self) -> u64 {
        if !self.rough {
            return self.dice.from(1, 20);
        }
        match self.dice.from(0, 100) {
            0..85 => self.dice.from(1, 30),
            85..93 => self.dice.from(30, 1_500),
            93..97 => self.dice.from(300, 900),
            _ => self.dice.from(1_500, 9_000),
        }
    }

    fn at(&mut self, wait: u64, happening: Happening) {
        self.told += 1;
        self.future.insert(
            (self.now + wait, u64::try_from(self.told).unwrap()),
            happening,
        );
    }

    fn clock(&self, node: usize) -> Moment {
        let node = &self.nodes[node];
        Moment(Duration::from_micros(
            node.offset * 1_000 + self.now * node.rate,
        ))
    }

    fn reaches_server(&self, node: usize) -> bool {
        self.server_away <= self.now && self.nodes[node].cut <= self.now
    }

    fn is_paused(&self, node: usize) -> bool {
        let agent = self.nodes[node].agent.as_ref();
        agent.is_some_and(|it| self.now < it.paused)
    }

    fn awake(&mut self, node: usize) -> Option<&mut Agent> {
        let is_paused = self.is_paused(node);
        self.nodes[node].agent.as_mut().filter(|_| !is_paused)
    }

    fn agent(&mut self, node: usize, birth: u64) -> Option<&mut Agent> {
        let node = &mut self.nodes[node];
        let is_same = node.births == birth;
        node.agent.as_mut().filter(|_| is_same)
    }
}

/// A node itself, or one that may be named next.
fn named_candidate(node: usize, is_named: bool) -> Candidate {
    let name = node_as_pod(&format!("node-{node}"));
    let mode = if is_named { Mode::Node } else { Mode::Standby };
    Candidate {
        mode,
        ..candidate(node, 0, &name)
    }
}

fn candidate(node: usize, pod: usize, uid: &str) -> Candidate {
    let part = |value: usize| u8::try_from(value).unwrap();
    Candidate {
        pod: uid.to_owned(),
        uid: uid.to_owned(),
        node: format!("node-{node}"),
        node_address: IpAddr::from([192, 168, 0, part(node) + 1]),
        addresses: vec![IpAddr::from([10, 244, part(node), part(pod) + 1])],
        mode: Mode::Nat,
        ready_since: 0,
    }
}
