//! The machine of one pool: facts go in, calls come out, and answers go in again.
//!
//! The caller tells it the pool's specification, the nodes, what the cloud lists and what
//! became of each call; it says which calls to begin now, when to ask it again at the
//! latest, and how everything looks. It never waits for anybody: a call is under way until
//! it is answered, and one address that fails does not stop another.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    time::Duration,
};

use jiff::Timestamp;

use super::cloud::{Capabilities, Listed, Mark, Progress, Refusal, Taken};

/// A server, by the text of a node's `spec.providerID`.
pub type Server = String;

/// What a pool asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Who it is, for the marks on what it buys.
    pub cluster: String,
    /// Its own uid.
    pub pool: String,
    /// What its cloud can do.
    pub capabilities: Capabilities,
    /// Changes of these two begin anew: they are other addresses.
    pub provider: String,
    /// Where addresses are bought.
    pub region: String,
    /// Addresses that it has, in the order of the specification.
    pub ips: Vec<IpAddr>,
    /// How many it shall have; 0 for just those.
    pub desired: usize,
    /// The least time between two assignments.
    pub cool_off: Duration,
    /// How long a node that no longer fits may keep its address.
    pub grace: Grace,
    /// The pool is being deleted, and shall give back what it has bought.
    pub reclaims: bool,
}

/// How long a node that no longer fits keeps its address, for each cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grace {
    /// Its last fitting pod is not ready.
    pub pod_not_ready: Duration,
    /// The node itself is not ready, or silent.
    pub node_not_ready: Duration,
    /// The node's object is gone.
    pub node_gone: Duration,
}

/// A node that the pool's rule selects by its labels, and its fitness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The name of the node.
    pub name: String,
    /// None when it fits; or else why it does not.
    pub unfit: Option<Unfit>,
}

/// Why a node does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// Its last fitting pod is there and not ready.
    PodNotReady,
    /// No fitting pod is there, or those that are there are going.
    NoPod,
    /// The node is not ready, or two witnesses say that it is dead.
    NodeNotReady,
    /// A taint that is not tolerated, as after a cordon.
    Tainted,
    /// It is being deleted.
    Deleted,
    /// Its labels are no longer those of the rule.
    Unlabelled,
}

/// What outlives the process, in the status of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What was about to be bought.
    pub purchase: Option<Purchase>,
    /// Orders under way at the cloud, by address.
    pub pending: BTreeMap<IpAddr, Pending>,
    /// The last move of each address.
    pub moves: BTreeMap<IpAddr, Move>,
    /// Since when a node that has an address does not fit.
    pub unfit_since: BTreeMap<Server, Timestamp>,
}

/// An order under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Where the address shall be; none when it shall be nowhere.
    pub server: Option<Server>,
    /// The cloud's name of the order.
    pub handle: String,
}

/// A purchase that is written down before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// What will stand on the address.
    pub mark: Mark,
    /// Since when.
    pub since: Timestamp,
    /// The addresses of the account before: without marks, what is new may be it.
    pub before: BTreeSet<IpAddr>,
}

/// When and where an address went last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// When the cloud had done it.
    pub at: Timestamp,
    /// From where; empty for nowhere.
    pub from: String,
    /// To which node.
    pub to: String,
    /// Why, as a stable word.
    pub reason: String,
}

/// Something for the caller to do. All but `Write` are calls of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// List all addresses of the account. Pools of one account share one list.
    List,
    /// See how far an order is.
    Check {
        /// Of which address.
        ip: IpAddr,
        /// The cloud's name of the order.
        handle: String,
    },
    /// Put an address on a server.
    Assign {
        /// The address.
        ip: IpAddr,
        /// The server.
        server: Server,
    },
    /// Take an address from its server.
    Detach {
        /// The address.
        ip: IpAddr,
    },
    /// Write [`Pool::memory`] to the status, and answer only when it is there.
    Write,
    /// Buy an address with this mark.
    Buy {
        /// What proves who bought it.
        mark: Mark,
    },
    /// Enter bought addresses at the end of the specification's list.
    Enter {
        /// In the order in which they were bought.
        ips: Vec<IpAddr>,
    },
    /// Give an address back that floe has proven to have bought.
    Release {
        /// The address.
        ip: IpAddr,
    },
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `List`.
    Listed(Vec<Listed>),
    /// To `Check`.
    Progress(Progress),
    /// To `Assign` and `Detach`.
    Taken(Taken),
    /// To `Buy`.
    Bought(IpAddr),
    /// To `Write`, `Enter` and `Release`.
    Done,
    /// It was refused.
    Refused(Refusal),
}

/// How a pool looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Each address that is tracked, and each that is left out.
    pub ips: BTreeMap<IpAddr, AddressView>,
    /// Fitting nodes that wait for an address, in the order in which they are served.
    pub assignable_nodes: Vec<String>,
    /// Fitting nodes whose last assignment failed.
    pub node_errors: Vec<String>,
    /// Why nothing can be bought, or the list cannot be had.
    pub error: Option<Trouble>,
    /// How many addresses are missing.
    pub unfulfilled: usize,
    /// Node name to the address that it has been given: what annotations say.
    pub annotations: BTreeMap<String, BTreeSet<IpAddr>>,
    /// The addresses that DNS shall name: those that were last seen on fitting nodes. None
    /// as long as the cloud has not been heard.
    pub published: Option<BTreeSet<IpAddr>>,
}

/// How an address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressView {
    /// The word of the status.
    pub state: State,
    /// The server that has it or shall have it.
    pub server: Option<Server>,
    /// The name of that server's node, while it fits.
    pub node: Option<String>,
    /// What went wrong last.
    pub error: Option<Trouble>,
    /// How often it was assigned, and how often that failed, since the process began.
    pub assignments: u64,
    /// See above.
    pub assignment_errors: u64,
}

/// What went wrong, for people and machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The stable reason.
    pub reason: &'static str,
    /// The text of the status.
    pub message: String,
}

/// The states of an address, in FLIPOP's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    /// On a node that fits.
    Active,
    /// On its way.
    InProgress,
    /// Something failed.
    Error,
    /// On a server that does not fit.
    NoMatch,
    /// On no server.
    Unassigned,
    /// Listed beyond the number that is wanted.
    Disabled,
}

impl State {
    /// The word of the status.
    pub fn word(self) -> &'static str {
        match self {
            Self::Active => "active",
            Self::InProgress => "in-progress",
            Self::Error => "error",
            Self::NoMatch => "no-match",
            Self::Unassigned => "unassigned",
            Self::Disabled => "disabled",
        }
    }
}

/// The machine. `now` never goes back from one call to the next; if it does, waits last
/// longer, and nothing else.
#[derive(Clone, Debug)]
pub struct Pool {
    spec: Spec,
    memory: Memory,
}

impl Pool {
    /// Begins with what the last process has left in the status.
    pub fn new(spec: Spec, memory: Memory) -> Self {
        Self { spec, memory }
    }

    /// The specification may have changed.
    pub fn configure(&mut self, spec: Spec, _now: Timestamp) {
        self.spec = spec;
    }

    /// All nodes that the rule's labels select, by server. Who is not in it is gone.
    pub fn nodes(&mut self, _nodes: BTreeMap<Server, Seen>, _now: Timestamp) {}

    /// What became of a call that [`Pool::poll`] gave out. The answer to somebody else's
    /// `List` may be told too, as one that was asked for.
    pub fn answered(&mut self, _call: &Call, _answer: Answer, _now: Timestamp) {}

    /// The calls to begin now. Each is under way from now on, until it is answered.
    pub fn poll(&mut self, _now: Timestamp) -> Vec<Call> {
        Vec::new()
    }

    /// When to poll again if nothing is heard.
    pub fn wake(&self, _now: Timestamp) -> Option<Timestamp> {
        None
    }

    /// What has to outlive the process.
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// How everything looks.
    pub fn view(&self, _now: Timestamp) -> View {
        View::default()
    }
}
