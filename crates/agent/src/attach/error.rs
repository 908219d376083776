//! Why a pod is not attached, or not detached.

use floe_core::{cni::error::CniError, ipam::args::ArgsError, node::networks::NetworksError};

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
    #[error("{}", .0.join(" / "))]
    Detach(Vec<String>),
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

impl AttachError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Pod(error) => error.reason(),
            Self::Args(error) => error.reason(),
            Self::ReservedArgument(_) => "InvalidArgs",
            Self::Networks(error) => error.reason(),
            Self::Network(error) => error.reason(),
            Self::Permit(error) => error.reason(),
            Self::State(error) => error.reason(),
            Self::Establish { error, .. } | Self::Plugin { error, .. } => error.reason,
            Self::NoAddress => "NoAddress",
            Self::NotUndone { error, .. } => error.reason(),
            Self::Detach(_) => "DetachFailed",
            Self::NotAttached(_) => "NotAttached",
            Self::NoValidAttachments => "InvalidConfiguration",
            Self::Busy => "TryAgainLater",
        }
    }

    /// What a plugin said, if it was one that failed to attach.
    pub fn of_plugin(&self) -> Option<&CniError> {
        match self {
            Self::Establish { error, .. } => Some(error),
            Self::NotUndone { error, .. } => error.of_plugin(),
            Self::Pod(_)
            | Self::Args(_)
            | Self::ReservedArgument(_)
            | Self::Networks(_)
            | Self::Network(_)
            | Self::Permit(_)
            | Self::State(_)
            | Self::NoAddress
            | Self::Detach(_)
            | Self::NotAttached(_)
            | Self::Plugin { .. }
            | Self::NoValidAttachments
            | Self::Busy => None,
        }
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
}
