//! What the account has.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The account.
pub struct State {
    pub(super) token: String,
    /// Droplets, and the regions they are in.
    pub droplets: BTreeMap<u64, String>,
    /// Addresses of both kinds.
    pub addresses: BTreeMap<IpAddr, Address>,
    /// Orders, in the order in which they came.
    pub actions: BTreeMap<u64, Action>,
    /// Projects by their ids; the value is the name.
    pub projects: BTreeMap<String, String>,
    /// Domains, and their records in the form of the API.
    pub domains: BTreeMap<String, Vec<Value>>,
    /// How many addresses the account may have of a kind.
    pub limit: usize,
    /// Orders wait until they are told to end.
    pub hold: bool,
    /// The names under which addresses of IPv4 are known.
    pub names: Names,
    /// How many calls are left until the limit.
    pub(super) failing: Option<Failing>,
    pub(super) calls_left: u64,
    pub(super) calls_reset: i64,
    last_id: u64,
}

/// An address.
#[derive(Clone, Debug)]
pub struct Address {
    pub(super) region: String,
    /// The droplet that has it.
    pub droplet: Option<u64>,
    /// An order is under way.
    pub locked: bool,
    pub(super) project: String,
    pub(super) reserved_at: Timestamp,
}

/// An order.
#[derive(Clone, Debug)]
pub struct Action {
    pub(super) ip: IpAddr,
    /// To which droplet it goes, or to none.
    pub droplet: Option<u64>,
    /// `in-progress`, `completed` or `errored`.
    pub status: String,
    pub(super) started: Timestamp,
    pub(super) completed: Option<Timestamp>,
}

/// Which of its names a server knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Names {
    /// Both, as today.
    Both,
    /// Only those of before 2022.
    Floating,
    /// Only those of today.
    Reserved,
}

/// What the fake is told.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Script {
    /// There is a droplet.
    Droplet {
        /// Its number.
        id: u64,
        /// Where it is.
        region: String,
    },
    /// There is no such droplet any more, and its addresses are on none.
    Vanish {
        /// Its number.
        id: u64,
    },
    /// The account has an address.
    Address {
        /// The address.
        ip: IpAddr,
        /// Where it can be used.
        region: String,
    },
    /// Something is under way for an address, or no longer.
    Lock {
        /// The address.
        ip: IpAddr,
        /// Whether it is.
        locked: bool,
    },
    /// There is a domain.
    Domain {
        /// Its name.
        name: String,
    },
    /// Orders wait from now on, or are done at once.
    Hold {
        /// Whether they wait.
        hold: bool,
    },
    /// All orders that wait come to an end.
    Settle {
        /// Whether they fail.
        #[serde(default)]
        failed: bool,
    },
    /// How many addresses of a kind the account may have.
    Limit {
        /// So many.
        most: usize,
    },
    /// How many calls are left in this hour, and how many seconds it still has.
    Calls {
        /// So many.
        left: u64,
        /// So long.
        reset: i64,
    },
    /// Which names are known.
    Names {
        /// These.
        names: Names,
    },
    /// The next calls fail.
    Fail(Failing),
}

/// How calls fail.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Failing {
    /// So many.
    pub calls: u64,
    /// With this status.
    pub status: u16,
    /// With so many seconds in `Retry-After`.
    #[serde(default)]
    pub retry_after: Option<u64>,
    /// What was asked for is done all the same.
    #[serde(default)]
    pub done: bool,
}

impl State {
    pub(super) fn new(token: &str) -> Self {
        let mut state = Self {
            token: token.to_owned(),
            droplets: BTreeMap::new(),
            addresses: BTreeMap::new(),
            actions: BTreeMap::new(),
            projects: BTreeMap::new(),
            domains: BTreeMap::new(),
            limit: 100,
            hold: true,
            names: Names::Both,
            failing: None,
            calls_left: 5000,
            calls_reset: Timestamp::now().as_second() + 3600,
            last_id: 72_531_855,
        };
        let first = state.new_project_id();
        state.projects.insert(first, "default".to_owned());
        state
    }

    /// Does what it is told.
    pub(super) fn apply(&mut self, script: Script) -> Result<(), String> {
        match script {
            Script::Droplet { id, region } => {
                self.droplets.insert(id, region);
            }
            Script::Vanish { id } => {
                self.droplets.remove(&id).ok_or("no such droplet")?;
                for address in self.addresses.values_mut() {
                    if address.droplet == Some(id) {
                        address.droplet = None;
                    }
                }
            }
            Script::Address { ip, region } => {
                let project = self.default_project();
                self.add(ip, &region, project);
            }
            Script::Lock { ip, locked } => {
                let address = self.addresses.get_mut(&ip).ok_or("no such address")?;
                address.locked = locked;
            }
            Script::Domain { name } => {
                self.domains.entry(name).or_default();
            }
            Script::Hold { hold } => self.hold = hold,
            Script::Settle { failed } => {
                let status = if failed { "errored" } else { "completed" };
                self.settle(status);
            }
            Script::Limit { most } => self.limit = most,
            Script::Calls { left, reset } => {
                self.calls_left = left;
                self.calls_reset = Timestamp::now().as_second() + reset;
            }
            Script::Names { names } => self.names = names,
            Script::Fail(failing) => self.failing = Some(failing),
        }
        Ok(())
    }

    /// Whether one call more is allowed.
    pub(super) fn count_call(&mut self) -> bool {
        let allowed = self.calls_left > 0;
        self.calls_left = self.calls_left.saturating_sub(1);
        allowed
    }

    /// How this call fails, if it does.
    pub(super) fn next_failure(&mut self) -> Option<Failing> {
        let failing = self.failing.as_mut().filter(|it| it.calls > 0)?;
        failing.calls -= 1;
        Some(failing.clone())
    }

    /// A number that nothing had before.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    pub(super) fn new_project_id(&mut self) -> String {
        let number = self.next_id();
        format!("4e1bfbc3-dc3e-41f2-a18f-{number:012x}")
    }

    /// The project of what names none.
    pub(super) fn default_project(&self) -> String {
        let mut projects = self.projects.iter();
        let found = projects.find(|(_, name)| *name == "default");
        found.map_or(String::new(), |(id, _)| id.clone())
    }

    pub(super) fn add(&mut self, ip: IpAddr, region: &str, project: String) {
        let address = Address {
            region: region.to_owned(),
            droplet: None,
            locked: false,
            project,
            reserved_at: Timestamp::now(),
        };
        self.addresses.insert(ip, address);
    }

    /// An address that nobody has.
    pub(super) fn fresh(&mut self, v6: bool) -> IpAddr {
        let [.., a, b] = self.next_id().to_be_bytes();
        if v6 {
            let tail = u16::from_be_bytes([a, b]);
            Ipv6Addr::new(0x2001, 0xdb8, 0xf7, 0x1017, 0, 0, 0, tail).into()
        } else {
            Ipv4Addr::new(203, 0, a, b).into()
        }
    }

    /// Begins an order, and ends it too unless orders wait.
    pub(super) fn begin(&mut self, ip: IpAddr, droplet: Option<u64>) -> u64 {
        let id = self.next_id();
        let action = Action {
            ip,
            droplet,
            status: "in-progress".to_owned(),
            started: Timestamp::now(),
            completed: None,
        };
        self.actions.insert(id, action);
        if let Some(address) = self.addresses.get_mut(&ip) {
            address.locked = true;
        }
        if !self.hold {
            self.settle("completed");
        }
        id
    }

    fn settle(&mut self, status: &str) {
        let waiting = self.actions.values_mut();
        for action in waiting.filter(|action| action.status == "in-progress") {
            status.clone_into(&mut action.status);
            action.completed = Some(Timestamp::now());
            let Some(address) = self.addresses.get_mut(&action.ip) else {
                continue;
            };
            address.locked = false;
            if status == "completed" {
                address.droplet = action.droplet;
            }
        }
    }
}
