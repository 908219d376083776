//! The networks of a node: `galaxy.json`, and the files of a CNI directory.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::json;

/// The settings of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Network configurations by name.
    pub networks: BTreeMap<String, NetworkConfig>,
    /// Networks of pods without the annotation, in this order.
    pub default_networks: Vec<String>,
    /// The network of pods that ask for an address and have no annotation.
    pub eni_ip_network: Option<String>,
}

/// The configuration of a network: one plugin, or several in a row.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// Its name.
    pub name: String,
    /// The version that its file names.
    pub cni_version: Option<String>,
    /// The plugins, in order; never empty, each has a `type`.
    pub plugins: Vec<Map<String, Value>>,
    /// Whether its plugins are not to be called with CHECK.
    pub disable_check: bool,
}

/// Why a file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    /// It is not JSON of the form that is expected.
    #[error("{0}")]
    Malformed(String),
    /// A network has no name.
    #[error("a network configuration has no \"name\"")]
    NoName,
    /// A network has no `type`.
    #[error("network configuration {0} has no \"type\"")]
    NoType(String),
    /// A network has neither a plugin nor a list of plugins.
    #[error("network configuration {0} has neither \"type\" nor \"plugins\"")]
    NoPlugins(String),
    /// A network names a plugin that cannot be a file in a directory of plugins.
    #[error("network configuration {name}: {kind:?} is not the name of a plugin")]
    BadType {
        /// The network.
        name: String,
        /// The plugin.
        kind: String,
    },
    /// Two networks have the same name.
    ///
    /// Compat: the words are galaxy's.
    #[error("multiple network configuration with name {0}")]
    Duplicate(String),
}

impl SettingsError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Malformed(_)
            | Self::NoName
            | Self::NoType(_)
            | Self::NoPlugins(_)
            | Self::BadType { .. } => "InvalidNetworkConfiguration",
            Self::Duplicate(_) => "DuplicateNetwork",
        }
    }
}

impl Settings {
    /// Reads `galaxy.json`. Members that floe does not know are ignored.
    ///
    /// Compat: a network without `name` is called like its plugin, and names of
    /// networks that are not configured here are no mistake.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let malformed = SettingsError::Malformed;
        let top = json::object(text).map_err(malformed)?;
        let mut settings = Self {
            eni_ip_network: Some(json::text(&top, "ENIIPNetwork").map_err(malformed)?)
                .filter(|name| !name.is_empty())
                .map(ToOwned::to_owned),
            ..Self::default()
        };
        for name in json::list(&top, "DefaultNetworks").map_err(malformed)? {
            let Value::String(name) = name else {
                return Err(malformed(
                    "an element of \"DefaultNetworks\" is not a string".into(),
                ));
            };
            settings.default_networks.push(name.clone());
        }
        for (number, conf) in (1..).zip(json::list(&top, "NetworkConf").map_err(malformed)?) {
            let place = format!("number {number} of NetworkConf");
            let Value::Object(conf) = conf else {
                return Err(malformed(format!("{place} is not an object")));
            };
            let network = NetworkConfig::of(conf.clone(), Some(&place))?;
            let name = network.name.clone();
            if settings.networks.insert(name.clone(), network).is_some() {
                return Err(SettingsError::Duplicate(name));
            }
        }
        Ok(settings)
    }
}

impl NetworkConfig {
    /// Reads a file of a CNI directory: a single configuration or a list. It must have
    /// a name, by which it is found.
    ///
    /// Compat: `kubeconfig` is left out.
    pub fn parse(text: &str) -> Result<Self, SettingsError> {
        let conf = json::object(text).map_err(SettingsError::Malformed)?;
        let mut network = Self::of(conf, None)?;
        for plugin in &mut network.plugins {
            plugin.remove("kubeconfig");
        }
        Ok(network)
    }

    /// The version that the plugins of this network are spoken to in: the one that its
    /// file names, or else the runtime's.
    pub fn version<'a>(&'a self, runtime: &'a str) -> &'a str {
        self.cni_version.as_deref().unwrap_or(runtime)
    }

    /// What to give to the plugin at this place, in a form of its own that the caller
    /// may change; nothing when there is no such place.
    ///
    /// `runtime` is the version that the runtime speaks and `runtime_config` the
    /// `runtimeConfig` that it gave; a plugin gets of it what its `capabilities` ask for.
    /// It has no `prevResult`: the caller knows the result of the plugin before.
    pub fn plugin_config(
        &self,
        index: usize,
        runtime: &str,
        runtime_config: Option<&Map<String, Value>>,
    ) -> Option<Map<String, Value>> {
        let mut conf = self.plugins.get(index)?.clone();
        conf.insert("name".into(), self.name.clone().into());
        conf.insert("cniVersion".into(), self.version(runtime).into());
        conf.remove("prevResult");
        let wanted = conf.get("capabilities").and_then(Value::as_object);
        let granted: Map<String, Value> = runtime_config
            .into_iter()
            .flatten()
            .filter(|(name, _)| wanted.is_some_and(|all| all.get(*name) == Some(&true.into())))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        if !granted.is_empty() {
            conf.insert("runtimeConfig".into(), granted.into());
        }
        Some(conf)
    }

    /// `place` says where the configuration stands if it needs no name of its own.
    fn of(conf: Map<String, Value>, place: Option<&str>) -> Result<Self, SettingsError> {
        let member = |name| own_text(&conf, name);
        let (name, kind) = (member("name")?, member("type")?);
        let name = match (name, kind, place) {
            ("", _, None) => return Err(SettingsError::NoName),
            ("", "", Some(place)) if conf.contains_key("plugins") => {
                return Err(SettingsError::Malformed(format!("{place} has no \"name\"")));
            }
            ("", "", Some(place)) => return Err(SettingsError::NoType(place.into())),
            ("", kind, Some(_)) => kind,
            (name, _, _) => name,
        }
        .to_owned();
        let cni_version = Some(member("cniVersion")?)
            .filter(|version| !version.is_empty())
            .map(ToOwned::to_owned);
        let disable_check = conf.get("disableCheck") == Some(&true.into());
        let plugins = if kind.is_empty() {
            listed(&name, &conf)?
        } else {
            vec![conf]
        };
        for (number, plugin) in (1..).zip(&plugins) {
            match own_text(plugin, "type")? {
                "" => return Err(SettingsError::NoType(format!("{name}, plugin {number},"))),
                kind if kind.contains(['/', '\0']) || kind == "." || kind == ".." => {
                    let kind = kind.to_owned();
                    return Err(SettingsError::BadType { name, kind });
                }
                _ => {}
            }
        }
        Ok(Self {
            name,
            cni_version,
            plugins,
            disable_check,
        })
    }
}

fn listed(name: &str, conf: &Map<String, Value>) -> Result<Vec<Map<String, Value>>, SettingsError> {
    let no_plugins = || SettingsError::NoPlugins(name.to_owned());
    let Some(Value::Array(list)) = conf.get("plugins") else {
        return Err(no_plugins());
    };
    if list.is_empty() {
        return Err(no_plugins());
    }
    let plugins = (1..).zip(list).map(|(number, plugin)| {
        plugin.as_object().cloned().ok_or_else(|| {
            SettingsError::Malformed(format!(
                "network configuration {name}: plugin {number} is not an object"
            ))
        })
    });
    plugins.collect()
}

/// A member of a network configuration that is a text; empty when there is none. Unlike
/// those of galaxy's own settings, its name is in one case only.
fn own_text<'a>(conf: &'a Map<String, Value>, name: &str) -> Result<&'a str, SettingsError> {
    match conf.get(name) {
        None | Some(Value::Null) => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(SettingsError::Malformed(format!(
            "{name:?} of a network configuration is not a string"
        ))),
    }
}

#[cfg(test)]
mod tests;
