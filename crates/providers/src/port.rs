//! The port: what floe asks of a cloud, and how it can fail.

use std::{net::IpAddr, pin::Pin, time::Duration};

use thiserror::Error;

/// A cloud that can move addresses between nodes.
///
/// Both calls may be repeated with the same arguments and then change nothing.
/// A future that is dropped may or may not have reached the cloud.
pub trait IpProvider: Send + Sync {
    /// Makes `ip` reachable on `node`.
    fn assign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a>;

    /// Takes `ip` from `node`. The name is empty when the node is not known.
    fn unassign<'a>(&'a self, node: &'a str, ip: IpAddr) -> Answer<'a>;

    /// Either of the two.
    fn call<'a>(&'a self, func: Func, node: &'a str, ip: IpAddr) -> Answer<'a> {
        match func {
            Func::Assign => self.assign(node, ip),
            Func::Unassign => self.unassign(node, ip),
        }
    }
}

/// The future of a call. It is boxed so that the port can be a trait object.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<(), ProviderError>> + Send + 'a>>;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Func {
    /// An address is put on a node.
    Assign,
    /// An address is taken from a node.
    Unassign,
}

impl Func {
    /// The name in metrics and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Assign => "assign",
            Self::Unassign => "unassign",
        }
    }
}

/// Why a call did not succeed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProviderError {
    /// It understood and said no.
    #[error("cloud provider refused: {message}")]
    Refused {
        /// Its own words; may be empty.
        message: String,
    },
    /// It cannot take such a request at all, for example for lack of rights.
    #[error("cloud provider cannot take the request: {message}")]
    Rejected {
        /// The status and its text.
        message: String,
    },
    /// It failed on the way to an answer.
    #[error("cloud provider failed: {message}")]
    Failed {
        /// The status and its text.
        message: String,
    },
    /// It ended the call as good, without an answer.
    #[error("cloud provider sent no reply")]
    NoReply,
    /// There is no connection, or it broke during the call.
    #[error("cloud provider is not reachable: {message}")]
    Unreachable {
        /// What the transport says.
        message: String,
    },
    /// No answer came in time. The call may still have an effect.
    #[error("cloud provider gave no answer within {} s", after.as_secs_f64())]
    Timeout {
        /// How long was waited.
        after: Duration,
    },
    /// floe itself ended before the call did.
    #[error("stopped before the cloud provider was asked")]
    Stopped,
}

impl ProviderError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Refused { .. } => "ProviderRefused",
            Self::Rejected { .. } => "ProviderRejected",
            Self::Failed { .. } => "ProviderFailed",
            Self::NoReply => "ProviderNoReply",
            Self::Unreachable { .. } => "ProviderUnreachable",
            Self::Timeout { .. } => "ProviderTimeout",
            Self::Stopped => "ProviderStopped",
        }
    }

    /// Whether the same call may go through in a moment. After any other error
    /// something has to change first, so it waits for the caller's next round.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Refused { .. } | Self::Rejected { .. } => false,
            Self::Failed { .. }
            | Self::NoReply
            | Self::Unreachable { .. }
            | Self::Timeout { .. }
            | Self::Stopped => true,
        }
    }
}
