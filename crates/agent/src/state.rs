//! The files that say what was attached for each container, one for each, so that it
//! can be detached without asking anybody.

use std::{
    fs::{self, DirEntry},
    io::{self, ErrorKind},
    net::IpAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use floe_core::{
    addr::canonical,
    node::state::{State, StateError},
};
use floe_net::files;
use tokio::task;

/// Whether the path of a namespace goes on meaning what it meant when it was noted. Below
/// `/proc` it is that of a process, and numbers of processes come again.
pub fn is_lasting(netns: &str) -> bool {
    !netns.starts_with("/proc/")
}

/// The files of containers in a folder, in order; `None` when there is no folder.
/// Folders and hidden files, such as those that are being written, are left out.
pub fn files_in(folder: &Path) -> io::Result<Option<Vec<DirEntry>>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && entry.file_type()?.is_file() {
            files.push(entry);
        }
    }
    files.sort_by_key(DirEntry::file_name);
    Ok(Some(files))
}

/// The folder of state files.
#[derive(Clone, Debug)]
pub struct States(Arc<Path>);

/// A state file.
#[derive(Debug)]
pub struct Kept {
    /// The container.
    pub container: String,
    /// When it was last written.
    pub written: SystemTime,
    /// What it says.
    pub state: Result<State, FileError>,
}

/// Why a state file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error("cannot {what} the state file {}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Its content makes no sense.
    #[error("cannot use {}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        source: StateError,
    },
}

impl FileError {
    /// The stable reason for answers, logs and events.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Io { .. } => "StateUnavailable",
            Self::Malformed { .. } => "StateMalformed",
        }
    }
}

impl States {
    /// The files of this folder, which need not exist yet.
    pub fn new(folder: PathBuf) -> Self {
        Self(folder.into())
    }

    /// The folder.
    #[cfg(test)]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// What was attached for a container; `None` when nothing was.
    pub async fn read(&self, container: &str) -> Result<Option<State>, FileError> {
        let path = self.path(container);
        blocking(move || read(&path)).await
    }

    /// Notes what is attached for a container.
    pub async fn write(&self, container: &str, state: &State) -> Result<(), FileError> {
        let (path, text) = (self.path(container), state.to_json());
        blocking(move || {
            files::write(&path, text.as_bytes()).map_err(|source| FileError::Io {
                what: "write",
                path,
                source,
            })
        })
        .await
    }

    /// Notes that nothing is attached any more.
    pub async fn remove(&self, container: &str) -> Result<(), FileError> {
        let path = self.path(container);
        blocking(move || {
            let removed = files::remove(&path).map(|_| ());
            removed.map_err(|source| FileError::Io {
                what: "remove",
                path,
                source,
            })
        })
        .await
    }

    /// Puts a file aside that cannot be read, so that it is in nobody's way and can be
    /// looked at.
    pub async fn set_aside(&self, container: &str) -> Result<(), FileError> {
        let path = self.path(container);
        let aside = self.path(&format!(".{container}.malformed"));
        blocking(move || {
            fs::rename(&path, aside).map_err(|source| FileError::Io {
                what: "rename",
                path,
                source,
            })
        })
        .await
    }

    /// Notes what is attached now: nothing at all needs no file.
    pub async fn keep(&self, container: &str, state: &State) -> Result<(), FileError> {
        if state.attached.is_empty() {
            self.remove(container).await
        } else {
            self.write(container, state).await
        }
    }

    /// Notes that an address of a container was taken off. The caller holds the
    /// [turn](crate::turns) of the container.
    pub async fn note_taken_off(&self, container: &str, ip: IpAddr) -> Result<(), FileError> {
        let ip = canonical(ip);
        let Some(mut state) = self.read(container).await? else {
            return Ok(());
        };
        let mut changed = false;
        for attached in &mut state.attached {
            let all = attached.addresses();
            if all.iter().any(|it| canonical(it.ip.addr()) == ip) {
                changed |= attached.taken_off.insert(ip);
            }
        }
        if changed {
            self.write(container, &state).await?;
        }
        Ok(())
    }

    /// All files, by the names of their containers; see [`files_in`].
    pub async fn list(&self) -> Result<Vec<Kept>, FileError> {
        let folder = self.0.to_path_buf();
        blocking(move || list(&folder)).await
    }

    /// A container's id is part of a path: it was checked when the request was read.
    fn path(&self, container: &str) -> PathBuf {
        self.0.join(container)
    }
}

fn read(path: &Path) -> Result<Option<State>, FileError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            let path = path.to_path_buf();
            let what = "read";
            return Err(FileError::Io { what, path, source });
        }
    };
    let text = str::from_utf8(&text).map_err(|error| StateError(error.to_string()));
    let state = text.and_then(State::parse);
    state.map(Some).map_err(|source| FileError::Malformed {
        path: path.to_path_buf(),
        source,
    })
}

fn list(folder: &Path) -> Result<Vec<Kept>, FileError> {
    let failed = |source| FileError::Io {
        what: "list",
        path: folder.to_path_buf(),
        source,
    };
    let mut all = Vec::new();
    for entry in files_in(folder).map_err(failed)?.unwrap_or_default() {
        let Ok(container) = entry.file_name().into_string() else {
            continue;
        };
        // It may have gone since.
        let Ok(metadata) = entry.metadata() else {
            continue;
        };
        let state = match read(&entry.path()) {
            Ok(Some(state)) => Ok(state),
            Ok(None) => continue,
            Err(error) => Err(error),
        };
        all.push(Kept {
            container,
            written: metadata.modified().map_err(failed)?,
            state,
        });
    }
    Ok(all)
}

/// Disks can be slow, and the other tasks go on meanwhile.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    match task::spawn_blocking(work).await {
        Ok(result) => result,
        // A panic goes on in whoever waits for the work.
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

#[cfg(test)]
mod tests;
