//! A program of the cluster: started, stopped, killed and started again.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cgroup::Cgroup;
use crate::cluster::control::{ProgramName, ProgramStatus};
use crate::host::{HostRef, Inside, only_child};

/// How long a program may take to end after it was asked to.
const PATIENCE: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(20);

/// By how many percent the memory of a program in Go grows before it is cleared up. All programs
/// of a cluster are in Go and small; they would clear up all the time.
const GARBAGE: &str = "300";

/// How to start a program.
#[derive(Clone, Debug)]
pub struct Recipe {
    /// Who it is.
    pub name: ProgramName,
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Its control group.
    pub cgroup: Cgroup,
    /// The file that it writes to.
    pub log: PathBuf,
}

/// A program, running or not.
pub struct Program {
    recipe: Recipe,
    process: Option<Child>,
    ended: Option<String>,
}

impl Program {
    /// Starts a program on a host.
    pub fn start(recipe: Recipe, host: &HostRef) -> Result<Self> {
        let mut program = Self {
            recipe,
            process: None,
            ended: None,
        };
        program.restart(host)?;
        Ok(program)
    }

    /// Starts it again, which it must not be running for.
    pub fn restart(&mut self, host: &HostRef) -> Result<()> {
        if self.is_running() {
            bail!("{} is running already", self.recipe.name);
        }
        let log = append(&self.recipe.log)?;
        let enter = host.nsenter_arguments(Inside::Host);
        let script = format!(
            "{} exec setpriv --pdeathsig KILL nsenter \"$@\"",
            self.recipe.cgroup.join_script()
        );
        let process = Command::new("sh")
            .args(["-euc", &script, "sh"])
            .args(enter)
            .args(&self.recipe.command)
            .env("GOGC", GARBAGE)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.recipe.name))?;
        self.process = Some(process);
        self.ended = None;
        Ok(())
    }

    /// Ends it, by force or by asking; asking turns into force after a while.
    pub async fn stop(&mut self, force: bool) -> Result<()> {
        if !self.is_running() {
            bail!("{} is not running", self.recipe.name);
        }
        if !force {
            self.signal(Signal::SIGTERM)?;
            if self.ends_within(PATIENCE).await {
                return Ok(());
            }
        }
        self.signal(Signal::SIGKILL)?;
        if !self.ends_within(PATIENCE).await {
            bail!("{} does not die", self.recipe.name);
        }
        Ok(())
    }

    async fn ends_within(&mut self, limit: Duration) -> bool {
        let deadline = tokio::time::Instant::now() + limit;
        while self.is_running() {
            if tokio::time::Instant::now() > deadline {
                return false;
            }
            tokio::time::sleep(INTERVAL).await;
        }
        true
    }

    /// Whether it runs, and if not, how it ended.
    pub fn status(&mut self) -> ProgramStatus {
        self.is_running();
        ProgramStatus {
            name: self.recipe.name.clone(),
            ended: self.ended.clone(),
        }
    }

    fn is_running(&mut self) -> bool {
        let Some(process) = &mut self.process else {
            return false;
        };
        match process.try_wait() {
            Ok(None) => true,
            Ok(Some(status)) => {
                self.ended = Some(status.to_string());
                self.process = None;
                false
            }
            Err(error) => {
                self.ended = Some(error.to_string());
                false
            }
        }
    }

    /// Signals the program itself, not the process that entered the host for it.
    fn signal(&self, signal: Signal) -> Result<()> {
        let entered = self
            .process
            .as_ref()
            .and_then(|process| only_child(process.id()));
        let Some(pid) = entered else {
            bail!("{} is still starting, or already ending", self.recipe.name);
        };
        kill(Pid::from_raw(pid), signal)
            .with_context(|| format!("cannot signal {}", self.recipe.name))
    }
}

impl Drop for Program {
    /// Waits for the end of a program whose host is gone, so that nobody else
    /// has to bury it.
    fn drop(&mut self) {
        let deadline = std::time::Instant::now() + PATIENCE;
        while self.is_running() && std::time::Instant::now() < deadline {
            std::thread::sleep(INTERVAL);
        }
    }
}

fn append(log: &Path) -> Result<File> {
    fs::create_dir_all(log.parent().context("a log lies in a directory")?)?;
    File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}
