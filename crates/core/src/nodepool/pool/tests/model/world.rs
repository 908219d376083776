//! Nodes, a pool, a cloud, and what happens to them.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc, time::Duration};

use jiff::Timestamp;

use super::{
    super::desk::kind_of,
    cloud::{Cloud, order_of},
    dice::Dice,
};
use crate::nodepool::{
    cloud::{Capabilities, Class, Refusal},
    pool::{Answer, Call, Grace, Memory, Pool, Seen, Server, Spec, Unfit},
};

pub struct World {
    seed: u64,
    pub dice: Dice,
    /// In milliseconds.
    pub now: u64,
    pub cloud: Cloud,
    pool: Pool,
    spec: Spec,
    /// What the status says.
    written: Memory,
    nodes: BTreeMap<Server, Node>,
    /// Calls and when they reach the cloud, and answers and when they come back.
    calls: Vec<(u64, Call)>,
    answers: Vec<(u64, Call, Answer)>,
    is_calm: bool,
    /// Somebody else may have moved something until then.
    meddled: u64,
    /// A process began with an old status, and may count a grace from too early until then.
    outdated: u64,
    pub crashes: u64,
    log: Vec<String>,
}

struct Node {
    unfit: Option<Unfit>,
    is_gone: bool,
    /// Since when it does not fit.
    since: u64,
}

impl World {
    pub fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let count = dice.from(2, 7);
        let servers: Vec<Server> = (0..count).map(|it| format!("mock://n{it}")).collect();
        let displaces = dice.percent(20);
        let capabilities = Capabilities {
            per_server: dice.percent(50).then_some(1),
            steals: dice.percent(70),
            displaces,
            configured_by_node: false,
            v4: true,
            v6: false,
            buys: true,
            marks: dice.percent(70),
        };
        let mut cloud = Cloud::new(capabilities, dice.percent(50), servers.clone());
        let ips: Vec<IpAddr> = (0..dice.from(1, 4))
            .map(|it| IpAddr::from([192, 0, 2, u8::try_from(it).expect("few")]))
            .collect();
        for ip in &ips {
            cloud.add(*ip, None);
        }
        let desired = if dice.percent(50) {
            ips.len() + dice.index(3)
        } else {
            0
        };
        let grace = |dice: &mut Dice| Duration::from_secs(dice.from(0, 3) * 20);
        let spec = Spec {
            cluster: "cluster".into(),
            pool: "pool".into(),
            capabilities,
            provider: "mock".into(),
            region: "alpha".into(),
            ips,
            desired,
            cool_off: Duration::from_secs(if dice.percent(20) { 7 } else { 0 }),
            grace: Grace {
                pod_not_ready: grace(&mut dice),
                node_not_ready: grace(&mut dice),
                node_gone: grace(&mut dice),
            },
            reclaims: false,
        };
        let nodes = servers.into_iter().map(|server| {
            let node = Node {
                unfit: dice.percent(30).then_some(Unfit::Tainted),
                is_gone: false,
                since: 0,
            };
            (server, node)
        });
        let nodes = nodes.collect();
        let mut world = Self {
            seed,
            now: 0,
            cloud,
            pool: Pool::new(spec.clone(), Memory::default()),
            spec,
            written: Memory::default(),
            nodes,
            calls: Vec::new(),
            answers: Vec::new(),
            is_calm: false,
            meddled: 0,
            outdated: 0,
            crashes: 0,
            log: Vec::new(),
            dice,
        };
        world.tell();
        world
    }

    /// Lets time pass.
    pub fn run(&mut self, span: u64) {
        let end = self.now + span;
        let mut rounds = 0;
        let mut last = self.now;
        loop {
            rounds = if self.now == last { rounds + 1 } else { 0 };
            last = self.now;
            assert!(rounds < 1000, "no rest at {}: {}", self.now, self.story());
            self.cloud.tick(self.now);
            self.deliver();
            self.poll();
            let crimes = [self.cloud.twice.take(), self.cloud.pushed.take()];
            for crime in crimes.into_iter().flatten() {
                assert!(self.now < self.meddled, "{crime}: {}", self.story());
            }
            let wake = self.pool.wake(self.at()).map(Self::millis);
            let calls = self.calls.iter().map(|it| it.0);
            let answers = self.answers.iter().map(|it| it.0);
            let next = wake.into_iter().chain(calls).chain(answers).min();
            match next {
                Some(next) if next <= end => self.now = self.now.max(next),
                Some(_) | None => break,
            }
        }
        self.now = end;
        self.cloud.tick(end);
    }

    /// Something happens.
    pub fn disturb(&mut self) {
        let servers: Vec<Server> = self.nodes.keys().cloned().collect();
        let server = servers[self.dice.index(servers.len())].clone();
        match self.dice.from(0, 100) {
            0..30 => self.change(&server, None),
            30..60 => {
                let causes = [
                    Unfit::PodNotReady,
                    Unfit::NoPod,
                    Unfit::NodeNotReady,
                    Unfit::Tainted,
                ];
                let cause = causes[self.dice.index(causes.len())];
                self.change(&server, Some(cause));
            }
            60..66 => self.vanish(&server),
            66..90 => self.crash(),
            90..96 => self.meddle(&server),
            _ => self.note(|| "nothing happens".into()),
        }
    }

    /// No more faults from now on, and everybody fits who is there.
    pub fn calm(&mut self) {
        self.is_calm = true;
        self.note(|| "calm".into());
        let servers: Vec<Server> = self.nodes.keys().cloned().collect();
        for server in servers {
            if !self.nodes[&server].is_gone && self.dice.percent(70) {
                self.change(&server, None);
            }
        }
    }

    /// Every node that can be served is served.
    pub fn ends_well(&mut self) {
        let view = self.pool.view(self.at());
        let story = |world: &Self| format!("{view:#?}\n{}", world.story());
        let is_stuck = view.error.as_ref().map(|it| it.reason) == Some("PurchaseUnclear");
        if self.spec.desired > 0 && !is_stuck {
            assert!(
                self.spec.ips.len() >= self.spec.desired,
                "missing: {}",
                story(self)
            );
        }
        let fitting: Vec<&Server> = self
            .nodes
            .iter()
            .filter(|(_, it)| it.unfit.is_none() && !it.is_gone)
            .map(|(server, _)| server)
            .collect();
        let used = match self.spec.desired {
            0 => self.spec.ips.len(),
            desired => desired.min(self.spec.ips.len()),
        };
        let used = &self.spec.ips[..used];
        let served = fitting.iter().filter(|server| {
            let mut used = used.iter();
            used.any(|ip| self.cloud.addresses[ip].server.as_ref() == Some(server))
        });
        assert_eq!(
            served.count(),
            fitting.len().min(used.len()),
            "not all are served: {}",
            story(self)
        );
        // The pool knows it, and bought nothing that it did not enter.
        for ip in used {
            let real = self.cloud.addresses[ip].server.as_ref();
            assert_eq!(view.ips[ip].server.as_ref(), real, "{}", story(self));
        }
        let of_pool = self.cloud.addresses.values().filter(|it| it.mark.is_some());
        let of_pool = of_pool.count();
        let wanted = self.spec.desired.saturating_sub(
            self.spec
                .ips
                .iter()
                .filter(|it| self.cloud.addresses[it].mark.is_none())
                .count(),
        );
        assert!(of_pool <= wanted, "too many bought: {}", story(self));
    }

    /// An idle pool lists once a minute.
    pub fn is_left_in_peace(&mut self) {
        self.log.clear();
        self.run(10 * 60_000);
        let called: Vec<&String> = self.log.iter().filter(|it| it.contains("asks")).collect();
        assert!(
            called.len() <= 11 && called.iter().all(|it| it.contains("List")),
            "{}",
            self.story()
        );
    }

    fn at(&self) -> Timestamp {
        Self::moment(self.now)
    }

    fn moment(millis: u64) -> Timestamp {
        let millis = i64::try_from(millis).expect("a short life");
        Timestamp::from_millisecond(1_000_000_000 + millis).expect("a moment")
    }

    fn millis(at: Timestamp) -> u64 {
        u64::try_from(at.as_millisecond() - 1_000_000_000).expect("not before the start")
    }

    fn poll(&mut self) {
        let calls = self.pool.poll(self.at());
        for call in calls {
            self.note(|| format!("asks {call:?}"));
            self.has_cause(&call);
            let delay = self.dice.from(1, 400);
            self.calls.push((self.now + delay, call));
        }
        // The status follows, but not always at once.
        if self.is_calm || self.dice.percent(50) {
            self.written = self.pool.memory().clone();
        }
    }

    /// An address that is on a node that fits stays there, and on others as long as they
    /// have grace.
    fn has_cause(&self, call: &Call) {
        let Some((ip, _)) = order_of(call) else {
            return;
        };
        let held = &self.cloud.addresses[&ip];
        let Some(server) = &held.server else {
            return;
        };
        let others =
            self.spec.ips.iter().filter(|it| {
                **it != ip && self.cloud.addresses[it].server.as_ref() == Some(server)
            });
        if self.now < self.meddled || others.count() > 0 {
            return;
        }
        let node = &self.nodes[server];
        let grace = &self.spec.grace;
        let grace = match node.unfit {
            _ if node.is_gone => grace.node_gone,
            Some(cause) => grace.of(cause),
            None => panic!("{call:?} has no cause: {}", self.story()),
        };
        let end = node.since + u64::try_from(grace.as_millis()).expect("short");
        let is_over = end <= self.now || self.now < self.outdated;
        assert!(is_over, "{call:?} is too early: {}", self.story());
    }

    fn deliver(&mut self) {
        while let Some(index) = self.calls.iter().position(|it| it.0 <= self.now) {
            let (_, call) = self.calls.remove(index);
            let answer = self.perform(&call);
            self.note(|| format!("{call:?} -> {answer:?}"));
            let delay = self.dice.from(1, 400);
            self.answers.push((self.now + delay, call, answer));
        }
        while let Some(index) = self.answers.iter().position(|it| it.0 <= self.now) {
            let (_, call, answer) = self.answers.remove(index);
            self.pool.answered(&call, answer, self.at());
            if matches!(call, Call::Enter { .. }) {
                self.pool.configure(self.spec.clone(), self.at());
            }
        }
    }

    fn perform(&mut self, call: &Call) -> Answer {
        let unheard = || Answer::Refused(Refusal::new(Class::Unclear, "timeout"));
        if !self.is_calm {
            match self.dice.from(0, 100) {
                0..10 => {
                    let classes = [
                        Class::Unavailable,
                        Class::RateLimited,
                        Class::Busy,
                        Class::Quota,
                        Class::Invalid,
                    ];
                    let class = classes[self.dice.index(classes.len())];
                    return Answer::Refused(Refusal::new(class, "no"));
                }
                10..18 => {
                    self.perform_late(call);
                    return unheard();
                }
                18..24 => return unheard(),
                _ => {}
            }
        }
        self.act(call)
    }

    /// It comes true, now or a little later, and nobody hears of it.
    fn perform_late(&mut self, call: &Call) {
        match order_of(call) {
            Some((ip, target))
                if !self.cloud.is_slow && self.cloud.objection(ip, target.as_ref()).is_none() =>
            {
                assert!(!self.cloud.is_open(ip), "twice at once: {}", self.story());
                let at = self.now + self.dice.from(0, 8_000);
                let held = self.cloud.addresses.get_mut(&ip).expect("no objection");
                held.late = Some((at, target));
            }
            Some(_) | None => {
                self.act(call);
            }
        }
    }

    fn act(&mut self, call: &Call) -> Answer {
        if let Some((ip, target)) = order_of(call) {
            let end = self.now + self.dice.from(100, 20_000);
            let fails = !self.is_calm && self.dice.percent(15);
            return self.cloud.order(ip, target, end, fails);
        }
        match call {
            Call::List => Answer::Listed(Arc::new(self.cloud.list().into_iter().collect())),
            Call::Check { handle, .. } => self.cloud.check(handle),
            Call::Write => {
                self.written = self.pool.memory().clone();
                Answer::Done
            }
            Call::Buy { mark } => {
                let intent = self.written.purchase.as_ref();
                assert_eq!(intent.map(|it| &it.mark), Some(mark), "it is not written");
                self.cloud.buy(mark)
            }
            Call::Enter { ips } => {
                for ip in ips {
                    if !self.spec.ips.contains(ip) {
                        self.spec.ips.push(*ip);
                    }
                }
                Answer::Done
            }
            Call::Assign { .. } | Call::Detach { .. } | Call::Release { .. } => {
                panic!("nobody asked for {}", kind_of(call))
            }
        }
    }

    /// The process is killed. What was on its way arrives, or not.
    fn crash(&mut self) {
        self.crashes += 1;
        let calls = std::mem::take(&mut self.calls);
        for (_, call) in calls {
            let is_write = matches!(call, Call::Write);
            if self.dice.percent(50) && !is_write {
                let answer = self.act_safely(&call);
                self.note(|| format!("{call:?} -> {answer:?}, unheard"));
            }
        }
        self.answers.clear();
        // What nobody has written down ends with its connection.
        for (ip, held) in &mut self.cloud.addresses {
            if let Some((at, _)) = &mut held.late
                && !self.written.pending.contains_key(ip)
            {
                *at = if self.dice.percent(50) { 0 } else { u64::MAX };
            }
            held.late = held.late.take().filter(|(at, _)| *at < u64::MAX);
        }
        self.cloud.tick(self.now);
        self.note(|| "a new process".into());
        if self.written.unfit_since != self.pool.memory().unfit_since {
            self.outdated = self.now + 60_000;
        }
        self.pool = Pool::new(self.spec.clone(), self.written.clone());
        if self.dice.percent(50) {
            let pause = self.dice.from(1, 3_000);
            self.run(pause);
        }
        self.tell();
    }

    fn act_safely(&mut self, call: &Call) -> Option<Answer> {
        let order = order_of(call);
        let is_open = order.is_some_and(|(ip, _)| self.cloud.is_open(ip));
        (!is_open).then(|| self.act(call))
    }

    fn change(&mut self, server: &str, unfit: Option<Unfit>) {
        let node = self.nodes.get_mut(server).expect("it is known");
        if node.is_gone {
            return;
        }
        if node.unfit.is_none() && unfit.is_some() {
            node.since = self.now;
        }
        node.unfit = unfit;
        self.note(|| format!("{server} is now {unfit:?}"));
        self.tell();
    }

    /// A node's object is deleted, and perhaps its server too.
    fn vanish(&mut self, server: &str) {
        let fitting = self.nodes.values().filter(|it| !it.is_gone).count();
        let node = self.nodes.get_mut(server).expect("it is known");
        if node.is_gone || fitting < 3 {
            return;
        }
        if node.unfit.is_none() {
            node.since = self.now;
        }
        node.is_gone = true;
        node.unfit = Some(Unfit::Deleted);
        self.note(|| format!("{server} is gone"));
        if self.dice.percent(50) {
            self.cloud.remove_server(server);
        }
        self.tell();
    }

    /// Somebody moves an address by hand.
    fn meddle(&mut self, server: &Server) {
        let ips = &self.spec.ips;
        let ip = ips[self.dice.index(ips.len())];
        let target = self.dice.percent(50).then(|| server.clone());
        let objection = self.cloud.objection(ip, target.as_ref());
        let is_taken = self
            .cloud
            .addresses
            .values()
            .any(|it| it.server.is_some() && it.server == target);
        let is_ordered = self.pool.memory().pending.contains_key(&ip);
        if objection.is_some() || self.cloud.is_open(ip) || is_taken || is_ordered {
            return;
        }
        self.note(|| format!("somebody puts {ip} on {target:?}"));
        self.cloud.addresses.get_mut(&ip).expect("known").server = target;
        self.meddled = self.now + 90_000;
    }

    fn tell(&mut self) {
        let there = self.nodes.iter().filter(|(_, it)| !it.is_gone);
        let seen = there.map(|(server, node)| {
            let seen = Seen {
                name: server.trim_start_matches("mock://").to_owned(),
                unfit: node.unfit,
            };
            (server.clone(), seen)
        });
        self.pool.nodes(seen.collect(), self.at());
    }

    fn note(&mut self, what: impl FnOnce() -> String) {
        let line = format!("{:>9} {}", self.now, what());
        self.log.push(line);
    }

    fn story(&self) -> String {
        let skip = self.log.len().saturating_sub(120);
        let story: Vec<&str> = self.log.iter().skip(skip).map(String::as_str).collect();
        format!("seed {}\n{}", self.seed, story.join("\n"))
    }
}
