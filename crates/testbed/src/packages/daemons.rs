//! Keeps daemons from starting while their packages are installed.
//!
//! Debian's `invoke-rc.d` asks the program `policy-rc.d`, where there is one,
//! whether it may start a service; exit code 101 forbids it.

use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Where Debian looks for the program.
pub(super) const POLICY: &str = "/usr/sbin/policy-rc.d";
const SCRIPT: &str = "#!/bin/sh\n# floe testbed: only here during an installation\nexit 101\n";

/// While this value lives, no package starts its daemon.
///
/// A policy that the machine already has is respected and stays.
pub(super) struct NoDaemons {
    own: Option<PathBuf>,
}

impl NoDaemons {
    pub(super) fn on_this_machine() -> io::Result<Self> {
        Self::at(Path::new(POLICY))
    }

    fn at(path: &Path) -> io::Result<Self> {
        let own = match OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o755)
            .open(path)
        {
            Ok(mut file) => {
                file.write_all(SCRIPT.as_bytes())?;
                true
            }
            // Callers hold the apt lock: a script of ours was left by a crash.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => is_ours(path),
            Err(error) => return Err(error),
        };
        Ok(Self {
            own: own.then(|| path.to_owned()),
        })
    }
}

/// Whether a script of ours is there: one in use, or one that a crash left.
pub(super) fn is_ours(path: &Path) -> bool {
    fs::read_to_string(path).is_ok_and(|text| text == SCRIPT)
}

/// Removes a script of ours. The caller holds the apt lock, so it is not in use.
pub(super) fn remove_stale(path: &Path) -> io::Result<()> {
    if is_ours(path) {
        fs::remove_file(path)?;
    }
    Ok(())
}

impl Drop for NoDaemons {
    fn drop(&mut self) {
        if let Some(path) = &self.own
            && let Err(error) = fs::remove_file(path)
        {
            eprintln!("cannot remove {}: {error}", path.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn the_policy_forbids_and_goes_away() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy-rc.d");
        let guard = NoDaemons::at(&path).unwrap();
        let status = Command::new("sh").arg(&path).status().unwrap();
        assert_eq!(status.code(), Some(101));
        drop(guard);
        assert!(!path.exists());
    }

    #[test]
    fn a_policy_of_the_machine_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy-rc.d");
        fs::write(&path, "#!/bin/sh\nexit 0\n").unwrap();
        drop(NoDaemons::at(&path).unwrap());
        remove_stale(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "#!/bin/sh\nexit 0\n");
    }

    #[test]
    fn what_a_crash_left_is_removed_by_the_next_installation() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy-rc.d");
        std::mem::forget(NoDaemons::at(&path).unwrap());
        drop(NoDaemons::at(&path).unwrap());
        assert!(!path.exists());
    }

    #[test]
    fn what_a_crash_left_is_removed_without_an_installation_too() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("policy-rc.d");
        std::mem::forget(NoDaemons::at(&path).unwrap());
        assert!(is_ours(&path));
        remove_stale(&path).unwrap();
        assert!(!path.exists());
        remove_stale(&path).unwrap();
    }
}
