//! `CNI_ARGS`, and the addresses in it.

use std::{collections::BTreeSet, fmt, net::IpAddr};

use super::error::{CniError, Code};
use crate::{
    ipam::args::{IpInfo, MAX_LISTS, shortened},
    json::{self, Names},
};

/// The name under which the addresses of a container are handed to a plugin.
pub const IPINFOS: &str = "ipinfos";

/// The highest number of a VLAN; 4095 is reserved.
pub const MAX_VLAN: u16 = 4094;

/// `CNI_ARGS`: names and values, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CniArgs(Vec<(String, String)>);

/// Why `CNI_ARGS` or what is in it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CniArgsError {
    /// A part has no value.
    #[error("CNI_ARGS has a part without \"=\": {0:?}")]
    NoValue(String),
    /// A part has no name, or one that cannot be written.
    #[error("CNI_ARGS cannot have the name {0:?}")]
    InvalidName(String),
    /// A value cannot be written: nothing in `CNI_ARGS` can stand for `;`.
    #[error("CNI_ARGS cannot have the value of {0:?}")]
    InvalidValue(String),
    /// The addresses cannot be read.
    #[error("ipinfos in CNI_ARGS: {0}")]
    Addresses(String),
    /// The list is empty.
    #[error("empty ipInfos")]
    NoAddresses,
}

impl CniArgs {
    /// Reads the variable. Empty parts are skipped, as between two `;` or at the end.
    pub fn parse(text: &str) -> Result<Self, CniArgsError> {
        let mut args = Vec::new();
        for part in text.split(';').filter(|part| !part.trim().is_empty()) {
            let Some((name, value)) = part.split_once('=') else {
                return Err(CniArgsError::NoValue(shortened(part)));
            };
            let name = name.trim();
            if !is_name(name) {
                return Err(CniArgsError::InvalidName(shortened(name)));
            }
            args.push((name.to_owned(), value.to_owned()));
        }
        Ok(Self(args))
    }

    /// The value of a name; the last one if there are several.
    ///
    /// Compat: that is what galaxy and the CNI project's plugins take, and galaxy
    /// appends its own values behind those of the runtime.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.iter()
            .filter(|(known, _)| *known == name)
            .last()
            .map(|(_, value)| value)
    }

    /// Adds a value, or replaces all that are there. Refused when it could be read
    /// back as something else, such as a value with a `;` and a second name behind it.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), CniArgsError> {
        if !is_name(name) {
            return Err(CniArgsError::InvalidName(shortened(name)));
        }
        if value.contains([';', '\0']) {
            return Err(CniArgsError::InvalidValue(shortened(name)));
        }
        let mut value = Some(value);
        self.0.retain_mut(|(known, old)| {
            if known != name {
                return true;
            }
            let value = value.take();
            value.inspect(|value| (*value).clone_into(old)).is_some()
        });
        if let Some(value) = value {
            self.0.push((name.to_owned(), value.to_owned()));
        }
        Ok(())
    }

    /// The same for a value that is JSON. A `;` can stand in its texts only, and is
    /// written as `\u003b` there, which means the same.
    pub fn set_json(&mut self, name: &str, json: &str) -> Result<(), CniArgsError> {
        self.set(name, &json.replace(';', "\\u003b"))
    }

    /// All names and values.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0
            .iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The addresses in `ipinfos`, if it is there: at least one.
    pub fn addresses(&self) -> Result<Option<Vec<IpInfo>>, CniArgsError> {
        // Compat: an empty value is as good as none for galaxy.
        let Some(text) = self.get(IPINFOS).filter(|text| !text.trim().is_empty()) else {
            return Ok(None);
        };
        read(text).map(Some)
    }
}

/// Reads the addresses that `ipinfos` has, wherever it stands: at least one.
pub(super) fn read(text: &str) -> Result<Vec<IpInfo>, CniArgsError> {
    let infos: Vec<IpInfo> = json::decode::<Option<_>>(text.as_bytes(), Names::Go)
        .map_err(|error| CniArgsError::Addresses(shortened(&error.to_string())))?
        .unwrap_or_default();
    check(&infos)?;
    Ok(infos)
}

impl fmt::Display for CniArgs {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, (name, value)) in self.iter().enumerate() {
            let separator = if place == 0 { "" } else { ";" };
            write!(out, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

impl CniArgsError {
    /// The stable reason.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NoValue(_) | Self::InvalidName(_) | Self::InvalidValue(_) => "InvalidArgs",
            Self::Addresses(_) => "InvalidIpInfos",
            Self::NoAddresses => "EmptyIpInfos",
        }
    }
}

impl From<CniArgsError> for CniError {
    fn from(error: CniArgsError) -> Self {
        Self::new(Code::InvalidEnvironment, error.reason(), error.to_string())
    }
}

fn is_name(name: &str) -> bool {
    !name.is_empty() && name.trim() == name && !name.contains(['=', ';', '\0'])
}

/// Refuses lists that no node could set up, before anything is touched.
pub fn check(infos: &[IpInfo]) -> Result<(), CniArgsError> {
    let refuse = |why: String| Err(CniArgsError::Addresses(why));
    if infos.is_empty() {
        return Err(CniArgsError::NoAddresses);
    }
    if infos.len() > MAX_LISTS {
        let count = infos.len();
        return refuse(format!(
            "{count} addresses, at most {MAX_LISTS} are allowed"
        ));
    }
    let mut seen = BTreeSet::new();
    for info in infos {
        let ip = info.ip.addr();
        if !is_usable(ip) {
            return refuse(format!("{ip} cannot be the address of a pod"));
        }
        if info.ip.prefix_len() == 0 {
            return refuse(format!(
                "{ip} has prefix length 0; correct the field subnet of its entry in the address \
                 configuration"
            ));
        }
        if info.vlan > MAX_VLAN {
            return refuse(format!("vlan {} of {ip} is above {MAX_VLAN}", info.vlan));
        }
        if info.gateway.is_ipv4() != ip.is_ipv4() {
            return refuse(format!(
                "gateway {} of {ip} is of another family",
                info.gateway
            ));
        }
        if !seen.insert(ip) {
            return refuse(format!("{ip} is there twice"));
        }
    }
    Ok(())
}

fn is_usable(ip: IpAddr) -> bool {
    let everybody = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(ip.is_unspecified() || ip.is_multicast() || ip.is_loopback() || everybody)
}

#[cfg(test)]
mod tests;
