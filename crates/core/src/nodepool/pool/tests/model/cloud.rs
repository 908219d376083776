//! A cloud of some kind.

use std::{collections::BTreeMap, net::IpAddr};

use crate::nodepool::{
    cloud::{Capabilities, Class, Listed, Mark, Progress, Refusal, Taken},
    pool::{Answer, Call, Server},
};

pub struct Cloud {
    pub capabilities: Capabilities,
    /// Orders are only accepted, and done later.
    pub is_slow: bool,
    pub addresses: BTreeMap<IpAddr, Held>,
    pub servers: Vec<Server>,
    actions: BTreeMap<String, Action>,
    pub moves: u64,
    pub sold: u64,
    /// An address has pushed another off its server.
    pub pushed: Option<String>,
    /// An address was ordered while another order could still come true.
    pub twice: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Held {
    pub server: Option<Server>,
    pub mark: Option<Mark>,
    /// The action that is under way.
    action: Option<String>,
    /// An order without an answer will come true then.
    pub late: Option<(u64, Option<Server>)>,
}

#[derive(Clone, Debug)]
struct Action {
    ip: IpAddr,
    target: Option<Server>,
    end: u64,
    fails: bool,
    is_over: bool,
}

impl Cloud {
    pub fn new(capabilities: Capabilities, is_slow: bool, servers: Vec<Server>) -> Self {
        Self {
            capabilities,
            is_slow,
            addresses: BTreeMap::new(),
            servers,
            actions: BTreeMap::new(),
            moves: 0,
            sold: 0,
            pushed: None,
            twice: None,
        }
    }

    pub fn add(&mut self, ip: IpAddr, mark: Option<Mark>) {
        let held = Held {
            server: None,
            mark,
            action: None,
            late: None,
        };
        self.addresses.insert(ip, held);
    }

    /// What is over by now, happens.
    pub fn tick(&mut self, now: u64) {
        let over: Vec<String> = self
            .actions
            .iter()
            .filter(|(_, it)| !it.is_over && it.end <= now)
            .map(|(handle, _)| handle.clone())
            .collect();
        for handle in over {
            let action = self.actions.get_mut(&handle).expect("just seen");
            action.is_over = true;
            let Action {
                ip, target, fails, ..
            } = action.clone();
            if let Some(held) = self.addresses.get_mut(&ip) {
                held.action = None;
            }
            let is_there = target.as_ref().is_none_or(|it| self.servers.contains(it));
            if fails || !is_there {
                self.actions.get_mut(&handle).expect("just seen").fails = true;
            } else {
                self.put(ip, target);
            }
        }
        let late: Vec<_> = self
            .addresses
            .iter_mut()
            .filter(|(_, it)| it.late.as_ref().is_some_and(|(at, _)| *at <= now))
            .map(|(ip, it)| (*ip, it.late.take().expect("just seen").1))
            .collect();
        for (ip, target) in late {
            let is_there = target.as_ref().is_none_or(|it| self.servers.contains(it));
            if is_there {
                self.put(ip, target);
            }
        }
    }

    /// A server is gone, and whatever it had is free.
    pub fn remove_server(&mut self, server: &str) {
        self.servers.retain(|it| it != server);
        for held in self.addresses.values_mut() {
            if held.server.as_deref() == Some(server) {
                held.server = None;
            }
        }
    }

    fn put(&mut self, ip: IpAddr, target: Option<Server>) {
        if self.capabilities.displaces && target.is_some() {
            for (other, held) in &mut self.addresses {
                if *other != ip && held.server == target {
                    held.server = None;
                    self.pushed = Some(format!("{ip} pushes {other} off {target:?}"));
                }
            }
        }
        let held = self.addresses.get_mut(&ip).expect("it is there");
        if held.server != target {
            self.moves += 1;
        }
        held.server = target;
    }

    pub fn list(&self) -> Vec<Listed> {
        let marks = self.capabilities.marks;
        let listed = self.addresses.iter().map(|(ip, it)| Listed {
            ip: *ip,
            server: it.server.clone(),
            busy: it.action.is_some(),
            mark: it.mark.clone().filter(|_| marks),
        });
        listed.collect()
    }

    /// Whether an order of this address may still come true.
    pub fn is_open(&self, ip: IpAddr) -> bool {
        let held = &self.addresses[&ip];
        held.late.is_some()
    }

    /// Whether an order would be refused, and why.
    pub fn objection(&self, ip: IpAddr, target: Option<&Server>) -> Option<Class> {
        let Some(held) = self.addresses.get(&ip) else {
            return Some(Class::AddressUnknown);
        };
        if held.action.is_some() {
            return Some(Class::Busy);
        }
        let server = target?;
        if !self.servers.contains(server) {
            return Some(Class::ServerUnknown);
        }
        let is_elsewhere = held.server.as_ref().is_some_and(|it| it != server);
        if is_elsewhere && !self.capabilities.steals {
            return Some(Class::HeldElsewhere);
        }
        let others = self.addresses.iter().filter(|(other, it)| {
            **other != ip && other.is_ipv4() == ip.is_ipv4() && it.server.as_ref() == Some(server)
        });
        let limit = self.capabilities.per_server.unwrap_or(usize::MAX);
        (!self.capabilities.displaces && others.count() >= limit).then_some(Class::ServerTaken)
    }

    pub fn order(&mut self, ip: IpAddr, target: Option<Server>, end: u64, fails: bool) -> Answer {
        if let Some(class) = self.objection(ip, target.as_ref()) {
            return Answer::Refused(Refusal::new(class, "no"));
        }
        if self.is_open(ip) {
            self.twice = Some(format!("{ip} is ordered twice at once"));
        }
        if !self.is_slow {
            self.put(ip, target);
            return Answer::Taken(Taken::Done);
        }
        let handle = format!("action-{}", self.actions.len());
        let action = Action {
            ip,
            target,
            end,
            fails,
            is_over: false,
        };
        self.actions.insert(handle.clone(), action);
        let held = self.addresses.get_mut(&ip).expect("there was no objection");
        held.action = Some(handle.clone());
        Answer::Taken(Taken::Pending(handle))
    }

    pub fn buy(&mut self, mark: &Mark) -> Answer {
        let twice = self
            .addresses
            .values()
            .any(|it| it.mark.as_ref() == Some(mark));
        assert!(!twice, "{mark:?} is bought twice");
        self.sold += 1;
        let ip = IpAddr::from([203, 0, 113, u8::try_from(self.sold).expect("few")]);
        self.add(ip, Some(mark.clone()));
        Answer::Bought(ip)
    }

    pub fn check(&self, handle: &str) -> Answer {
        let action = &self.actions[handle];
        Answer::Progress(match (action.is_over, action.fails) {
            (false, _) => Progress::Pending,
            (true, false) => Progress::Done,
            (true, true) => Progress::Failed("it broke".into()),
        })
    }
}

/// The address and the target of an order.
pub fn order_of(call: &Call) -> Option<(IpAddr, Option<Server>)> {
    match call {
        Call::Assign { ip, server } => Some((*ip, Some(server.clone()))),
        Call::Detach { ip } => Some((*ip, None)),
        Call::List
        | Call::Check { .. }
        | Call::Write
        | Call::Buy { .. }
        | Call::Enter { .. }
        | Call::Release { .. } => None,
    }
}
