//! The port for clouds that put addresses on servers.

use std::{net::IpAddr, pin::Pin};

use floe_core::nodepool::cloud::{Capabilities, Listed, Mark, Progress, Refusal, Taken};

/// A cloud whose addresses can be on one server or another.
///
/// Servers are named as in a node's `spec.providerID`; addresses by themselves: what the
/// cloud calls them is the client's business. Every call has an end of its own, tries once,
/// and says of a call without an answer that it is unclear. All of them may be repeated.
pub trait FloatingIps: Send + Sync {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// A node has this server. Where the same server can be written in several ways, lists
    /// write it in this one from now on.
    fn introduce(&self, _server: &str, _node: &str) {}

    /// No node has this server any more.
    fn dismiss(&self, _server: &str) {}

    /// Whether it knows nodes that have no `spec.providerID`, by a text in its place.
    fn knows_bare_nodes(&self) -> bool {
        false
    }

    /// All addresses of the account, in as few calls as the cloud allows.
    fn list(&self) -> Reply<'_, Vec<Listed>>;

    /// Puts an address on a server, from wherever it is if [`Capabilities::steals`]. Where it
    /// is there already, nothing changes and it is done.
    fn assign<'a>(&'a self, ip: IpAddr, server: &'a str) -> Reply<'a, Taken>;

    /// Takes an address from its server. Where it is on none, it is done.
    fn detach(&self, ip: IpAddr) -> Reply<'_, Taken>;

    /// How far an order is that was [`Taken::Pending`].
    fn check<'a>(&'a self, ip: IpAddr, handle: &'a str) -> Reply<'a, Progress>;

    /// Buys an address and writes the mark on it, in one call where the cloud can.
    fn buy<'a>(&'a self, region: &'a str, v6: bool, mark: &'a Mark) -> Reply<'a, IpAddr>;

    /// Gives an address back, if this mark is on it. Where there is no such address, it is
    /// done.
    fn release<'a>(&'a self, ip: IpAddr, mark: &'a Mark) -> Reply<'a, ()>;
}

/// The future of a call, boxed so that the port can be a trait object.
pub type Reply<'a, T> = Pin<Box<dyn Future<Output = Result<T, Refusal>> + Send + 'a>>;
