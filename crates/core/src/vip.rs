//! Shared floating IPs: which pod holds an address that several pods name, and for how
//! long a node may speak for it.
//!
//! - [`claim`]: what an annotation asks for.
//! - [`grant`]: which addresses a `VirtualIP` gets.
//! - [`elect`]: who shall hold, of those that can.
//! - [`keeper`]: what the agent of a node does about it: take, serve, hand over, fall
//!   silent. Never two nodes serve one address.
//! - [`rules`]: the kernel's rules for what a node serves.
//! - [`forwarding`]: whether a node forwards what it receives for its addresses.

use std::{net::IpAddr, time::Duration};

pub mod claim;
pub mod elect;
pub mod forwarding;
pub mod grant;
pub mod keeper;
pub mod rules;

/// Which `VirtualIP` object: its namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct VipId {
    /// The namespace of object and pods.
    pub namespace: String,
    /// The name of the object.
    pub name: String,
}

/// How a node hands traffic to the pod, or that it is the node itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The node rewrites destinations.
    #[default]
    Nat,
    /// The pod has the address itself.
    Direct,
    /// No pod: the node has the address itself.
    Node,
    /// A node that may be named next. It holds nothing and takes nothing, but a holder that
    /// cannot renew asks it for a promise, so that it need not wait once it is named.
    Standby,
}

impl Mode {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nat, Self::Direct, Self::Node, Self::Standby];

    /// The word for it in objects.
    pub fn word(self) -> &'static str {
        match self {
            Self::Nat => "nat",
            Self::Direct => "direct",
            Self::Node => "node",
            Self::Standby => "standby",
        }
    }

    /// The mode of that word.
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.word() == word)
    }
}

/// The name of a node where names of pods are expected. No pod can be called so.
pub fn node_as_pod(node: &str) -> String {
    format!("node/{node}")
}

/// A pod that can hold an address, or a node that can.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its name.
    pub pod: String,
    /// Its uid.
    pub uid: String,
    /// The node that it runs on.
    pub node: String,
    /// An address of that node, at which its agent is reached.
    pub node_address: IpAddr,
    /// The pod's own addresses.
    pub addresses: Vec<IpAddr>,
    /// How it would be served.
    pub mode: Mode,
    /// Since when it is ready, in seconds since 1970; older is better.
    pub ready_since: i64,
}

impl Candidate {
    /// Whether it can be elected.
    pub fn is_electable(&self) -> bool {
        self.mode != Mode::Standby
    }
}

/// How long things last, and from where terms are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between two renewals of a node's lease.
    pub renew: Duration,
    /// How long a renewal lets a node serve.
    pub duration: Duration,
    /// What clocks may differ in that time, and what a look may take.
    pub margin: Duration,
    /// How long a promise binds.
    pub promise: Duration,
    /// How long a node may go on by promises alone.
    pub autonomy: Duration,
    /// By how much the next best candidate waits longer than the one before it.
    pub stagger: Duration,
    /// The least number of a term that a process may begin. No term of a node may come twice,
    /// since others remember which ones are over; and a lease may be lost or be restored
    /// as it was long ago. So it has to be higher in each process than all that an
    /// earlier one may have used, as the time of day is.
    pub first_term: i64,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            renew: Duration::from_secs(1),
            duration: Duration::from_secs(3),
            margin: Duration::from_millis(300),
            promise: Duration::from_secs(3),
            autonomy: Duration::from_mins(5),
            stagger: Duration::from_millis(150),
            first_term: 1,
        }
    }
}

impl Timing {
    /// How long one waits to be sure that `span` has passed for somebody else, whose clock
    /// may be slower: by the margin for each lease duration, and never less than the
    /// margin.
    pub fn beyond(&self, span: Duration) -> Duration {
        let share = self.margin.as_secs_f64() / self.duration.as_secs_f64();
        span + self.margin.max(span.mul_f64(share))
    }
}
