//! The configuration that comes on standard input: what all plugins have in common.

use std::collections::BTreeMap;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    args::{self, CniArgsError, IPINFOS},
    call::{Command, is_identifier, is_ifname},
    error::{CniError, Code},
    object::Object,
    result::{Dns, Outcome},
    version::Version,
};
use crate::{
    ipam::args::{IpInfo, folded, shortened},
    json::{self, Names},
};

/// A network configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct NetConf {
    /// The version that the caller speaks; see [`Version::UNNAMED`] for when it does
    /// not tell.
    pub version: Version,
    /// The name of the network.
    pub name: String,
    /// The plugin.
    pub kind: String,
    /// The IPAM plugin, if one is named.
    pub ipam: Option<String>,
    /// DNS settings to hand on.
    pub dns: Dns,
    /// The result of the plugin before, or of the ADD.
    pub previous: Option<Outcome>,
    /// For GC: the attachments that are still there. `None` is not the same as an
    /// empty list: who was not told what is valid must not remove anything.
    pub valid_attachments: Option<Vec<Attachment>>,
    /// Everything, as it came.
    pub members: BTreeMap<String, Value>,
}

/// An attachment of a container to a network.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub struct Attachment {
    /// The container.
    #[serde(rename = "containerID")]
    pub container: String,
    /// The interface in it.
    pub ifname: String,
}

/// The member that tells which attachments are valid, and its name in the first
/// releases of the CNI project that had it.
const VALID_ATTACHMENTS: [&str; 2] = ["cni.dev/valid-attachments", "cni.dev/attachments"];

impl NetConf {
    /// Reads a configuration.
    pub fn parse(stdin: &[u8]) -> Result<Self, CniError> {
        Self::parse_for(stdin, Command::Add)
    }

    /// Reads a configuration for a command. For DEL and GC a previous result that
    /// cannot be read counts as not there: clean-up goes as far as it can.
    pub fn parse_for(stdin: &[u8], command: Command) -> Result<Self, CniError> {
        let members = object(stdin)?;
        let version = version(&members)?;
        let name = text(&members, "name")?
            .ok_or_else(|| invalid("the network configuration has no \"name\""))?;
        if !is_identifier(&name) {
            let name = shortened(&name);
            return Err(invalid(format!("{name:?} cannot be the name of a network")));
        }
        let kind = text(&members, "type")?
            .ok_or_else(|| invalid("the network configuration has no \"type\""))?;
        let ipam = read::<BTreeMap<String, Value>>(&members, "ipam")?.unwrap_or_default();
        let ipam = text(&ipam, "type")?;
        for plugin in [Some(&kind), ipam.as_ref()].into_iter().flatten() {
            check_plugin(plugin)?;
        }
        let previous = match find(&members, "prevResult") {
            None | Some(Value::Null) => None,
            Some(json) => match Outcome::from_json(json) {
                Ok(outcome) => Some(outcome),
                Err(_) if matches!(command, Command::Del | Command::Gc) => None,
                Err(error) => {
                    return Err(CniError {
                        message: format!("prevResult: {}", error.message),
                        ..error
                    });
                }
            },
        };
        let dns: Option<Object<Dns>> = read(&members, "dns")?;
        Ok(Self {
            version,
            name,
            kind,
            ipam,
            dns: dns.map(|Object(dns)| dns).unwrap_or_default(),
            previous,
            valid_attachments: attachments(&members)?,
            members,
        })
    }

    /// The version in which an error about this input is to be told, however bad the
    /// input is.
    pub fn version_of(stdin: &[u8]) -> Version {
        object(stdin)
            .and_then(|members| version(&members))
            .unwrap_or(Version::LATEST)
    }

    /// A member of the plugin's own, read as `T`; the default when it is not there.
    ///
    /// Compat: like galaxy's reader it takes the name in any case, and `null` for
    /// nothing. The exact name goes first.
    pub fn member<T: DeserializeOwned + Default>(&self, name: &str) -> Result<T, CniError> {
        Ok(read(&self.members, name)?.unwrap_or_default())
    }

    /// The addresses in `ipinfos` of `args.cni`, if it is there: at least one. Multus
    /// puts the `cni-args` of a pod's annotation there, and nothing into `CNI_ARGS`.
    ///
    /// The list may also be written as a text, as in `CNI_ARGS`.
    pub fn addresses(&self) -> Result<Option<Vec<IpInfo>>, CniError> {
        let args = self.members.get("args").and_then(|args| args.get("cni"));
        let text = match args.and_then(|args| args.get(IPINFOS)) {
            None | Some(Value::Null) => return Ok(None),
            Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
            Some(Value::String(text)) => text.clone(),
            Some(json) => json.to_string(),
        };
        let infos = args::read(&text).map_err(|error| {
            let message = if let CniArgsError::Addresses(why) = &error {
                format!("ipinfos in args.cni: {why}")
            } else {
                error.to_string()
            };
            CniError::new(Code::InvalidConfiguration, error.reason(), message)
        });
        infos.map(Some)
    }
}

type Members = BTreeMap<String, Value>;

fn object(stdin: &[u8]) -> Result<Members, CniError> {
    json::decode(stdin, Names::Go).map_err(|error| {
        let why = shortened(&error.to_string());
        undecodable(format!("cannot read the network configuration: {why}"))
    })
}

fn version(members: &Members) -> Result<Version, CniError> {
    match find(members, "cniVersion") {
        None | Some(Value::Null) => Ok(Version::UNNAMED),
        Some(Value::String(text)) if text.is_empty() => Ok(Version::UNNAMED),
        Some(Value::String(text)) => Ok(text.parse::<Version>()?),
        Some(Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(undecodable("cniVersion is not a text"))
        }
    }
}

fn attachments(members: &Members) -> Result<Option<Vec<Attachment>>, CniError> {
    let Some(name) = VALID_ATTACHMENTS
        .into_iter()
        .find(|name| members.contains_key(*name))
    else {
        return Ok(None);
    };
    // Compat: the CNI project's library writes an empty list as null.
    let list: Vec<Object<Attachment>> = read(members, name)?.unwrap_or_default();
    let list: Vec<Attachment> = list.into_iter().map(|Object(known)| known).collect();
    let is_valid = |known: &Attachment| is_identifier(&known.container) && is_ifname(&known.ifname);
    if list.iter().all(is_valid) {
        return Ok(Some(list));
    }
    // One that cannot be compared would be removed, although it may be in use.
    Err(invalid(format!(
        "{name} has an attachment that is not valid"
    )))
}

/// The name of a plugin is the name of a file that is executed.
fn check_plugin(name: &str) -> Result<(), CniError> {
    if name.contains(['/', '\0']) || matches!(name, "." | "..") {
        let name = shortened(name);
        return Err(invalid(format!("{name:?} cannot be the name of a plugin")));
    }
    Ok(())
}

fn text(members: &Members, name: &str) -> Result<Option<String>, CniError> {
    Ok(read::<String>(members, name)?.filter(|text| !text.is_empty()))
}

fn read<T: DeserializeOwned>(members: &Members, name: &str) -> Result<Option<T>, CniError> {
    let Some(value) = find(members, name) else {
        return Ok(None);
    };
    Option::deserialize(value).map_err(|error| {
        let why = shortened(&error.to_string());
        invalid(format!("{name:?} of the network configuration: {why}"))
    })
}

fn find<'a>(members: &'a Members, name: &str) -> Option<&'a Value> {
    members.get(name).or_else(|| {
        let wanted = folded(name);
        members
            .iter()
            .find(|(known, _)| folded(known) == wanted)
            .map(|(_, value)| value)
    })
}

fn invalid(message: impl Into<String>) -> CniError {
    CniError::of(Code::InvalidConfiguration, message)
}

fn undecodable(message: impl Into<String>) -> CniError {
    CniError::of(Code::UndecodableContent, message)
}

#[cfg(test)]
mod tests;
