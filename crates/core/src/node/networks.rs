//! Which networks a pod joins.
//!
//! The annotation `k8s.v1.cni.cncf.io/networks` names them, in one of two forms:
//!
//! ```text
//! ns1/galaxy-flannel@eth0, galaxy-k8s-vlan@eth1
//! [{"name": "galaxy-flannel"}, {"name": "galaxy-k8s-vlan", "interface": "eth1"}]
//! ```
//!
//! Compat: namespaces are ignored, and the first network is always on the interface
//! that the runtime names, whatever the annotation asks for.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{json, settings::Settings};
use crate::{
    cni::call::is_ifname,
    json::{Names, decode},
};

/// A network that a pod joins, and the interface that it gets there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The name of the network.
    pub network: String,
    /// The interface in the pod.
    pub ifname: String,
}

/// Why the networks of a pod cannot be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworksError {
    /// A part of the list is not `[namespace/]name[@interface]`.
    #[error("network {0:?} is not [<namespace>/]<name>[@<interface>]")]
    Malformed(String),
    /// It looks like JSON and is not a list of networks.
    #[error("the networks annotation is not a list of networks: {0}")]
    NotJson(String),
    /// An interface has a name that none can have.
    #[error("network {network} cannot be on interface {ifname:?}: that is not a name for one")]
    Interface {
        /// The network.
        network: String,
        /// The name.
        ifname: String,
    },
    /// Two networks are to be on one interface.
    #[error("networks {first} and {second} cannot both be on interface {ifname}")]
    SameInterface {
        /// The interface.
        ifname: String,
        /// The network that has it.
        first: String,
        /// The network that wants it too.
        second: String,
    },
    /// Nothing says which network the pod joins.
    #[error("no network for the pod: neither its annotation nor the default networks name one")]
    None,
}

impl NetworksError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::NotJson(_) | Self::Interface { .. } => "InvalidNetworks",
            Self::SameInterface { .. } => "SameInterface",
            Self::None => "NoNetwork",
        }
    }
}

/// What decides about networks.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The annotation `k8s.v1.cni.cncf.io/networks`.
    pub annotation: Option<&'a str>,
    /// Whether the pod asks for a floating address.
    pub wants_address: bool,
    /// The interface that the runtime names.
    pub ifname: &'a str,
}

/// The networks that a pod joins, in their order: at least one, each on an interface
/// of its own. One network can be there twice.
pub fn select(wanted: Wanted<'_>, settings: &Settings) -> Result<Vec<Selected>, NetworksError> {
    let annotation = wanted.annotation.unwrap_or("");
    let plain = |name: &String| Asked {
        network: name.clone(),
        ifname: String::new(),
    };
    let asked = if annotation.is_empty() {
        let eni = settings.eni_ip_network.as_ref();
        match eni.filter(|name| wanted.wants_address && !name.is_empty()) {
            Some(name) => vec![plain(name)],
            None => settings.default_networks.iter().map(plain).collect(),
        }
    } else if annotation.contains(['[', '{', '"']) {
        of_json(annotation)?
    } else {
        annotation
            .split(',')
            .map(|part| of_part(part.trim()))
            .collect::<Result<_, _>>()?
    };
    if asked.is_empty() {
        return Err(NetworksError::None);
    }
    placed(asked, wanted.ifname)
}

/// A network as it was asked for; the interface may be empty.
struct Asked {
    network: String,
    ifname: String,
}

fn of_json(text: &str) -> Result<Vec<Asked>, NetworksError> {
    let not_json = |why: String| NetworksError::NotJson(why);
    let list: Vec<Value> =
        decode(text.as_bytes(), Names::Exact).map_err(|error| not_json(error.to_string()))?;
    let read = |(number, element): (usize, &Value)| {
        let wrong = |why: &str| not_json(format!("element {number}: {why}"));
        let Value::Object(element) = element else {
            return Err(wrong("not an object"));
        };
        let member = |name| json::text(element, name).map_err(|why| wrong(&why));
        let asked = Asked {
            network: member("name")?.to_owned(),
            ifname: member("interface")?.to_owned(),
        };
        if asked.network.is_empty() {
            return Err(wrong("it has no \"name\""));
        }
        Ok(asked)
    };
    (1..).zip(&list).map(read).collect()
}

fn of_part(part: &str) -> Result<Asked, NetworksError> {
    let malformed = || NetworksError::Malformed(part.to_owned());
    let (namespace, rest) = part.split_once('/').unwrap_or(("", part));
    let (name, ifname) = rest.split_once('@').unwrap_or((rest, ""));
    let [namespace, name, ifname] = [namespace, name, ifname].map(str::trim);
    let is_fine = |text: &str| text.is_empty() || is_label(text);
    // Compat: galaxy takes an empty name too and then finds no network of that name.
    if name.is_empty() || ![namespace, name, ifname].into_iter().all(is_fine) {
        return Err(malformed());
    }
    Ok(Asked {
        network: name.to_owned(),
        ifname: ifname.to_owned(),
    })
}

/// Whether a text matches `^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`.
fn is_label(text: &str) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    bytes.first().is_some_and(is_plain)
        && bytes.last().is_some_and(is_plain)
        && bytes.iter().all(|byte| is_plain(byte) || *byte == b'-')
}

fn placed(asked: Vec<Asked>, ifname: &str) -> Result<Vec<Selected>, NetworksError> {
    let mut taken: BTreeMap<String, String> = BTreeMap::new();
    let mut selected = Vec::new();
    for (
        index,
        Asked {
            network,
            ifname: own,
        },
    ) in asked.into_iter().enumerate()
    {
        let ifname = match index {
            0 => ifname.to_owned(),
            _ if own.is_empty() => format!("eth{index}"),
            _ => own,
        };
        if !is_ifname(&ifname) {
            return Err(NetworksError::Interface { network, ifname });
        }
        if let Some(first) = taken.insert(ifname.clone(), network.clone()) {
            return Err(NetworksError::SameInterface {
                ifname,
                first,
                second: network,
            });
        }
        selected.push(Selected { network, ifname });
    }
    Ok(selected)
}

#[cfg(test)]
mod tests;
