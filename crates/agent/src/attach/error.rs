//! Why a pod is not attached, or not detached.

use std::net::IpAddr;

use floe_core::{
    cni::{
        args::CniArgsError,
        call::Command,
        error::{CniError, Code},
    },
    ipam::args::ArgsError,
    node::{arguments::ArgumentsError, networks::NetworksError},
};
use floe_shell::logs;

use crate::{networks::LookupError, permits::PermitError, pods::PodError, state::FileError};

/// Why a pod is not attached, or not detached.
#[derive(Debug, thiserror::Error)]
pub enum AttachError {
    /// The pod is not known.
    #[error(transparent)]
    Pod(#[from] PodError),
    /// Its arguments cannot be read.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// It says for the runtime who it is.
    #[error("common of the args annotation must not have {0:?}")]
    ReservedArgument(String),
    /// Plugins cannot be told its arguments.
    #[error("common of the args annotation: {0}")]
    Arguments(#[source] ArgumentsError),
    /// No node could set up what it claims.
    #[error("the args annotation: {0}")]
    Claim(#[source] CniArgsError),
    /// Its networks cannot be read.
    #[error(transparent)]
    Networks(#[from] NetworksError),
    /// A network is not known.
    #[error(transparent)]
    Network(#[from] LookupError),
    /// It claims an address that it does not hold.
    #[error(transparent)]
    Permit(#[from] PermitError),
    /// The state file cannot be used.
    #[error(transparent)]
    State(#[from] FileError),
    /// A plugin has failed. Compat: the first words are galaxy's.
    #[error("fail to establish network {network}: {}", error.message)]
    Establish {
        /// The network.
        network: String,
        /// What the plugin says.
        error: CniError,
    },
    /// The last network gave no address.
    #[error("the result of the last network has no address")]
    NoAddress,
    /// It failed, and something of it could not be undone either.
    #[error("{error}; not undone: {left}")]
    NotUndone {
        /// The failure.
        error: Box<AttachError>,
        /// What is left, and why.
        left: String,
    },
    /// Plugins have failed to detach. Compat: joined as galaxy does.
    #[error("{}", joined(.0, " / "))]
    Detach(Vec<Failed>),
    /// It is not known how an address was attached, or the namespace of the pod is gone.
    #[error(
        "it is not noted which pod or network of container {0} had the address, or its namespace \
         is gone; delete the pod to have it attached again"
    )]
    NotRestorable(String),
    /// The networks were attached again, and their results lack an address.
    #[error("no result of the networks that had {0} has it now")]
    NotConfigured(IpAddr),
    /// Nothing was attached.
    #[error("nothing is attached for container {0}")]
    NotAttached(String),
    /// A plugin says that it is not as it should be, or cannot be now.
    #[error("network {network}: {}", error.message)]
    Plugin {
        /// The network.
        network: String,
        /// What the plugin says.
        error: CniError,
    },
    /// The runtime did not tell what is still there.
    #[error("GC without cni.dev/valid-attachments removes nothing")]
    NoValidAttachments,
    /// Pods are being attached or detached.
    #[error("pods are being attached or detached")]
    Busy,
}

/// A part of a clean-up that failed, while the rest went on.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: {error}")]
pub struct Failed {
    /// Which part.
    pub what: String,
    /// Why.
    pub error: CniError,
}

/// What is told of an error, whoever asks.
struct Told<'a> {
    reason: &'static str,
    /// The code of the CNI specification, if it is not the command's usual one.
    code: Option<Code>,
    details: String,
    /// What a plugin said, if it was one that failed to attach.
    of_plugin: Option<&'a CniError>,
}

impl AttachError {
    /// The error for a runtime: with the code and the details of the plugin that has
    /// failed, if it was one.
    pub fn for_runtime(&self, command: Command) -> CniError {
        let usual = match command {
            Command::Status => Code::NotAvailable,
            Command::Add | Command::Del | Command::Check | Command::Gc | Command::Version => {
                Code::Agent
            }
        };
        let Told {
            reason,
            code,
            details,
            ..
        } = self.told();
        let text = logs::with_causes(self);
        CniError::new(code.unwrap_or(usual), reason, text).with_details(details)
    }

    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        self.told().reason
    }

    /// What a plugin said, if it was one that failed to attach.
    pub fn of_plugin(&self) -> Option<&CniError> {
        self.told().of_plugin
    }

    /// The same, and what could not be undone.
    pub fn with_leftovers(self, left: &[String]) -> Self {
        if left.is_empty() {
            return self;
        }
        Self::NotUndone {
            error: self.into(),
            left: left.join(" / "),
        }
    }

    fn told(&self) -> Told<'_> {
        // Something is left, while this code says that no DEL is needed any more.
        let left = |code: &Code| *code != Code::UnknownContainer;
        match self {
            Self::Pod(error) => own(error.reason()),
            Self::Args(error) => own(error.reason()),
            Self::ReservedArgument(_) => own("InvalidArgs"),
            Self::Arguments(error) => own(error.reason()),
            Self::Claim(error) => own(error.reason()),
            Self::Networks(error) => own(error.reason()),
            Self::Network(error) => own(error.reason()),
            Self::Permit(error) => own(error.reason()),
            Self::State(error) => own(error.reason()),
            Self::NoAddress | Self::NotConfigured(_) => own("NoAddress"),
            Self::NotAttached(_) => own("NotAttached"),
            Self::NotRestorable(_) => own("NotRestorable"),
            Self::Establish { error, .. } => Told {
                of_plugin: Some(error),
                ..plugins(error)
            },
            Self::Plugin { error, .. } => plugins(error),
            Self::NotUndone { error, .. } => {
                let told = error.told();
                Told {
                    code: told.code.filter(left),
                    ..told
                }
            }
            Self::Detach(failed) => {
                let details = failed.iter().map(|it| &*it.error.details);
                let details: Vec<&str> = details.filter(|it| !it.is_empty()).collect();
                Told {
                    code: failed.first().map(|it| it.error.code).filter(left),
                    details: details.join(" / "),
                    ..own("DetachFailed")
                }
            }
            Self::NoValidAttachments => Told {
                code: Some(Code::InvalidConfiguration),
                ..own("InvalidConfiguration")
            },
            Self::Busy => Told {
                code: Some(Code::TryAgainLater),
                ..own("TryAgainLater")
            },
        }
    }
}

/// What the agent refuses itself.
fn own(reason: &'static str) -> Told<'static> {
    Told {
        reason,
        code: None,
        details: String::new(),
        of_plugin: None,
    }
}

/// What a plugin refuses.
fn plugins(error: &CniError) -> Told<'static> {
    Told {
        code: Some(error.code),
        details: error.details.clone(),
        ..own(error.reason)
    }
}

fn joined(failed: &[Failed], by: &str) -> String {
    let texts: Vec<String> = failed.iter().map(ToString::to_string).collect();
    texts.join(by)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn said(code: Code, reason: &'static str) -> CniError {
        CniError::new(code, reason, "it did not work").with_details("more about it")
    }

    fn establish(code: Code) -> AttachError {
        AttachError::Establish {
            network: "one".into(),
            error: said(code, "AddressConflict"),
        }
    }

    #[test]
    fn a_runtime_gets_what_the_plugin_said() {
        let error = establish(Code::AddressConflict).for_runtime(Command::Add);
        let expected = CniError::new(
            Code::AddressConflict,
            "AddressConflict",
            "fail to establish network one: it did not work",
        );
        assert_eq!(error, expected.with_details("more about it"));

        let down = AttachError::Plugin {
            network: "one".into(),
            error: said(Code::NotAvailableLimited, "ParentLinkDown"),
        };
        let error = down.for_runtime(Command::Status);
        assert_eq!(
            (error.code, error.reason),
            (Code::NotAvailableLimited, "ParentLinkDown")
        );
        assert_eq!(error.details, "more about it");
    }

    #[test]
    fn several_failures_have_the_code_of_the_first_and_the_details_of_all() {
        let failed = |what: &str, code| Failed {
            what: what.into(),
            error: said(code, "KernelRefused"),
        };
        let failures = vec![
            failed("network one", Code::Kernel),
            failed("network two", Code::Io),
        ];
        let error = AttachError::Detach(failures).for_runtime(Command::Del);
        assert_eq!((error.code, error.reason), (Code::Kernel, "DetachFailed"));
        assert_eq!(error.details, "more about it / more about it");
        assert!(error.message.contains(" / network two: "), "{error}");
    }

    #[test]
    fn a_runtime_is_not_told_that_no_del_is_needed_while_something_is_left() {
        let unknown = establish(Code::UnknownContainer);
        let code = unknown.for_runtime(Command::Add).code;
        assert_eq!(code, Code::UnknownContainer);
        let left = unknown.with_leftovers(&["network one: busy".into()]);
        let error = left.for_runtime(Command::Add);
        assert_eq!(error.code, Code::Agent);
        assert!(error.message.ends_with("not undone: network one: busy"));
        let failed = Failed {
            what: "network one".into(),
            error: said(Code::UnknownContainer, "NetnsNotFound"),
        };
        let error = AttachError::Detach(vec![failed]).for_runtime(Command::Del);
        assert_eq!(error.code, Code::Agent);
    }

    #[test]
    fn what_the_agent_refuses_itself_keeps_its_reason_on_the_way_through_the_shim() {
        let io = || io::Error::from(io::ErrorKind::PermissionDenied);
        let unknown = PermitError::NotRecorded("10.0.0.5".parse().unwrap());
        let unwritten = FileError::Io {
            what: "write",
            path: "/state".into(),
            source: io(),
        };
        let refusals = [
            (
                AttachError::Pod(PodError::NotFound("ns/web-0".into())),
                None,
            ),
            (AttachError::ReservedArgument("K8S_POD_NAME".into()), None),
            (AttachError::Networks(NetworksError::None), None),
            (AttachError::Permit(unknown), None),
            (AttachError::State(unwritten), None),
            (AttachError::NoAddress, None),
            (AttachError::NotAttached("c1".into()), None),
            (
                AttachError::NoValidAttachments,
                Some(Code::InvalidConfiguration),
            ),
            (AttachError::Busy, Some(Code::TryAgainLater)),
        ];
        for (refusal, code) in refusals {
            for (command, usual) in [
                (Command::Add, Code::Agent),
                (Command::Status, Code::NotAvailable),
            ] {
                let error = refusal.for_runtime(command);
                let json = error.to_json(floe_core::cni::version::Version::LATEST);
                assert_eq!(CniError::from_json(&json), Some(error.clone()));
                assert_eq!(error.reason, refusal.reason());
                assert_eq!(error.code, code.unwrap_or(usual), "{error}");
            }
        }
    }
}
