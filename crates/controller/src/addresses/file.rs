//! galaxy-ipam's JSON file.

use std::{fs, io, path::PathBuf};

use floe_core::config::{
    AddressConfig, FileConfig, Loaded, Mode, file::FileError, problem::Refused,
};

use crate::config::FilePath;

/// Why the process cannot start with its file. Compat: the message starts as
/// galaxy-ipam's does, and the exit code is 1.
#[derive(Debug, thiserror::Error)]
pub enum InitError {
    /// The file cannot be read.
    #[error("init server: cannot read {} (--config)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The file can be read but not understood.
    #[error("init server: cannot use {} (--config)", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: FileError,
    },
    /// The address configuration in the file is one that galaxy refuses too.
    #[error("init server: cannot use the floatingips in {} (--config)", path.display())]
    Addresses {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: Refused,
    },
}

/// What the file says.
#[derive(Debug, PartialEq, Eq)]
pub struct Settings {
    /// The file's own settings.
    pub file: FileConfig,
    /// The inline address configuration; then no `ConfigMap` is read.
    pub inline: Option<Loaded>,
}

/// Reads the file. It may be missing where nobody has named it.
pub fn load(path: &FilePath) -> Result<Settings, InitError> {
    let text = match fs::read_to_string(&path.path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound && !path.explicit => {
            return Ok(Settings {
                file: FileConfig::default(),
                inline: None,
            });
        }
        Err(source) => {
            let path = path.path.clone();
            return Err(InitError::Read { path, source });
        }
    };
    let file = FileConfig::parse(&text).map_err(|source| InitError::Content {
        path: path.path.clone(),
        source,
    })?;
    let inline = file.floatingips.as_deref();
    let inline = inline.map(|text| AddressConfig::parse(text, Mode::Lenient));
    let inline = inline.transpose().map_err(|source| InitError::Addresses {
        path: path.path.clone(),
        source,
    })?;
    Ok(Settings { file, inline })
}

#[cfg(test)]
mod tests;
