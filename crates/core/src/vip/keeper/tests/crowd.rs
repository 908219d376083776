//! Many addresses on the same three pods, and a server that does one thing after the other:
//! what they cost, and how they are spread.

use std::collections::{BTreeMap, VecDeque};

use super::{
    desk::{at, id, pod, view},
    model::server::Server,
};
use crate::vip::{
    Timing,
    elect::Health,
    keeper::{Act, Change, Event, Keeper, VipAnswer},
};

/// How late watches are.
const LAG: u64 = 30;
/// How long an agent rests between two rounds.
const ROUND: u64 = 20;
/// How long the kernel takes for what it is told.
const KERNEL: u64 = 60;
/// How many writes of objects an agent has under way.
const AT_ONCE: usize = 8;
/// An answer that took longer is followed by a pause of twice that, up to a second.
const SLOW: u64 = 250;
const STEP: u64 = 5;
const START: u64 = 50_000;
const NODES: [&str; 3] = ["a", "b", "c"];

struct Crowd {
    now: u64,
    server: Server,
    nodes: Vec<Node>,
    /// What has reached the server.
    requests: VecDeque<(usize, u64, Act)>,
    free: u64,
    /// What watches will show, and when.
    news: VecDeque<(u64, Event)>,
    told: usize,
    costs: Costs,
    /// How long the server takes for each request.
    service: u64,
}

struct Node {
    keeper: Keeper,
    lives: bool,
    inbox: Vec<Event>,
    /// What waits for a turn.
    waiting: VecDeque<Act>,
    under_way: usize,
    /// When turns of answered calls are free again.
    turns: Vec<u64>,
    next: Option<u64>,
    rested: u64,
    kernel: Option<(u64, u64)>,
}

/// What was asked of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Costs {
    held: usize,
    refused: usize,
    read: usize,
}

impl Crowd {
    fn new(service: u64) -> Self {
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
                turns: Vec::new(),
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
            service,
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
        view.born = i64::try_from(self.now / 1_000).unwrap();
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
        self.requests.retain(|(from, ..)| *from != node);
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
            && let Some((from, sent, act)) = self.requests.pop_front()
        {
            self.free = self.free.max(self.now - STEP) + self.service;
            let answer = if matches!(act, Act::WriteVip { .. }) {
                self.server.write(std::slice::from_ref(&act)).remove(0)
            } else {
                self.server.ask(NODES[from], &act)
            };
            self.costs.note(&act, &answer);
            let node = &mut self.nodes[from];
            if is_of_object(&act) {
                let took = self.now - sent;
                let pause = if took > SLOW { 1_000.min(2 * took) } else { 0 };
                node.turns.push(self.now + pause);
            }
            node.inbox.push(answer);
        }
        for event in &self.server.news[self.told..] {
            self.news.push_back((self.now + LAG, event.clone()));
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
            node.rested = now + ROUND;
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
                    act @ (Act::WriteVip { .. } | Act::ReadVip { .. }) => {
                        node.waiting.push_back(act);
                    }
                    act @ (Act::WriteLease { .. } | Act::ReadLease { .. }) => {
                        self.requests.push_back((index, now, act));
                    }
                }
            }
        }
        let before = node.turns.len();
        node.turns.retain(|free| *free > now);
        node.under_way -= before - node.turns.len();
        while node.under_way < AT_ONCE
            && let Some(act) = node.waiting.pop_front()
        {
            node.under_way += 1;
            self.requests.push_back((index, now, act));
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

/// Shares addresses faster than the server can do anything about them, under names that are
/// not in the order in which they come.
fn shared(count: usize, service: u64) -> Crowd {
    let mut crowd = Crowd::new(service);
    for number in 0..count {
        crowd.share(number);
        crowd.pass(STEP);
    }
    crowd.settle();
    crowd.pass(5_000);
    crowd
}

fn assert_even(crowd: &Crowd) {
    let held = crowd.held();
    let (least, most) = (held.values().min(), held.values().max());
    assert!(
        most.zip(least)
            .is_some_and(|(most, least)| most - least <= 1),
        "{held:?}"
    );
}

/// So many addresses were taken by one write each, and nothing else was written.
fn assert_once(crowd: &Crowd, held: usize) {
    let once = Costs {
        held,
        ..Costs::default()
    };
    assert_eq!(crowd.costs, once);
}

#[test]
fn each_address_gets_its_first_holder_by_one_write_and_all_are_spread_evenly() {
    let count = 120;
    let crowd = shared(count, 20);
    assert_once(&crowd, count);
    assert_even(&crowd);
}

#[test]
fn also_by_a_server_that_takes_longer_for_all_than_anybody_is_waited_for() {
    let count = 200;
    let crowd = shared(count, 60);
    assert_once(&crowd, count);
    assert_even(&crowd);
}

#[test]
fn the_addresses_of_a_dead_node_are_taken_by_one_write_each_as_fast_as_the_server_writes() {
    let mut crowd = shared(120, 20);
    crowd.costs = Costs::default();
    crowd.die(1);
    let took = crowd.settle();
    crowd.pass(5_000);
    assert_once(&crowd, 40);
    assert_even(&crowd);
    // It is silent for 3.3 s, then a lease is read; in the first seconds others renew.
    assert!(took < 3_600 + 40 * 20 * 3 / 2, "it took {took} ms");
}
