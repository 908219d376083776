//! Debian packages the testbed needs: what is missing is named first, then installed.
//!
//! Nothing is asked of apt when every program is there already, so a machine
//! without root, apt or network works as long as it has the programs.

mod apt;
mod backports;
mod daemons;

use std::collections::BTreeSet;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

pub(crate) use apt::Apt;
pub(crate) use backports::enable as enable_backports;

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Need {
    /// A name, looked up in `PATH`, `/usr/sbin` and `/sbin`; or the absolute path of a file.
    pub program: &'static str,
    /// The package to install when the program is missing.
    pub package: &'static str,
}

/// Why needed packages could not be had.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Packages are missing and only root can install them.
    #[error("missing: {programs}; run as root, or install: apt-get install {packages}")]
    NotRoot {
        /// The missing programs.
        programs: String,
        /// The packages that have them.
        packages: String,
    },
    /// Programs are missing and this is no Debian.
    #[error("this machine has no apt-get; install what provides these programs: {programs}")]
    NoApt {
        /// The missing programs.
        programs: String,
    },
    /// apt ran and failed.
    #[error("{command} failed ({status}), see {}:\n{tail}", log.display())]
    Apt {
        /// The command line.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The file with its whole output.
        log: PathBuf,
        /// The last lines of its output.
        tail: String,
    },
    /// apt was content, yet the programs are not there.
    #[error("still missing after installing {packages}: {programs}")]
    StillMissing {
        /// The missing programs.
        programs: String,
        /// The packages that should have had them.
        packages: String,
    },
    /// No configured mirror tells where the backports of this distribution are.
    #[error(
        "no backports can be derived from the apt sources of '{codename}'; install {package} {version} or newer"
    )]
    NoBackports {
        /// The distribution's release, as os-release calls it.
        codename: String,
        /// The package in question.
        package: &'static str,
        /// The version that would do.
        version: &'static str,
    },
    /// A question to the package system was not answered.
    #[error(transparent)]
    Command(#[from] crate::command::Failed),
    /// A file could not be read or written, or apt not be started.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
}

/// Those of `needs` whose program is not on this machine.
pub fn missing(needs: &[Need]) -> Vec<&Need> {
    needs
        .iter()
        .filter(|need| find(need.program).is_none())
        .collect()
}

/// The path of a program: looked up in `PATH`, then in the folders that only root's `PATH` has.
pub fn find(program: &str) -> Option<PathBuf> {
    find_in(&search_path(), program)
}

/// Installs the packages of missing programs, after saying so on standard error.
///
/// # Guarantees
/// Daemons that come with the packages are not started. Two callers, also in
/// different processes, wait for each other. What a killed installation left
/// is removed, as by [`remove_stale`].
pub fn ensure(needs: &[Need]) -> Result<(), Error> {
    remove_stale()?;
    let absent = missing(needs);
    if absent.is_empty() {
        return Ok(());
    }
    let apt = Apt::open(&absent)?;
    // Somebody else may have installed them while this call waited for the lock.
    let absent = missing(needs);
    if absent.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = packages_of(&absent).into_iter().collect();
    eprintln!(
        "These programs are missing: {}. Debian packages to be installed: {}.",
        programs_of(&absent),
        packages.join(" ")
    );
    apt.update()?;
    apt.install(&packages, None)?;
    let absent = missing(needs);
    if absent.is_empty() {
        return Ok(());
    }
    Err(Error::StillMissing {
        programs: programs_of(&absent),
        packages: packages.join(" "),
    })
}

/// Lets packages start their daemons again, if an installation of ours was
/// killed before it could.
///
/// An installation that is under way is waited for. Without root nothing is done.
pub fn remove_stale() -> Result<(), Error> {
    let policy = Path::new(daemons::POLICY);
    // Looked at before the lock is taken, which most calls then never do.
    if !daemons::is_ours(policy) || !nix::unistd::geteuid().is_root() {
        return Ok(());
    }
    let _turn = apt::turn()?;
    daemons::remove_stale(policy).map_err(io_error("cannot remove the policy of an installation"))
}

fn programs_of(needs: &[&Need]) -> String {
    let programs: Vec<_> = needs.iter().map(|need| need.program).collect();
    programs.join(", ")
}

fn packages_of(needs: &[&Need]) -> BTreeSet<&'static str> {
    needs.iter().map(|need| need.package).collect()
}

fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect();
    folders.extend(["/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
}

fn find_in(folders: &[PathBuf], program: &str) -> Option<PathBuf> {
    if program.starts_with('/') {
        return Some(PathBuf::from(program)).filter(|path| path.exists());
    }
    folders
        .iter()
        .map(|folder| folder.join(program))
        .find(|path| is_executable(path))
}

fn is_executable(path: &Path) -> bool {
    path.metadata()
        .is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

fn io_error(what: &'static str) -> impl Fn(io::Error) -> Error {
    move |source| Error::Io {
        what: what.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests;
