//! The networks of this node: those of `galaxy.json`, and those of the CNI folder.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use floe_core::{
    json::{self, Names},
    node::settings::{NetworkConfig, Settings, SettingsError},
};
use tracing::debug;

use crate::plugins::SHIM;

/// The endings of files that have networks.
const ENDINGS: [&str; 3] = ["conf", "json", "conflist"];

/// A file that is longer is no network's.
const LONGEST: u64 = 1 << 20;

/// The networks of this node.
#[derive(Clone, Debug)]
pub struct Networks {
    settings: Arc<Settings>,
    folder: Arc<Path>,
}

/// Why `galaxy.json` cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The system refuses.
    #[error("cannot read {} (--json-config-path)", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Its content makes no sense.
    #[error("cannot use {} (--json-config-path)", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: SettingsError,
    },
}

/// Why there is no network of that name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nothing has that name.
    #[error("network {name} is neither in the agent's settings nor in {folder}")]
    Unknown {
        /// The name.
        name: String,
        /// Where was looked.
        folder: String,
    },
    /// The file of that name cannot be used.
    #[error("network {name}: {error}")]
    Malformed {
        /// The name.
        name: String,
        /// What is wrong.
        error: String,
    },
    /// It would call the agent again.
    #[error("network {0} leads back to the agent")]
    Loops(String),
}

impl LookupError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "UnknownNetwork",
            Self::Malformed { .. } => "InvalidNetworkConfiguration",
            Self::Loops(_) => "NetworkLoops",
        }
    }
}

impl Networks {
    /// Reads `galaxy.json`. `folder` is looked at when a network is needed that the
    /// file does not have.
    pub fn load(file: &Path, folder: &Path) -> Result<Self, LoadError> {
        let text = fs::read_to_string(file).map_err(|source| LoadError::Io {
            path: file.into(),
            source,
        })?;
        let settings = Settings::parse(&text).map_err(|source| LoadError::Malformed {
            path: file.into(),
            source,
        })?;
        Ok(Self {
            settings: settings.into(),
            folder: folder.into(),
        })
    }

    /// What `galaxy.json` says.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The network of that name, as a value of its own.
    pub async fn find(&self, name: &str) -> Result<NetworkConfig, LookupError> {
        let found = match self.settings.networks.get(name) {
            Some(network) => network.clone(),
            None => self.look(name).await?,
        };
        let mut kinds = found
            .plugins
            .iter()
            .filter_map(|it| it.get("type")?.as_str());
        // It would call the agent for ever.
        if kinds.any(|kind| kind == SHIM) {
            return Err(LookupError::Loops(name.to_owned()));
        }
        Ok(found)
    }

    async fn look(&self, name: &str) -> Result<NetworkConfig, LookupError> {
        let (folder, wanted) = (Arc::clone(&self.folder), name.to_owned());
        match tokio::task::spawn_blocking(move || look(&folder, &wanted)).await {
            Ok(result) => result,
            // A panic goes on in whoever waits for the work.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

/// Looks at the files of a folder, and of the folders in it. They are looked at anew
/// each time: others write there.
fn look(folder: &Path, name: &str) -> Result<NetworkConfig, LookupError> {
    let mut files = Vec::new();
    for entry in entries(folder) {
        if entry.is_dir() {
            files.extend(entries(&entry));
        } else {
            files.push(entry);
        }
    }
    for file in files {
        let ending = file
            .extension()
            .and_then(|it| it.to_str())
            .unwrap_or_default();
        if !ENDINGS.contains(&ending) || !is_named(&file, name) {
            continue;
        }
        let malformed = |error: String| LookupError::Malformed {
            name: name.to_owned(),
            error: format!("{}: {error}", file.display()),
        };
        let text = fs::read_to_string(&file).map_err(|error| malformed(error.to_string()))?;
        let network = NetworkConfig::parse(&text).map_err(|error| malformed(error.to_string()))?;
        if network.name == name {
            return Ok(network);
        }
    }
    Err(LookupError::Unknown {
        name: name.to_owned(),
        folder: folder.display().to_string(),
    })
}

/// What is in a folder, in the order of names; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = match fs::read_dir(folder) {
        Ok(entries) => entries.flatten().map(|entry| entry.path()).collect(),
        Err(error) => {
            debug!(folder = %folder.display(), error = %error, "folder of networks cannot be read");
            Vec::new()
        }
    };
    paths.sort();
    paths
}

/// Whether a file has a network of that name, be it a bad one. Bad files of other
/// networks are nobody's business here.
fn is_named(file: &Path, name: &str) -> bool {
    #[derive(serde::Deserialize)]
    struct Named {
        name: String,
    }
    fs::metadata(file).is_ok_and(|it| it.is_file() && it.len() <= LONGEST)
        && fs::read(file)
            .ok()
            .and_then(|text| json::decode::<Named>(&text, Names::Go).ok())
            .is_some_and(|named| named.name == name)
}

#[cfg(test)]
mod tests;
