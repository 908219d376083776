//! Results as they are written. One set of types serves all versions: what a version
//! does not have is left out, and whatever is there is read.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::{Dns, Interface, Ip, Outcome, Route};
use crate::{
    addr,
    cni::{
        error::{CniError, Code},
        object::{self, Object},
        version::Version,
    },
    ipam::args::shortened,
};

/// A result.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Wire {
    #[serde(rename = "cniVersion", skip_serializing_if = "Option::is_none")]
    version: Option<String>,
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    ip4: Option<WireFamily>,
    #[serde(
        deserialize_with = "object::optional",
        skip_serializing_if = "Option::is_none"
    )]
    ip6: Option<WireFamily>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    interfaces: Vec<WireInterface>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    ips: Vec<WireIp>,
    #[serde(
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    routes: Vec<WireRoute>,
    #[serde(deserialize_with = "object::or_default")]
    dns: Dns,
}

/// The address of a family, until 0.2.0.
#[derive(Debug, Serialize, Deserialize)]
struct WireFamily {
    ip: String,
    #[serde(
        default,
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    gateway: Option<String>,
    #[serde(
        default,
        deserialize_with = "object::list",
        skip_serializing_if = "Vec::is_empty"
    )]
    routes: Vec<WireRoute>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct WireInterface {
    name: String,
    #[serde(deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    mac: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(deserialize_with = "filled", skip_serializing_if = "Option::is_none")]
    sandbox: Option<String>,
    #[serde(
        rename = "socketPath",
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    socket_path: Option<String>,
    #[serde(
        rename = "pciID",
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    pci_id: Option<String>,
}

/// An address, since 0.3.0. Its `version` is written where it belongs, and never
/// read: the address tells.
#[derive(Debug, Serialize, Deserialize)]
struct WireIp {
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    interface: Option<i64>,
    address: String,
    #[serde(
        default,
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    gateway: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct WireRoute {
    dst: String,
    #[serde(
        default,
        deserialize_with = "filled",
        skip_serializing_if = "Option::is_none"
    )]
    gw: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    mtu: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    advmss: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    priority: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    table: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    scope: Option<u8>,
}

impl Wire {
    /// The form of a version.
    pub(super) fn of(outcome: &Outcome, version: Version) -> Self {
        let mut wire = Self {
            version: Some(version.to_string()),
            dns: outcome.dns.clone(),
            ..Self::default()
        };
        if version.has_lists() {
            wire.interfaces = outcome
                .interfaces
                .iter()
                .map(|interface| WireInterface::of(interface, version))
                .collect();
            wire.ips = outcome
                .ips
                .iter()
                .map(|ip| WireIp::of(ip, version))
                .collect();
            wire.routes = outcome
                .routes
                .iter()
                .map(|route| WireRoute::of(route, version))
                .collect();
        } else {
            wire.ip4 = WireFamily::of(outcome, version, |ip| ip.is_ipv4());
            wire.ip6 = WireFamily::of(outcome, version, |ip| ip.is_ipv6());
        }
        wire
    }
}

impl WireFamily {
    /// The first address of a family, with the routes that are its own.
    fn of(outcome: &Outcome, version: Version, family: fn(IpAddr) -> bool) -> Option<Self> {
        let mut ips = outcome.ips.iter().filter(|ip| family(ip.address.addr()));
        let first = ips.next()?;
        let further: Vec<&Ip> = ips.collect();
        let routes = outcome
            .routes
            .iter()
            .filter(|route| family(route.dst.addr()) && !is_anothers(route, first, &further))
            .map(|route| WireRoute {
                // Compat: galaxy names a next hop only if it is not the gateway.
                gw: text(route.gw.filter(|gw| Some(*gw) != first.gateway)),
                ..WireRoute::of(route, version)
            })
            .collect();
        Some(Self {
            ip: first.address.to_string(),
            gateway: text(first.gateway),
            routes,
        })
    }
}

impl WireInterface {
    fn of(interface: &Interface, version: Version) -> Self {
        let wire = Self {
            name: interface.name.clone(),
            mac: interface.mac.clone(),
            sandbox: interface.sandbox.clone(),
            ..Self::default()
        };
        if version < Version::V1_1_0 {
            return wire;
        }
        Self {
            mtu: interface.mtu,
            socket_path: interface.socket_path.clone(),
            pci_id: interface.pci_id.clone(),
            ..wire
        }
    }

    fn read(self) -> Interface {
        Interface {
            name: self.name,
            mac: self.mac,
            mtu: self.mtu,
            sandbox: self.sandbox,
            socket_path: self.socket_path,
            pci_id: self.pci_id,
        }
    }
}

impl WireIp {
    fn of(ip: &Ip, version: Version) -> Self {
        let family = if ip.address.addr().is_ipv4() {
            "4"
        } else {
            "6"
        };
        Self {
            version: (version < Version::V1_0_0).then_some(family),
            interface: ip.interface.and_then(|place| i64::try_from(place).ok()),
            address: ip.address.to_string(),
            gateway: text(ip.gateway),
        }
    }

    fn read(&self, interfaces: usize) -> Result<Ip, CniError> {
        Ok(Ip {
            address: network(&self.address)?,
            gateway: address(self.gateway.as_deref())?,
            interface: self
                .interface
                .and_then(|place| usize::try_from(place).ok())
                .filter(|place| *place < interfaces),
        })
    }
}

impl WireRoute {
    fn of(route: &Route, version: Version) -> Self {
        let has_more = version >= Version::V1_1_0;
        Self {
            dst: route.dst.trunc().to_string(),
            gw: text(route.gw),
            mtu: route.mtu.filter(|_| has_more),
            advmss: route.advmss.filter(|_| has_more),
            priority: route.priority.filter(|_| has_more),
            table: route.table.filter(|_| has_more),
            scope: route.scope.filter(|_| has_more),
        }
    }

    fn read(&self) -> Result<Route, CniError> {
        Ok(Route {
            dst: addr::parse_net(&self.dst).ok_or_else(|| unreadable("a route", &self.dst))?,
            gw: address(self.gw.as_deref())?,
            mtu: self.mtu,
            advmss: self.advmss,
            priority: self.priority,
            table: self.table,
            scope: self.scope,
        })
    }
}

/// Reads a result. The form that its version has goes first; if no address is there,
/// the other form is looked at, because some plugins name one version and write
/// another.
pub(super) fn read(json: &Value) -> Result<Outcome, CniError> {
    let Object(wire) = Object::<Wire>::deserialize(json).map_err(|error| {
        let why = shortened(&error.to_string());
        CniError::of(
            Code::UndecodableContent,
            format!("cannot read a result: {why}"),
        )
    })?;
    let version: Version = match wire.version.as_deref() {
        None | Some("") => Version::UNNAMED,
        Some(text) => text.parse()?,
    };
    let families = [wire.ip4, wire.ip6];
    let has_families = families.iter().any(Option::is_some);
    let is_old = if version.has_lists() {
        wire.ips.is_empty() && has_families
    } else {
        has_families || wire.ips.is_empty()
    };
    let mut outcome = Outcome {
        dns: wire.dns,
        ..Outcome::default()
    };
    let mut routes = Vec::new();
    if is_old {
        for family in families.into_iter().flatten() {
            outcome.ips.push(Ip {
                address: network(&family.ip)?,
                gateway: address(family.gateway.as_deref())?,
                interface: None,
            });
            routes.extend(family.routes);
        }
    } else {
        for ip in &wire.ips {
            outcome.ips.push(ip.read(wire.interfaces.len())?);
        }
    }
    routes.extend(wire.routes);
    for route in &routes {
        outcome.routes.push(route.read()?);
    }
    outcome.interfaces = wire
        .interfaces
        .into_iter()
        .map(WireInterface::read)
        .collect();
    Ok(outcome)
}

/// Reads `null` as the default.
pub(super) fn or_default<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: Deserialize<'de> + Default,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads `null` and the empty text as nothing.
pub(super) fn filled<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<String>, D::Error> {
    Ok(Option::deserialize(deserializer)?.filter(|text: &String| !text.is_empty()))
}

/// Whether a route belongs to an address behind the first one: it leads over its
/// gateway, or to its network.
fn is_anothers(route: &Route, first: &Ip, further: &[&Ip]) -> bool {
    if let Some(gw) = route.gw {
        return first.gateway != Some(gw) && further.iter().any(|ip| ip.gateway == Some(gw));
    }
    let dst = route.dst.trunc();
    dst != first.address.trunc() && further.iter().any(|ip| dst == ip.address.trunc())
}

fn text(ip: Option<IpAddr>) -> Option<String> {
    ip.map(|ip| ip.to_string())
}

fn network(text: &str) -> Result<IpNet, CniError> {
    addr::parse_with_length(text).ok_or_else(|| unreadable("an address", text))
}

fn address(text: Option<&str>) -> Result<Option<IpAddr>, CniError> {
    text.map(|text| addr::parse(text).ok_or_else(|| unreadable("a gateway", text)))
        .transpose()
}

fn unreadable(what: &str, text: &str) -> CniError {
    CniError::of(
        Code::UndecodableContent,
        format!("cannot read a result: {:?} is not {what}", shortened(text)),
    )
}
