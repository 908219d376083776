//! What the API of Hetzner Cloud says, as far as floe reads it.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv6Addr},
};

use floe_core::nodepool::cloud::{Listed, Mark};
use serde::Deserialize;

/// What stands before the id of a server in a node's `spec.providerID`.
const PROVIDER: &str = "hcloud://";

/// The labels of a mark, one for each of its words.
const CLUSTER: &str = "floe.dev/cluster";
const POOL: &str = "floe.dev/pool";
const PURCHASE: &str = "floe.dev/purchase";

/// A floating IP.
#[derive(Clone, Debug, Deserialize)]
pub struct FloatingIp {
    pub id: u64,
    /// An address, or a network of IPv6 with its length.
    pub ip: String,
    pub server: Option<u64>,
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
}

/// One page of floating IPs.
#[derive(Debug, Deserialize)]
pub struct Page {
    pub floating_ips: Vec<FloatingIp>,
    #[serde(default)]
    pub meta: Meta,
}

#[derive(Debug, Default, Deserialize)]
pub struct Meta {
    #[serde(default)]
    pub pagination: Pagination,
}

#[derive(Debug, Default, Deserialize)]
pub struct Pagination {
    pub next_page: Option<u64>,
}

/// One floating IP.
#[derive(Debug, Deserialize)]
pub struct One {
    pub floating_ip: FloatingIp,
}

/// An order that was taken.
#[derive(Debug, Deserialize)]
pub struct Ordered {
    pub action: Action,
}

/// An order, and how far it is.
#[derive(Debug, Deserialize)]
pub struct Action {
    pub id: u64,
    pub status: Status,
    pub error: Option<Fault>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    Running,
    Success,
    Error,
}

/// What has gone wrong.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Fault {
    #[serde(default)]
    pub code: String,
    #[serde(default)]
    pub message: String,
}

/// The body of a refusal.
#[derive(Debug, Deserialize)]
pub struct Refused {
    pub error: Fault,
}

impl FloatingIp {
    /// The address that it is known by: of a network of IPv6, all of which goes to the
    /// server, that is the first one behind the network's own.
    pub fn address(&self) -> Option<IpAddr> {
        let (address, length) = match self.ip.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (self.ip.as_str(), None),
        };
        match (address.parse().ok()?, length) {
            (IpAddr::V6(network), Some(length)) if length != "128" => {
                Some(IpAddr::V6(Ipv6Addr::from(u128::from(network) | 1)))
            }
            (address, _) => Some(address),
        }
    }

    /// Whether an address, known by it or not, is part of it.
    pub fn contains(&self, ip: IpAddr) -> bool {
        match (self.address(), ip) {
            (Some(IpAddr::V6(own)), IpAddr::V6(ip)) => own.segments()[..4] == ip.segments()[..4],
            (own, ip) => own == Some(ip),
        }
    }

    /// Who bought it, if that stands on it.
    pub fn mark(&self) -> Option<Mark> {
        let word = |name| self.labels.get(name).filter(|word| !word.is_empty());
        Some(Mark {
            cluster: word(CLUSTER)?.clone(),
            pool: word(POOL)?.clone(),
            purchase: word(PURCHASE)?.clone(),
        })
    }

    /// In the words of all clouds.
    pub fn listed(&self) -> Option<Listed> {
        Some(Listed {
            ip: self.address()?,
            server: self.server.map(|id| format!("{PROVIDER}{id}")),
            // The API does not tell in lists; it refuses with `locked`.
            busy: false,
            mark: self.mark(),
        })
    }
}

/// The labels that say who bought an address.
pub fn labels(mark: &Mark) -> serde_json::Value {
    serde_json::json!({
        CLUSTER: mark.cluster,
        POOL: mark.pool,
        PURCHASE: mark.purchase,
    })
}

/// The name of what a purchase buys. Names are unique in a project, so the same purchase
/// cannot buy twice.
pub fn name(mark: &Mark) -> String {
    format!("floe-{}-{}", mark.pool, mark.purchase)
}

/// The id of a server from a node's `spec.providerID`.
pub fn server_id(server: &str) -> Option<u64> {
    server.strip_prefix(PROVIDER)?.parse().ok()
}
