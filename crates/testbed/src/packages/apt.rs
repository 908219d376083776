//! apt, one call at a time, with its output in a log file.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::daemons::NoDaemons;
use super::{Error, Need, io_error, packages_of, programs_of};
use crate::cache::{Lock, cache_dir};
use crate::command;
use crate::progress::Step;

/// How long to wait for another apt, such as the daily one of a fresh machine.
const PATIENCE: Duration = Duration::from_mins(5);
const TAIL_LINES: usize = 15;

/// Whether this process has refreshed the package lists.
static FRESH: AtomicBool = AtomicBool::new(false);

/// The right to use apt: held by one caller on this machine at a time.
pub(crate) struct Apt {
    turn: Lock,
    program: PathBuf,
    log: PathBuf,
}

impl Apt {
    /// Waits for the turn to use apt on behalf of `needs`.
    pub(crate) fn open(needs: &[&Need]) -> Result<Self, Error> {
        let program = super::find("apt-get").ok_or_else(|| Error::NoApt {
            programs: programs_of(needs),
        })?;
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::NotRoot {
                programs: programs_of(needs),
                packages: Vec::from_iter(packages_of(needs)).join(" "),
            });
        }
        Self::take(program)
    }

    /// Waits for the turn to download packages, which needs no root.
    pub(crate) fn open_to_download() -> Result<Self, Error> {
        let program = super::find("apt-get").ok_or_else(|| Error::NoApt {
            programs: "apt-get, to download packages".to_owned(),
        })?;
        Self::take(program)
    }

    fn take(program: PathBuf) -> Result<Self, Error> {
        Ok(Self {
            turn: turn()?,
            program,
            log: cache_dir().join("apt.log"),
        })
    }

    /// Refreshes the package lists, once per process.
    pub(crate) fn update(&self) -> Result<(), Error> {
        if FRESH.load(Ordering::Relaxed) {
            return Ok(());
        }
        Step::run("refreshing the package lists", || self.update_patiently())?;
        FRESH.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Refreshes the package lists again, because the sources have changed.
    pub(crate) fn update_again(&self) -> Result<(), Error> {
        FRESH.store(false, Ordering::Relaxed);
        self.update()
    }

    /// Installs packages, from the release `release` where one is named.
    pub(crate) fn install(&self, packages: &[&str], release: Option<&str>) -> Result<(), Error> {
        let _no_daemons = NoDaemons::on_this_machine()
            .map_err(io_error("cannot keep new daemons from starting"))?;
        let what = format!("install {}", packages.join(" "));
        let mut command = self.command(&["install", "-y", "--no-install-recommends"]);
        if let Some(release) = release {
            command.args(["-t", release]);
        }
        command.args(packages);
        Step::run(format!("installing {}", packages.join(" ")), || {
            self.run(&what, &mut command)
        })
    }

    /// Puts the files of packages into the folder `dir`, without installing them.
    pub(crate) fn download(&self, packages: &[&str], dir: &Path) -> Result<(), Error> {
        // apt drops to a user of its own, who may not write here.
        let mut command = self.command(&["-o", "APT::Sandbox::User=root", "download"]);
        command.args(packages).current_dir(dir);
        let what = format!("download {}", packages.join(" "));
        Step::run(format!("downloading {}", packages.join(" ")), || {
            self.run(&what, &mut command)
        })
    }

    /// What `apt-cache` prints for `args`, in plain English.
    pub(crate) fn cache(args: &[&str]) -> Result<String, Error> {
        Ok(command::read(Command::new("apt-cache").args(args))?)
    }

    /// Ends with the thread that starts it, as far as it may: an interrupt stops
    /// a download, but while dpkg runs apt ignores it and leaves nothing half
    /// done. The group of its own keeps a Ctrl-C away from dpkg.
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "INT", "--"])
            .arg(&self.program)
            .process_group(0)
            .args(["-o", &format!("DPkg::Lock::Timeout={}", PATIENCE.as_secs())])
            .args([
                "-o",
                "Dpkg::Use-Pty=0",
                "-o",
                "Dpkg::Options::=--force-confold",
            ])
            .args(args)
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("LC_ALL", "C.UTF-8");
        command
    }

    /// The lock of the package lists is the one for which apt itself does not wait.
    fn update_patiently(&self) -> Result<(), Error> {
        let started = Instant::now();
        loop {
            let result = self.run("update", &mut self.command(&["update"]));
            let busy = matches!(&result, Err(Error::Apt { tail, .. }) if tail.contains("Could not get lock"));
            if !busy || started.elapsed() > PATIENCE {
                return result;
            }
            thread::sleep(Duration::from_secs(1));
        }
    }

    fn run(&self, what: &str, command: &mut Command) -> Result<(), Error> {
        // It is still our turn when this process is killed and dpkg goes on.
        let (status, tail) = self
            .turn
            .stdin()
            .and_then(|stdin| run_logged(command.stdin(stdin), &self.log))
            .map_err(io_error("cannot run apt-get"))?;
        if status.success() {
            return Ok(());
        }
        Err(Error::Apt {
            command: format!("apt-get {what}"),
            status,
            log: self.log.clone(),
            tail,
        })
    }
}

/// Waits for the turn to change what is installed on this machine.
pub(super) fn turn() -> Result<Lock, Error> {
    Lock::take("apt").map_err(io_error("cannot lock the cache folder"))
}

/// Runs a command with its output appended to `log`; returns the last lines of it.
fn run_logged(command: &mut Command, log: &Path) -> io::Result<(ExitStatus, String)> {
    let mut file: File = OpenOptions::new().create(true).append(true).open(log)?;
    writeln!(file, "$ {}", command::line(command))?;
    let start = usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX);
    let status = command.stdout(file.try_clone()?).stderr(file).status()?;
    let written = fs::read(log)?;
    let written = String::from_utf8_lossy(written.get(start..).unwrap_or_default()).into_owned();
    Ok((status, command::tail(&written, TAIL_LINES)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_keeps_every_run_and_the_tail_shows_only_the_last() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let shell = |script: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            run_logged(&mut command, &log).unwrap()
        };
        let (status, _) = shell("echo one");
        assert!(status.success());
        let (status, tail) = shell("echo two; echo three >&2; exit 3");
        assert_eq!(status.code(), Some(3));
        assert_eq!(tail, "two\nthree");
        assert!(fs::read_to_string(&log).unwrap().contains("\none\n"));
    }
}
