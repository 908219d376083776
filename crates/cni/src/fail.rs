//! From whatever went wrong to what a runtime is told.

use std::{fmt, io};

use floe_core::cni::error::{CniError, Code};
use floe_net::{moves::MovesError, netlink::NetlinkError};

/// An error with its stable reason.
pub fn fail(code: Code, reason: &'static str, message: impl fmt::Display) -> CniError {
    CniError::new(code, reason, message.to_string())
}

/// A refusal of the kernel.
pub fn kernel(error: NetlinkError) -> CniError {
    let reason = match error {
        NetlinkError::Refused { .. } => "KernelRefused",
        NetlinkError::Socket(_) | NetlinkError::Malformed(_) => "NetlinkFailed",
    };
    fail(Code::Kernel, reason, error)
}

/// A move of the host's addresses that could not be made.
pub fn moving(error: MovesError) -> CniError {
    fail(Code::Kernel, "MoveFailed", error)
}

/// A file or socket that failed. `what` completes "cannot ...".
pub fn system(what: impl fmt::Display) -> impl FnOnce(io::Error) -> CniError {
    move |error| CniError::of(Code::Io, format!("cannot {what}: {error}"))
}

/// A configuration that cannot be used.
pub fn invalid(message: impl fmt::Display) -> CniError {
    CniError::of(Code::InvalidConfiguration, message.to_string())
}

/// The error of a clean-up, which went on after each of these; none of none.
pub fn unclean(errors: Vec<CniError>) -> Result<(), CniError> {
    let mut errors = errors.into_iter();
    let Some(mut first) = errors.next() else {
        return Ok(());
    };
    for error in errors {
        append(&mut first, &error);
    }
    Err(first)
}

/// Tells in `first` that `other` happened too.
pub fn append(first: &mut CniError, other: &CniError) {
    if !first.details.is_empty() {
        first.details.push_str(" / ");
    }
    first.details.push_str(&other.to_string());
}
