//! Many addresses on the same three pods, and a server that does one thing after the other:
//! what they cost, and how they are spread.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::{
    desk::{at, candidate, id, pod, view},
    model::server::Server,
};
use crate::vip::{
    Timing,
    elect::Health,
    keeper::{Act, Change, Event, Keeper, VipAnswer},
};

/// How long the server takes for each request.
const SERVICE: u64 = 10;
/// How late watches are.
const LAG: u64 = 30;
/// How long an agent rests between two rounds.
const ROUND: u64 = 20;
/// How long the kernel takes for what it is told.
const KERNEL: u64 = 60;
/// How many writes of objects an agent has under way.
const AT_ONCE: usize = 8;
const STEP: u64 = 5;
const START: u64 = 50_000;
const NODES: [&str; 3] = ["a", "b", "c"];

struct Crowd {
    now: u64,
    server: Server,
    nodes: Vec<Node>,
    /// What has reached the server.
    requests: VecDeque<(usize, Act)>,
    free: u64,
    /// What watches will show, and when.
    news: VecDeque<(u64, Event)>,
    told: usize,
    costs: Costs,
    service: u64,
    lag: u64,
    round: u64,
}

struct Node {
    keeper: Keeper,
    lives: bool,
    inbox: Vec<Event>,
    /// What waits for a turn.
    waiting: VecDeque<Act>,
    under_way: usize,
    next: Option<u64>,
    rested: u64,
    kernel: Option<(u64, u64)>,
}

/// What was asked of the server.
#[derive(Clone, Copy, Debug, Default)]
struct Costs {
    held: usize,
    refused: usize,
    read: usize,
}

impl Crowd {
    fn new() -> Self {
        let nodes = NODES.map(|name| {
            let mut keeper = Keeper::new(name, Timing::default(), at(START));
            keeper.handle(pod(&format!("{name}1"), Health::Fit), at(START));
            keeper.handle(Event::Synced, at(START));
            Node {
                keeper,
                lives: true,
                inbox: Vec::new(),
                waiting: VecDeque::new(),
                under_way: 0,
                next: None,
                rested: 0,
                kernel: None,
            }
        });
        let mut crowd = Self {
            now: START,
            server: Server::default(),
            nodes: nodes.into(),
            requests: VecDeque::new(),
            free: 0,
            news: VecDeque::new(),
            told: 0,
            costs: Costs::default(),
            service: SERVICE,
            lag: LAG,
            round: ROUND,
        };
        // What a new process does not dare is over.
        crowd.pass(10_000);
        crowd
    }

    /// Shares one more address.
    fn share(&mut self, number: usize) {
        let mut view = view(None, &["a1", "b1", "c1"]);
        view.id = id(&format!("v{number}"));
        view.moves = 0;
        self.server.create(view);
    }

    fn pass(&mut self, span: u64) {
        let end = self.now + span;
        while self.now < end {
            self.step();
        }
    }

    /// Lets time pass until nodes that live hold all addresses; how long that took.
    fn settle(&mut self) -> u64 {
        let begun = self.now;
        while self.held().values().sum::<usize>() < self.server.vips.len() {
            self.step();
            assert!(self.now < begun + 120_000, "{:?}", self.held());
        }
        self.now - begun
    }

    /// How many addresses each node holds that lives.
    fn held(&self) -> BTreeMap<&'static str, usize> {
        let lives = NODES.iter().zip(&self.nodes).filter(|(_, it)| it.lives);
        let mut held: BTreeMap<&str, usize> = lives.map(|(name, _)| (*name, 0)).collect();
        for view in self.server.vips.values() {
            let holder = view.holder.as_ref().map(|it| it.candidate.node.as_str());
            if let Some(count) = holder.and_then(|node| held.get_mut(node)) {
                *count += 1;
            }
        }
        held
    }

    fn die(&mut self, node: usize) {
        self.nodes[node].lives = false;
        self.requests.retain(|(from, _)| *from != node);
    }

    fn step(&mut self) {
        self.now += STEP;
        while let Some((_, event)) = self.news.pop_front_if(|(due, _)| *due <= self.now) {
            for node in self.nodes.iter_mut().filter(|it| it.lives) {
                node.inbox.push(event.clone());
            }
        }
        for index in 0..self.nodes.len() {
            self.round(index);
        }
        while self.free <= self.now
            && let Some((from, act)) = self.requests.pop_front()
        {
            self.free = self.free.max(self.now - STEP) + self.service;
            let answer = self.server.ask(NODES[from], &act);
            self.costs.note(&act, &answer);
            let node = &mut self.nodes[from];
            node.under_way -= usize::from(is_of_object(&act));
            node.inbox.push(answer);
        }
        for event in &self.server.news[self.told..] {
            self.news.push_back((self.now + self.lag, event.clone()));
        }
        self.told = self.server.news.len();
    }

    fn round(&mut self, index: usize) {
        let now = self.now;
        let node = &mut self.nodes[index];
        if !node.lives {
            return;
        }
        if let Some((_, number)) = node.kernel.take_if(|(due, _)| *due <= now) {
            node.inbox.push(Event::Served(number));
        }
        let is_due = !node.inbox.is_empty() || node.next.is_some_and(|it| it <= now);
        if is_due && node.rested <= now {
            node.rested = now + self.round;
            for event in node.inbox.drain(..) {
                node.keeper.handle(event, at(now));
            }
            let output = node.keeper.poll(at(now));
            let next = output.next.map(|it| it.0.as_micros().div_ceil(1_000));
            node.next = next.and_then(|it| u64::try_from(it).ok());
            for act in output.acts {
                match act {
                    Act::Serve(serving) => node.kernel = Some((now + KERNEL, serving.number)),
                    // Nobody is away.
                    Act::Ask { .. } | Act::Answer { .. } => {}
                    act if is_of_object(&act) => node.waiting.push_back(act),
                    act => self.requests.push_back((index, act)),
                }
            }
        }
        while node.under_way < AT_ONCE
            && let Some(act) = node.waiting.pop_front()
        {
            node.under_way += 1;
            self.requests.push_back((index, act));
        }
    }
}

impl Costs {
    fn note(&mut self, act: &Act, answer: &Event) {
        match (act, answer) {
            (Act::ReadVip { .. }, _) => self.read += 1,
            (Act::WriteVip { change, .. }, Event::VipWritten { answer, .. }) => {
                match (change, answer) {
                    (Change::Hold { .. }, VipAnswer::Written(_)) => self.held += 1,
                    _ => self.refused += 1,
                }
            }
            _ => {}
        }
    }
}

fn is_of_object(act: &Act) -> bool {
    matches!(act, Act::WriteVip { .. } | Act::ReadVip { .. })
}

#[test]
fn probe() {
    let number = |name: &str, otherwise: u64| {
        std::env::var(name).map_or(otherwise, |it| it.parse().unwrap())
    };
    let count = number("N", 120);
    let mut crowd = Crowd::new();
    crowd.service = number("SERVICE", 10);
    crowd.lag = number("LAG", 30);
    crowd.round = number("ROUND", 20);
    for it in 0..count {
        crowd.share(usize::try_from(it).unwrap());
        crowd.pass(number("PACE", 25));
    }
    let took = crowd.settle();
    eprintln!("{} shared after {took}: {:?} {:?}", count, crowd.held(), crowd.costs);
    crowd.pass(5_000);
    eprintln!("calm: {:?} {:?}", crowd.held(), crowd.costs);
    crowd.costs = Costs::default();
    crowd.die(1);
    let took = crowd.settle();
    eprintln!("taken after {took}: {:?} {:?}", crowd.held(), crowd.costs);
    crowd.pass(5_000);
    eprintln!("calm: {:?} {:?}", crowd.held(), crowd.costs);
    let began = std::time::Instant::now();
    for _ in 0..20 { let now = at(crowd.now); crowd.nodes[0].keeper.poll(now); }
    eprintln!("poll {:?}", began.elapsed() / 20);
    let _ = (candidate("a1"), BTreeSet::<u8>::new());
}
