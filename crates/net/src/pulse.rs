//! The sets on which the rules of shared addresses hang, filled directly: starting a
//! program takes as long as a move may.
//!
//! The sets are made by scripts ([`crate::nft`]); here they only get new elements.

use std::time::Duration;

use floe_core::vip::rules::Pulse;
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

/// What is taken off the time that is granted: a thread that has to wait before the kernel
/// hears it has still not granted too much.
const RESERVE: Duration = Duration::from_millis(600);

/// Why the sets are not as they were asked to be.
#[derive(Debug, thiserror::Error)]
pub enum PulseError {
    /// The kernel refused, and nothing was changed.
    #[error(transparent)]
    Netlink(#[from] NetlinkError),
    /// There is no time left to grant.
    #[error("there is not enough time left to tell the kernel")]
    TooLate,
    /// It took longer than the reserve, so all of it was taken back.
    #[error("telling the kernel took longer than {RESERVE:?}")]
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

/// Lets what hangs on these sets live until shortly before a moment on the clock of
/// [`boottime`], in the namespace of this thread.
///
/// # Guarantees
/// If the kernel came to it too late, what was granted is taken back.
pub fn keep(pulses: &[Pulse], until: Duration) -> Result<(), PulseError> {
    let left = until.saturating_sub(boottime::now());
    let Some(granted) = left.checked_sub(RESERVE).filter(|it| !it.is_zero()) else {
        return Err(PulseError::TooLate);
    };
    let outcome = fill(pulses, granted);
    // Another transaction may have been first.
    if boottime::now() + granted > until {
        end(pulses)?;
        return Err(PulseError::Slow);
    }
    Ok(outcome?)
}

/// Lets what hangs on these sets end now.
pub fn end(pulses: &[Pulse]) -> Result<(), NetlinkError> {
    fill(pulses, Duration::ZERO)
}

/// Makes the elements live for this long, counted from when the kernel reads it, and no
/// longer; with no time left, removes them.
fn fill(pulses: &[Pulse], left: Duration) -> Result<(), NetlinkError> {
    let left = u64::try_from(left.as_millis()).unwrap_or(u64::MAX);
    let mut requests = Vec::new();
    for pulse in pulses {
        // Without elements it means all of them.
        requests.push(request(DELETE_ELEMENTS, pulse));
        if left > 0 {
            let elements = |request: Request| {
                pulse.keys.iter().fold(request, |request, key| {
                    request.nest(ELEMENT | NESTED, &[], |request| {
                        let key = |request: Request| request.put(VALUE, key);
                        request
                            .nest(KEY | NESTED, &[], key)
                            .put(TIMEOUT, &left.to_be_bytes())
                    })
                })
            };
            let add = request(ADD_ELEMENTS, pulse).flag(libc::NLM_F_CREATE);
            requests.push(add.nest(ELEMENTS | NESTED, &[], elements));
        }
    }
    let socket = Socket::open_for(SockProtocol::NetlinkNetFilter)?;
    let what = || "tell the packet filter how long addresses are served".to_owned();
    socket.transact(PART, requests, what)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_kept_is_not_granted() {
        for left in [Duration::ZERO, RESERVE] {
            // No such set is asked for: the kernel would refuse it.
            let kept = keep(&[], boottime::now() + left);
            assert_eq!(kept.unwrap_err().reason(), "PulseTooLate");
        }
    }
}
