//! What the shim asks: the environment of its call, and its standard input.

use std::collections::BTreeMap;

use floe_core::{
    cni::{
        args::CniArgsError,
        call::{Call, Command},
        config::NetConf,
        error::{CniError, Code},
    },
    json::{self, Names},
};
use serde::Deserialize;

use crate::pods::Wanted;

mod base64;

/// A call of the runtime, checked.
#[derive(Clone, Debug)]
pub struct Request {
    /// The environment.
    pub call: Call,
    /// The configuration of the shim itself.
    pub config: NetConf,
}

/// Why a request makes no sense.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// It is not JSON of the form that is expected.
    #[error("the request is not what the shim sends: {0}")]
    Malformed(String),
    /// The configuration is not base64.
    #[error("the config of the request is not base64")]
    NotBase64,
    /// The environment lacks something, or has it in a wrong form.
    #[error("{0}")]
    Environment(CniError),
    /// A variable is missing that only the agent needs.
    #[error("missing {0}")]
    Missing(&'static str),
    /// The name of a pod could not be one.
    #[error("{name} in CNI_ARGS cannot be {value:?}")]
    InvalidName {
        /// Which one.
        name: &'static str,
        /// What it says.
        value: String,
    },
    /// The configuration cannot be used.
    #[error("{0}")]
    Config(CniError),
}

impl RequestError {
    /// The stable reason for answers and logs.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_) | Self::NotBase64 => "MalformedRequest",
            Self::Missing(_) => "InvalidEnvironment",
            Self::InvalidName { .. } => "InvalidArgs",
            Self::Environment(error) | Self::Config(error) => error.reason,
        }
    }

    /// The error for a runtime.
    pub fn for_runtime(&self) -> CniError {
        let code = match self {
            Self::Malformed(_) | Self::NotBase64 => Code::Agent,
            Self::Missing(_) | Self::InvalidName { .. } => Code::InvalidEnvironment,
            Self::Environment(error) | Self::Config(error) => return error.clone(),
        };
        CniError::new(code, self.reason(), self.to_string())
    }
}

impl From<CniArgsError> for RequestError {
    fn from(error: CniArgsError) -> Self {
        Self::Environment(error.into())
    }
}

#[derive(Deserialize)]
struct Wire {
    #[serde(default)]
    env: Option<BTreeMap<String, String>>,
    #[serde(default)]
    config: Option<String>,
}

const NAMESPACE: &str = "K8S_POD_NAMESPACE";
const NAME: &str = "K8S_POD_NAME";
const UID: &str = "K8S_POD_UID";

impl Request {
    /// Reads a request.
    ///
    /// Compat: an ADD needs all that galaxy asks for. A DEL needs only what it uses,
    /// so that a pod can always be deleted.
    pub fn parse(body: &[u8]) -> Result<Self, RequestError> {
        let wire: Wire = json::decode(body, Names::Go)
            .map_err(|error| RequestError::Malformed(error.to_string()))?;
        let env = wire.env.unwrap_or_default();
        let call = Call::of(|name| env.get(name).cloned()).map_err(RequestError::Environment)?;
        if call.command == Command::Add {
            for name in ["CNI_PATH", "CNI_ARGS"] {
                if env.get(name).is_none_or(String::is_empty) {
                    return Err(RequestError::Missing(name));
                }
            }
            for name in [NAMESPACE, NAME] {
                match call.args.get(name) {
                    None | Some("") => return Err(RequestError::Missing(name)),
                    Some(value) if !is_name(value) => {
                        let value = value.chars().take(120).collect();
                        return Err(RequestError::InvalidName { name, value });
                    }
                    Some(_) => {}
                }
            }
        }
        let config = base64::decode(wire.config.as_deref().unwrap_or_default())
            .ok_or(RequestError::NotBase64)?;
        let config = NetConf::parse_for(&config, call.command).map_err(RequestError::Config)?;
        Ok(Self { call, config })
    }

    /// The pod that it is about, as far as the runtime tells.
    pub fn pod(&self) -> Wanted<'_> {
        let args = &self.call.args;
        Wanted {
            namespace: args.get(NAMESPACE).unwrap_or_default(),
            name: args.get(NAME).unwrap_or_default(),
            uid: args.get(UID).filter(|uid| !uid.is_empty()),
        }
    }
}

/// Whether a text can be the name of an object. It becomes part of a path.
fn is_name(text: &str) -> bool {
    let is_fine =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
    text.len() <= 253 && text.bytes().all(is_fine) && !text.starts_with('.')
}

#[cfg(test)]
pub mod tests;
