//! Errors as a runtime reads them.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{object::Object, version::Version};
use crate::{announce::Mac, ipam::args::shortened};

/// Why a call has failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct CniError {
    /// The code of the specification, or one of floe's own from 100 on.
    pub code: Code,
    /// The stable reason, which begins the message.
    pub reason: &'static str,
    /// What happened.
    pub message: String,
    /// More about it; may be empty.
    pub details: String,
}

/// The codes of the specification, and floe's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// 1.
    IncompatibleVersion,
    /// 2.
    UnsupportedField,
    /// 3: DEL of it may be skipped.
    UnknownContainer,
    /// 4.
    InvalidEnvironment,
    /// 5.
    Io,
    /// 6.
    UndecodableContent,
    /// 7.
    InvalidConfiguration,
    /// 11.
    TryAgainLater,
    /// 50: the plugin cannot serve ADD now.
    NotAvailable,
    /// 51: it cannot, and existing pods may have no network either.
    NotAvailableLimited,
    /// 100: the kernel refused a change.
    Kernel,
    /// 101: somebody else uses the address.
    AddressConflict,
    /// 102: a plugin that was called has failed.
    Delegate,
    /// 103: the attachment is not what it should be (CHECK).
    CheckFailed,
    /// 104: the agent refused or failed.
    Agent,
    /// The code of a plugin that was called, when it is none of these.
    Other(u32),
}

/// Reasons that do not belong to a code alone, of the plugins and of the agent. An error
/// that one part of floe hands on from another keeps its reason only if it is here or the
/// reason of a code; of any other the text stays, but it counts as `DelegateFailed`.
const REASONS: [&str; 48] = [
    NO_ADDRESS,
    "InvalidArgs",
    "InvalidIpInfos",
    "EmptyIpInfos",
    "UnsupportedCommand",
    "InvalidPlugin",
    "UnknownPlugin",
    "PluginNotFound",
    "DelegateTimedOut",
    "InvalidResult",
    "HostNetns",
    "NetnsNotFound",
    "LinkGone",
    "LinkNameTaken",
    "NetlinkFailed",
    "MoveFailed",
    "GatewayOutOfReach",
    "MultipathRoute",
    "RouteUnknown",
    "BridgeTaken",
    "NoBridge",
    "NoHostAddress",
    "NoVlanDevice",
    "NoVirtualFunctions",
    "NoFreeFunction",
    "ParentLinkDown",
    "StateUnreadable",
    "AgentUnreachable",
    "AddressNotRecorded",
    "AddressOfAnotherPod",
    "RecordUnreadable",
    "UnknownNetwork",
    "InvalidNetworkConfiguration",
    "NetworkLoops",
    "NotAttached",
    "DetachFailed",
    "PodNotFound",
    "PodReplaced",
    "PodUnreadable",
    "InvalidNetworks",
    "SameInterface",
    "NoNetwork",
    "InvalidRange",
    "EmptyRangeList",
    "TooManyRanges",
    "StateUnavailable",
    "StateMalformed",
    "MalformedRequest",
];

const NO_ADDRESS: &str = "NoAddress";

impl CniError {
    /// An error with a reason of its own.
    pub fn new(code: Code, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: String::new(),
        }
    }

    /// An error with the reason of its code.
    pub fn of(code: Code, message: impl Into<String>) -> Self {
        Self::new(code, code.reason(), message)
    }

    /// The same, and more about it.
    #[must_use]
    pub fn with_details(self, details: impl Into<String>) -> Self {
        Self {
            details: details.into(),
            ..self
        }
    }

    /// Somebody else uses the address.
    pub fn conflict(address: IpAddr, mac: Mac) -> Self {
        Self::of(
            Code::AddressConflict,
            format!("{address} is already in use by {mac}"),
        )
    }

    /// Nobody says which address the container gets.
    pub fn no_address() -> Self {
        Self::new(
            Code::InvalidConfiguration,
            NO_ADDRESS,
            "neither ipInfo from cni args nor ipam type from netconf",
        )
    }

    /// What a plugin said that was called and failed: its code and its texts stay.
    /// `output` is its standard output; anything else than an error of the protocol
    /// is quoted.
    ///
    /// An error of one of floe's plugins keeps its reason, so that the runtime and an
    /// event show the same one however often it was handed on. Of any other plugin
    /// the message tells the name, too.
    pub fn of_delegate(plugin: &str, output: &[u8]) -> Self {
        let text = String::from_utf8_lossy(output);
        match serde_json::from_str(&text)
            .ok()
            .and_then(|json| Self::from_json(&json))
        {
            Some(error) if error.reason == Code::Delegate.reason() => Self {
                message: format!("{plugin}: {}", error.message),
                ..error
            },
            Some(error) => error,
            None if text.trim().is_empty() => {
                Self::of(Code::Delegate, format!("{plugin} failed and told nothing"))
            }
            None => Self::of(
                Code::Delegate,
                format!("{plugin}: {}", shortened(text.trim())),
            ),
        }
    }

    /// Reads an error object; `None` when it is none.
    pub fn from_json(json: &Value) -> Option<Self> {
        let Object(wire) = Object::<WireError>::deserialize(json).ok()?;
        let number = wire.code?;
        let text = wire.msg.unwrap_or_default();
        // 0 would be success, and what does not fit is no code of anybody.
        let code = u32::try_from(number)
            .ok()
            .filter(|number| *number != 0)
            .map_or(Code::Delegate, Code::of);
        let (reason, message) = known_reason(&text).unwrap_or((Code::Delegate.reason(), &text));
        Some(Self::new(code, reason, message).with_details(wire.details.unwrap_or_default()))
    }

    /// The error object, for a caller that speaks this version.
    pub fn to_json(&self, version: Version) -> Value {
        serde_json::to_value(self.wire(version)).expect("texts and numbers always have a JSON form")
    }

    /// The text of the error object, with its members in the usual order.
    pub fn to_text(&self, version: Version) -> String {
        serde_json::to_string(&self.wire(version))
            .expect("texts and numbers always have a JSON form")
    }

    fn wire(&self, version: Version) -> WireError {
        WireError {
            cni_version: Some(version.to_string()),
            code: Some(self.code.number().into()),
            msg: Some(self.to_string()),
            details: Some(self.details.clone()).filter(|details| !details.is_empty()),
        }
    }
}

impl Code {
    /// All codes that have a name.
    pub const NAMED: [Self; 15] = [
        Self::IncompatibleVersion,
        Self::UnsupportedField,
        Self::UnknownContainer,
        Self::InvalidEnvironment,
        Self::Io,
        Self::UndecodableContent,
        Self::InvalidConfiguration,
        Self::TryAgainLater,
        Self::NotAvailable,
        Self::NotAvailableLimited,
        Self::Kernel,
        Self::AddressConflict,
        Self::Delegate,
        Self::CheckFailed,
        Self::Agent,
    ];

    /// The code of a number.
    pub fn of(number: u32) -> Self {
        Self::NAMED
            .into_iter()
            .find(|code| code.number() == number)
            .unwrap_or(Self::Other(number))
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        match self {
            Self::IncompatibleVersion => 1,
            Self::UnsupportedField => 2,
            Self::UnknownContainer => 3,
            Self::InvalidEnvironment => 4,
            Self::Io => 5,
            Self::UndecodableContent => 6,
            Self::InvalidConfiguration => 7,
            Self::TryAgainLater => 11,
            Self::NotAvailable => 50,
            Self::NotAvailableLimited => 51,
            Self::Kernel => 100,
            Self::AddressConflict => 101,
            Self::Delegate => 102,
            Self::CheckFailed => 103,
            Self::Agent => 104,
            Self::Other(number) => number,
        }
    }

    /// The stable reason of errors that have no other one.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::IncompatibleVersion => "IncompatibleVersion",
            Self::UnsupportedField => "UnsupportedField",
            Self::UnknownContainer => "UnknownContainer",
            Self::InvalidEnvironment => "InvalidEnvironment",
            Self::Io => "IoFailed",
            Self::UndecodableContent => "UndecodableContent",
            Self::InvalidConfiguration => "InvalidConfiguration",
            Self::TryAgainLater => "TryAgainLater",
            Self::NotAvailable => "NotAvailable",
            Self::NotAvailableLimited => "NotAvailableLimited",
            Self::Kernel => "KernelRefused",
            Self::AddressConflict => "AddressConflict",
            Self::Delegate | Self::Other(_) => "DelegateFailed",
            Self::CheckFailed => "CheckFailed",
            Self::Agent => "AgentFailed",
        }
    }
}

/// The error object of the protocol.
#[derive(Serialize, Deserialize)]
struct WireError {
    #[serde(rename = "cniVersion", skip_serializing_if = "Option::is_none")]
    cni_version: Option<String>,
    code: Option<i64>,
    msg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<String>,
}

/// The reason that begins a message, if it is one of floe's, and the rest.
fn known_reason(text: &str) -> Option<(&'static str, &str)> {
    let (first, rest) = text.split_once(": ")?;
    Code::NAMED
        .map(Code::reason)
        .into_iter()
        .chain(REASONS)
        .find(|reason| *reason == first)
        .map(|reason| (reason, rest))
}

#[cfg(test)]
mod tests;
