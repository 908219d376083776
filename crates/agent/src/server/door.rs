//! The socket itself.

use std::{
    fs::{self, DirBuilder, Permissions},
    io::{self, ErrorKind},
    os::unix::fs::{DirBuilderExt as _, FileTypeExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use tokio::{
    net::{UnixListener, UnixStream},
    time::timeout,
};

/// How long to wait whether somebody is there.
const PATIENCE: Duration = Duration::from_secs(2);

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// Somebody else answers there.
    #[error("another daemon answers on {} (--socket)", .0.display())]
    Taken(PathBuf),
    /// Something else is there.
    #[error("{} is there and is not a socket (--socket)", .0.display())]
    NotASocket(PathBuf),
    /// The system refuses.
    #[error("cannot {what} {} (--socket)", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// Opens a socket that only root can use. What a daemon that is gone has left there is
/// replaced in one step; from one that lives nothing is taken.
pub async fn open(socket: &Path) -> Result<UnixListener, DoorError> {
    let failed = |what, path: &Path| {
        let path = path.to_path_buf();
        move |source| DoorError::Io { what, path, source }
    };
    if let Some(folder) = socket.parent().filter(|folder| !folder.exists()) {
        let mut builder = DirBuilder::new();
        let made = builder.recursive(true).mode(0o755).create(folder);
        made.map_err(failed("make", folder))?;
        // Whatever the process's mask takes away.
        let rights = Permissions::from_mode(0o755);
        fs::set_permissions(folder, rights).map_err(failed("open", folder))?;
    }
    match fs::symlink_metadata(socket) {
        Ok(there) if !there.file_type().is_socket() => {
            return Err(DoorError::NotASocket(socket.into()));
        }
        Ok(_) => match timeout(PATIENCE, UnixStream::connect(socket)).await {
            // Who is too busy to take a connection lives, too.
            Ok(Ok(_)) | Err(_) => return Err(DoorError::Taken(socket.into())),
            Ok(Err(_)) => {}
        },
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed("look at", socket)(error)),
    }
    // Under another name first, so that it is never there with other rights.
    let mut new = socket.as_os_str().to_owned();
    new.push(format!(".{}", std::process::id()));
    let new = PathBuf::from(new);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(failed("remove", &new)(error));
        }
        _ => {}
    }
    let listener = UnixListener::bind(&new).map_err(failed("open", &new))?;
    let ready = fs::set_permissions(&new, Permissions::from_mode(0o600))
        .and_then(|()| fs::rename(&new, socket));
    if let Err(error) = ready {
        let _ = fs::remove_file(&new);
        return Err(failed("open", socket)(error));
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[tokio::test]
    async fn only_root_can_use_it_and_nothing_else_is_left_in_its_folder() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("run/galaxy/galaxy.sock");
        let _listener = open(&socket).await.unwrap();
        assert_eq!(mode(&socket), 0o600);
        assert_eq!(mode(socket.parent().unwrap()), 0o755);
        assert_eq!(fs::read_dir(socket.parent().unwrap()).unwrap().count(), 1);
        UnixStream::connect(&socket).await.unwrap();
    }

    #[tokio::test]
    async fn a_living_daemon_keeps_its_socket_and_a_dead_one_does_not() {
        let folder = TempDir::new().unwrap();
        let socket = folder.path().join("galaxy.sock");
        let first = open(&socket).await.unwrap();
        let refused = open(&socket).await.unwrap_err();
        assert!(matches!(refused, DoorError::Taken(_)), "{refused}");
        UnixStream::connect(&socket).await.unwrap();
        drop(first);
        let _second = open(&socket).await.unwrap();
        UnixStream::connect(&socket).await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_is_no_socket_stays() {
        let folder = TempDir::new().unwrap();
        let file = folder.path().join("galaxy.sock");
        fs::write(&file, "mine").unwrap();
        let refused = open(&file).await.unwrap_err();
        assert!(matches!(refused, DoorError::NotASocket(_)), "{refused}");
        assert_eq!(fs::read_to_string(&file).unwrap(), "mine");
    }
}
