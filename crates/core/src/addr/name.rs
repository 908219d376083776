//! The Kubernetes object name of an address.
//!
//! A name holds no colon, and the unique name is what keeps one address from
//! having two holders. So each address has exactly one name: IPv4 in the usual
//! dotted form, IPv6 as eight groups of four lower-case hex digits joined by
//! `-`.

use std::{
    fmt::Write,
    net::{IpAddr, Ipv6Addr},
};

use super::canonical;

/// Why a text is not the name of an address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is no address at all.
    #[error("{0:?} is not the name of an IP address")]
    NotAnAddress(String),
    /// The text spells an address, but not the way its name does.
    #[error("{text:?} is not the name of {ip}: that is {:?}", name(*.ip))]
    NotCanonical {
        /// The text.
        text: String,
        /// The address that it spells.
        ip: IpAddr,
    },
}

impl NameError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotAnAddress(_) => "NameNotAnAddress",
            Self::NotCanonical { .. } => "NameNotCanonical",
        }
    }
}

/// The object name of an address.
pub fn name(ip: IpAddr) -> String {
    match canonical(ip) {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => {
            let mut name = String::with_capacity("0000-".len() * 8);
            for (index, group) in ip.segments().into_iter().enumerate() {
                let dash = if index == 0 { "" } else { "-" };
                write!(name, "{dash}{group:04x}").expect("a string takes everything");
            }
            name
        }
    }
}

/// The address that has this object name.
pub fn parse(text: &str) -> Result<IpAddr, NameError> {
    let ip = spelled(text).map(canonical);
    let ip = ip.ok_or_else(|| NameError::NotAnAddress(text.into()))?;
    if name(ip) == text {
        return Ok(ip);
    }
    Err(NameError::NotCanonical {
        text: text.into(),
        ip,
    })
}

/// The address that a text means, in any spelling that a person may try.
fn spelled(text: &str) -> Option<IpAddr> {
    let dashed = || text.replace('-', ":").parse::<Ipv6Addr>().ok();
    text.parse().ok().or_else(|| dashed().map(IpAddr::V6))
}

#[cfg(test)]
mod tests;
