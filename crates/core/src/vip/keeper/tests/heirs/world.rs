//! Nodes with clocks and kernels, a network that loses and delays, and a controller.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    super::model::dice::Dice,
    agent::{Act, Agent, Call, Order},
    chain::{self, LeaseObject, Node, Truth, Vip, VipObject},
    flaw::Flaw,
    server::{Answer, Request, Server},
};

pub struct World {
    pub now: u64,
    pub dice: Dice,
    pub server: Server,
    pub nodes: Vec<Machine>,
    /// Whether messages are late and lost.
    pub rough: bool,
    /// Addresses that the controller has given to somebody else.
    freed: BTreeSet<Vip>,
    /// Addresses that the controller is about to take back.
    emptying: BTreeSet<Vip>,
    /// What must never be, and was.
    pub violation: Option<String>,
    /// How eagerly objects are made to follow.
    pub eager: u64,
    /// How many addresses in a hundred whoever ends a term does not know of.
    pub misses: u64,
    flaw: Option<Flaw>,
    /// How long an answer is waited for.
    patience: u64,
    future: BTreeMap<(u64, u64), Happening>,
    count: u64,
}

pub struct Machine {
    offset: u64,
    /// How fast its clock runs, in thousandths.
    rate: u64,
    /// What the kernel has, whether or not there is an agent.
    kernel: (BTreeSet<Vip>, u64),
    pub agent: Option<Agent>,
    births: u64,
    calls: BTreeMap<u64, Call>,
    inbox: Vec<(Call, Option<Answer>)>,
    applied: Vec<u64>,
    pub paused: u64,
    pub cut: u64,
    /// How far the watches have come, and how late they are.
    vips_shown: usize,
    leases_shown: usize,
    pub vip_lag: u64,
    pub lease_lag: u64,
}

#[derive(Clone, Debug)]
enum Happening {
    Look {
        node: Node,
        birth: u64,
    },
    Request {
        node: Node,
        birth: u64,
        call: u64,
        request: Request,
    },
    Answer {
        node: Node,
        birth: u64,
        call: u64,
        answer: Option<Answer>,
    },
    Apply {
        node: Node,
        birth: u64,
        order: Order,
    },
    Birth {
        node: Node,
    },
    Control {
        vip: Vip,
        step: Step,
    },
}

/// What the controller does to take an address back, one thing after the other.
#[derive(Clone, Debug)]
enum Step {
    Empty(VipObject),
    Look,
    Resolve(VipObject),
    Clear(VipObject),
    Grant,
}

impl World {
    pub fn new(seed: u64, nodes: usize, vips: usize, flaw: Option<Flaw>) -> Self {
        let mut dice = Dice::new(seed);
        let machines = (0..nodes).map(|_| Machine {
            offset: dice.from(1, 100_000),
            // The fastest counts 3.3 s while the slowest counts 3 s.
            rate: [953, 1_000, 1_048][dice.index(3)],
            kernel: (BTreeSet::new(), 0),
            agent: None,
            births: 0,
            calls: BTreeMap::new(),
            inbox: Vec::new(),
            applied: Vec::new(),
            paused: 0,
            cut: 0,
            vips_shown: 0,
            leases_shown: 0,
            vip_lag: 5,
            lease_lag: 5,
        });
        let machines = machines.collect();
        let eager = [1, 5, 30][dice.index(3)];
        let patience = [2_000, 6_000][dice.index(2)];
        let mut world = Self {
            now: 0,
            dice,
            server: Server::new(nodes, vips, flaw),
            nodes: machines,
            rough: true,
            freed: BTreeSet::new(),
            emptying: BTreeSet::new(),
            violation: None,
            eager,
            misses: 10,
            flaw,
            patience,
            future: BTreeMap::new(),
            count: 0,
        };
        for node in 0..nodes {
            world.at(1, Happening::Birth { node });
        }
        world
    }

    pub fn run_until(&mut self, end: u64) {
        while let Some((&(at, number), _)) = self.future.first_key_value() {
            if at > end || self.violation.is_some() {
                break;
            }
            let happening = self.future.remove(&(at, number)).unwrap();
            self.now = self.now.max(at);
            self.happen(happening);
        }
        self.now = end;
    }

    /// Who speaks for an address right now.
    pub fn speakers(&self, vip: Vip) -> Vec<Node> {
        let speaks = |&node: &Node| {
            let (vips, deadline) = &self.nodes[node].kernel;
            vips.contains(&vip) && self.clock(node) < *deadline
        };
        (0..self.nodes.len()).filter(speaks).collect()
    }

    /// Who holds an address by all that the server has.
    pub fn truth(&self, vip: Vip) -> Truth {
        let leases = &self.server.leases;
        let object = &self.server.vips[vip];
        chain::resolve(vip, object, |node| leases.get(node), chain::is_given)
    }

    /// The agent stops dead, and another one is started later.
    pub fn crash(&mut self, node: Node, pause: u64) {
        if self.nodes[node].agent.take().is_none() {
            return;
        }
        // What the kernel is about to get, it gets at once or never.
        let gets = self.dice.percent(50);
        let keys: Vec<(u64, u64)> = self.future.keys().copied().collect();
        for key in keys {
            if let Some(Happening::Apply { node: of, order, .. }) = self.future.get(&key)
                && *of == node
            {
                let order = order.clone();
                self.future.remove(&key);
                if gets {
                    self.apply(node, order);
                }
            }
        }
        self.at(pause, Happening::Birth { node });
    }

    /// The node loses its power, and has it back later.
    pub fn power_off(&mut self, node: Node, pause: u64) {
        self.crash(node, pause);
        self.nodes[node].kernel.0.clear();
    }

    /// Somebody wants an address to move, or its holder to let go; who that is.
    pub fn ask_for_move(&mut self, vip: Vip) -> Option<Node> {
        let to = self.dice.index(self.nodes.len() + 1);
        let to = (to < self.nodes.len()).then_some(to);
        let Truth::Held { by, .. } = self.truth(vip) else {
            return None;
        };
        let agent = self.nodes[by.node].agent.as_mut()?;
        agent.wishes.insert(vip, to);
        Some(by.node)
    }

    /// The controller takes an address back, and grants it again later.
    pub fn take_back(&mut self, vip: Vip) {
        if self.emptying.insert(vip) {
            let object = self.server.vips[vip].clone();
            self.control(vip, Step::Empty(object));
        }
    }

    pub fn heal(&mut self) {
        self.rough = false;
        for machine in &mut self.nodes {
            (machine.cut, machine.paused) = (0, 0);
            (machine.vip_lag, machine.lease_lag) = (5, 5);
            if let Some(agent) = &mut machine.agent {
                agent.wishes.clear();
            }
        }
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Look { node, birth } => {
                if self.nodes[node].births == birth && self.nodes[node].agent.is_some() {
                    self.look(node);
                    let wait = self.dice.from(10, 50);
                    self.at(wait, Happening::Look { node, birth });
                }
            }
            Happening::Request {
                node,
                birth,
                call,
                request,
            } => {
                if self.now < self.nodes[node].cut {
                    return;
                }
                let answer = Some(self.server.ask(node, &request, self.now));
                if !(self.rough && self.dice.percent(7)) {
                    let wait = self.lag();
                    let answer = Happening::Answer {
                        node,
                        birth,
                        call,
                        answer,
                    };
                    self.at(wait, answer);
                }
            }
            Happening::Answer {
                node,
                birth,
                call,
                answer,
            } => {
                let machine = &mut self.nodes[node];
                let is_lost = answer.is_some() && self.now < machine.cut;
                if machine.births == birth
                    && !is_lost
                    && let Some(call) = machine.calls.remove(&call)
                {
                    machine.inbox.push((call, answer));
                }
            }
            Happening::Apply { node, birth, order } => {
                let machine = &self.nodes[node];
                if machine.births != birth {
                } else if self.now < machine.paused {
                    let wait = machine.paused - self.now;
                    self.at(wait, Happening::Apply { node, birth, order });
                } else {
                    self.nodes[node].applied.push(order.number);
                    self.apply(node, order);
                }
            }
            Happening::Birth { node } => self.birth(node),
            Happening::Control { vip, step } => self.control_step(vip, step),
        }
    }

    /// The agent of a node takes in what has come, and acts.
    fn look(&mut self, node: Node) {
        let clock = self.clock(node);
        let machine = &mut self.nodes[node];
        if self.now < machine.paused {
            return;
        }
        let Some(agent) = &mut machine.agent else {
            return;
        };
        for number in machine.applied.drain(..) {
            agent.applied(number);
        }
        for (call, answer) in machine.inbox.drain(..) {
            agent.answered(call, answer, clock);
        }
        let reaches = machine.cut <= self.now;
        while let Some((at, vip, object)) = self.server.vip_log.get(machine.vips_shown)
            && reaches
            && at + machine.vip_lag <= self.now
        {
            agent.see_vip(*vip, object);
            machine.vips_shown += 1;
        }
        while let Some((at, of, lease)) = self.server.lease_log.get(machine.leases_shown)
            && reaches
            && at + machine.lease_lag <= self.now
        {
            agent.see_lease(*of, lease, clock);
            machine.leases_shown += 1;
        }
        let acts = agent.poll(clock, &mut self.dice);
        for act in acts {
            self.perform(node, act);
        }
    }

    fn perform(&mut self, node: Node, act: Act) {
        let birth = self.nodes[node].births;
        match act {
            Act::Kernel(order) => {
                // One after the other: a later order never overtakes.
                let late = if self.dice.percent(90) { 5 } else { 400 };
                let mut at = self.now + self.dice.from(0, late);
                for (key, it) in &self.future {
                    if matches!(it, Happening::Apply { node: of, .. } if *of == node) {
                        at = at.max(key.0);
                    }
                }
                let wait = at - self.now;
                self.at(wait, Happening::Apply { node, birth, order });
            }
            Act::Ask(what, request) => {
                self.count += 1;
                let call = self.count;
                self.nodes[node].calls.insert(call, what);
                let answer = None;
                let nothing = Happening::Answer {
                    node,
                    birth,
                    call,
                    answer,
                };
                self.at(self.patience, nothing);
                if !(self.rough && self.dice.percent(7)) {
                    let wait = self.lag();
                    let request = Happening::Request {
                        node,
                        birth,
                        call,
                        request,
                    };
                    self.at(wait, request);
                }
            }
        }
    }

    fn birth(&mut self, node: Node) {
        if self.nodes[node].agent.is_some() {
            return;
        }
        // The first list of a watch may be an old one.
        let stale = self.rough && self.dice.percent(40);
        let age = if stale { self.dice.from(0, 9_000) } else { 0 };
        let start = self.now.saturating_sub(age);
        let blank = Server::new(self.nodes.len(), self.server.vips.len(), None);
        let (mut vips, mut leases): (Vec<VipObject>, Vec<LeaseObject>) = (blank.vips, blank.leases);
        let clock = self.clock(node);
        let machine = &mut self.nodes[node];
        (machine.vips_shown, machine.leases_shown) = (0, 0);
        for (at, vip, object) in &self.server.vip_log {
            if *at > start {
                break;
            }
            vips[*vip] = object.clone();
            machine.vips_shown += 1;
        }
        for (at, of, lease) in &self.server.lease_log {
            if *at > start {
                break;
            }
            leases[*of] = lease.clone();
            machine.leases_shown += 1;
        }
        machine.births += 1;
        machine.calls.clear();
        machine.inbox.clear();
        machine.applied.clear();
        machine.paused = 0;
        let mut agent = Agent::new(node, self.flaw, vips, leases, clock);
        (agent.eager, agent.misses) = (self.eager, self.misses);
        machine.agent = Some(agent);
        let birth = machine.births;
        self.at(1, Happening::Look { node, birth });
    }

    fn control(&mut self, vip: Vip, step: Step) {
        let wait = self.lag();
        self.at(wait, Happening::Control { vip, step });
    }

    fn control_step(&mut self, vip: Vip, step: Step) {
        let nobody = self.nodes.len();
        let mut object = match &step {
            Step::Empty(object) | Step::Resolve(object) | Step::Clear(object) => object.clone(),
            Step::Look | Step::Grant => self.server.vips[vip].clone(),
        };
        match step {
            Step::Empty(_) => {
                object.emptied = true;
                let put = Request::PutVip { vip, object };
                match self.server.ask(nobody, &put, self.now) {
                    Answer::Vip(_) => self.control(vip, Step::Look),
                    Answer::Refused | Answer::Lease(_) | Answer::List(_) => {
                        self.emptying.remove(&vip);
                    }
                }
            }
            Step::Look if object.holder.is_none() => {
                self.server.count.freed += 1;
                self.freed.insert(vip);
                self.check();
                let wait = self.dice.from(500, 6_000);
                let step = Step::Grant;
                self.at(wait, Happening::Control { vip, step });
            }
            Step::Look => self.control(vip, Step::Resolve(object)),
            Step::Resolve(_) => {
                let truth = self.controllers_truth(vip, &object);
                if let Truth::Vacant(number) = truth {
                    object.holder = None;
                    object.number = number;
                    self.control(vip, Step::Clear(object));
                } else {
                    let step = Step::Look;
                    self.at(300, Happening::Control { vip, step });
                }
            }
            Step::Clear(_) => {
                let put = Request::PutVip { vip, object };
                self.server.ask(nobody, &put, self.now);
                self.control(vip, Step::Look);
            }
            Step::Grant => {
                self.freed.remove(&vip);
                self.emptying.remove(&vip);
                object.emptied = false;
                let put = Request::PutVip { vip, object };
                self.server.ask(nobody, &put, self.now);
            }
        }
    }

    /// By an object that was read some time ago, and leases that are read now.
    fn controllers_truth(&self, vip: Vip, object: &VipObject) -> Truth {
        let leases = &self.server.leases;
        let lease = |node: Node| leases.get(node);
        if self.flaw == Some(Flaw::FreeByObject) {
            let blind: Vec<LeaseObject> = leases
                .iter()
                .map(|it| LeaseObject {
                    deeds: BTreeMap::new(),
                    ..it.clone()
                })
                .collect();
            return chain::resolve(vip, object, |node| blind.get(node), chain::is_given);
        }
        chain::resolve(vip, object, lease, chain::is_given)
    }

    fn apply(&mut self, node: Node, order: Order) {
        self.nodes[node].kernel = (order.vips, order.deadline);
        self.check();
    }

    /// Time only ends what is spoken for: nothing else can make it two.
    fn check(&mut self) {
        for vip in 0..self.server.vips.len() {
            let speakers = self.speakers(vip);
            let limit = usize::from(!self.freed.contains(&vip));
            if speakers.len() > limit {
                let now = self.now;
                self.violation = Some(format!("{speakers:?} speak for {vip}, not {limit}, at {now}"));
            }
        }
    }

    fn lag(&mut self) -> u64 {
        if !self.rough {
            return self.dice.from(1, 10);
        }
        match self.dice.from(0, 100) {
            0..82 => self.dice.from(1, 30),
            82..92 => self.dice.from(30, 1_500),
            _ => self.dice.from(1_500, 9_000),
        }
    }

    fn at(&mut self, wait: u64, happening: Happening) {
        self.count += 1;
        self.future.insert((self.now + wait, self.count), happening);
    }

    fn clock(&self, node: Node) -> u64 {
        let node = &self.nodes[node];
        node.offset + self.now * node.rate / 1_000
    }
}
