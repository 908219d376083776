//! What is left of a cluster, and how to clear it away.
//!
//! The kernel ends hosts with their anchors. What it does not do is here: control
//! groups and files, for a supervisor at its end and for whoever comes after one
//! that crashed.

use std::fs::{self, File};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};

use crate::cgroup::Cgroup;
use crate::cluster::paths::Paths;

/// Every control group of a cluster is below one with this prefix and its name.
const CGROUP_PREFIX: &str = "floe-testbed-";

/// How long processes may take to die.
pub const BURIAL: Duration = Duration::from_secs(20);
/// Removes what a cluster left behind; refuses while a supervisor holds it.
pub fn clean_up(name: &str) -> Result<()> {
    let paths = Paths::of(name)?;
    if !paths.root().exists() && !cgroup_of(name).exists() {
        return Ok(());
    }
    let _lock = lock(name, &paths)?;
    bury(name, &paths, Logs::Keep)
}

/// The control group of a cluster.
pub fn cgroup_of(name: &str) -> Cgroup {
    Cgroup::new(format!("{CGROUP_PREFIX}{name}"))
}

/// Takes a cluster for oneself, or says that somebody has it.
pub fn lock(name: &str, paths: &Paths) -> Result<Flock<File>> {
    fs::create_dir_all(paths.root())?;
    let file = File::options()
        .create(true)
        .append(true)
        .open(paths.lock())?;
    match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
        Ok(lock) => Ok(lock),
        Err(_) => bail!(
            "cluster {name} is already running (see `cargo xtask cluster status --name {name}`)"
        ),
    }
}

/// Whether what the programs wrote is kept for those who ask why.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Logs {
    /// They are.
    Keep,
    /// They are not.
    Remove,
}

/// Ends every process of a cluster and removes its files.
pub fn bury(name: &str, paths: &Paths, logs: Logs) -> Result<()> {
    cgroup_of(name)
        .remove(BURIAL)
        .with_context(|| format!("cannot end all processes of cluster {name}"))?;
    let mut directories = vec![paths.config(), paths.registry(), paths.disks()];
    if logs == Logs::Remove {
        directories.push(paths.logs());
    }
    for directory in directories {
        absent_is_fine(fs::remove_dir_all(&directory))
            .with_context(|| format!("cannot remove {}", directory.display()))?;
    }
    for file in [paths.control(), paths.kubeconfig()] {
        absent_is_fine(fs::remove_file(&file))
            .with_context(|| format!("cannot remove {}", file.display()))?;
    }
    Ok(())
}

fn absent_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
