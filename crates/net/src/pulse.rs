//! The sets on which the rules of shared addresses hang, filled directly: starting a
//! program takes as long as a move may.
//!
//! The sets are made by scripts ([`crate::nft`]); here they only get new elements.
//!
//! The kernel counts the timeout of an element from when it reads the message, so a message
//! that is held up would grant too much. A [`Ticket`] prevents that: it is an element that
//! expires by itself, and the kernel refuses a grant whose ticket has expired.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use floe_core::vip::rules::{POD_TICKET, Pulse, TICKET};
use nix::{libc, sys::socket::SockProtocol};

use crate::{
    boottime,
    netlink::{
        NetlinkError,
        socket::Socket,
        wire::{NESTED, Request},
    },
};

/// The packet filter's rules among its parts.
const PART: u8 = 10;
const ADD_ELEMENTS: u8 = 12;
const DELETE_ELEMENTS: u8 = 14;
const TABLE: u16 = 1;
const SET: u16 = 2;
const ELEMENTS: u16 = 3;
const ELEMENT: u16 = 1;
const KEY: u16 = 1;
const TIMEOUT: u16 = 4;
const VALUE: u16 = 1;

/// How long a ticket lives. Grants are shorter by as much, because the kernel may accept one
/// that late.
const RESERVE: Duration = Duration::from_millis(600);

/// The shortest grant. Kernels count timeouts in ticks of up to 10 ms, and before Linux 6.12
/// an element whose timeout is rounded down to no tick at all never expires.
const SHORTEST: Duration = Duration::from_millis(50);

/// How often a grant is tried whose ticket expired on the way.
const TRIES: usize = 3;

/// Why the sets are not as they were asked to be.
#[derive(Debug, thiserror::Error)]
pub enum PulseError {
    /// The kernel refused, and nothing was changed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// The deadline is closer than the reserve.
    #[error("not enough time is left until the deadline to renew the rules of shared addresses")]
    TooLate,
    /// The ticket expired before the kernel read the grant, which changed nothing.
    #[error("renewing the rules of shared addresses took longer than {RESERVE:?}")]
    Slow,
}

impl PulseError {
    /// The stable name of the failure.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Netlink(_) => "PulseRefused",
            Self::TooLate => "PulseTooLate",
            Self::Slow => "PulseSlow",
        }
    }
}

/// The tickets of one table. Only one exists at a time: a grant must not spend that of another
/// thread, which expires later.
#[derive(Debug)]
pub struct Tickets {
    set: Pulse,
    only: Mutex<()>,
}

/// Tickets of the node's rules.
pub static OF_NODE: Tickets = Tickets::new(TICKET);

/// Tickets of the rules in the namespaces of pods. A pod can hold up what is done there, so the
/// node's renewals do not wait for them.
pub static OF_PODS: Tickets = Tickets::new(POD_TICKET);

/// The permission to grant time once, for a moment.
#[derive(Debug)]
pub struct Ticket {
    set: &'static Pulse,
    /// A moment at which the kernel already had the ticket.
    taken: Duration,
    _only: MutexGuard<'static, ()>,
}

impl Tickets {
    const fn new(set: Pulse) -> Self {
        Self {
            set,
            only: Mutex::new(()),
        }
    }

    /// Takes a ticket in the namespace of this thread, once no other thread has one.
    pub fn take(&'static self) -> Result<Ticket, NetlinkError> {
        let only = self.only.lock().unwrap_or_else(PoisonError::into_inner);
        transact([emptied(&self.set), filled(&self.set, RESERVE)])?;
        // Read after the kernel has started to count: the ticket expires at the latest when
        // the reserve after this moment is over.
        let taken = boottime::now();
        Ok(Ticket {
            set: &self.set,
            taken,
            _only: only,
        })
    }

    /// Lets what hangs on these sets live until shortly before a moment on the clock of
    /// [`boottime`], in the namespace of this thread.
    ///
    /// # Guarantees
    /// Those of [`Ticket::grant`].
    pub fn keep(&'static self, pulses: &[Pulse], until: Duration) -> Result<(), PulseError> {
        for _ in 0..TRIES {
            match self.take()?.grant(pulses, until) {
                Err(PulseError::Slow) => {}
                outcome => return outcome,
            }
        }
        Err(PulseError::Slow)
    }
}

impl Ticket {
    /// Lets what hangs on these sets live until shortly before a moment on the clock of
    /// [`boottime`].
    ///
    /// # Guarantees
    /// Nothing lives beyond that moment, however late the kernel reads the message: one
    /// transaction deletes the ticket and grants the time, and it fails as a whole if the
    /// ticket has expired.
    pub fn grant(self, pulses: &[Pulse], until: Duration) -> Result<(), PulseError> {
        let left = until.saturating_sub(self.taken);
        let granted = left.checked_sub(RESERVE).filter(|it| *it >= SHORTEST);
        let granted = granted.ok_or(PulseError::TooLate)?;
        let grants = pulses
            .iter()
            .flat_map(|pulse| [emptied(pulse), filled(pulse, granted)]);
        match transact([spent(self.set)].into_iter().chain(grants)) {
            // A ticket that is this young has not expired, so one of the sets is gone.
            Err(error)
                if error.errno() == Some(libc::ENOENT)
                    && boottime::now() >= self.taken + RESERVE / 2 =>
            {
                Err(PulseError::Slow)
            }
            outcome => Ok(outcome?),
        }
    }
}

/// Lets what hangs on these sets end now. A set that does not exist keeps nothing alive.
pub fn end(pulses: &[Pulse]) -> Result<(), NetlinkError> {
    for pulse in pulses {
        match transact([emptied(pulse)]) {
            Err(error) if error.errno() == Some(libc::ENOENT) => {}
            outcome => outcome?,
        }
    }
    Ok(())
}

/// Removes all elements: a deletion that names none means all of them.
fn emptied(pulse: &Pulse) -> Request {
    request(DELETE_ELEMENTS, pulse)
}

/// Removes the ticket, and fails if it has expired.
fn spent(ticket: &Pulse) -> Request {
    let keys = |request: Request| {
        ticket.keys.iter().fold(request, |request, key| {
            request.nest(ELEMENT | NESTED, &[], |request| named(request, key))
        })
    };
    request(DELETE_ELEMENTS, ticket).nest(ELEMENTS | NESTED, &[], keys)
}

/// Adds all elements, which live for this long from when the kernel reads it.
fn filled(pulse: &Pulse, left: Duration) -> Request {
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let elements = |request: Request| {
        pulse.keys.iter().fold(request, |request, key| {
            request.nest(ELEMENT | NESTED, &[], |request| {
                named(request, key).put(TIMEOUT, &left.to_be_bytes())
            })
        })
    };
    request(ADD_ELEMENTS, pulse)
        .flag(libc::NLM_F_CREATE)
        .nest(ELEMENTS | NESTED, &[], elements)
}

fn named(request: Request, key: &[u8]) -> Request {
    request.nest(KEY | NESTED, &[], |request| request.put(VALUE, key))
}

fn transact(requests: impl IntoIterator<Item = Request>) -> Result<(), NetlinkError> {
    let socket = Socket::open_for(SockProtocol::NetlinkNetFilter)?;
    let what = || "renew the rules of shared addresses".to_owned();
    socket.transact(PART, requests.into_iter().collect(), what)
}

fn request(kind: u8, pulse: &Pulse) -> Request {
    let (family, table) = pulse.table.split_once(' ').unwrap_or(("", pulse.table));
    let family = match family {
        "inet" => 1,
        "netdev" => 5,
        _ => 0,
    };
    // `struct nfgenmsg`.
    Request::new(u16::from_be_bytes([PART, kind]), 0, &[family, 0, 0, 0])
        .put_name(TABLE, table)
        .put_name(SET, pulse.set)
}
