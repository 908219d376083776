//! From whatever went wrong to what a runtime is told.

use std::{fmt, io};

use floe_core::cni::error::{CniError, Code};
use floe_net::{moves::MovesError, netlink::NetlinkError};
use nix::libc;

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

/// A refusal of the kernel to make a link of a kind that `module` of it brings.
pub fn unmade(module: Option<&'static str>) -> impl FnOnce(NetlinkError) -> CniError {
    move |error| {
        let module = module.filter(|_| is_unknown_kind(&error));
        let mut error = kernel(error);
        if let Some(module) = module {
            error.message = format!("{}; the kernel module {module} is missing", error.message);
        }
        error
    }
}

/// Whether the kernel says that it knows no such kind of link. Devices that do not
/// take such links on top are refused with the same number and other words.
fn is_unknown_kind(error: &NetlinkError) -> bool {
    let words = match error {
        NetlinkError::Refused { words, .. } => words.as_deref(),
        NetlinkError::Socket(_) | NetlinkError::Malformed(_) => return false,
    };
    // Old kernels have no words for it.
    error.errno() == Some(libc::EOPNOTSUPP)
        && words.is_none_or(|words| words == "Unknown device type")
}

/// A move of the host's addresses that could not be made.
pub fn moving(error: MovesError) -> CniError {
    // Nothing was tried then.
    if let MovesError::Unmovable(why) = error {
        return fail(Code::InvalidConfiguration, why.reason(), why);
    }
    fail(Code::Kernel, "MoveFailed", error)
}

/// A file or socket that failed. `what` completes "cannot ...".
pub fn system(what: impl fmt::Display) -> impl FnOnce(io::Error) -> CniError {
    move |error| CniError::of(Code::Io, format!("cannot {what}: {error}"))
}

/// A link that somebody has removed while this call was at work with it.
pub fn link_gone(name: &str) -> CniError {
    let message = format!("{name} was removed meanwhile");
    fail(Code::TryAgainLater, "LinkGone", message)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(errno: i32, words: Option<&str>) -> NetlinkError {
        NetlinkError::Refused {
            what: "make link vlan2".into(),
            error: io::Error::from_raw_os_error(errno),
            words: words.map(Into::into),
        }
    }

    #[test]
    fn the_module_is_named_when_the_kernel_knows_no_such_links() {
        for words in [Some("Unknown device type"), None] {
            let error = unmade(Some("8021q"))(refused(libc::EOPNOTSUPP, words));
            assert_eq!((error.code, error.reason), (Code::Kernel, "KernelRefused"));
            let end = "; the kernel module 8021q is missing";
            assert!(error.message.ends_with(end), "{error}");
        }
    }

    #[test]
    fn no_module_is_named_when_something_else_is_wrong() {
        let on_device = Some("VLANs not supported on device");
        for refusal in [
            refused(libc::EOPNOTSUPP, on_device),
            refused(libc::EEXIST, None),
            NetlinkError::Malformed("it".into()),
        ] {
            let error = unmade(Some("8021q"))(refusal);
            assert!(!error.message.contains("8021q"), "{error}");
        }
        let error = unmade(None)(refused(libc::EOPNOTSUPP, None));
        assert!(!error.message.contains("module"), "{error}");
    }
}
