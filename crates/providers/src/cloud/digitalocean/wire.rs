//! What the API writes of addresses.

use std::net::IpAddr;

use floe_core::nodepool::cloud::{Class, Refusal};
use serde::{Deserialize, Deserializer};

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
    #[serde(default, deserialize_with = "holder")]
    droplet: Holder,
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

/// Who has an address.
#[derive(Debug, Default)]
enum Holder {
    /// It is not said: so it is for whoever may not read droplets.
    #[default]
    Unsaid,
    Nobody,
    Droplet(u64),
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
        let droplet = match found.droplet {
            Holder::Nobody => None,
            Holder::Droplet(id) => Some(id),
            // Taken for free, an address that is in use would be given to another.
            Holder::Unsaid => {
                let words = "it does not say on which droplets addresses are; has the token the scope droplet:read?";
                return Err(Refusal::new(Class::Unauthorized, words));
            }
        };
        Ok(Self {
            ip: found.ip,
            droplet,
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
fn holder<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Holder, D::Error> {
    let droplet: Option<Droplet> = Option::deserialize(deserializer)?;
    Ok(droplet.map_or(Holder::Nobody, |droplet| Holder::Droplet(droplet.id)))
}
