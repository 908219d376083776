//! A program that serves on this machine for as long as a test wants it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::command;

/// How often a daemon is looked at until it serves.
const LOOK: Duration = Duration::from_millis(50);

/// How long it may take to serve, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);

/// How many of its last lines are told when it fails.
const TAIL: usize = 15;

/// A running program. It ends when this value is dropped, and with this process, however
/// that ends.
pub(crate) struct Daemon {
    name: String,
    child: Arc<Mutex<Child>>,
    log: PathBuf,
    /// Closed to end the thread that keeps the program.
    keeps: Option<Sender<()>>,
    keeper: Option<JoinHandle<()>>,
}

impl Daemon {
    /// Starts a program whose output goes to the file `log`.
    pub(crate) fn start(name: &str, wanted: &Command, log: &Path) -> Result<Self> {
        let output =
            File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--"])
            .arg(wanted.get_program())
            .args(wanted.get_args())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        for (key, value) in wanted.get_envs() {
            match value {
                Some(value) => command.env(key, value),
                None => command.env_remove(key),
            };
        }
        if let Some(folder) = wanted.get_current_dir() {
            command.current_dir(folder);
        }
        let (keeps, kept) = mpsc::channel::<()>();
        let (tell, started) = mpsc::channel();
        // It dies with the thread that started it, and the caller's may end before it.
        let keeper = thread::spawn(move || {
            let child = match command.spawn() {
                Ok(child) => Arc::new(Mutex::new(child)),
                Err(error) => {
                    let _ = tell.send(Err(error));
                    return;
                }
            };
            // Received below; were it not, the channel that ends this is closed too.
            let _ = tell.send(Ok(child.clone()));
            // Never sent to: the end comes when it is closed.
            let _ = kept.recv();
            let mut child = child.lock().unwrap_or_else(PoisonError::into_inner);
            let _ = child.kill();
            let _ = child.wait();
        });
        let child = started
            .recv()
            .context("the program was lost")?
            .with_context(|| format!("cannot start {name}"))?;
        Ok(Self {
            name: name.to_owned(),
            child,
            log: log.to_owned(),
            keeps: Some(keeps),
            keeper: Some(keeper),
        })
    }

    /// Looks until the program serves, which `probe` says by a value.
    pub(crate) fn wait_for<T>(&self, mut probe: impl FnMut(&Self) -> Option<T>) -> Result<T> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(value) = probe(self) {
                return Ok(value);
            }
            let ended = {
                let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
                child.try_wait()?
            };
            if let Some(status) = ended {
                bail!("{} ended ({status}):\n{}", self.name, self.last_words());
            }
            if Instant::now() > deadline {
                bail!("{} does not serve:\n{}", self.name, self.last_words());
            }
            thread::sleep(LOOK);
        }
    }

    /// What it has said so far.
    pub(crate) fn said(&self) -> String {
        let said = fs::read(&self.log).unwrap_or_default();
        String::from_utf8_lossy(&said).into_owned()
    }

    fn last_words(&self) -> String {
        command::tail(&self.said(), TAIL)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        drop(self.keeps.take());
        if let Some(keeper) = self.keeper.take() {
            let _ = keeper.join();
        }
    }
}

/// A port of 127.0.0.1 that nobody has at the moment, for programs that cannot choose one.
pub(crate) fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0))?;
    Ok(listener.local_addr()?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, log: &Path) -> Daemon {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Daemon::start("sh", &command, log).unwrap()
    }

    #[test]
    fn it_is_waited_for_and_ends_with_its_value() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let daemon = shell("echo pid $$; exec sleep 600", &log);
        let pid = daemon
            .wait_for(|daemon| {
                let said = daemon.said();
                said.strip_prefix("pid ")?
                    .strip_suffix('\n')
                    .map(str::to_owned)
            })
            .unwrap();
        let process = Path::new("/proc").join(pid);
        assert!(process.exists());
        drop(daemon);
        assert!(!process.exists());
    }

    #[test]
    fn its_last_words_are_told_when_it_ends_early() {
        let dir = tempfile::tempdir().unwrap();
        let daemon = shell("echo why; exit 3", &dir.path().join("log"));
        let error = daemon.wait_for(|_| None::<()>).unwrap_err().to_string();
        assert!(
            error.contains("exit status: 3") && error.ends_with("why"),
            "{error}"
        );
    }
}
