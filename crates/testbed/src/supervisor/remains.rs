//! What is left of a cluster, and how to clear it away.
//!
//! The kernel ends hosts with their anchors. What it does not do is here: control
//! groups and files, for a supervisor at its end and for whoever comes after one
//! that crashed.

use std::fs::{self, File};
use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::fcntl::{Flock, FlockArg};

use crate::cgroup::Cgroup;
use crate::cluster::paths::Paths;

/// Every control group of a cluster is below one with this prefix and its name.
pub const CGROUP_PREFIX: &str = "floe-testbed-";

/// How long to wait for a cluster that may be ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

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

/// Takes a cluster for oneself, or says that somebody has it. The file then says
/// who.
pub fn lock(name: &str, paths: &Paths) -> Result<Flock<File>> {
    fs::create_dir_all(paths.root())?;
    let mut options = File::options();
    let options = options.create(true).truncate(false).write(true);
    let deadline = Instant::now() + LOCK_PATIENCE;
    loop {
        let file = options.open(paths.lock())?;
        if let Ok(mut lock) = Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            lock.set_len(0)?;
            write!(lock, "{}", std::process::id())?;
            return Ok(lock);
        }
        if Instant::now() > deadline {
            bail!(
                "cluster {name} is already running (see `cargo xtask cluster status --name {name}`)"
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The process that has a cluster, if one does.
pub fn owner(paths: &Paths) -> Option<i32> {
    let file = File::open(paths.lock()).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_) => None,
        Err(_) => fs::read_to_string(paths.lock()).ok()?.trim().parse().ok(),
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
    let mut results = vec![
        cgroup_of(name)
            .remove(BURIAL)
            .with_context(|| format!("cannot end all processes of cluster {name}")),
    ];
    let mut directories = vec![paths.config(), paths.registry(), paths.disks()];
    if logs == Logs::Remove {
        directories.push(paths.logs());
    }
    for directory in directories {
        results.push(
            absent_is_fine(fs::remove_dir_all(&directory))
                .with_context(|| format!("cannot remove {}", directory.display())),
        );
    }
    for file in [paths.control(), paths.kubeconfig()] {
        results.push(
            absent_is_fine(fs::remove_file(&file))
                .with_context(|| format!("cannot remove {}", file.display())),
        );
    }
    all_of(results)
}

/// One error that tells all of them, if there is any.
pub fn all_of(results: impl IntoIterator<Item = Result<()>>) -> Result<()> {
    let errors: Vec<String> = results
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    if errors.is_empty() {
        return Ok(());
    }
    bail!(errors.join("; "))
}

fn absent_is_fine(result: std::io::Result<()>) -> std::io::Result<()> {
    match result {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
