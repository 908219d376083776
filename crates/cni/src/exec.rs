//! Calling another plugin.

use std::{
    fs,
    io::{self, Read, Write},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use crate::fail::{fail, system};
use floe_core::cni::error::{CniError, Code};

/// The most that a plugin may answer.
const LONGEST: u64 = 1 << 20;

/// A plugin to call.
pub struct Plugin<'a> {
    /// Its name, as in a configuration.
    pub name: &'a str,
    /// Where plugins lie, in this order.
    pub path: &'a [String],
    /// Variables that differ from our own.
    pub env: &'a [(&'a str, &'a str)],
    /// Its configuration.
    pub stdin: &'a [u8],
    /// How long it may take. Then it is killed.
    pub limit: Duration,
}

impl Plugin<'_> {
    /// Calls it; what it printed.
    pub fn call(&self) -> Result<Vec<u8>, CniError> {
        let deadline = Instant::now() + self.limit;
        let program = find(self.name, self.path)?;
        let mut child = Command::new(&program)
            .envs(self.env.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(system(format_args!("start {}", program.display())))?;
        let unwaited = || system(format!("wait for {}", program.display()));
        let output = self.converse(&mut child, deadline);
        // Who has said everything may still not end.
        let ended = match output {
            Some(output) => {
                let status = end(&mut child, deadline).map_err(unwaited())?;
                status.map(|status| (output, status))
            }
            None => None,
        };
        let Some((output, status)) = ended else {
            // It may be gone already; wait() tells.
            let _ = child.kill();
            child.wait().map_err(unwaited())?;
            let limit = self.limit.as_secs();
            let message = format!("{} has not answered within {limit} s", self.name);
            return Err(fail(Code::Delegate, "DelegateTimedOut", message));
        };
        if status.success() {
            return Ok(output);
        }
        Err(self.failed(&output, &status.to_string()))
    }

    /// Gives it the configuration and reads what it prints to the end; none at the
    /// deadline.
    fn converse(&self, child: &mut Child, deadline: Instant) -> Option<Vec<u8>> {
        let (mut stdin, stdout) = (child.stdin.take()?, child.stdout.take()?);
        let input = self.stdin.to_vec();
        // Both threads end when the plugin closes its ends, at the latest with its
        // death. A descendant that holds them is left to itself.
        thread::spawn(move || {
            // A plugin need not read its configuration.
            let _ = stdin.write_all(&input);
        });
        let (told, heard) = mpsc::channel();
        thread::spawn(move || {
            let mut output = Vec::new();
            let read = stdout.take(LONGEST).read_to_end(&mut output);
            // Nobody hears it after the deadline.
            let _ = told.send(read.map(|_| output).unwrap_or_default());
        });
        let left = deadline.saturating_duration_since(Instant::now());
        heard.recv_timeout(left).ok()
    }

    fn failed(&self, output: &[u8], status: &str) -> CniError {
        if output.trim_ascii().is_empty() {
            let message = format!("{} told nothing: {status}", self.name);
            return CniError::of(Code::Delegate, message);
        }
        CniError::of_delegate(self.name, output)
    }
}

/// Waits for the end of a plugin; none at the deadline.
fn end(child: &mut Child, deadline: Instant) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(100);
    loop {
        let status = child.try_wait()?;
        if status.is_some() || Instant::now() >= deadline {
            return Ok(status);
        }
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(10));
    }
}

/// The program of a plugin.
fn find(name: &str, path: &[String]) -> Result<PathBuf, CniError> {
    // A name is no way to another folder.
    if name.is_empty() || name.contains('/') || name == "." || name == ".." {
        let message = format!("{name:?} is not the name of a plugin");
        return Err(fail(Code::InvalidConfiguration, "InvalidPlugin", message));
    }
    let programs = path.iter().map(|folder| Path::new(folder).join(name));
    let is_program = |program: &PathBuf| {
        let found = fs::metadata(program);
        found.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
    };
    programs.into_iter().find(is_program).ok_or_else(|| {
        let message = format!("no plugin {name} in {}", path.join(":"));
        fail(Code::InvalidConfiguration, "PluginNotFound", message)
    })
}

#[cfg(test)]
pub mod tests;
