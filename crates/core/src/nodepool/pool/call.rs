//! What a pool asks its caller to do, and what may become of it.

use std::{net::IpAddr, sync::Arc};

use super::spec::Server;
use crate::nodepool::cloud::{Listing, Mark, Progress, Refusal, Taken};

/// Something for the caller to do. All but `Write` are calls of the cloud.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Call {
    /// List all addresses of the account. Pools of one account share one list, if it was
    /// begun after each of them had asked: an older one may not know of the last orders.
    List,
    /// See how far an order is.
    Check {
        /// Of which address.
        ip: IpAddr,
        /// The cloud's name of the order.
        handle: String,
    },
    /// Put an address on a server.
    Assign {
        /// The address.
        ip: IpAddr,
        /// The server.
        server: Server,
    },
    /// Take an address from its server.
    Detach {
        /// The address.
        ip: IpAddr,
    },
    /// Write [`Pool::memory`] to the status, and answer only when it is there.
    Write,
    /// Buy an address with this mark.
    Buy {
        /// What proves who bought it.
        mark: Mark,
    },
    /// Enter bought addresses at the end of the specification's list.
    Enter {
        /// In the order in which they were bought.
        ips: Vec<IpAddr>,
    },
    /// Give an address back that floe has proven to have bought.
    Release {
        /// The address.
        ip: IpAddr,
    },
}

/// What became of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// To `List`.
    Listed(Arc<Listing>),
    /// To `Check`.
    Progress(Progress),
    /// To `Assign` and `Detach`.
    Taken(Taken),
    /// To `Buy`.
    Bought(IpAddr),
    /// To `Write`, `Enter` and `Release`.
    Done,
    /// It was refused.
    Refused(Refusal),
}
