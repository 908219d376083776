//! A pool with a cloud that does at once what it is asked, unless it is told otherwise.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;

use crate::nodepool::{
    cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken},
    pool::{Answer, Call, Grace, Memory, Pool, Seen, Server, Spec, State, Unfit, View},
    retry::after,
};

pub const A: &str = "192.168.1.1";
pub const B: &str = "172.16.2.2";

/// What the cloud does instead of what it is asked.
#[derive(Clone, Debug)]
pub enum Fault {
    Refuse(Refusal),
    /// It does it, and nobody hears of it.
    DoneUnheard,
    /// It does nothing, and nobody hears of it.
    Lost,
    /// It takes the order, and does it when it is asked how far it is, at the earliest
    /// after so many questions.
    Slow(u32),
    /// It takes the order, and fails.
    Fails,
    /// It never answers.
    Silent,
    /// It does it, and never answers.
    DoneSilent,
}

pub struct Desk {
    pub pool: Pool,
    pub spec: Spec,
    pub now: Timestamp,
    pub cloud: BTreeMap<IpAddr, Listed>,
    /// What is for sale.
    pub shop: Vec<IpAddr>,
    /// What happens to the next calls of a kind.
    pub faults: Vec<(&'static str, Fault)>,
    pub calls: Vec<Call>,
    actions: BTreeMap<String, Action>,
}

struct Action {
    ip: IpAddr,
    target: Option<Server>,
    questions: u32,
    fails: bool,
}

impl Desk {
    /// A pool with these addresses, all of them free.
    pub fn new(ips: &str) -> Self {
        let ips = addresses(ips);
        let spec = Spec {
            cluster: "cluster".into(),
            pool: "pool".into(),
            capabilities: Capabilities {
                per_server: Some(1),
                steals: true,
                displaces: false,
                configured_by_node: false,
                v4: true,
                v6: true,
                buys: true,
                marks: true,
            },
            provider: "mock".into(),
            region: "alpha".into(),
            ips: ips.clone(),
            desired: 0,
            cool_off: Duration::ZERO,
            grace: Grace::default(),
            reclaims: false,
        };
        let cloud = ips.into_iter().map(|ip| (ip, listed(ip, None))).collect();
        Self {
            pool: Pool::new(spec.clone(), Memory::default()),
            spec,
            now: Timestamp::from_second(1_000_000).expect("a moment"),
            cloud,
            shop: addresses("10.0.1.1 10.0.2.2 10.0.3.3"),
            faults: Vec::new(),
            calls: Vec::new(),
            actions: BTreeMap::new(),
        }
    }

    /// Changes the specification, also of a pool that has not begun.
    pub fn with(mut self, change: impl FnOnce(&mut Spec)) -> Self {
        self.configure(change);
        self
    }

    pub fn configure(&mut self, change: impl FnOnce(&mut Spec)) {
        change(&mut self.spec);
        self.pool.configure(self.spec.clone(), self.now);
    }

    /// An address of the account that is on a server, or on none.
    pub fn put(&mut self, address: &str, node: Option<&str>) {
        let place = node.map(server);
        let entry = self.cloud.entry(ip(address));
        entry.or_insert_with(|| listed(ip(address), None)).server = place;
    }

    /// Tells all nodes, by name; those that do not fit, with the cause.
    pub fn nodes(&mut self, nodes: &[(&str, Option<Unfit>)]) {
        let seen = nodes.iter().map(|(name, unfit)| {
            let seen = Seen {
                name: (*name).to_owned(),
                unfit: *unfit,
            };
            (server(name), seen)
        });
        self.pool.nodes(seen.collect(), self.now);
    }

    /// Tells one node.
    pub fn node(&mut self, name: &str, unfit: Option<Unfit>) {
        let seen = Seen {
            name: name.to_owned(),
            unfit,
        };
        self.pool.node(&server(name), Some(seen), self.now);
    }

    pub fn fail(&mut self, kind: &'static str, class: Class) {
        let fault = Fault::Refuse(Refusal::new(class, "no"));
        self.faults.push((kind, fault));
    }

    /// Does all that the pool asks for at this moment.
    pub fn run(&mut self) {
        for _ in 0..200 {
            let calls = self.pool.poll(self.now);
            if calls.is_empty() && self.pool.wake(self.now).is_none_or(|at| at > self.now) {
                return;
            }
            for call in calls {
                self.answer_one(&call);
            }
        }
        panic!("it never comes to rest: {:?}", self.calls);
    }

    /// Does one thing, and tells the pool.
    pub fn answer_one(&mut self, call: &Call) {
        self.calls.push(call.clone());
        if let Some(answer) = self.perform(call) {
            self.pool.answered(call, answer, self.now);
        }
    }

    /// Lets time pass, and does all that the pool asks for meanwhile.
    pub fn pass(&mut self, seconds: u64) {
        let end = after(self.now, Duration::from_secs(seconds));
        self.run();
        while let Some(next) = self.pool.wake(self.now).filter(|at| *at <= end) {
            self.now = next;
            self.run();
        }
        self.now = end;
    }

    /// The process ends, and the next one begins with this memory.
    pub fn restart(&mut self, memory: Memory) {
        self.pool = Pool::new(self.spec.clone(), memory);
    }

    pub fn view(&self) -> View {
        self.pool.view(self.now)
    }

    pub fn state(&self, address: &str) -> State {
        self.view().ips[&ip(address)].state
    }

    pub fn message(&self, address: &str) -> String {
        let error = self.view().ips[&ip(address)].error.clone();
        error.map(|it| it.message).unwrap_or_default()
    }

    /// The node that has an address, by the cloud.
    pub fn at(&self, address: &str) -> Option<String> {
        let server = self.cloud.get(&ip(address))?.server.as_ref()?;
        Some(server.trim_start_matches("mock://").to_owned())
    }

    pub fn count(&self, kind: &str) -> usize {
        self.calls.iter().filter(|it| kind_of(it) == kind).count()
    }

    /// All assignments, in words.
    pub fn assignments(&self) -> Vec<String> {
        let words = self.calls.iter().filter_map(|it| match it {
            Call::Assign { ip, server } => {
                Some(format!("{ip} {}", server.trim_start_matches("mock://")))
            }
            Call::Detach { ip } => Some(format!("{ip} -")),
            Call::List
            | Call::Check { .. }
            | Call::Write
            | Call::Buy { .. }
            | Call::Enter { .. }
            | Call::Release { .. } => None,
        });
        words.collect()
    }

    fn perform(&mut self, call: &Call) -> Option<Answer> {
        let mut faults = self.faults.iter();
        let index = faults.position(|(kind, _)| *kind == kind_of(call));
        let fault = index.map(|it| self.faults.remove(it).1);
        let unheard = || Answer::Refused(Refusal::new(Class::Unclear, "timeout"));
        match fault {
            None => Some(self.act(call)),
            Some(Fault::Refuse(refusal)) => Some(Answer::Refused(refusal)),
            Some(Fault::DoneUnheard) => {
                self.act(call);
                Some(unheard())
            }
            Some(Fault::Lost) => Some(unheard()),
            Some(Fault::Slow(questions)) => Some(self.begin(call, questions, false)),
            Some(Fault::Fails) => Some(self.begin(call, 1, true)),
            Some(Fault::Silent) => None,
            Some(Fault::DoneSilent) => {
                self.act(call);
                None
            }
        }
    }

    fn begin(&mut self, call: &Call, questions: u32, fails: bool) -> Answer {
        let (ip, target) = match call {
            Call::Assign { ip, server } => (*ip, Some(server.clone())),
            Call::Detach { ip } => (*ip, None),
            Call::List
            | Call::Check { .. }
            | Call::Write
            | Call::Buy { .. }
            | Call::Enter { .. }
            | Call::Release { .. } => panic!("{call:?} is never under way"),
        };
        let handle = format!("action-{}", self.actions.len());
        let action = Action {
            ip,
            target,
            questions,
            fails,
        };
        self.actions.insert(handle.clone(), action);
        Answer::Taken(Taken::Pending(handle))
    }

    fn act(&mut self, call: &Call) -> Answer {
        match call {
            Call::List => Answer::Listed(Arc::new(self.cloud.values().cloned().collect())),
            Call::Check { handle, .. } => self.ask(handle),
            Call::Assign { ip, server } => {
                let Some(entry) = self.cloud.get_mut(ip) else {
                    return Answer::Refused(Refusal::new(Class::AddressUnknown, "not found"));
                };
                entry.server = Some(server.clone());
                Answer::Taken(Taken::Done)
            }
            Call::Detach { ip } => {
                self.cloud.get_mut(ip).expect("it is there").server = None;
                Answer::Taken(Taken::Done)
            }
            Call::Write => Answer::Done,
            Call::Buy { mark } => {
                let ip = self.shop.remove(0);
                let mark = self.spec.capabilities.marks.then(|| mark.clone());
                self.cloud.insert(ip, listed(ip, mark));
                Answer::Bought(ip)
            }
            Call::Enter { ips } => {
                self.spec.ips.extend(ips);
                Answer::Done
            }
            Call::Release { ip } => {
                self.cloud.remove(ip);
                Answer::Done
            }
        }
    }

    fn ask(&mut self, handle: &str) -> Answer {
        let action = self.actions.get_mut(handle).expect("it was begun");
        action.questions -= 1;
        if action.questions > 0 {
            return Answer::Progress(Progress::Pending);
        }
        if action.fails {
            return Answer::Progress(Progress::Failed("it broke".into()));
        }
        let entry = self.cloud.get_mut(&action.ip).expect("it is there");
        entry.server.clone_from(&action.target);
        Answer::Progress(Progress::Done)
    }
}

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub fn addresses(texts: &str) -> Vec<IpAddr> {
    texts.split_whitespace().map(ip).collect()
}

pub fn set(texts: &str) -> BTreeSet<IpAddr> {
    addresses(texts).into_iter().collect()
}

pub fn server(name: &str) -> Server {
    format!("mock://{name}")
}

pub fn listed(ip: IpAddr, mark: Option<Mark>) -> Listed {
    Listed {
        ip,
        server: None,
        busy: false,
        mark,
    }
}

pub fn kind_of(call: &Call) -> &'static str {
    match call {
        Call::List => "List",
        Call::Check { .. } => "Check",
        Call::Assign { .. } => "Assign",
        Call::Detach { .. } => "Detach",
        Call::Write => "Write",
        Call::Buy { .. } => "Buy",
        Call::Enter { .. } => "Enter",
        Call::Release { .. } => "Release",
    }
}
