//! Where the testbed keeps what is dear to make again: built binaries, kernels.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

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
    _file: File,
}

impl Lock {
    /// Waits for the lock called `name` in the cache folder.
    pub fn take(name: &str) -> io::Result<Self> {
        Self::take_in(&cache_dir(), name)
    }

    fn take_in(dir: &Path, name: &str) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let file = File::create(dir.join(format!("{name}.lock")))?;
        file.lock()?;
        Ok(Self { _file: file })
    }
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
        assert!(matches!(
            second.try_lock(),
            Err(std::fs::TryLockError::WouldBlock)
        ));
        drop(held);
        second.try_lock().unwrap();
    }
}
