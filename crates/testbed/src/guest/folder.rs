//! The folder of one job: what it shares with the guest, and what was logged.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::cache::{Lock, cache_dir};

const LOCK: &str = "lock";

/// A folder that goes away with this value. One that a killed process left
/// behind goes away when the next is made.
pub(super) struct Folder {
    dir: TempDir,
    /// Held while the job lives: this tells a folder in use from a leftover.
    _lock: File,
}

impl Folder {
    pub(super) fn new() -> io::Result<Self> {
        // Nobody may take a folder for a leftover between its making and its locking.
        let _all = Lock::take("guest-jobs")?;
        Self::new_in(&cache_dir().join("guest-jobs"))
    }

    fn new_in(parent: &Path) -> io::Result<Self> {
        fs::create_dir_all(parent)?;
        remove_leftovers(parent)?;
        let dir = TempDir::new_in(parent)?;
        let lock = File::create(dir.path().join(LOCK))?;
        lock.lock()?;
        fs::create_dir(dir.path().join("share"))?;
        Ok(Self { dir, _lock: lock })
    }

    /// What the guest can read and write.
    pub(super) fn share(&self) -> PathBuf {
        self.dir.path().join("share")
    }

    /// The kernel's console.
    pub(super) fn console(&self) -> PathBuf {
        self.dir.path().join("console")
    }

    /// What QEMU itself says.
    pub(super) fn qemu(&self) -> PathBuf {
        self.dir.path().join("qemu")
    }
}

fn remove_leftovers(parent: &Path) -> io::Result<()> {
    for entry in fs::read_dir(parent)? {
        let path = entry?.path();
        let in_use = File::open(path.join(LOCK)).is_ok_and(|lock| lock.try_lock().is_err());
        if !in_use {
            fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_in_use_stays_and_a_leftover_goes() {
        let parent = tempfile::tempdir().unwrap();
        let used = Folder::new_in(parent.path()).unwrap();
        let leftover = parent.path().join("leftover");
        fs::create_dir(&leftover).unwrap();
        fs::write(leftover.join(LOCK), "").unwrap();
        let other = Folder::new_in(parent.path()).unwrap();
        assert!(used.share().exists() && other.share().exists());
        assert!(!leftover.exists());
        drop((used, other));
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
