//! Shared floating IPs: which pod holds an address that several pods name, and for how
//! long a node may speak for it.
//!
//! - [`claim`]: what an annotation asks for.
//! - [`elect`]: who shall hold, of those that can.
//! - [`keeper`]: what the agent of a node does about it: take, serve, hand over, fall
//!   silent. Never two nodes serve one address.
//! - [`rules`]: the kernel's rules for what a node serves.

use std::{net::IpAddr, time::Duration};

pub mod claim;
pub mod elect;
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

/// How a node hands traffic to the pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Mode {
    /// The node rewrites destinations.
    #[default]
    Nat,
    /// The pod has the address itself.
    Direct,
}

/// A pod that can hold an address.
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

/// How long things last.
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
