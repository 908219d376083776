//! Why a host cannot move.

use std::net::IpAddr;

use ipnet::IpNet;

/// A route that could not come along, so that nothing is moved at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unmovable {
    /// Its next hop is on no network that moves.
    #[error("nothing leads to {gateway}, the next hop of the route to {dst}")]
    OutOfReach {
        /// Where the route leads.
        dst: IpNet,
        /// Its next hop.
        gateway: IpAddr,
    },
    /// It has several next hops, and would be torn apart.
    #[error("the route to {0} has several next hops")]
    Multipath(IpNet),
    /// There is something about it that floe cannot say to the kernel.
    #[error("the route to {dst} has {what}, which floe cannot move")]
    Unknown {
        /// Where the route leads.
        dst: IpNet,
        /// What it has.
        what: String,
    },
}

impl Unmovable {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::OutOfReach { .. } => "GatewayOutOfReach",
            Self::Multipath(_) => "MultipathRoute",
            Self::Unknown { .. } => "RouteUnknown",
        }
    }
}
