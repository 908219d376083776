//! Network namespaces.

use std::{
    fs::OpenOptions,
    io,
    os::{
        fd::{AsFd, BorrowedFd, OwnedFd},
        unix::fs::OpenOptionsExt,
    },
    panic::resume_unwind,
    path::Path,
    thread,
};

use nix::{
    libc,
    sched::{CloneFlags, setns},
    sys::{
        stat::fstat,
        statfs::{NSFS_MAGIC, fstatfs},
    },
};

/// A network namespace, kept alive by this handle.
#[derive(Debug)]
pub struct Netns(OwnedFd);

impl Netns {
    /// The one that a path leads to. `NotFound` when there is nothing, and also when
    /// the file is no namespace any more, as after a reboot.
    pub fn open(path: &Path) -> io::Result<Self> {
        let opened = OpenOptions::new()
            .read(true)
            // A path from outside may be a pipe, and must not stop us.
            .custom_flags(libc::O_NONBLOCK)
            .open(path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(io::Error::new(io::ErrorKind::NotFound, error));
            }
            opened => opened?,
        };
        if fstatfs(&file)?.filesystem_type() != NSFS_MAGIC {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("{} is not a namespace", path.display()),
            ));
        }
        Ok(Self(file.into()))
    }

    /// The one of this thread.
    pub fn current() -> io::Result<Self> {
        Self::open(Path::new("/proc/thread-self/ns/net"))
    }

    /// Runs `work` inside, on a thread of its own, and waits for it. Sockets that it
    /// opens stay inside wherever they are used.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> io::Result<T> {
        run_in(self.as_fd(), work)
    }

    /// Whether both are the same namespace.
    pub fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (one, two) = (fstat(&self.0)?, fstat(&other.0)?);
        Ok((one.st_dev, one.st_ino) == (two.st_dev, two.st_ino))
    }
}

impl AsFd for Netns {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Runs `work` inside a namespace, see [`Netns::run`]. The thread ends with it: one that
/// could not go back would be a trap for whoever uses it next.
pub(crate) fn run_in<T: Send>(
    namespace: BorrowedFd<'_>,
    work: impl FnOnce() -> T + Send,
) -> io::Result<T> {
    thread::scope(|scope| {
        let inside = thread::Builder::new().spawn_scoped(scope, || {
            setns(namespace, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })?;
        match inside.join() {
            Ok(outcome) => outcome,
            Err(panic) => resume_unwind(panic),
        }
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn what_is_no_namespace_is_not_found() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("plain");
        fs::write(&file, "").unwrap();
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        for path in [
            file.clone(),
            pipe,
            folder.path().to_owned(),
            folder.path().join("missing"),
            file.join("below"),
            "".into(),
        ] {
            let error = Netns::open(&path).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{path:?}: {error}");
        }
    }

    #[test]
    fn the_own_namespace_is_the_same_as_itself() {
        let (one, two) = (Netns::current().unwrap(), Netns::current().unwrap());
        assert!(one.is_same(&two).unwrap());
    }
}
