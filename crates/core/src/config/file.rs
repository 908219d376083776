//! galaxy-ipam's own JSON file.

use std::time::Duration;

use serde_json::value::RawValue;

use super::json::{Object, decode};
use crate::json::JsonError;

/// The settings of the file; all of them have defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileConfig {
    /// The text of an address configuration that replaces the `ConfigMap`, for
    /// [`AddressConfig::parse`](super::AddressConfig::parse); never an empty
    /// list.
    pub floatingips: Option<String>,
    /// The time between two full checks, at least a minute.
    pub resync_interval: Duration,
    /// The name of the `ConfigMap` with the address configuration.
    pub config_map_name: String,
    /// Its namespace.
    pub config_map_namespace: String,
    /// The key of the address configuration in its data.
    pub floatingip_key: String,
    /// Host and port of the cloud provider; `None` when there is none.
    pub cloud_provider: Option<String>,
}

/// Why the file cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// The text is no JSON object.
    #[error("invalid JSON: {0}")]
    InvalidJson(String),
    /// A member is of the wrong type.
    #[error("field {field}: {error}")]
    InvalidMember {
        /// The member.
        field: &'static str,
        /// What is wrong with it.
        error: String,
    },
}

impl FileError {
    /// The stable reason for logs, events and metrics.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::InvalidJson(_) => "InvalidJson",
            Self::InvalidMember { .. } => "InvalidMember",
        }
    }
}

impl Default for FileConfig {
    fn default() -> Self {
        Self {
            floatingips: None,
            resync_interval: Duration::from_mins(1),
            config_map_name: "floatingip-config".into(),
            config_map_namespace: "kube-system".into(),
            floatingip_key: "floatingips".into(),
            cloud_provider: None,
        }
    }
}

impl FileConfig {
    /// Reads the JSON text. An empty string counts as no member, and unknown
    /// members are ignored, which files for older versions rely on.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        let invalid = |error: JsonError| FileError::InvalidJson(error.to_string());
        let whole: Object<'_> = decode(text).map_err(invalid)?;
        let plugin = Plugin(member("schedule_plugin", whole.object("schedule_plugin"))?);
        let default = Self::default();
        let name = |field, default| Ok(plugin.text(field)?.unwrap_or(default));
        Ok(Self {
            floatingips: plugin.floatingips()?,
            resync_interval: plugin.resync_interval()?,
            config_map_name: name("configMapName", default.config_map_name)?,
            config_map_namespace: name("configMapNamespace", default.config_map_namespace)?,
            floatingip_key: name("floatingipKey", default.floatingip_key)?,
            cloud_provider: plugin.text("cloudProviderGrpcAddr")?,
        })
    }
}

/// The member with all the settings.
struct Plugin<'a>(Object<'a>);

impl Plugin<'_> {
    fn floatingips(&self) -> Result<Option<String>, FileError> {
        let Some(raw) = self.0.raw("floatingips") else {
            return Ok(None);
        };
        let entries = decode::<Vec<&RawValue>>(raw.get());
        let entries = member("floatingips", entries)?;
        Ok((!entries.is_empty()).then(|| raw.get().to_owned()))
    }

    fn resync_interval(&self) -> Result<Duration, FileError> {
        let minutes = member("resyncInterval", self.0.get::<i64>("resyncInterval"))?;
        let minutes = minutes.unwrap_or(1).max(1).unsigned_abs();
        Ok(Duration::from_secs(minutes.saturating_mul(60)))
    }

    fn text(&self, field: &'static str) -> Result<Option<String>, FileError> {
        let text = member(field, self.0.get::<String>(field))?;
        Ok(text.filter(|text| !text.is_empty()))
    }
}

fn member<T>(field: &'static str, value: Result<T, JsonError>) -> Result<T, FileError> {
    value.map_err(|error| FileError::InvalidMember {
        field,
        error: error.to_string(),
    })
}

#[cfg(test)]
mod tests;
