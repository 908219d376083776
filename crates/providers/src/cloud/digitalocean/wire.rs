//! What the API writes of addresses.

use std::net::IpAddr;

use floe_core::nodepool::cloud::{Class, Refusal};
use serde::Deserialize;

/// The two products.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reserved IPs.
    V4,
    /// Reserved IPv6.
    V6,
}

/// An address, in the same words for both products.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub ip: IpAddr,
    pub droplet: Option<u64>,
    pub locked: bool,
    pub project: Option<String>,
}

/// An address of IPv4 as it is written.
#[derive(Debug, Deserialize)]
pub struct ReservedIp {
    ip: IpAddr,
    /// Null when it is on no droplet. It is left out for whoever may not read droplets.
    #[serde(default, deserialize_with = "present")]
    droplet: Option<Option<Droplet>>,
    #[serde(default)]
    locked: bool,
    #[serde(default)]
    project_id: Option<String>,
}

/// An address of IPv6 as it is written. It is left out on which droplet it is when it is
/// on none.
#[derive(Debug, Deserialize)]
pub struct ReservedIpv6 {
    ip: IpAddr,
    #[serde(default)]
    droplet: Option<Droplet>,
}

#[derive(Debug, Deserialize)]
struct Droplet {
    id: u64,
}

/// An address that was asked for by itself, under any of its names.
#[derive(Debug, Deserialize)]
pub struct One {
    #[serde(alias = "floating_ip")]
    reserved_ip: Option<ReservedIp>,
    reserved_ipv6: Option<ReservedIpv6>,
}

/// An address that was bought, of which less is known than of others.
#[derive(Debug, Deserialize)]
pub struct Created {
    #[serde(alias = "floating_ip", alias = "reserved_ipv6")]
    reserved_ip: CreatedAddress,
}

#[derive(Debug, Deserialize)]
pub struct CreatedAddress {
    pub ip: IpAddr,
}

/// An action.
#[derive(Debug, Deserialize)]
pub struct Action {
    pub action: ActionState,
}

#[derive(Debug, Deserialize)]
pub struct ActionState {
    pub id: u64,
    pub status: String,
}

impl TryFrom<ReservedIp> for Address {
    type Error = Refusal;

    fn try_from(found: ReservedIp) -> Result<Self, Refusal> {
        // Taken for free, an address that is in use would be given to another.
        let droplet = found.droplet.ok_or_else(|| {
            let words = "it does not say on which droplets addresses are; has the token the scope droplet:read?";
            Refusal::new(Class::Unauthorized, words)
        })?;
        Ok(Self {
            ip: found.ip,
            droplet: droplet.map(|droplet| droplet.id),
            locked: found.locked,
            project: found.project_id.filter(|id| !id.is_empty()),
        })
    }
}

impl From<ReservedIpv6> for Address {
    fn from(found: ReservedIpv6) -> Self {
        Self {
            ip: found.ip,
            droplet: found.droplet.map(|droplet| droplet.id),
            locked: false,
            project: None,
        }
    }
}

impl One {
    /// The address in it.
    pub fn address(self) -> Result<Address, Refusal> {
        match (self.reserved_ip, self.reserved_ipv6) {
            (Some(found), _) => found.try_into(),
            (None, Some(found)) => Ok(found.into()),
            (None, None) => Err(Refusal::new(
                Class::Unavailable,
                "the answer makes no sense: it has no address",
            )),
        }
    }
}

impl Created {
    /// The address in it.
    pub fn address(self) -> CreatedAddress {
        self.reserved_ip
    }
}

/// Tells a field that is null from one that is left out.
fn present<'de, D, T>(deserializer: D) -> Result<Option<Option<T>>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Deserialize<'de>,
{
    Option::deserialize(deserializer).map(Some)
}
