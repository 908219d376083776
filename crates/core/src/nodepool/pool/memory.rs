//! What outlives the process.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use jiff::Timestamp;

use super::spec::Server;
use crate::nodepool::cloud::Mark;

/// What outlives the process, in the status of the pool.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// What was about to be bought.
    pub purchase: Option<Purchase>,
    /// Orders under way at the cloud, by address.
    pub pending: BTreeMap<IpAddr, Pending>,
    /// The last move of each address.
    pub moves: BTreeMap<IpAddr, Move>,
    /// Since when a node that has an address does not fit.
    pub unfit_since: BTreeMap<Server, Timestamp>,
}

/// An order under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Where the address shall be; none when it shall be nowhere.
    pub server: Option<Server>,
    /// The cloud's name of the order; empty when there was no answer, so that nobody knows
    /// whether it was taken.
    pub handle: String,
}

/// A purchase that is written down before it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Purchase {
    /// What will stand on the address.
    pub mark: Mark,
    /// Since when.
    pub since: Timestamp,
    /// The addresses of the account before: without marks, what is new may be it.
    pub before: BTreeSet<IpAddr>,
}

/// When and where an address went last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Move {
    /// When the cloud had done it.
    pub at: Timestamp,
    /// From where; empty for nowhere.
    pub from: String,
    /// To which node.
    pub to: String,
    /// Why, as a stable word.
    pub reason: String,
}
