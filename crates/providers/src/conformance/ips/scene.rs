//! What the suite of clouds has to be given.

use std::{net::IpAddr, sync::Arc};

use crate::{
    conformance::{Deed, proxy::Proxy},
    floating::FloatingIps,
};

/// A cloud to play with. The suite has it for itself, and leaves its addresses on no server.
pub trait Scene: Send + Sync {
    /// How it is called in reports: the client and what it talks to.
    fn title(&self) -> String;

    /// The client, which talks to the server through the proxy.
    fn ips(&self) -> &dyn FloatingIps;

    /// The way to the server.
    fn proxy(&self) -> &Proxy;

    /// Addresses of the account that no mark is on, at least two of one family.
    fn addresses(&self) -> Vec<IpAddr>;

    /// An address that could be the account's, and is not.
    fn unknown_address(&self) -> IpAddr;

    /// Servers, at least three, in the form of `spec.providerID`.
    fn servers(&self) -> Vec<String>;

    /// A server that could be there, and is not.
    fn unknown_server(&self) -> String;

    /// Where addresses are bought.
    fn region(&self) -> String;

    /// Whether addresses of IPv6 can be bought too, where the cloud has them.
    fn sells_v6(&self) -> bool {
        true
    }

    /// How many of its calls change something when it buys an address; the last one is the
    /// purchase itself.
    fn calls_to_buy(&self) -> usize {
        1
    }

    /// Gives back an address that was bought and that no mark is on.
    fn discard(&self, ip: IpAddr) -> Option<Deed<'_, ()>> {
        let _ = ip;
        None
    }

    /// Lets orders come to an end that the cloud has taken and waits with.
    fn settle(&self) -> Deed<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// Removes a server from the cloud, if the suite can do that here. It does so once.
    fn vanish<'a>(&'a self, server: &'a str) -> Option<Deed<'a, ()>> {
        let _ = server;
        None
    }

    /// Lets the account have no more addresses than now, or again as many as it wants.
    fn limit(&self, full: bool) -> Option<Deed<'_, ()>> {
        let _ = full;
        None
    }

    /// Begins something with an address that keeps the cloud from taking orders for it, or
    /// ends it.
    fn occupy(&self, ip: IpAddr, busy: bool) -> Option<Deed<'_, ()>> {
        let _ = (ip, busy);
        None
    }

    /// A client with credentials that are not good, and the secret in them.
    fn stranger(&self) -> Option<(Arc<dyn FloatingIps>, String)> {
        None
    }
}
