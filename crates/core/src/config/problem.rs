//! What can be wrong with an address configuration.

use std::{fmt, net::IpAddr};

use ipnet::IpNet;

use crate::addr::{IpRange, IpSet, RangeError};

/// One thing that is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The place of the entry in the array that the user wrote, from 0; `None`
    /// when the text as a whole is wrong.
    pub entry: Option<usize>,
    /// The member of the entry; `None` when the entry as a whole is wrong.
    pub field: Option<&'static str>,
    /// What is wrong.
    pub fault: Fault,
    /// What a lenient reading leaves out to go on; `None` when galaxy refuses
    /// this too, and so every reading does.
    pub left_out: Option<LeftOut>,
}

impl Problem {
    /// A problem with one member of one entry.
    pub(super) fn in_field(
        entry: usize,
        field: &'static str,
        fault: Fault,
        left_out: Option<LeftOut>,
    ) -> Self {
        Self {
            entry: Some(entry),
            field: Some(field),
            fault,
            left_out,
        }
    }
}

/// What is wrong. The texts of the faults that galaxy knows are galaxy's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The text is no JSON, or a member is of the wrong type.
    #[error("{0}")]
    InvalidJson(String),
    /// Neither `nodeSubnets` nor `routableSubnet` says anything.
    #[error("node subnet is empty")]
    NodeSubnetEmpty,
    /// There is no `subnet`.
    #[error("subnet is empty")]
    SubnetEmpty,
    /// There is no `gateway`.
    #[error("gateway is empty")]
    GatewayEmpty,
    /// A subnet cannot be parsed.
    #[error("invalid CIDR address: {0}")]
    InvalidSubnet(String),
    /// The gateway cannot be parsed.
    #[error("invalid IP address: {0} (an address without a prefix length is needed)")]
    InvalidGateway(String),
    /// A range cannot be parsed.
    #[error(transparent)]
    InvalidRange(RangeError),
    /// A range is not inside the network of the gateway.
    #[error("ip range {range} not in subnet {gateway}/{prefix_len}")]
    RangeOutsideSubnet {
        /// The range.
        range: IpRange,
        /// The gateway.
        gateway: IpAddr,
        /// The length of the mask.
        prefix_len: u8,
    },
    /// Two ranges of one entry overlap or are in descending order.
    #[error("ip range {before} and {after} can be merge to one or has wrong order")]
    RangeOrder {
        /// The range that comes first in the text.
        before: IpRange,
        /// The next one.
        after: IpRange,
    },
    /// The text is `null`, or the entry is.
    #[error("null instead of a value")]
    Null,
    /// A member of a list is `null`.
    #[error("member {0} is null")]
    NullMember(usize),
    /// The mask is not of the gateway's family.
    #[error("subnet {subnet} and gateway {gateway} are of different families")]
    SubnetFamily {
        /// The subnet that has the mask.
        subnet: IpNet,
        /// The gateway.
        gateway: IpAddr,
    },
    /// A range is not of the gateway's family.
    #[error("ip range {range} and gateway {gateway} are of different families")]
    RangeFamily {
        /// The range.
        range: IpRange,
        /// The gateway.
        gateway: IpAddr,
    },
    /// The network would be the whole family.
    #[error(
        "subnet {subnet} has prefix length 0: no pod can have a gateway in it. Write the prefix \
         length of the pods' network, for example /24"
    )]
    PrefixLengthZero {
        /// The subnet as it was written.
        subnet: IpNet,
    },
    /// The gateway has no host bits.
    #[error("gateway {gateway} is the network address of {network}")]
    GatewayIsNetwork {
        /// The gateway.
        gateway: IpAddr,
        /// Its network.
        network: IpNet,
    },
    /// The gateway's host bits are all set.
    #[error("gateway {gateway} is the broadcast address of {network}")]
    GatewayIsBroadcast {
        /// The gateway.
        gateway: IpAddr,
        /// Its network.
        network: IpNet,
    },
    /// The addresses for pods have a gateway among them.
    #[error("{gateway} is the gateway of entry [{of}]")]
    GatewayInIps {
        /// The gateway.
        gateway: IpAddr,
        /// The entry whose gateway it is.
        of: usize,
    },
    /// The addresses for pods have the network address among them; in IPv6
    /// that is the anycast address of the routers.
    #[error("{ip} is the network address of {network}")]
    NetworkInIps {
        /// The address.
        ip: IpAddr,
        /// The network.
        network: IpNet,
    },
    /// The addresses for pods have the broadcast address among them.
    #[error("{ip} is the broadcast address of {network}")]
    BroadcastInIps {
        /// The address.
        ip: IpAddr,
        /// The network.
        network: IpNet,
    },
    /// Two entries have addresses in common.
    #[error("{shared} belongs to entry [{with}] too")]
    EntriesOverlap {
        /// The addresses in both.
        shared: IpSet,
        /// The other entry, which comes first in the text.
        with: usize,
    },
    /// An address is to be shared by pods and is something else already.
    #[error("{addresses} is among {member} of entry [{with}] too")]
    SharedOverlap {
        /// The addresses in both.
        addresses: IpSet,
        /// The member that keeps them: `ips` or `shared`.
        member: &'static str,
        /// The entry that keeps them.
        with: usize,
    },
    /// No namespace can have this name.
    #[error("invalid namespace: {0:?}")]
    InvalidNamespace(String),
    /// There is no such VLAN.
    #[error("vlan {0} is above 4094")]
    VlanTooHigh(u16),
}

/// What a lenient reading leaves out of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// The whole entry.
    Entry,
    /// The `null`.
    Null,
    /// These addresses.
    Addresses(IpSet),
    /// All addresses that the entry sets aside for sharing.
    Shared,
}

/// Why a configuration was not accepted: at least one problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Everything that was found, in the order of the text.
    pub problems: Vec<Problem>,
}

impl Problem {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        self.fault.reason()
    }
}

impl Fault {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidJson(_) => "InvalidJson",
            Self::NodeSubnetEmpty => "NodeSubnetEmpty",
            Self::SubnetEmpty => "SubnetEmpty",
            Self::GatewayEmpty => "GatewayEmpty",
            Self::InvalidSubnet(_) => "InvalidSubnet",
            Self::InvalidGateway(_) => "InvalidGateway",
            Self::InvalidRange(error) => error.reason(),
            Self::RangeOutsideSubnet { .. } => "RangeOutsideSubnet",
            Self::RangeOrder { .. } => "RangeOrder",
            Self::Null | Self::NullMember(_) => "NullMember",
            Self::SubnetFamily { .. } | Self::RangeFamily { .. } => "MixedFamilies",
            Self::PrefixLengthZero { .. } => "PrefixLengthZero",
            Self::GatewayIsNetwork { .. } => "GatewayIsNetwork",
            Self::GatewayIsBroadcast { .. } => "GatewayIsBroadcast",
            Self::GatewayInIps { .. } => "GatewayInIps",
            Self::NetworkInIps { .. } => "NetworkInIps",
            Self::BroadcastInIps { .. } => "BroadcastInIps",
            Self::EntriesOverlap { .. } => "EntriesOverlap",
            Self::SharedOverlap { .. } => "SharedOverlap",
            Self::InvalidNamespace(_) => "InvalidNamespace",
            Self::VlanTooHigh(_) => "VlanTooHigh",
        }
    }
}

impl Refused {
    /// The stable reason of the first problem.
    pub fn reason(&self) -> &'static str {
        self.problems.first().map_or("Refused", Problem::reason)
    }
}

impl std::error::Error for Problem {}

impl std::error::Error for Refused {}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.entry, self.field) {
            (Some(entry), Some(field)) => write!(out, "entry [{entry}], field {field}: ")?,
            (Some(entry), None) => write!(out, "entry [{entry}]: ")?,
            (None, _) => {}
        }
        write!(out, "{}", self.fault)
    }
}

impl fmt::Display for LeftOut {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry => write!(out, "the entry"),
            Self::Null => write!(out, "the null"),
            Self::Addresses(addresses) => write!(out, "{addresses}"),
            Self::Shared => write!(out, "the shared addresses"),
        }
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(out, "{separator}{problem}")?;
        }
        Ok(())
    }
}
