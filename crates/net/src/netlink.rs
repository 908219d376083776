//! The kernel's routing socket: links, addresses, routes, rules, neighbours.
//!
//! Messages are written and read here, without a library of typed messages: an
//! answer is read for the few members that floe knows, and whatever a newer kernel
//! adds, or an exotic link carries, cannot make it unreadable.

mod address;
mod fuzz;
mod link;
mod neighbour;
mod route;
mod rule;
pub(crate) mod socket;
pub(crate) mod wire;

use std::io;

pub use self::{
    address::Address,
    link::{Link, LinkKind, make::IpvlanMode, make::LinkChange, make::NewKind, make::NewLink},
    neighbour::Neighbour,
    route::{Route, moved::MovingRoute},
    rule::Rule,
};

#[doc(hidden)]
pub use self::fuzz::fuzz;
use self::socket::Socket;

/// The index of the loopback link, in every namespace.
pub const LOOPBACK: u32 = 1;

/// A connection to the kernel, about the network namespace in which it was opened,
/// wherever it is used.
///
/// # Guarantees
/// No call waits longer for an answer than ten seconds, and a list is never a
/// mixture of two moments: it is asked for again when it changed meanwhile.
#[derive(Debug)]
pub struct Netlink {
    socket: Socket,
}

/// Why the kernel did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum NetlinkError {
    /// The socket failed.
    #[error("netlink: {0}")]
    Socket(#[from] io::Error),
    /// The kernel refused.
    #[error("cannot {what}: {error}{}", said(words.as_ref()))]
    Refused {
        /// Completes "cannot ...".
        what: String,
        /// What it said, by number.
        error: io::Error,
        /// What it said in words, if it did.
        words: Option<String>,
    },
    /// An answer cannot be read.
    #[error("netlink: cannot read an answer: {0}")]
    Malformed(String),
}

impl Netlink {
    /// Opens a connection in the network namespace of this thread.
    pub fn open() -> Result<Self, NetlinkError> {
        Ok(Self {
            socket: Socket::open()?,
        })
    }
}

impl NetlinkError {
    /// What the kernel said, if it refused.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Refused { error, .. } => Some(error.kind()),
            Self::Socket(_) | Self::Malformed(_) => None,
        }
    }

    /// The kernel's own number for it.
    pub fn errno(&self) -> Option<i32> {
        match self {
            Self::Refused { error, .. } => error.raw_os_error(),
            Self::Socket(_) | Self::Malformed(_) => None,
        }
    }
}

fn said(words: Option<&String>) -> String {
    words.map_or_else(String::new, |words| format!(": {words}"))
}

/// Whether something was done, when these refusals mean that there was nothing to do.
fn done_unless(result: Result<(), NetlinkError>, moot: &[i32]) -> Result<bool, NetlinkError> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.errno().is_some_and(|errno| moot.contains(&errno)) => Ok(false),
        Err(error) => Err(error),
    }
}
