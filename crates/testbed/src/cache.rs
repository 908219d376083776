//! Where the testbed keeps what is dear to make again: built binaries, kernels.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tempfile::TempDir;

use crate::progress::Step;

/// How the names of folders start in which something is being made.
const UNFINISHED: &str = "new-";

/// The cache folder: `$FLOE_TESTBED_CACHE`, else `$XDG_CACHE_HOME/floe`, else `~/.cache/floe`.
///
/// The folder may not exist yet. It can be deleted at any time between runs.
pub fn cache_dir() -> PathBuf {
    resolve(
        std::env::var_os("FLOE_TESTBED_CACHE"),
        std::env::var_os("XDG_CACHE_HOME"),
        std::env::home_dir(),
    )
}

/// A lock that holds on this machine until it is dropped, also when its owner dies.
///
/// Two threads of one process exclude each other as two processes do.
pub struct Lock {
    file: File,
}

impl Lock {
    /// Waits for the lock called `name` in the cache folder, and says so if somebody has it.
    pub fn take(name: &str) -> io::Result<Self> {
        Self::take_in(&cache_dir(), name)
    }

    fn take_in(dir: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let path = dir.join(format!("{name}.lock"));
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(&path)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => Step::run(
                format!(
                    "waiting for another process, which holds {}",
                    path.display()
                ),
                || file.lock(),
            )?,
            Err(TryLockError::Error(error)) => return Err(error),
        }
        Ok(Self { file })
    }

    /// An empty standard input for a child process that also has the lock: it is free when this
    /// value is dropped and the child, with all to whom it passed its input on, has ended.
    pub(crate) fn stdin(&self) -> io::Result<Stdio> {
        Ok(self.file.try_clone()?.into())
    }
}

/// A folder in `dir` to make something in, which is then renamed: it is complete or absent.
///
/// Removes those that a crash left, so the caller holds a lock: nobody else is making anything in
/// `dir`.
pub(crate) fn unfinished_in(dir: &Path) -> io::Result<TempDir> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    tempfile::Builder::new().prefix(UNFINISHED).tempdir_in(dir)
}

fn resolve(own: Option<OsString>, xdg: Option<OsString>, home: Option<PathBuf>) -> PathBuf {
    // An empty or relative value counts as unset, as the XDG specification says.
    let absolute = |value: Option<OsString>| value.map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(own) = absolute(own) {
        return own;
    }
    if let Some(xdg) = absolute(xdg) {
        return xdg.join("floe");
    }
    match home {
        Some(home) if home.is_absolute() => home.join(".cache/floe"),
        _ => PathBuf::from("/var/cache/floe"),
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_own_variable_wins_then_xdg_then_home() {
        let own = || Some(OsString::from("/a"));
        let xdg = || Some(OsString::from("/b"));
        let home = || Some(PathBuf::from("/home/c"));
        assert_eq!(resolve(own(), xdg(), home()), Path::new("/a"));
        assert_eq!(resolve(None, xdg(), home()), Path::new("/b/floe"));
        assert_eq!(
            resolve(None, None, home()),
            Path::new("/home/c/.cache/floe")
        );
        assert_eq!(resolve(None, None, None), Path::new("/var/cache/floe"));
    }

    #[test]
    fn empty_and_relative_values_count_as_unset() {
        let unset = |value: &str| Some(OsString::from(value));
        let found = resolve(unset(""), unset("cache"), Some(PathBuf::from("/h")));
        assert_eq!(found, Path::new("/h/.cache/floe"));
    }

    #[test]
    fn a_lock_excludes_a_second_taker_until_it_is_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take_in(dir.path(), "x").unwrap();
        let second = File::open(dir.path().join("x.lock")).unwrap();
        assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
        drop(held);
        second.lock().unwrap();
    }

    #[test]
    fn a_lock_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take_in(dir.path(), "x").unwrap();
        std::thread::scope(|scope| {
            let second = scope.spawn(|| Lock::take_in(dir.path(), "x").map(drop));
            drop(held);
            second.join().unwrap().unwrap();
        });
    }

    #[test]
    fn a_child_keeps_the_lock_of_a_parent_that_is_gone() {
        let dir = tempfile::tempdir().unwrap();
        let held = Lock::take_in(dir.path(), "x").unwrap();
        let mut child = Command::new("sleep")
            .arg("600")
            .stdin(held.stdin().unwrap())
            .spawn()
            .unwrap();
        drop(held);
        let second = File::open(dir.path().join("x.lock")).unwrap();
        assert!(matches!(second.try_lock(), Err(TryLockError::WouldBlock)));
        child.kill().unwrap();
        child.wait().unwrap();
        second.lock().unwrap();
    }

    #[test]
    fn what_a_crash_left_unfinished_is_removed_and_the_rest_stays() {
        let dir = tempfile::tempdir().unwrap();
        let finished = dir.path().join("v1.34.4");
        fs::create_dir(&finished).unwrap();
        let left = unfinished_in(dir.path()).unwrap().keep();
        fs::write(left.join("half"), "").unwrap();
        let new = unfinished_in(dir.path()).unwrap();
        assert!(finished.exists() && new.path().exists() && !left.exists());
    }
}
